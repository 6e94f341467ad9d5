/** What a handler is given with a call, and how calls are made, typed by their contracts. */
import { performance } from 'node:perf_hooks';
import type { Logger } from 'pino';
import type { Context, ServiceBroker } from 'moleculer';
import { mayCall, serviceCaller, type Caller } from '../access.ts';
import type { Loaded } from '../coherence/entry.ts';
import type { AsOf } from '../coherence/floors.ts';
import {
  contractOf,
  contractTable,
  type ActionName,
  type ParamsOf,
  type ResultOf,
} from '../contracts/index.ts';
import type { Combining } from '../commits/combined-commits.ts';
import type { TenantRole } from '../contracts/roles.ts';
import { codeOf, StrataError, type ErrorData } from '../errors.ts';

/** Where a request came from: for throttling, sessions and the audit. Empty on the bus. */
export interface Client {
  readonly ip?: string;
  readonly user_agent?: string;
}

/** A change set while its writes are made. */
export interface AppliedChangeSet {
  readonly id: string;
  /** Without the approvals that it needed. */
  readonly isEmergency?: boolean;
  /** The principals of all who wrote it and, of an emergency, of whose it is. */
  readonly by?: readonly string[];
  /** Throws where it has fewer approvals than policies ask for a write. */
  requireEnough(required: { readonly required: number; readonly groups: readonly string[] }): void;
}

/** What a handler is given beside its parameters. */
export interface Request extends Combining {
  readonly caller: Caller;
  readonly requestId: string;
  readonly client: Client;
  /**
   * The revisions that an answer for somebody's cache has to include; one that includes less is
   * asked for again.
   */
  readonly least: AsOf;
  /** The exact cache keys that the contract says this call drops. */
  readonly keys: readonly string[];
  /**
   * Throws where the contract does not allow this answer. A write asks inside its transaction,
   * since the middleware's own check comes when the handler has returned, and so after the commit.
   */
  readonly checkAnswer: (answer: unknown) => void;
  /**
   * Throws where the call would not be let in by those of the caller's roles that they have in the
   * tenant now. A write asks under its lock, for which it may have waited while some were withdrawn.
   */
  readonly checkRoles: (now: readonly TenantRole[]) => void;
  /** The change set that is being applied. Nothing that came with the call says so. */
  readonly changeSet?: AppliedChangeSet;
  /**
   * The temporary change that ends: what it restores was let in with it, so policies ask nothing.
   * Nothing that came with the call says so.
   */
  readonly ending?: { readonly id: string };
  readonly log: Logger;
  /** Calls another service, as this service. */
  readonly call: Call;
}

export type Call = <A extends ActionName>(action: A, params: ParamsOf<A>) => Promise<ResultOf<A>>;

/**
 * Handlers of cached reads resolve to `Loaded`: the value with the revisions it includes, null for
 * what does not exist.
 */
export type Handler<A extends ActionName> = (
  params: ParamsOf<A>,
  request: Request,
) => Promise<ResultOf<A> | Loaded<ResultOf<A> | null>>;
export type Handlers = { readonly [A in ActionName]?: Handler<A> };

/** Handlers by the names of their actions, which begin alike. */
export const named = <const Actions extends string, Of extends object>(
  actions: Actions,
  handlers: Of,
) =>
  Object.fromEntries(
    Object.entries(handlers).map(([name, handler]) => [`${actions}.${name}`, handler]),
  ) as { readonly [Name in keyof Of & string as `${Actions}.${Name}`]: Of[Name] };

export interface CallOptions {
  readonly caller: Caller;
  readonly requestId: string;
  readonly client?: Client;
  /** The node that must answer; any that can, where absent. */
  readonly nodeID?: string;
  /** In milliseconds; REQUEST_TIMEOUT_MS where absent. */
  readonly timeout?: number | (() => number);
}

/**
 * How many milliseconds are left of a request's time, asked before each call that is made for it.
 * At least 1, because Moleculer takes 0 for no limit.
 */
export function timeLeft(ms: number): () => number {
  const until = performance.now() + ms;
  return () => Math.max(1, until - performance.now());
}

/** A call from outside a handler: from the gateway, the console or background work. */
export const callAs = <A extends ActionName>(
  broker: ServiceBroker,
  action: A,
  params: ParamsOf<A>,
  options: CallOptions,
): Promise<ResultOf<A>> => {
  const { caller, requestId, client, nodeID } = options;
  const timeout = timeoutOf(action, params, options.timeout);
  const answer = broker.call<ResultOf<A>, ParamsOf<A>>(action, params, {
    requestID: requestId,
    meta: { caller, ...(client ? { client } : {}) },
    ...(nodeID === undefined ? {} : { nodeID }),
    ...(timeout === undefined ? {} : { timeout }),
  });
  if (caller.scopes === undefined) return answer;
  return answer.catch((error: unknown) => {
    throw withinReach(error, caller);
  });
};

/** A refusal that names what is near an unknown name: an API key is told what it could list. */
function withinReach(error: unknown, caller: Caller): unknown {
  const { unnamed } = (error as { readonly data?: ErrorData } | undefined)?.data ?? {};
  if (unnamed === undefined || mayCall(contractTable['tenant-config.contexts'], caller, {}))
    return error;
  return new StrataError(codeOf(error), unnamed);
}

/** What one node answers to this one; undefined where it does not, or not in time. */
export async function askNode<A extends ActionName>(
  broker: ServiceBroker,
  action: A,
  params: ParamsOf<A>,
  options: Required<Pick<CallOptions, 'nodeID' | 'requestId' | 'timeout'>>,
): Promise<ResultOf<A> | undefined> {
  try {
    return await callAs(broker, action, params, {
      ...options,
      caller: serviceCaller(broker.nodeID),
    });
  } catch {
    return undefined;
  }
}

/** In milliseconds; undefined leaves it to the broker, which gives every request the same. */
function timeoutOf(
  action: ActionName,
  params: object,
  given: CallOptions['timeout'],
): number | undefined {
  const asked = typeof given === 'function' ? given() : given;
  const rule = contractOf(action)?.minTimeoutMs;
  const least = typeof rule === 'function' ? rule({ ...params }) : rule;
  return least === undefined ? asked : Math.max(least, asked ?? 0);
}

/**
 * Calls made by the handler of `action`, as its service. `ctx` is not made their parent: Moleculer
 * would merge their meta, and with it the service's rights, into the caller's.
 */
export const callWithin =
  (ctx: Context, action: string): Call =>
  (name, params) =>
    callAs(ctx.broker, name, params, {
      caller: serviceCaller(action.split('.')[0]!),
      requestId: ctx.requestID ?? ctx.id,
    });
