/**
 * How many requests each client address has made in its minute, which begins with the first of them. In this gateway's memory, or in
 * Redis, where all gateways count together.
 */
import type { Redis } from 'ioredis';
import { LRUCache } from 'lru-cache';
import { upTo } from '../shared/growing-cache.ts';

/** Told the number of a request in its address's minute, from 1 on, and how much of the minute is left, in milliseconds. */
export type Counted = (count: number, leftMs: number) => void;

export interface RequestCounts {
  /** Counts one more. `counted` is called at once where memory knows, else in a moment; it must not throw. */
  readonly add: (address: string, counted: Counted) => void;
}

export const minuteMs = 60_000;

interface Minute {
  count: number;
  /** By performance.now(). */
  readonly until: number;
}

/** Of very many addresses, those that were silent longest begin anew. */
export function countsInMemory(now = () => performance.now()): RequestCounts {
  const minutes = new LRUCache<string, Minute>(upTo(100_000));

  function minuteOf(address: string, at: number): Minute {
    const known = minutes.get(address);
    if (known && at < known.until) return known;
    const begun = { count: 0, until: at + minuteMs };
    minutes.set(address, begun);
    return begun;
  }

  return {
    add(address, counted) {
      const at = now();
      const minute = minuteOf(address, at);
      minute.count += 1;
      counted(minute.count, minute.until - at);
    },
  };
}

/** Counts `ARGV[n]` more for `KEYS[n]`, and says of each how many there are now, and the milliseconds until they are forgotten. */
const script = `
  local standings = {}
  for n, key in ipairs(KEYS) do
    local count = redis.call('INCRBY', key, ARGV[n])
    local left = redis.call('PTTL', key)
    if left < 0 then
      left = ${minuteMs}
      redis.call('PEXPIRE', key, left)
    end
    table.insert(standings, count)
    table.insert(standings, left)
  end
  return standings`;

const nameOf = (address: string): string => `strata:requests:${address}`;

/**
 * Redis is asked once for all requests of one turn of the event loop: asking for each would cost as much as answering it. Each has a
 * number of its own all the same. While Redis is away this gateway counts `alone`.
 */
export function countsInRedis(redis: Redis, alone = countsInMemory()): RequestCounts {
  let waiting = new Map<string, Counted[]>();

  /** Of each address that is asked for, in their order: how many requests it has made with these, and what is left of its minute. */
  async function standingsOf(asked: typeof waiting): Promise<number[]> {
    const names = [...asked.keys()].map(nameOf);
    const sizes = [...asked.values()].map(({ length }) => length);
    return (await redis.eval(script, names.length, ...names, ...sizes)) as number[];
  }

  async function countThoseWaiting(): Promise<void> {
    const asked = waiting;
    waiting = new Map();
    const standings = await standingsOf(asked).catch(() => undefined);
    for (const [index, [address, requests]] of [...asked].entries()) {
      const count = standings?.[2 * index];
      const leftMs = standings?.[2 * index + 1];
      for (const [each, counted] of requests.entries()) {
        if (count === undefined || leftMs === undefined) alone.add(address, counted);
        else counted(count - requests.length + each + 1, leftMs);
      }
    }
  }

  return {
    add(address, counted) {
      if (waiting.size === 0) setImmediate(countThoseWaiting);
      const others = waiting.get(address);
      if (others) others.push(counted);
      else waiting.set(address, [counted]);
    },
  };
}
