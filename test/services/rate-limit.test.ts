/**
 * Whose requests count together, and how many there were: in memory, and in Redis by two gateways.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { once } from 'node:events';
import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { trustOf } from '../../gateway/http/client-address.ts';
import { createRateLimit, type RateLimit } from '../../gateway/http/rate-limit.ts';
import { openRedis } from '../../shared/concurrency/redis.ts';
import { liveSettings } from '../../shared/settings/live-settings.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import { eventually } from '../support/cluster.ts';
import { startProxy } from '../support/proxy.ts';
import { startRedis, type Process } from '../support/servers.ts';
import { inSoak } from '../support/soak.ts';

const trusted = trustOf(['10.0.0.0/8']);
const liveWith = (limit: number) =>
  liveSettings(loadSettings({ RATE_LIMIT_PER_MINUTE: String(limit) }, { roles: [] }), {}, []);

function requestFrom(peer: string, forwarded?: string): IncomingMessage {
  const socket = new Socket();
  Object.defineProperty(socket, 'remoteAddress', { value: peer });
  const request = new IncomingMessage(socket);
  if (forwarded !== undefined) request.headers['x-forwarded-for'] = forwarded;
  return request;
}

/** A limit of two, behind proxies in 10.0.0.0/8. */
async function standingsOf(...requests: readonly (readonly [peer: string, forwarded?: string])[]) {
  const limit = createRateLimit(liveWith(2), trusted);
  const standings = await Promise.all(requests.map((each) => limit.count(requestFrom(...each))));
  return standings.map(({ isOver, remaining }) => (isOver ? 'over' : remaining));
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
  ['a proxy that names no one', [['10.0.0.1'], ['10.0.0.1', '']], [1, 0]],
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
])('counted together: %s', async (_what, requests, standings) => {
  expect(await standingsOf(...requests)).toEqual(standings);
});

test('of very many addresses, the least recently seen are counted from one again', async () => {
  const limit = createRateLimit(liveWith(2), trusted);
  const remainingOf = async (peer: string) => (await limit.count(requestFrom(peer))).remaining;
  expect([await remainingOf('192.0.2.1'), await remainingOf('192.0.2.1')]).toEqual([1, 0]);
  let each = 0;
  const socket = new Socket();
  Object.defineProperty(socket, 'remoteAddress', {
    get: () => `10.${each >> 16}.${(each >> 8) & 255}.${each & 255}`,
  });
  const request = new IncomingMessage(socket);
  for (; each < 100_000; each += 1) await limit.count(request);
  expect(await remainingOf('192.0.2.1')).toBe(1);
});

describe('in Redis', () => {
  let server: Process;
  let connections: Redis[];
  const commandTimeout = 1000;
  beforeAll(async () => {
    server = await startRedis();
    connections = [0, 1].map(
      () =>
        new Redis(server.url, {
          enableOfflineQueue: false,
          lazyConnect: true,
          commandTimeout,
        }),
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
  const gateways = (limit: number): RateLimit[] =>
    connections.map((each) => createRateLimit(liveWith(limit), trusted, each));
  /** So many requests of an address at once, by turns over the gateways. */
  const standings = (limits: readonly RateLimit[], address: string, count: number) =>
    Promise.all(
      Array.from({ length: count }, (_each, index) =>
        limits[index % limits.length]!.count(requestFrom(address)),
      ),
    );

  test.each([5, 400, ...(inSoak ? [2000] : [])])(
    'of a limit of %i, two gateways together answer the limit and no more',
    async (limit) => {
      const all = await standings(gateways(limit), `192.0.2.${limit % 251}`, 3 * limit);
      expect(all.filter(({ isOver }) => !isOver)).toHaveLength(limit);
      for (const { resetSeconds } of all) {
        expect(resetSeconds).toBeGreaterThan(0);
        expect(resetSeconds).toBeLessThanOrEqual(60);
      }
    },
  );

  test('what is over the limit asks Redis no more', async () => {
    const [limit] = gateways(2);
    const asked = async (): Promise<number> => {
      const stats = await connections[0]!.info('commandstats');
      return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0);
    };
    await standings([limit!], '198.51.100.1', 3);
    const before = await asked();
    const all = await standings([limit!], '198.51.100.1', 50);
    expect(all.every(({ isOver, resetSeconds }) => isOver && resetSeconds > 0)).toBe(true);
    expect(await asked()).toBe(before);
    await standings([limit!], '198.51.100.2', 1);
    expect(await asked()).toBe(before + 1);
  });

  test('a connection that says nothing any more makes room for another', async () => {
    const proxy = await startProxy(server.port);
    const url = `redis://127.0.0.1:${proxy.port}`;
    const redis = await openRedis(url, loadSettings({}, { roles: [] }));
    redis.on('error', () => undefined);
    try {
      await once(redis, 'ready');
      proxy.hold('back');
      const closed = new Promise((resolve) => redis.once('close', resolve));
      await expect(redis.ping()).rejects.toThrow('Command timed out');
      await closed;
      proxy.mend();
      await once(redis, 'ready');
      expect(await redis.ping()).toBe('PONG');

      // One that is lost while it is asked leaves the next one no timer.
      proxy.hold('back');
      const lost = redis.ping();
      const timer: unknown = Reflect.get(redis, 'socketTimeoutTimer');
      expect(timer).toBeDefined();
      proxy.reset();
      proxy.mend();
      await new Promise((resolve) => redis.once('ready', resolve));
      expect(Reflect.get(redis, 'socketTimeoutTimer')).not.toBe(timer);
      await lost;
    } finally {
      redis.disconnect();
      await proxy.stop();
    }
  });

  test('where it has no such database, nothing is asked of another one', async () => {
    const url = `redis://127.0.0.1:${server.port}/99`;
    const redis = await openRedis(url, loadSettings({}, { roles: [] }));
    const refused: string[] = [];
    redis.on('error', ({ message }: Error) => refused.push(message));
    try {
      // By the second connection the first one was given up.
      await eventually(async () => expect(refused.length).toBeGreaterThan(1));
      expect(refused[0]).toContain('DB index is out of range');
      await expect(redis.ping()).rejects.toThrow();
    } finally {
      redis.disconnect();
    }
  });

  test('while Redis hangs and while it is away, each gateway counts alone', async () => {
    const [one, other] = gateways(2);
    const timed = async (address: string): Promise<number> => {
      const began = performance.now();
      for (let each = 0; each < 20; each += 1) await answered(address);
      return performance.now() - began;
    };
    const answered = async (address: string): Promise<number> => {
      const all = await standings([one!, other!], address, 6);
      return all.filter(({ isOver }) => !isOver).length;
    };
    expect(await answered('192.0.2.1')).toBe(2);
    process.kill(server.pid, 'SIGSTOP');
    try {
      expect(await answered('192.0.2.2')).toBe(4);
      // Only the first have waited for it.
      expect(await timed('192.0.2.5')).toBeLessThan(commandTimeout);
    } finally {
      process.kill(server.pid, 'SIGCONT');
    }
    let attempt = 0;
    await eventually(async () => expect(await answered(`203.0.113.${(attempt += 1)}`)).toBe(2));
    await server.stop('SIGKILL');
    expect(await answered('192.0.2.4')).toBe(4);
  });
});
