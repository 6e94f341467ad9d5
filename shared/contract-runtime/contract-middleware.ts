/**
 * Stands in front of every action on every node, and makes every call keep to the action's
 * contract:
 *
 * | Step       | On which node                       | What it does                                                        |
 * |------------|-------------------------------------|---------------------------------------------------------------------|
 * | access     | the owner; a cached read: both      | refuses who may not call, before anything else is looked at         |
 * | cache      | the caller's, for a cached read     | answers from this node's memory (`local-cache.ts`)                  |
 * | parameters | the owner; a cached read: both      | refuses what the contract's schema does not allow                   |
 * | handler    | the owner                           | does the work                                                       |
 * | result     | the owner; a write: before a commit | refuses an answer that the contract's schema does not allow         |
 * | publish    | the owner, after a commit           | announces it, and waits until no node answers the older value       |
 * | floor      | the caller's, with `X-Min-Revision` | refuses an answer from before the revision that the caller asks for |
 *
 * Which keys a write drops is declared in its contract (`drops`) and reaches the handler as
 * `request.keys`. Some writes drop keys that only the handler can know, such as the sessions of an
 * account that is being disabled; there the handler gives the keys to the commit itself.
 *
 * A cached read is answered on the caller's own node: `call` looks into the cache before Moleculer
 * looks for a service. The value is loaded as the node, not as the caller, so that what is kept
 * depends on nobody. The load is marked in `meta.load`, and the owning node answers it with the
 * value and the revisions that the value includes.
 */
import type { CallingOptions, Context, Middleware, ServiceBroker } from 'moleculer';
import type { Logger } from 'pino';
import { checkAccess, serviceCaller, type Caller } from '../access.ts';
import { refuseOlderThan, type Change } from '../commits/commit.ts';
import { powerOf } from '../contracts/consequences.ts';
import type { CacheRule, Contract } from '../contracts/contract.ts';
import { contractOf, type ActionName } from '../contracts/index.ts';
import { isDatabaseFailure, isDatabaseOutage, isRefusedData } from '../database/failures.ts';
import { codeOf, invalid, StrataError } from '../errors.ts';
import { problemsOf } from '../schema/validate.ts';
import type { Bus } from '../bus/bus.ts';
import type { Coherence } from '../coherence/coherence.ts';
import type { Loaded } from '../coherence/entry.ts';
import type { AsOf } from '../coherence/floors.ts';
import { RememberedAnswers, type AnyDerivedRead, type DerivedReads } from './derived-reads.ts';
import { cachedAnswer, createLocalCache, deliver } from '../coherence/local-cache.ts';
import { moleculerMiddleware, type BusCall } from '../bus/moleculer-middleware.ts';
import { outgoingCalls } from './outgoing-calls.ts';
import { callWithin, type Client, type Request } from './request.ts';

interface Meta {
  caller?: Caller;
  client?: Client;
  /**
   * A cache of another node loads a value: it is answered with the revisions that the value
   * includes.
   */
  load?: true;
  /** The revisions that this value has to include. */
  least?: AsOf;
}

type Params = Record<string, unknown>;
type CachedContract = Contract & { readonly cache: CacheRule };
type Options = CallingOptions & { parentCtx?: Context };

export interface ContractMiddlewareOptions {
  readonly coherence: Coherence;
  readonly bus: Bus;
  readonly requestTimeoutMs: number;
  readonly log: Logger;
  /** Called after a commit on this node. */
  readonly onCommitted: () => void;
  readonly derivedReads: DerivedReads;
}

export function contractMiddleware({
  coherence,
  bus,
  requestTimeoutMs,
  log,
  onCommitted,
  derivedReads,
}: ContractMiddlewareOptions): Middleware {
  const localCache = createLocalCache(coherence);
  const remembered = new RememberedAnswers();
  let broker: ServiceBroker;

  /**
   * Options of the call that loads a value for the cache. It is made as this node, and without the
   * parent context: meta would flow back into it, and with it the node's rights.
   */
  function loadOptions(least: AsOf, { parentCtx, ...options }: Options = {}): CallingOptions {
    const requestID = options.requestID ?? parentCtx?.requestID;
    const meta: Meta = { caller: serviceCaller(broker.nodeID), load: true, least };
    return {
      ...options,
      ...(requestID ? { requestID } : {}),
      meta,
    };
  }

  /** Through the cache: shared with whoever asks for the same meanwhile, and kept. */
  async function readThroughCache(
    next: BusCall,
    name: string,
    contract: CachedContract,
    params: Params,
    options: Options | undefined,
    caller: Caller | undefined,
  ): Promise<unknown> {
    const { cache: rule } = contract;
    const { min_revision: minRevision, ...asked } = params;
    const revisionScopes = rule.revisionScopes(params);
    const min = minimumOf(minRevision, revisionScopes);
    const load = async (least: AsOf): Promise<Loaded<unknown>> => {
      const loaded = (await next(name, asked, loadOptions(least, options))) as Loaded<unknown>;
      return { ...loaded, params: asked };
    };
    const found = await coherence.caches[rule.cache].read(rule.key(params), revisionScopes, load, {
      min,
      waitMs: options?.timeout || requestTimeoutMs,
    });
    refuseOlderThan(min, found.asOf);
    return deliver(contract, found.value, caller, found.stale);
  }

  /**
   * Answers from the cached read that it is derived from, of this node's memory where it is there;
   * else asks the service.
   */
  function readDerived(
    next: BusCall,
    name: string,
    contract: Contract,
    derived: AnyDerivedRead,
    params: Params,
    options: Options | undefined,
  ): Promise<unknown> {
    const caller = metaOf(options, 'caller');
    const from = contractOf(derived.from) as CachedContract;
    async function loadAndDerive(question: Params): Promise<unknown> {
      const value = await readThroughCache(next, derived.from, from, question, options, caller);
      const found = derived.derive(params, value);
      return found ? found.answer : next(name, params, options);
    }
    try {
      checkAccess(contract, caller, params);
      const now = performance.now();
      const repeated = remembered.find(name, params, now);
      if (repeated !== undefined) return Promise.resolve(repeated);
      checkParams(contract, params);
      const question = derived.question(params);
      const entry = localCache.find(from, question);
      const known = cachedAnswer(from, question, caller, entry, now);
      if (known === undefined) return loadAndDerive(question);
      const found = derived.derive(params, known);
      if (!found) return next(name, params, options);
      if (found.isLasting) remembered.remember(name, params, entry!, found.answer);
      return Promise.resolve(found.answer);
    } catch (error) {
      return Promise.reject(error as Error);
    }
  }

  /**
   * Takes the place of `broker.call` on every node. While the bus is away, a call that only another
   * node could answer fails at once instead of after its time-out, so that a value known here can
   * stand in without anyone waiting.
   */
  function callByContract(send: BusCall): BusCall {
    const next = outgoingCalls(send, { broker: () => broker, bus, requestTimeoutMs, log });
    return (name, params = {}, options) => {
      const contract = contractOf(name);
      const derived = derivedReads[name as ActionName];
      if (contract && derived) return readDerived(next, name, contract, derived, params, options);
      if (!contract || !isCached(contract) || metaOf(options, 'load'))
        return next(name, params, options);
      const caller = metaOf(options, 'caller');
      try {
        const entry = localCache.find(contract, params);
        const known = cachedAnswer(contract, params, caller, entry, performance.now());
        if (known !== undefined) return Promise.resolve(known);
        checkParams(contract, params);
      } catch (error) {
        return Promise.reject(error as Error);
      }
      return readThroughCache(next, name, contract, params, options, caller);
    };
  }

  return moleculerMiddleware<Meta>({
    name: 'Contracts',

    created(created) {
      broker = created;
    },

    call: callByContract,

    localAction(next, { name }) {
      const contract = contractOf(name);
      if (!contract) {
        // Moleculer's own, such as `$node.list`.
        if (name.startsWith('$')) return next;
        throw new Error(`The action ${name} has no contract in shared/contracts.`);
      }
      return async (ctx) => {
        // Captured once: meta flows back from callees, who could rewrite it.
        const { caller, client = {}, load, least = {} } = ctx.meta;
        const params = structuredClone(ctx.params);
        checkAccess(contract, caller, params);
        checkParams(contract, params);
        const committed: Change[] = [];
        const power = powerOf(contract.leadsTo, params);
        const request: Request = {
          caller: caller!,
          requestId: ctx.requestID ?? ctx.id,
          client,
          least: load ? least : {},
          keys: contract.drops?.(params) ?? [],
          checkAnswer: (answer) => checkResult(contract, name, answer),
          heardOf: (scope) => coherence.newestHeardOf(scope),
          committed,
          ...(power !== undefined && { power }),
          until: performance.now() + requestTimeoutMs,
          log: log.child({ request_id: ctx.requestID, action: name }),
          call: callWithin(ctx, name),
        };
        ctx.params = params;
        ctx.locals.request = request;
        try {
          const answer = await next(ctx);
          if (!isCached(contract)) {
            checkResult(contract, name, answer);
            return answer;
          }
          const { value } = answer as Loaded<unknown>;
          // Null stands for what does not exist, whatever the result's schema is.
          if (value !== null) checkResult(contract, name, value);
          return load ? answer : deliver(contract, value, caller, false);
        } catch (error) {
          throw translate(error, request.log);
        } finally {
          // Also where the handler failed after its commit: what is committed must be known before
          // anything is answered.
          if (committed.length > 0) {
            await coherence.publish(committed);
            onCommitted();
          }
        }
      };
    },
  });
}

/**
 * A revision of the first scope, or revisions of several in their order with a dot in between.
 * Their form has been checked.
 */
function minimumOf(minRevision: unknown, scopes: readonly string[]): Record<string, number> {
  if (minRevision === undefined) return {};
  const revisions = String(minRevision).split('.');
  return Object.fromEntries(revisions.map((text, index) => [scopes[index]!, Number(text)]));
}

const isCached = (contract: Contract): contract is CachedContract => contract.cache !== undefined;

/**
 * One field of a call's meta as Moleculer merges it: the call's own over its parent's, also where
 * the call's own is undefined.
 */
function metaOf<K extends keyof Meta>(options: Options | undefined, name: K): Meta[K] {
  const own = options?.meta as Meta | undefined;
  if (own && name in own) return own[name];
  const inherited = options?.parentCtx?.meta as Meta | undefined;
  return inherited?.[name];
}

/**
 * Throws 422 with every problem. A problem in the body is named by its path from the body's root,
 * any other by its parameter.
 */
export function checkParams(contract: Contract, params: Params): void {
  const problems = problemsOf(contract.params, params);
  if (problems.length === 0) return;
  throw invalid(
    problems.map(({ path, message }) => ({
      path: path.replace(/^\/body(?=\/|$)/, ''),
      message,
    })),
  );
}

/**
 * The result schema is an allow-list: an answer that does not match it, perhaps because a secret
 * slipped in, is never given.
 */
function checkResult(contract: Contract, name: string, value: unknown): void {
  const problems = problemsOf(contract.result, value);
  if (problems.length === 0) return;
  const list = problems.map(({ path, message }) => `${path} ${message}`).join('; ');
  throw new Error(`${name} answered against its contract: ${list}`);
}

/**
 * The error as callers get it. Errors lose their class on the bus, so they get their code here; the
 * cause goes to the log of the node that saw it.
 */
function translate(error: unknown, log: Logger): unknown {
  if (codeOf(error) !== 'internal_error') return error;
  if (isDatabaseOutage(error)) {
    log.error({ err: error }, 'the database does not answer');
    return new StrataError('service_unavailable', 'The database does not answer. Try again.', {
      database: true,
      cause: error,
    });
  }
  // A neighbour has translated and logged it already.
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
