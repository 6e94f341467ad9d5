/** How many keys of effective values the watched contexts of a tenant have, which a gateway keeps. */
import type { Digests } from '../../shared/contracts/effective-config.ts';
import { StrataError } from '../../shared/errors.ts';

/** Of some 100 bytes each: as many as 2,500 contexts have beside 1,000 public entries. */
export const mostKeys = 3_000_000;

/** Each is counted once: whoever begins to watch has all contexts of the tenant counted. */
const counts = new WeakMap<Digests, number>();

function countOf(digests: Digests): number {
  const count = counts.get(digests) ?? Object.keys(digests).length;
  counts.set(digests, count);
  return count;
}

export function countKeys(contexts: Iterable<{ readonly digests?: Digests | undefined }>): number {
  let keys = 0;
  for (const { digests } of contexts) if (digests) keys += countOf(digests);
  return keys;
}

export const tooManyKeys = (most: number): StrataError =>
  new StrataError(
    'rate_limited',
    `The tenant watches ${most} keys of effective values on this gateway. Close a stream first.`,
    { headers: { 'retry-after': '10' } },
  );
