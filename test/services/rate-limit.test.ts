/** Whose requests count together, and how many there were: in memory, and in Redis by two gateways. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { createRateLimit, trustOf, type Standing } from '../../gateway/rate-limit.ts';
import {
  countsInMemory,
  countsInRedis,
  minuteMs,
  type RequestCounts,
} from '../../gateway/request-counts.ts';
import { liveSettings } from '../../shared/live-settings.ts';
import { loadSettings } from '../../shared/settings.ts';
import { startRedis, type Process } from '../support/servers.ts';

const add = (counts: RequestCounts, address: string): Promise<[count: number, leftMs: number]> =>
  new Promise((resolve) => {
    counts.add(address, (...standing) => resolve(standing));
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
    const commandsSoFar = async (): Promise<number> => {
      const stats = await connections[1]!.info('commandstats');
      return Number(/cmdstat_eval:calls=(\d+)/.exec(stats)?.[1] ?? 0);
    };
    const before = await commandsSoFar();
    const standings = await Promise.all(upTo(50).map(() => add(counts!, 'one turn')));
    expect(standings.map(([count]) => count)).toEqual(upTo(50));
    expect((await commandsSoFar()) - before).toBe(1);
  });

  test('the minute ends by itself, and one that has lost its end gets another', async () => {
    const [counts] = gateways();
    await add(counts!, 'ends');
    const [name] = await connections[0]!.keys('*:ends');
    const [, leftMs] = await add(counts!, 'ends');
    expect(leftMs).toBeGreaterThan(minuteMs / 2);
    await connections[0]!.pexpire(name!, 0);
    expect((await add(counts!, 'ends'))[0]).toBe(1);
    await connections[0]!.persist(name!);
    const [count, left] = await add(counts!, 'ends');
    expect([count, left]).toEqual([2, minuteMs]);
    expect(await connections[0]!.pttl(name!)).toBeGreaterThan(0);
  });

  test('while Redis is away each counts for itself', async () => {
    const both = gateways();
    await add(both[0]!, 'away');
    await server.stop('SIGKILL');
    const standings = await Promise.all(upTo(6).map((each) => add(both[each % 2]!, 'away')));
    expect(numbers(standings)).toEqual([1, 1, 2, 2, 3, 3]);
  });
});
