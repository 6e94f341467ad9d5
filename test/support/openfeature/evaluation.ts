/** What the scenarios of OpenFeature ask of an SDK, alike for that of servers and that of pages. */
import type { ConnectOptions } from '../../../client/source/types.ts';

export interface Question {
  readonly domain: string;
  /** Boolean, String, Integer, Float or Object. */
  readonly type: string;
  readonly key: string;
  readonly fallback: unknown;
  readonly context: Record<string, string>;
  readonly hasHooks: boolean;
}

export interface Evaluated {
  readonly value: unknown;
  readonly reason?: string;
  readonly errorCode?: string;
  readonly variant?: string;
  readonly flagMetadata: Readonly<Record<string, unknown>>;
  readonly isFrozen: boolean;
  readonly isContextKept: boolean;
  /** Stages of two hooks, in the order in which they were called. */
  readonly called: readonly string[];
}

/** An SDK with a provider of Strata's in each domain. */
export interface Host {
  /** Resolves once the provider has started or failed; where it is not awaited at once. */
  readonly provide: (
    domain: string,
    options: ConnectOptions,
    isAwaited: boolean,
  ) => Promise<unknown>;
  readonly status: (domain: string) => Promise<string>;
  readonly evaluate: (question: Question) => Promise<Evaluated>;
  /** The flags of the next change. */
  readonly nextChange: (domain: string) => Promise<readonly string[]>;
}

interface Details extends Pick<Evaluated, 'value' | 'flagMetadata'> {
  readonly reason?: string | undefined;
  readonly errorCode?: string | undefined;
  readonly variant?: string | undefined;
}
interface PlainHook {
  readonly before: () => void;
  readonly after: () => void;
  readonly finally: () => void;
}

/** What the SDK says, and what it has called and changed meanwhile. */
export async function observe(
  { context, hasHooks }: Question,
  ask: (hooks: PlainHook[]) => Details | Promise<Details>,
): Promise<Evaluated> {
  const called: string[] = [];
  const hookOf = (name: string): PlainHook => ({
    before: () => void called.push(`before ${name}`),
    after: () => void called.push(`after ${name}`),
    finally: () => void called.push(`finally ${name}`),
  });
  const contextBefore = JSON.stringify(context);
  const { value, reason, errorCode, variant, flagMetadata } = await ask(
    hasHooks ? ['a', 'b'].map(hookOf) : [],
  );
  return {
    value,
    ...(reason === undefined ? {} : { reason }),
    ...(errorCode === undefined ? {} : { errorCode }),
    ...(variant === undefined ? {} : { variant }),
    flagMetadata,
    isFrozen: Object.isFrozen(flagMetadata),
    isContextKept: JSON.stringify(context) === contextBefore,
    called,
  };
}
