/**
 * In front of every action on every node: access → params → near-cache → handler → result → invalidate.
 *
 * A cached read is answered on the caller's own node: `call` looks into the cache before Moleculer looks for a service. The load
 * is made as the node, not as the caller, so that what is kept depends on nobody. It is marked in `meta.load`, and the owning
 * node answers it with the value and the revisions that it includes.
 */
import type { CallingOptions, Context, Middleware, ServiceBroker } from 'moleculer';
import type { Logger } from 'pino';
import { checkAccess, serviceCaller, type Caller } from '../access.ts';
import type { Loaded } from './coherence/entry.ts';
import type { Coherence } from './coherence/coherence.ts';
import type { Contract } from '../contracts/contract.ts';
import { contractOf } from '../contracts/index.ts';
import { isDatabaseFailure, isDatabaseOutage, isRefusedData } from '../database/failures.ts';
import { codeOf, invalid, StrataError } from '../errors.ts';
import type { Change } from '../commits/commit.ts';
import { problemsOf } from '../schema/validate.ts';
import type { Bus } from './bus.ts';
import { deliver, heldHere } from './local-cache.ts';
import { callWithin, type Client, type Request } from './request.ts';

interface Meta {
  caller?: Caller;
  client?: Client;
  load?: true;
}
type Params = Record<string, unknown>;
type Next = (action: string, params?: Params, options?: CallingOptions) => Promise<unknown>;

export interface ContractMiddlewareOptions {
  readonly coherence: Coherence;
  readonly bus: Bus;
  readonly requestTimeoutMs: number;
  readonly log: Logger;
  /** Called after a commit on this node. */
  readonly onCommitted: () => void;
}

/** Problems in the body are named from its root, others by the parameter. */
export function checkParams(contract: Contract, params: Params): void {
  const problems = problemsOf(contract.params, params);
  if (problems.length > 0) {
    throw invalid(
      problems.map(({ path, message }) => ({ path: path.replace(/^\/body(?=\/|$)/, ''), message })),
    );
  }
}

/** As Moleculer merges it: the call's own over its parent's, also where its own is undefined. */
function metaOf<K extends keyof Meta>(
  options: (CallingOptions & { parentCtx?: Context }) | undefined,
  name: K,
): Meta[K] {
  const own = options?.meta as Meta | undefined;
  return own && name in own ? own[name] : (options?.parentCtx?.meta as Meta | undefined)?.[name];
}

const rejectBehind = (
  asOf: Readonly<Record<string, number>>,
  min: Readonly<Record<string, number>>,
): void => {
  for (const [scope, revision] of Object.entries(min)) {
    if ((asOf[scope] ?? 0) < revision) {
      throw new StrataError(
        'precondition_failed',
        `Revision ${revision} does not exist yet; the newest is ${asOf[scope] ?? 0}.`,
      );
    }
  }
};

export function contractMiddleware({
  coherence,
  bus,
  requestTimeoutMs,
  log,
  onCommitted,
}: ContractMiddlewareOptions): Middleware {
  let broker: ServiceBroker;

  async function readCached(
    contract: Contract,
    next: Next,
    name: string,
    params: Params,
    options: CallingOptions | undefined,
    caller: Caller,
  ): Promise<unknown> {
    const rule = contract.cache!;
    const { min_revision: minRevision, ...rest } = params;
    const scopes = rule.revisionScopes(params as never);
    const min: Record<string, number> =
      typeof minRevision === 'number' ? { [scopes[0]!]: minRevision } : {};
    const load = async () => ({
      ...(await (next(name, rest, loadOptions(options)) as Promise<Loaded<unknown>>)),
      params: rest,
    });
    const key = rule.key(params as never);
    const found = await coherence.caches[rule.cache].read(key, scopes, load, {
      min,
      waitMs: options?.timeout || requestTimeoutMs,
    });
    if (!found.stale) rejectBehind(found.asOf, min);
    return deliver(contract, found.value, caller, found.stale);
  }

  /** Without the parent context: meta would flow back into it, and with it the node's rights. */
  function loadOptions(options: CallingOptions & { parentCtx?: Context } = {}): CallingOptions {
    const { parentCtx, requestID = parentCtx?.requestID, ...rest } = options;
    return {
      ...rest,
      ...(requestID ? { requestID } : {}),
      meta: { caller: serviceCaller(broker.nodeID), load: true },
    };
  }

  /** While the bus is away, what only others answer fails at once: a value known here can stand in without anyone waiting. */
  const reachable = (name: string, nodeID: string | undefined): boolean =>
    !bus.away() ||
    (nodeID === undefined
      ? (broker.registry.getActionEndpoints(name)?.hasLocal() ?? false)
      : nodeID === broker.nodeID);

  return {
    name: 'Contracts',
    created(created: ServiceBroker) {
      broker = created;
    },

    call(send: Next) {
      const next: Next = (name, params, options) =>
        reachable(name, options?.nodeID)
          ? send(name, params, options)
          : Promise.reject(
              new StrataError('service_unavailable', 'The bus does not answer. Try again.'),
            );
      return (name: string, params: Params = {}, options?: CallingOptions): Promise<unknown> => {
        const contract = contractOf(name);
        if (!contract?.cache || metaOf(options, 'load')) return next(name, params, options);
        const caller = metaOf(options, 'caller');
        try {
          const held = heldHere(coherence, contract, params, caller);
          if (held) return Promise.resolve(deliver(contract, held.value, caller!, false));
          checkParams(contract, params);
        } catch (error) {
          return Promise.reject(error as Error);
        }
        return readCached(contract, next, name, params, options, caller!);
      };
    },

    localAction(next: (ctx: Context) => Promise<unknown>, action: { name: string }) {
      const contract = contractOf(action.name);
      if (!contract) {
        if (action.name.startsWith('$')) return next;
        throw new Error(`The action ${action.name} has no contract in shared/contracts.`);
      }
      return async (ctx: Context): Promise<unknown> => {
        // Captured once: meta flows back from callees, who could rewrite it.
        const { caller, client = {}, load } = ctx.meta as Meta;
        const params = structuredClone(ctx.params) as Params;
        checkAccess(contract, caller, params);
        checkParams(contract, params);
        const committed: Change[] = [];
        const request: Request = {
          caller: caller!,
          requestId: ctx.requestID ?? ctx.id,
          client,
          keys: contract.drops?.(params as never) ?? [],
          committed,
          log: log.child({ request_id: ctx.requestID, action: action.name }),
          call: callWithin(ctx, action.name),
        };
        ctx.params = params as never;
        ctx.locals.request = request;
        try {
          const answer = await next(ctx);
          const value = contract.cache ? (answer as Loaded<unknown>).value : answer;
          if (!(contract.cache && value === null)) checkResult(contract, action.name, value);
          if (!contract.cache) return answer;
          return load ? answer : deliver(contract, value, caller!, false);
        } catch (error) {
          throw translate(error, request.log);
        } finally {
          // Also where the handler failed after its commit: what is committed must be known before anything is answered.
          if (committed.length > 0) {
            await coherence.publish(committed);
            onCommitted();
          }
        }
      };
    },
  } as unknown as Middleware;
}

/** The result schema is an allow-list: an answer that does not match it, a secret that slipped in for one, is not given. */
function checkResult(contract: Contract, name: string, value: unknown): void {
  const problems = problemsOf(contract.result, value);
  if (problems.length > 0)
    throw new Error(
      `${name} answered against its contract: ${problems.map(({ path, message }) => `${path} ${message}`).join('; ')}`,
    );
}

/** Errors lose their class on the bus, so they get their code here; the cause goes to the log of the node that saw it. */
function translate(error: unknown, log: Logger): unknown {
  if (codeOf(error) !== 'internal_error') return error;
  if (isDatabaseOutage(error)) {
    log.error({ err: error }, 'the database does not answer');
    return new StrataError('service_unavailable', 'The database does not answer. Try again.', {
      database: true,
      cause: error,
    });
  }
  if ((error as { type?: string }).type === 'internal_error') return error;
  if (isRefusedData(error)) {
    log.warn({ err: error }, 'the database refused a value that the contract let through');
    return invalid([], 'A value cannot be stored.');
  }
  log.error({ err: error }, 'unexpected error');
  return new StrataError('internal_error', undefined, {
    ...(isDatabaseFailure(error) ? { database: true } : {}),
    cause: error,
  });
}
