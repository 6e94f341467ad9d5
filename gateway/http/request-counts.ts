/**
 * How many requests each client address has made in its minute, which begins with the first of
 * them. In this gateway's memory, or in Redis, where all gateways count together.
 */
import type { Redis } from 'ioredis';
import { LRUCache } from 'lru-cache';
import { upTo } from '../../shared/concurrency/growing-cache.ts';

/**
 * Told the number of a request in its address's minute, from 1 on, and how much of the minute is
 * left, in milliseconds.
 */
export type Counted = (count: number, leftMs: number) => void;

export interface RequestCounts {
  /**
   * Counts one more of an address that may make `limit`. `counted` is called at once where this
   * gateway knows, else in a moment; it must not throw.
   */
  readonly add: (address: string, limit: number, counted: Counted) => void;
}

export const minuteMs = 60_000;

interface Minute {
  count: number;
  /** By performance.now(). */
  readonly until: number;
}

/** Of very many addresses, those that were silent longest begin again. */
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
    add(address, _limit, counted) {
      const at = now();
      const minute = minuteOf(address, at);
      minute.count += 1;
      counted(minute.count, minute.until - at);
    },
  };
}

/**
 * Counts `ARGV[n]` more for `KEYS[n]`, and says of each how many there are now, and the
 * milliseconds until they are forgotten.
 */
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

/**
 * A gateway answers at most this share of the limit ahead of Redis: of a limit below 1,000 nothing.
 */
const shareAhead = 1 / 1000;
/** It does so only for an address that has made no more than this share of the limit. */
const farFromLimit = 1 / 2;
/** What was answered ahead is told to Redis so much later. */
const settleMs = 10;
/**
 * Where Redis is silent for longer, the share is no bound any more: nobody who is far from the
 * limit waits for it.
 */
const patienceMs = 100;

/** What this gateway knows of the minute of an address. */
interface Tally {
  readonly address: string;
  /** As Redis last said, and those of this gateway since. */
  count: number;
  /** By performance.now(). */
  until: number;
  /** Redis has been asked in this minute. */
  isKnown: boolean;
  /** Requests of this gateway that Redis has not confirmed. */
  unsettled: number;
  /** Those of them that it has not been told. */
  untold: number;
  /** Those of these that are not answered before Redis says their number. */
  waiting: Waiting[];
}
interface Waiting {
  readonly counted: Counted;
  /** Its number as far as this gateway knows, which counts where Redis is away. */
  readonly count: number;
}

/** What Redis is told of an address. */
interface Told {
  readonly tally: Tally;
  readonly size: number;
  readonly waiting: readonly Waiting[];
}

const nameOf = ({ tally: { address } }: Told): string => `strata:requests:${address}`;

/**
 * Far from the limit, a gateway answers ahead by what it knows, and tells Redis a moment later.
 * Else each request gets its number from Redis first, which is asked once for all requests of one
 * turn of the event loop: asking for each would cost as much as answering it.
 *
 * So all gateways together answer no more than the limit and the share of each. Even that takes
 * half of the limit within the moment in which they tell each other. While Redis is away each
 * continues alone from what it knows.
 */
export function countsInRedis(redis: Redis, now = () => performance.now()): RequestCounts {
  const tallies = new LRUCache<string, Tally>(upTo(100_000));
  const untold = new Set<Tally>();
  let isTellingSoon = false;
  let isTellingNow = false;
  /** When Redis was first told what it has not confirmed since. */
  let silentSince: number | undefined;

  function tallyOf(address: string, at: number): Tally {
    const known = tallies.get(address);
    const tally = known ?? newTally(address);
    if (!known) tallies.set(address, tally);
    if (at >= tally.until) {
      tally.count = 0;
      tally.until = at + minuteMs;
      tally.isKnown = false;
    }
    return tally;
  }

  /** Whether its next request needs no number of Redis. */
  function isFar({ count, isKnown, unsettled }: Tally, limit: number, at: number): boolean {
    const mostAhead = Math.floor(limit * shareAhead);
    if (!isKnown || mostAhead === 0 || count >= limit * farFromLimit) return false;
    const isSilent = silentSince !== undefined && at - silentSince > patienceMs;
    return isSilent || unsettled < mostAhead;
  }

  /**
   * Of each address, in their order: how many requests it has made with these, and what is left of
   * its minute.
   */
  async function standingsOf(told: readonly Told[]): Promise<number[]> {
    const sizes = told.map(({ size }) => size);
    return (await redis.eval(script, told.length, ...told.map(nameOf), ...sizes)) as number[];
  }

  async function tell(): Promise<void> {
    if (untold.size === 0) return;
    const told = [...untold].map(takeUntold);
    untold.clear();
    silentSince ??= now();
    const standings = await standingsOf(told).catch(() => undefined);
    if (standings) silentSince = undefined;
    const at = now();
    for (const [index, each] of told.entries())
      settle(each, at, standings?.[2 * index], standings?.[2 * index + 1]);
  }

  /** One command at a time: those of a Redis that is silent do not heap up. */
  function tellSoon(): void {
    if (isTellingSoon) return;
    isTellingSoon = true;
    setTimeout(async () => {
      await tell();
      isTellingSoon = false;
      if (untold.size > 0) tellSoon();
    }, settleMs).unref();
  }

  function tellNow(): void {
    if (isTellingNow) return;
    isTellingNow = true;
    setImmediate(() => {
      isTellingNow = false;
      void tell();
    });
  }

  return {
    add(address, limit, counted) {
      const at = now();
      const tally = tallyOf(address, at);
      const isAhead = isFar(tally, limit, at);
      tally.count += 1;
      tally.unsettled += 1;
      tally.untold += 1;
      untold.add(tally);
      if (isAhead) {
        tellSoon();
        counted(tally.count, tally.until - at);
      } else {
        tally.waiting.push({ counted, count: tally.count });
        tellNow();
      }
    },
  };
}

const newTally = (address: string): Tally => ({
  address,
  count: 0,
  until: -Infinity,
  isKnown: false,
  unsettled: 0,
  untold: 0,
  waiting: [],
});

function takeUntold(tally: Tally): Told {
  const told = { tally, size: tally.untold, waiting: tally.waiting };
  tally.untold = 0;
  tally.waiting = [];
  return told;
}

/** `count` and `leftMs` are Redis' word, which is missing where it is away. */
function settle(
  { tally, size, waiting }: Told,
  at: number,
  count: number | undefined,
  leftMs: number | undefined,
): void {
  tally.unsettled -= size;
  tally.isKnown = true;
  if (count === undefined || leftMs === undefined) {
    for (const each of waiting) each.counted(each.count, Math.max(0, tally.until - at));
    return;
  }
  tally.count = count + tally.unsettled;
  tally.until = at + leftMs;
  for (const [each, { counted }] of waiting.entries())
    counted(count - waiting.length + each + 1, leftMs);
}
