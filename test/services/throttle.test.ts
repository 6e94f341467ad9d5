/** Guessing is slowed across nodes: two processes with one Redis, and what holds while Redis is away. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { waitAfter } from '../../services/auth/rules/throttle.ts';
import { failedAttemptsInRedis } from '../../services/auth/stores/failed-attempts.ts';
import { createDatabase, type Database } from '../support/postgres.ts';
import { startRedis, type Process } from '../support/servers.ts';
import {
  adminPassword,
  Client,
  startStrata,
  type Answer,
  type Running,
} from '../support/strata.ts';

let database: Database;
let redis: Process;
let nodes: Running[];
let state: Redis;
beforeAll(async () => {
  [database, redis] = await Promise.all([createDatabase(), startRedis()]);
  const environment = {
    DATABASE_URL: database.url,
    REDIS_URL: redis.url,
    TRUSTED_PROXIES: '127.0.0.0/8',
    LOG_LEVEL: 'warn',
  };
  nodes = [await startStrata(environment), await startStrata(environment)];
  state = new Redis(redis.url);
});
afterAll(async () => {
  state?.disconnect();
  await Promise.all(nodes?.map((node) => node.stop()) ?? []);
  await redis?.stop('SIGKILL');
  await database?.drop();
});

const login = (
  node: number,
  email: string,
  ip: string,
  password = 'wrong-password-123',
): Promise<Answer> =>
  new Client(nodes[node]!.url).post('/auth/login', { email, password }, { 'x-forwarded-for': ip });
const codes = (answers: readonly Answer[]): string[] =>
  answers.map(({ status, body }) => (status === 200 ? 'ok' : (body.detail.code as string)));
const count = (answers: readonly Answer[], code: string): number =>
  codes(answers).filter((each) => each === code).length;

test.each([
  ['of an account', 'admin@example.com', '192.0.2.1', '192.0.2.200'],
  ['of nobody', 'nobody@example.com', '2001:db8::1', '2001:db8:0:7::1'],
])(
  'ten failures %s over two nodes and one network, then 429 on both; other networks go on',
  async (...[, email, ip, neighbour]) => {
    const answers = await Promise.all(
      Array.from({ length: 24 }, (_each, index) =>
        login(index % 2, email, index % 3 ? ip : neighbour),
      ),
    );
    expect([count(answers, 'auth_invalid_credentials'), count(answers, 'rate_limited')]).toEqual([
      10, 14,
    ]);
    for (const node of [0, 1]) {
      const refused = await login(node, email, neighbour, adminPassword);
      expect([refused.status, refused.body.detail.code]).toEqual([429, 'rate_limited']);
      const wait = Number(refused.headers.get('retry-after'));
      expect(wait).toBeGreaterThan(20);
      expect(wait).toBeLessThanOrEqual(30);
    }
    expect((await login(0, email, '198.51.100.1', adminPassword)).status).toBe(
      email.startsWith('admin') ? 200 : 401,
    );
  },
);

test('Redis counts by the same table of waits as this process, also past its end', async () => {
  const attempts = failedAttemptsInRedis(state);
  for (let failures = 1; failures <= 20; failures += 1) {
    expect(await attempts.begin('a key')).toBe(0);
    const expected = waitAfter(failures);
    if (expected === 0) continue;
    const waitMs = await attempts.begin('a key');
    expect(waitMs).toBeLessThanOrEqual(expected);
    expect(waitMs).toBeGreaterThan(expected - 5000);
    await state.hset('strata:throttle:a key', 'until', '0');
  }
});

test('an attempt that takes itself back after all were forgotten leaves nobody waiting', async () => {
  const attempts = failedAttemptsInRedis(state);
  await attempts.begin('forgotten');
  await attempts.forgetOne('forgotten');
  await attempts.forgetOne('forgotten');
  expect([await attempts.begin('forgotten'), await attempts.begin('forgotten')]).toEqual([0, 0]);
});

test('the wait doubles in Redis as it does in memory, and a right password ends it', async () => {
  const [email, ip] = ['admin@example.com', '203.0.113.1'];
  for (let failure = 0; failure < 10; failure += 1) await login(failure % 2, email, ip);
  const keys = await state.keys('strata:throttle:password:*');
  expect(keys.join()).not.toContain('example');
  const endWaits = async (): Promise<void> => {
    for (const key of keys) await state.hset(key, 'until', '0');
  };
  for (const seconds of [60, 120, 240, 480, 900, 900]) {
    await endWaits();
    expect(codes([await login(1, email, ip)])).toEqual(['auth_invalid_credentials']);
    const wait = Number((await login(0, email, ip)).headers.get('retry-after'));
    expect(wait).toBeGreaterThan(seconds - 10);
    expect(wait).toBeLessThanOrEqual(seconds);
  }
  await endWaits();
  expect(codes([await login(0, email, ip, adminPassword)])).toEqual(['ok']);
  expect(codes([await login(1, email, ip), await login(1, email, ip, adminPassword)])).toEqual([
    'auth_invalid_credentials',
    'ok',
  ]);
});

test('a claim of where one comes from counts only from a trusted proxy', async () => {
  const alone = await createDatabase();
  const node = await startStrata({ DATABASE_URL: alone.url, LOG_LEVEL: 'warn' });
  try {
    const answers: Answer[] = [];
    for (let failure = 0; failure < 12; failure += 1) {
      answers.push(
        await new Client(node.url).post(
          '/auth/login',
          { email: 'x@example.com', password: 'wrong' },
          { 'x-forwarded-for': `192.0.${failure}.1` },
        ),
      );
    }
    expect(count(answers, 'rate_limited')).toBe(2);
  } finally {
    await node.stop();
    await alone.drop();
  }
});

test('while Redis is away each node counts on its own, and signing in goes on', async () => {
  await state.quit();
  await redis.stop('SIGKILL');
  expect(codes([await login(0, 'admin@example.com', '198.51.100.77', adminPassword)])).toEqual([
    'ok',
  ]);
  for (const node of [0, 1]) {
    const answers = await Promise.all(
      Array.from({ length: 14 }, () => login(node, 'admin@example.com', '198.51.100.77')),
    );
    expect([count(answers, 'auth_invalid_credentials'), count(answers, 'rate_limited')]).toEqual([
      10, 4,
    ]);
  }
});
