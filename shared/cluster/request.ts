import { performance } from 'node:perf_hooks';
import type { Logger } from 'pino';
import type { Context, ServiceBroker } from 'moleculer';
import { serviceCaller, type Caller } from '../access.ts';
import type { Loaded } from './coherence/entry.ts';
import { contractOf, type ActionName, type ParamsOf, type ResultOf } from '../contracts/index.ts';
import type { Committing } from '../commits/commit.ts';

/** Where a request came from: for throttling, sessions and the audit. Empty on the bus. */
export interface Client {
  readonly ip?: string;
  readonly user_agent?: string;
}

/** What a handler is given beside its parameters. */
export interface Request extends Committing {
  readonly caller: Caller;
  readonly requestId: string;
  readonly client: Client;
  /** The exact cache keys that the contract says this call drops. */
  readonly keys: readonly string[];
  readonly log: Logger;
  /** Calls another service, as this service. */
  readonly call: Call;
}

export type Call = <A extends ActionName>(action: A, params: ParamsOf<A>) => Promise<ResultOf<A>>;

/** Cached reads answer what their value is known to include; null stands for "does not exist". */
export type Handler<A extends ActionName> = (
  params: ParamsOf<A>,
  request: Request,
) => Promise<ResultOf<A> | Loaded<ResultOf<A> | null>>;
export type Handlers = { readonly [A in ActionName]?: Handler<A> };

export interface CallOptions {
  readonly caller: Caller;
  readonly requestId: string;
  readonly client?: Client;
  readonly nodeID?: string;
  readonly timeout?: number | (() => number);
}

/** What is left of a request's time, in milliseconds, for each call made on its way; never none, which would mean forever. */
export function timeLeft(ms: number): () => number {
  const until = performance.now() + ms;
  return () => Math.max(1, until - performance.now());
}

/** A typed call from outside a handler: the gateway, the REPL, background work. */
export const callAs = <A extends ActionName>(
  broker: ServiceBroker,
  action: A,
  params: ParamsOf<A>,
  options: CallOptions,
): Promise<ResultOf<A>> => {
  const timeout = timeoutOf(action, options.timeout);
  return broker.call(action, params as Record<string, unknown>, {
    requestID: options.requestId,
    meta: { caller: options.caller, ...(options.client ? { client: options.client } : {}) },
    ...(options.nodeID === undefined ? {} : { nodeID: options.nodeID }),
    ...(timeout === undefined ? {} : { timeout }),
  }) as Promise<ResultOf<A>>;
};

/** In milliseconds; undefined leaves it to the broker, which gives every request the same. */
function timeoutOf(action: ActionName, given: CallOptions['timeout']): number | undefined {
  const asked = typeof given === 'function' ? given() : given;
  const least = contractOf(action)?.minTimeoutMs;
  return least === undefined ? asked : Math.max(least, asked ?? 0);
}

/** Calls as the service that answers `action`. Without `ctx` as parent: meta would flow back into the caller's, and with it our rights. */
export const callWithin =
  (ctx: Context, action: string): Call =>
  (name, params) =>
    callAs(ctx.broker, name, params, {
      caller: serviceCaller(action.split('.')[0]!),
      requestId: ctx.requestID ?? ctx.id,
    });
