/**
 * The one way to an answer from this node's memory.
 *
 * Three places look for one before anything is asked over the bus: the gateway's fast path ahead of
 * Fastify, the gateway's routes, and the contract middleware in front of every call. Each has an
 * entry, found by parameters or remembered from an earlier request, and leaves it to `cachedAnswer`
 * whether this caller gets an answer from it, and which.
 */
import { checkAccess, seesPlatform, type Caller } from '../access.ts';
import type { Contract } from '../contracts/contract.ts';
import { StrataError } from '../errors.ts';
import type { Coherence } from '../coherence/coherence.ts';
import type { CachedEntry } from '../coherence/entry.ts';

type Params = Readonly<Record<string, unknown>>;

export type LocalCache = ReturnType<typeof createLocalCache>;

export const createLocalCache = (coherence: Coherence) => ({
  /**
   * The entry that was loaded for exactly these parameters, fresh or not. Undefined where there is
   * none, and for contracts that are not cached. Decides nothing about who asks, counts no hit and
   * makes no promise.
   */
  find({ cache: rule }: Contract, params: Params): CachedEntry<unknown> | undefined {
    if (!rule) return undefined;
    let key: string;
    try {
      key = rule.key(params);
    } catch {
      // Nothing has checked these parameters yet, so they may lack what the key is made of.
      return undefined;
    }
    const entry = coherence.caches[rule.cache].find(key);
    return entry && isLoadedFor(params, entry) ? entry : undefined;
  },
});

/**
 * Decides whether `entry` answers this call at `now` (performance.now()), and delivers the answer:
 * access first, then freshness, then what this caller may see.
 *
 * Returns undefined where the value has to be asked for: without an entry, or with one that is no
 * longer fresh. Throws what the call itself would: 401 or 403 without access, also where nothing is
 * cached, and `not_found` as `deliver` does.
 */
export function cachedAnswer(
  contract: Contract,
  params: Params,
  caller: Caller | undefined,
  entry: CachedEntry<unknown> | undefined,
  now: number,
): unknown {
  checkAccess(contract, caller, params);
  if (!entry?.isFresh(now)) return undefined;
  entry.recordHit();
  return deliver(contract, entry.value, caller);
}

/**
 * What the caller gets of a value that a cached read loaded. Throws `not_found` for null, which
 * stands for what does not exist, and for what the contract hides from this caller. `stale` marks
 * the last known good value that is the fallback during an outage; that there was none is no
 * fallback, since an error says nothing of its age: then it throws `service_unavailable`.
 */
export function deliver(
  contract: Contract,
  value: unknown,
  caller: Caller | undefined,
  stale = false,
): unknown {
  if (value === null || isHidden(contract, value, caller))
    throw new StrataError(stale ? 'service_unavailable' : 'not_found');
  return stale ? markedStale(value) : value;
}

/** A list stays one: gateways look for what they know in it. */
const markedStale = (value: unknown): object =>
  Object.assign(Array.isArray(value) ? [...value] : { ...(value as object) }, { stale: true });

function isHidden(contract: Contract, value: unknown, caller: Caller | undefined): boolean {
  if (!contract.visible) return false;
  const platform = caller !== undefined && seesPlatform(caller);
  return !contract.visible(value, { platform });
}

/**
 * Exactly the same fields, with the same texts, numbers and booleans as the entry was loaded with.
 * Those were checked against the contract, so equal ones need no second check.
 */
function isLoadedFor(params: Params, { params: loaded }: CachedEntry<unknown>): boolean {
  if (loaded === undefined) return false;
  let loadedFields = 0;
  for (const name in loaded) {
    const value = loaded[name];
    if (typeof value === 'object' || params[name] !== value) return false;
    loadedFields += 1;
  }
  let givenFields = 0;
  for (const _name in params) givenFields += 1;
  return givenFields === loadedFields;
}
