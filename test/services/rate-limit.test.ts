/**
 * Whose requests count together, and how many there were: in memory, and in Redis by two gateways.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { trustOf } from '../../gateway/http/client-address.ts';
import { createRateLimit, type Standing } from '../../gateway/http/rate-limit.ts';
import {
  countsInMemory,
  countsInRedis,
  minuteMs,
  type RequestCounts,
} from '../../gateway/http/request-counts.ts';
import { liveSettings } from '../../shared/settings/live-settings.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import { eventually } from '../support/cluster.ts';
import { startRedis, type Process } from '../support/servers.ts';

/** Below a thousand, Redis is asked first. */
const small = 999;
const add = (
  counts: RequestCounts,
  address: string,
  limit = small,
): Promise<[count: number, leftMs: number]> =>
  new Promise((resolve) => {
    counts.add(address, limit, (...standing) => resolve(standing));
  });
/**
 * The numbers of so many requests that are answered before anything else happens; undefined for
 * each that waits for Redis.
 */
const ahead = (
  counts: RequestCounts,
  address: string,
  limit: number,
  requests: number,
): (number | undefined)[] =>
  upTo(requests).map(() => {
    const numbers: number[] = [];
    counts.add(address, limit, (count) => numbers.push(count));
    return numbers[0];
  });
const numbers = (standings: readonly (readonly [number, number])[]): number[] =>
  standings.map(([count]) => count).toSorted((a, b) => a - b);
const upTo = (last: number): number[] => Array.from({ length: last }, (_each, index) => index + 1);

/** A limit of two, behind proxies in 10.0.0.0/8. Each is answered at once, since memory counts. */
function standingsOf(...requests: readonly (readonly [peer: string, forwarded?: string])[]) {
  const live = liveSettings(loadSettings({ RATE_LIMIT_PER_MINUTE: '2' }, { pieces: [] }), {}, []);
  const limit = createRateLimit(live, countsInMemory(), trustOf(['10.0.0.0/8']));
  return requests.map(([peer, forwarded]) => {
    const socket = new Socket();
    Object.defineProperty(socket, 'remoteAddress', { value: peer });
    const request = new IncomingMessage(socket);
    if (forwarded !== undefined) request.headers['x-forwarded-for'] = forwarded;
    const standings: Standing[] = [];
    limit.count(request, (standing) => standings.push(standing));
    return standings[0]!.isOver ? 'over' : standings[0]!.remaining;
  });
}

test.each<[what: string, requests: [peer: string, forwarded?: string][], standings: unknown[]]>([
  ['an address', [['192.0.2.1'], ['192.0.2.1'], ['192.0.2.1']], [1, 0, 'over']],
  ['another address', [['192.0.2.1'], ['192.0.2.2']], [1, 1]],
  ['an IPv4 address, however it is written', [['192.0.2.1'], ['::ffff:192.0.2.1']], [1, 0]],
  ['/64 of IPv6', [['2001:db8::1'], ['2001:db8::ffff:2'], ['2001:db8:0:1::1']], [1, 0, 1]],
  [
    'whom a proxy names',
    [
      ['10.0.0.1', '192.0.2.1'],
      ['10.9.9.9', '192.0.2.1'],
      ['10.0.0.1', '192.0.2.2'],
    ],
    [1, 0, 1],
  ],
  [
    'whom the last stranger in front of the proxies says nothing about',
    [
      ['10.0.0.1', '198.51.100.1, 192.0.2.1, 10.0.0.2'],
      ['10.0.0.1', '198.51.100.2, 192.0.2.1'],
    ],
    [1, 0],
  ],
  [
    'who names others without being a proxy',
    [
      ['192.0.2.1', '198.51.100.1'],
      ['192.0.2.1', '198.51.100.2'],
    ],
    [1, 0],
  ],
  ['a proxy that names nobody', [['10.0.0.1'], ['10.0.0.1', '']], [1, 0]],
  [
    'a client whom a proxy names with the port of its connection',
    [
      ['10.0.0.1', '192.0.2.1:40001'],
      ['10.0.0.1', '192.0.2.1:40002'],
      ['10.0.0.1', '[2001:db8::1]:40003'],
      ['10.0.0.1', '[2001:db8::1]'],
    ],
    [1, 0, 1, 0],
  ],
  [
    'whom a proxy names in front of one that is named with its port',
    [
      ['10.0.0.1', '192.0.2.1, 10.0.0.2:443'],
      ['10.0.0.1', '192.0.2.2, 10.0.0.2:443'],
    ],
    [1, 1],
  ],
  [
    'texts that are no addresses and differ only after what an address can be',
    [
      ['10.0.0.1', `${'x'.repeat(100)}1`],
      ['10.0.0.1', `${'x'.repeat(100)}2`],
    ],
    [1, 0],
  ],
  [
    'a text that is no address',
    [
      ['10.0.0.1', 'unknown'],
      ['10.0.0.1', 'unknown'],
    ],
    [1, 0],
  ],
])('counted together: %s', (_what, requests, standings) => {
  expect(standingsOf(...requests)).toEqual(standings);
});

test('in memory, a minute begins with its first request and ends for all of them', async () => {
  let now = 1_000;
  const counts = countsInMemory(() => now);
  expect(await add(counts, 'a')).toEqual([1, minuteMs]);
  now += 59_999;
  expect(await add(counts, 'a')).toEqual([2, 1]);
  expect(await add(counts, 'b')).toEqual([1, minuteMs]);
  now += 1;
  expect(await add(counts, 'a')).toEqual([1, minuteMs]);
  expect(await add(counts, 'b')).toEqual([2, minuteMs - 1]);
});

describe('in Redis', () => {
  let server: Process;
  let connections: Redis[];
  beforeAll(async () => {
    server = await startRedis();
    connections = [0, 1].map(
      () => new Redis(server.url, { enableOfflineQueue: false, lazyConnect: true }),
    );
    for (const each of connections) {
      each.on('error', () => undefined);
      await each.connect();
    }
  });
  afterAll(async () => {
    for (const each of connections ?? []) each.disconnect();
    await server?.stop('SIGKILL');
  });
  const gateways = (): RequestCounts[] => connections.map((each) => countsInRedis(each));
  const nameOf = (address: string): string => `strata:requests:${address}`;
  const inRedis = async (address: string): Promise<number> =>
    Number(await connections[0]!.get(nameOf(address)));
  /** Redis has been told of whatever was answered ahead, and its answers have been heard. */
  async function settled(address: string, count: number): Promise<void> {
    await eventually(async () => expect(await inRedis(address)).toBe(count));
    for (const each of connections) await each.ping();
    await new Promise(setImmediate);
  }
  const commandsSoFar = async (): Promise<number> => {
    const stats = await connections[1]!.info('commandstats');
    return Number(/cmdstat_eval:calls=(\d+)/.exec(stats)?.[1] ?? 0);
  };

  test('requests over two gateways have a number each, of their own address', async () => {
    const both = gateways();
    const ask = (length: number, address: string) =>
      Array.from({ length }, (_each, index) => add(both[index % 2]!, address));
    const [first, second] = await Promise.all([
      Promise.all(ask(300, 'a')),
      Promise.all(ask(7, 'b')),
    ]);
    expect([numbers(first), numbers(second)]).toEqual([upTo(300), upTo(7)]);
    for (const [, leftMs] of first) {
      expect(leftMs).toBeGreaterThan(0);
      expect(leftMs).toBeLessThanOrEqual(minuteMs);
    }
    expect(numbers(await Promise.all(ask(4, 'a')))).toEqual([301, 302, 303, 304]);
  });

  test('those of one turn of the event loop cost one command, in the order in which they came', async () => {
    const [counts] = gateways();
    const before = await commandsSoFar();
    const standings = await Promise.all(upTo(50).map(() => add(counts!, 'one turn')));
    expect(standings.map(([count]) => count)).toEqual(upTo(50));
    expect((await commandsSoFar()) - before).toBe(1);
  });

  test('the minute ends by itself, and one that has lost its end gets another', async () => {
    const [counts] = gateways();
    await add(counts!, 'ends');
    const [, leftMs] = await add(counts!, 'ends');
    expect(leftMs).toBeGreaterThan(minuteMs / 2);
    await connections[0]!.pexpire(nameOf('ends'), 0);
    expect((await add(counts!, 'ends'))[0]).toBe(1);
    await connections[0]!.persist(nameOf('ends'));
    const [count, left] = await add(counts!, 'ends');
    expect([count, left]).toEqual([2, minuteMs]);
    expect(await connections[0]!.pttl(nameOf('ends'))).toBeGreaterThan(0);
  });

  describe('far from a limit of 10,000', () => {
    const limit = 10_000;

    test('ten requests are answered ahead of Redis, which is told of them in one command', async () => {
      const [counts] = gateways();
      const addresses = ['ahead-1', 'ahead-2', 'ahead-3'];
      for (const address of addresses)
        expect(ahead(counts!, address, limit, 1)).toEqual([undefined]);
      for (const address of addresses) await settled(address, 1);
      const before = await commandsSoFar();
      for (const address of addresses)
        expect(ahead(counts!, address, limit, 10)).toEqual([2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
      for (const address of addresses) await settled(address, 11);
      expect((await commandsSoFar()) - before).toBe(1);
    });

    test('the eleventh waits until Redis has been told of them', async () => {
      const [counts] = gateways();
      await add(counts!, 'share', limit);
      expect(ahead(counts!, 'share', limit, 11)).toEqual([...upTo(11).slice(1), undefined]);
      expect((await add(counts!, 'share', limit))[0]).toBe(13);
      expect(ahead(counts!, 'share', limit, 1)).toEqual([14]);
    });

    test('a gateway hears what the others count with the answer to what it tells', async () => {
      const [one, other] = gateways();
      await add(one!, 'both', limit);
      expect((await add(other!, 'both', limit))[0]).toBe(2);
      expect(ahead(one!, 'both', limit, 5)).toEqual([2, 3, 4, 5, 6]);
      await settled('both', 7);
      expect(ahead(other!, 'both', limit, 1)).toEqual([3]);
      await settled('both', 8);
      expect(ahead(other!, 'both', limit, 1)).toEqual([9]);
    });

    test('from half of it on, each request is given its number by Redis', async () => {
      const [counts] = gateways();
      await add(counts!, 'half', limit);
      await connections[1]!.incrby(nameOf('half'), 4997);
      expect(ahead(counts!, 'half', limit, 1)).toEqual([2]);
      await settled('half', 4999);
      expect(ahead(counts!, 'half', limit, 1)).toEqual([5000]);
      await settled('half', 5000);
      expect(ahead(counts!, 'half', limit, 1)).toEqual([undefined]);
      await settled('half', 5001);
    });

    test('what is known of a minute that is over answers nothing ahead', async () => {
      let now = performance.now();
      const counts = countsInRedis(connections[0]!, () => now);
      await add(counts, 'over', limit);
      expect(ahead(counts, 'over', limit, 1)).toEqual([2]);
      await settled('over', 2);
      now += minuteMs;
      await connections[1]!.del(nameOf('over'));
      expect(ahead(counts, 'over', limit, 1)).toEqual([undefined]);
      await settled('over', 1);
    });
  });

  test.each([5, 400, 2000, 20_000])(
    'of a limit of %i, two gateways together answer no more than its share beyond it',
    async (limit) => {
      const both = gateways();
      const address = `flood-${limit}`;
      const left = [1.5 * limit, 1.5 * limit];
      let answered = 0;
      /** Asks whenever it has observed the last, a hundred at a time, as fast as it can. */
      const flood = async (counts: RequestCounts, gateway: number): Promise<void> => {
        while (left[gateway]! > 0) {
          const requests = Math.min(100, Math.ceil(left[gateway]!));
          left[gateway]! -= requests;
          const standings = await Promise.all(
            upTo(requests).map(() => add(counts, address, limit)),
          );
          answered += standings.filter(([count]) => count <= limit).length;
        }
      };
      await Promise.all(both.map(flood));
      expect(answered).toBeGreaterThanOrEqual(limit);
      expect(answered).toBeLessThanOrEqual(limit + 2 * Math.floor(limit / 1000));
    },
  );

  test('while Redis hangs, whoever is far from the limit does not wait for it', async () => {
    let now = performance.now();
    const counts = countsInRedis(connections[0]!, () => now);
    for (const address of ['hangs', 'near']) await add(counts, address, 1000);
    process.kill(server.pid, 'SIGSTOP');
    try {
      expect(ahead(counts, 'hangs', 1000, 2)).toEqual([2, undefined]);
      await new Promise(setImmediate);
      now += 101;
      expect(ahead(counts, 'hangs', 1000, 500)).toEqual([
        ...upTo(500).slice(3),
        ...Array<undefined>(3),
      ]);
      expect(ahead(counts, 'near', 5, 1)).toEqual([undefined]);
    } finally {
      process.kill(server.pid, 'SIGCONT');
    }
    await settled('hangs', 503);
    expect(ahead(counts, 'hangs', 10_000, 1)).toEqual([504]);
  });

  test('while Redis is away each continues alone from what it knows', async () => {
    const both = gateways();
    await add(both[0]!, 'away');
    await server.stop('SIGKILL');
    const standings = await Promise.all(upTo(6).map((each) => add(both[each % 2]!, 'away')));
    expect(numbers(standings)).toEqual([1, 2, 2, 3, 3, 4]);
    for (const [, leftMs] of standings) expect(leftMs).toBeGreaterThan(minuteMs / 2);
    // One that is far from the limit is answered at once.
    await add(both[0]!, 'far', 10_000);
    expect(ahead(both[0]!, 'far', 10_000, 3)).toEqual([2, 3, 4]);
  });
});
