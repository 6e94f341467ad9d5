import { checkAccess, isPlatformAdmin, type Caller } from '../access.ts';
import type { CachedEntry } from './coherence/entry.ts';
import type { Coherence } from './coherence/coherence.ts';
import type { CacheRule, Contract } from '../contracts/contract.ts';
import { contractOf, type ActionName, type ParamsOf, type ResultOf } from '../contracts/index.ts';
import { StrataError } from '../errors.ts';

/**
 * What this node's memory holds and may answer now, null for what does not exist; undefined where it has to be asked for. Without a
 * promise, for the hot path. Throws where this caller has no access, as the call would; what they get to see of it, `deliver` says.
 */
export type LocalCache = <A extends ActionName>(
  name: A,
  params: ParamsOf<A>,
  caller: Caller | undefined,
) => CachedEntry<ResultOf<A> | null> | undefined;

/** Exactly the same fields, with the same texts, numbers and booleans. */
function sameParams(
  known: Readonly<Record<string, unknown>> | undefined,
  params: Readonly<Record<string, unknown>>,
): boolean {
  if (known === undefined) return false;
  let fields = 0;
  for (const name in known) {
    if (params[name] !== known[name] || typeof known[name] === 'object') return false;
    fields += 1;
  }
  for (const _name in params) fields -= 1;
  return fields === 0;
}

/** The entry of parameters that equal those it was loaded with, which were found valid. */
function hitOf(
  coherence: Coherence,
  rule: CacheRule,
  params: Readonly<Record<string, unknown>>,
): CachedEntry<unknown> | undefined {
  let key: string;
  try {
    key = rule.key(params as never);
  } catch {
    return undefined;
  }
  const hit = coherence.caches[rule.cache].get(key);
  return hit && sameParams(hit.params, params) ? hit : undefined;
}

/** What the caller gets to see of a cached value. */
export function deliver(
  contract: Contract,
  value: unknown,
  caller: Caller,
  stale: boolean,
): unknown {
  const hidden =
    value !== null &&
    contract.visible?.(value as never, { platform: isPlatformAdmin(caller) }) === false;
  if (hidden || (value === null && !contract.nullable)) throw new StrataError('not_found');
  return stale ? { ...(value as object), stale: true } : value;
}

/** As `LocalCache`, by the contract of a cached read. */
export function heldHere(
  coherence: Coherence,
  contract: Contract,
  params: Readonly<Record<string, unknown>>,
  caller: Caller | undefined,
): CachedEntry<unknown> | undefined {
  checkAccess(contract, caller, params);
  return hitOf(coherence, contract.cache!, params);
}

export const createLocalCache =
  (coherence: Coherence): LocalCache =>
  <A extends ActionName>(name: A, params: ParamsOf<A>, caller: Caller | undefined) => {
    const contract = contractOf(name);
    return (contract?.cache &&
      heldHere(coherence, contract, params as Record<string, unknown>, caller)) as
      CachedEntry<ResultOf<A> | null> | undefined;
  };
