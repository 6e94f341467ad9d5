/** What accompanies a call between nodes, and the call as the caller's side sees it. */
import type { CallingOptions, Context } from 'moleculer';
import type { Caller } from '../access.ts';
import type { CacheRule, Contract } from '../contracts/contract.ts';
import type { AsOf } from '../coherence/floors.ts';
import type { Client } from './request.ts';

export interface Meta {
  caller?: Caller;
  client?: Client;
  /**
   * A cache of another node loads a value: it is answered with the revisions that the value
   * includes.
   */
  load?: true;
  /** The revisions that this value has to include. */
  least?: AsOf;
  /** When it was given to the bus, by `knownNow`, in milliseconds. */
  sentAt?: number | undefined;
}

export type Params = Record<string, unknown>;
export type Options = CallingOptions & { parentCtx?: Context };
export type CachedContract = Contract & { readonly cache: CacheRule };

export const isCached = (contract: Contract): contract is CachedContract =>
  contract.cache !== undefined;

/**
 * One field of a call's meta as Moleculer merges it: the call's own over its parent's, also where
 * the call's own is undefined.
 */
export function metaOf<K extends keyof Meta>(options: Options | undefined, name: K): Meta[K] {
  const own = options?.meta as Meta | undefined;
  if (own && name in own) return own[name];
  const inherited = options?.parentCtx?.meta as Meta | undefined;
  return inherited?.[name];
}
