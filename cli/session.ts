/** What every command is given: a way to call Strata's actions as one caller. */
import type { Problem } from '../shared/errors.ts';
import type { ActionName, ParamsOf, ResultOf } from '../shared/contracts/index.ts';

/**
 * Parameters by the names that the contract gives them; their values are what somebody typed, and
 * the contract judges them.
 */
export type Typed<P> = { readonly [K in keyof P]: unknown };

export interface TenantName {
  readonly id: string;
  readonly name: string;
}

export interface Session {
  /** Throws Failed. */
  readonly call: <A extends ActionName>(
    action: A,
    params: Typed<ParamsOf<A>>,
  ) => Promise<ResultOf<A>>;
  /**
   * The tenants that the caller may name whose names contain the word; without one the first of
   * all.
   */
  readonly tenants: (word?: string) => Promise<readonly TenantName[]>;
  /**
   * The id of the tenant of commands, where their words do not say it. Throws Misused where none is
   * known.
   */
  readonly tenant?: () => Promise<string>;
}

/** The code of a failure that says what Ctrl-C has left half done. */
export const interrupted = 'interrupted';

/** A call that failed. The request id leads to the log lines of every node that saw it. */
export class Failed extends Error {
  readonly code: string;
  readonly problems: readonly Problem[];
  readonly requestId: string | undefined;

  constructor(
    code: string,
    message: string,
    details: { problems?: readonly Problem[]; requestId?: string; cause?: unknown } = {},
  ) {
    super(message, { cause: details.cause });
    this.code = code;
    this.problems = details.problems ?? [];
    this.requestId = details.requestId;
  }
}
