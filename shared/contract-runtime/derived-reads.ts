/**
 * Reads that any node answers by itself from its memory of another, cached one, without asking the
 * service that has the rules. What the rules want to know beside that read, they ask for.
 *
 * | Question                              | Answered                                                             |
 * |---------------------------------------|----------------------------------------------------------------------|
 * | of what this node has in memory       | by the rules, from the entry                                         |
 * | of what this node has not in memory   | by the rules, once the other read has loaded it; stale where that is |
 * | that the rules leave to the service   | by the service                                                       |
 */
import type { Call } from './request.ts';
import type { ActionName, ParamsOf, ResultOf } from '../contracts/index.ts';

export interface DerivedRead<A extends ActionName, From extends ActionName> {
  /** A cached read. */
  readonly from: From;
  /** The parameters of that read. */
  question(params: ParamsOf<A>): ParamsOf<From>;
  /** Undefined where the service has to be asked. Throws what the action would. */
  derive(
    params: ParamsOf<A>,
    value: ResultOf<From>,
    /** Calls a service, as this node. */
    call: Call,
  ): ResultOf<A> | Promise<ResultOf<A>> | undefined;
}

/**
 * For whoever goes by an action's name: each as any derived read, whose parameters have passed the
 * contract's schema.
 */
export interface AnyDerivedRead {
  readonly from: ActionName;
  question(params: unknown): Readonly<Record<string, unknown>>;
  derive(params: unknown, value: unknown, call: Call): unknown;
}

export type DerivedReads = { readonly [A in ActionName]?: AnyDerivedRead };
