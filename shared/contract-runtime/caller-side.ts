/**
 * A call of a cached or derived read on the caller's node, as steps. A step answers, throws, or
 * returns undefined, so that the next one continues.
 */
import type { CallingOptions, ServiceBroker } from 'moleculer';
import { checkAccess, serviceCaller, type Caller } from '../access.ts';
import { refuseOlderThan } from '../commits/commit.ts';
import type { Contract } from '../contracts/contract.ts';
import { contractOf, type ActionName } from '../contracts/index.ts';
import type { BusCall } from '../bus/moleculer-middleware.ts';
import type { Coherence } from '../coherence/coherence.ts';
import type { Loaded } from '../coherence/entry.ts';
import type { AsOf } from '../coherence/floors.ts';
import { cachedAnswer, createLocalCache, deliver } from './local-cache.ts';
import {
  isCached,
  metaOf,
  type CachedContract,
  type Meta,
  type Options,
  type Params,
} from './call-meta.ts';
import { checkParams } from './checks.ts';
import type { AnyDerivedRead, DerivedReads } from './derived-reads.ts';
import type { Call } from './request.ts';

export interface CallerSideOptions {
  readonly broker: () => ServiceBroker;
  readonly coherence: Coherence;
  readonly requestTimeoutMs: number;
  readonly derivedReads: DerivedReads;
  /** Asks a node that hosts the service. */
  readonly send: BusCall;
}

interface Read {
  readonly side: CallerSide;
  readonly name: string;
  readonly params: Params;
  readonly options: Options | undefined;
  readonly caller: Caller | undefined;
}
interface CachedRead extends Read {
  readonly contract: CachedContract;
}
interface DerivedRead extends Read {
  readonly contract: Contract;
  readonly derived: AnyDerivedRead;
}

interface CallerSide extends CallerSideOptions {
  readonly localCache: ReturnType<typeof createLocalCache>;
}

const cachedSteps = [answerFromMemory, validate, readThroughCache];
const derivedSteps = [authorize, validate, deriveFromMemory, deriveFromLoad];

/** Takes the place of `broker.call` on every node. */
export function callerSide(options: CallerSideOptions): BusCall {
  const side: CallerSide = { ...options, localCache: createLocalCache(options.coherence) };
  const { derivedReads, send } = options;
  return (name, params = {}, callOptions) => {
    const contract = contractOf(name);
    const derived = derivedReads[name as ActionName];
    const isRead = contract && (derived || isCached(contract));
    if (!isRead || metaOf(callOptions, 'load')) return send(name, params, callOptions);
    const caller = metaOf(callOptions, 'caller');
    const read = { side, name, params, options: callOptions, caller, contract };
    if (derived) return run(derivedSteps, { ...read, derived });
    return run(cachedSteps, read as CachedRead);
  };
}

function run<R extends Read>(steps: readonly ((read: R) => unknown)[], read: R): Promise<unknown> {
  try {
    let answer: unknown;
    for (const step of steps) {
      answer = step(read);
      if (answer !== undefined) break;
    }
    return Promise.resolve(answer);
  } catch (error) {
    return Promise.reject(error as Error);
  }
}

function authorize({ contract, caller, params }: DerivedRead): undefined {
  checkAccess(contract, caller, params);
}

function validate({ contract, params }: CachedRead | DerivedRead): undefined {
  checkParams(contract, params);
}

function answerFromMemory({ side, contract, params, caller }: CachedRead): unknown {
  const entry = side.localCache.find(contract, params);
  return cachedAnswer(contract, params, caller, entry, performance.now());
}

/** Single-flight: shared with other readers of the same key, and kept. */
async function readThroughCache(read: CachedRead): Promise<unknown> {
  const { side, name, contract, params, options, caller } = read;
  const { cache: rule } = contract;
  const { min_revision: minRevision, ...asked } = params;
  const revisionScopes = rule.revisionScopes(params);
  const min = minimumOf(minRevision, revisionScopes);
  const load = async (least: AsOf): Promise<Loaded<unknown>> => {
    const loaded = (await side.send(name, asked, loadOptions(read, least))) as Loaded<unknown>;
    return { ...loaded, params: asked };
  };
  const cache = side.coherence.caches[rule.cache];
  const waitMs = options?.timeout || side.requestTimeoutMs;
  const found = await cache.read(rule.key(params), revisionScopes, load, { min, waitMs });
  refuseOlderThan(min, found.asOf);
  return deliver(contract, found.value, caller, found.stale);
}

/** Options of the call that loads a value for the cache. */
const loadOptions = (read: Read, least: AsOf): CallingOptions =>
  optionsAsNode(read, { load: true, least });

/**
 * Options of a call that is made as this node, and without the parent context: meta would flow back
 * into it, and with it the node's rights.
 */
function optionsAsNode({ side, options = {} }: Read, added: Meta): CallingOptions {
  const { parentCtx, ...others } = options;
  const requestID = others.requestID ?? parentCtx?.requestID;
  const meta: Meta = { caller: serviceCaller(side.broker().nodeID), ...added };
  return { ...others, ...(requestID ? { requestID } : {}), meta };
}

function deriveFromMemory(read: DerivedRead): unknown {
  const { side, derived, params, caller } = read;
  const source = sourceOf(derived);
  const question = derived.question(params);
  const entry = side.localCache.find(source, question);
  const known = cachedAnswer(source, question, caller, entry, performance.now());
  return known === undefined ? undefined : deriveOrAsk(read, known);
}

async function deriveFromLoad(read: DerivedRead): Promise<unknown> {
  const { derived } = read;
  const source = { ...read, name: derived.from, contract: sourceOf(derived) };
  return deriveOrAsk(
    read,
    await readThroughCache({ ...source, params: derived.question(read.params) }),
  );
}

/** By the rules; by the service, where the rules leave it to that. */
function deriveOrAsk(read: DerivedRead, value: unknown) {
  const { side, name, params, options, derived } = read;
  const call: Call = (action, asked) => side.broker().call(action, asked, optionsAsNode(read, {}));
  return derived.derive(params, value, call) ?? side.send(name, params, options);
}

const sourceOf = ({ from }: AnyDerivedRead): CachedContract => contractOf(from) as CachedContract;

/**
 * A revision of the first scope, or revisions of several in their order with a dot in between.
 * Their form has been checked.
 */
function minimumOf(minRevision: unknown, scopes: readonly string[]): Record<string, number> {
  if (minRevision === undefined) return {};
  const revisions = String(minRevision).split('.');
  return Object.fromEntries(revisions.map((text, index) => [scopes[index]!, Number(text)]));
}
