/**
 * Guessing is slowed across nodes: two processes with one Redis, and what holds while Redis is
 * away.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { randomUUID } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { restRoutes } from '../../gateway/http/rest.ts';
import { networkKey, networkOf, waitAfter } from '../../services/auth/throttling/rules/throttle.ts';
import { failedAttemptsInRedis } from '../../services/auth/throttling/stores/failed-attempts.ts';
import { auditEvents, audited } from '../support/audit.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import { startRedis, type Process } from '../support/servers.ts';
import { inSoak } from '../support/soak.ts';
import {
  adminPassword,
  Client,
  signIn,
  startStrata,
  type Answer,
  type Running,
} from '../support/strata.ts';

let database: Database;
let redis: Process;
let nodes: Running[];
let state: Redis;
beforeAll(async () => {
  [database, redis] = await Promise.all([strataDatabase(), startRedis()]);
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
  ['of no one', 'nobody@example.com', '2001:db8::1', '2001:db8:0:7::1'],
])(
  'ten failures %s over two nodes and one network, then 429 on both; other networks continue',
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
      // The tries of a busy machine take some of it.
      expect(wait).toBeGreaterThan(0);
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
    expect(waitMs).toBeGreaterThan(expected / 2);
    await state.hset('strata:throttle:a key', 'until', '0');
  }
});

test('an attempt that takes itself back after all were forgotten leaves no one waiting', async () => {
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
    expect(wait).toBeGreaterThan(seconds / 2);
    expect(wait).toBeLessThanOrEqual(seconds);
  }
  await endWaits();
  expect(codes([await login(0, email, ip, adminPassword)])).toEqual(['ok']);
  expect(codes([await login(1, email, ip), await login(1, email, ip, adminPassword)])).toEqual([
    'auth_invalid_credentials',
    'ok',
  ]);
});

describe('of a network over all accounts', () => {
  let networks = 0;
  /** An address in a network that nobody has used yet. */
  const elsewhere = (): string => {
    networks += 1;
    return `172.16.${networks}.9`;
  };
  let addresses = 0;
  const unknown = (): string => {
    addresses += 1;
    return `no one-${addresses}@example.com`;
  };
  async function fail(times: number, ip: string): Promise<Answer[]> {
    const answers: Answer[] = [];
    for (let time = 0; time < times; time += 1) answers.push(await login(time % 2, unknown(), ip));
    return answers;
  }
  /** As if a network had failed so often just now: each real failure costs a hash. */
  async function failedBefore(times: number, ip: string): Promise<void> {
    const key = `strata:throttle:${networkKey('network', networkOf(ip))}`;
    await state.rpush(key, ...Array<number>(times).fill(Date.now()));
  }
  const retryAfter = ({ headers }: Answer): number => Number(headers.get('retry-after'));
  /** As if the failures of every network had been so much earlier. */
  async function timePasses(seconds: number): Promise<void> {
    for (const key of await state.keys('strata:throttle:network:*')) {
      const moments = await state.lrange(key, 0, -1);
      for (const [index, moment] of moments.entries())
        await state.lset(key, index, Number(moment) - seconds * 1000);
    }
  }

  test('sixty accounts sprayed at once over two nodes: thirty and those under way, then 429', async () => {
    const ip = elsewhere();
    const answers = await Promise.all(
      Array.from({ length: 60 }, (_each, index) => login(index % 2, unknown(), ip)),
    );
    const guesses = count(answers, 'auth_invalid_credentials');
    expect(guesses).toBeGreaterThanOrEqual(30);
    // On each node those being hashed, and as many whose count is on its way to the other; on a
    // busy machine some more are.
    expect(guesses).toBeLessThanOrEqual(Math.min(55, 30 + 8 * availableParallelism()));
    expect(guesses + count(answers, 'rate_limited')).toBe(60);
    expect(codes([await login(0, 'admin@example.com', ip, adminPassword)])).toEqual([
      'rate_limited',
    ]);
    expect(codes([await login(0, 'admin@example.com', elsewhere(), adminPassword)])).toEqual([
      'ok',
    ]);
  });

  test('a right password of one account in between takes nothing off', async () => {
    const ip = elsewhere();
    await failedBefore(29, ip);
    const own = await login(0, 'admin@example.com', ip, adminPassword);
    const answers = [own, ...(await fail(2, ip))];
    expect(codes(answers)).toEqual(['ok', 'auth_invalid_credentials', 'rate_limited']);
    expect(retryAfter(answers[2]!)).toBeGreaterThan(0);
    expect(retryAfter(answers[2]!)).toBeLessThanOrEqual(30);
  });

  test('the wait doubles, and ten minutes later all is forgotten', async () => {
    const ip = elsewhere();
    await failedBefore(29, ip);
    await fail(1, ip);
    await timePasses(31);
    const [tried, refused] = await fail(2, ip);
    expect(codes([tried!, refused!])).toEqual(['auth_invalid_credentials', 'rate_limited']);
    expect(retryAfter(refused!)).toBeGreaterThan(30);
    expect(retryAfter(refused!)).toBeLessThanOrEqual(60);
    await timePasses(600);
    expect(count(await fail(3, ip), 'auth_invalid_credentials')).toBe(3);
  });

  test('addresses without an account cost no audit row, and each wait of a network one', async () => {
    const ip = elsewhere();
    await failedBefore(29, ip);
    await fail(3, ip);
    await new Client(nodes[0]!.url).post(
      '/auth/password/forgot',
      { email: 'no one-at-all@example.com' },
      { 'x-forwarded-for': ip },
    );
    const known = await login(0, 'admin@example.com', elsewhere());
    const platform = await signIn(nodes[0]!.url, 'admin@example.com', adminPassword);
    const throttled = await audited(platform, 'auth.network_throttled', ({ payload }) =>
      ip.startsWith(String(payload.network).split('.0/')[0]!),
    );
    expect(throttled).toMatchObject({ target: null, payload: { wait_seconds: 30 } });
    const failed = await audited(
      platform,
      'auth.login_failed',
      (event) => event.request_id === known.headers.get('x-request-id'),
    );
    expect(failed).toMatchObject({ payload: { email: 'admin@example.com' } });
    const events = (await platform.get('/audit/events?limit=200')).text;
    expect(events).not.toContain('nobody');
    const ofWaits = await auditEvents(platform, 'auth.network_throttled');
    expect(
      ofWaits.filter(({ payload }) => payload.network === throttled.payload.network),
    ).toHaveLength(1);
  });

  /** Routes that send, keep or try something, with a body for each request. */
  const limited: Readonly<Record<string, () => unknown>> = {
    '/auth/invitations/accept': () => ({ token: randomUUID() }),
    '/auth/login/sso/start': () => ({
      provider_id: randomUUID(),
      redirect_uri: 'https://app.example.com/back',
      client_challenge: 'c'.repeat(43),
    }),
    '/auth/password/forgot': () => ({ email: unknown() }),
    '/auth/password/reset': () => ({
      token: randomUUID(),
      new_password: 'grapefruit lamp seventy',
    }),
    '/auth/webauthn/login/options': () => ({}),
    '/auth/webauthn/register/options': () => ({}),
  };

  test('the routes that send, keep or try something are the ones that are limited', () => {
    // The one that takes a form has a test of its own below.
    const marked = restRoutes.filter(
      ({ contract }) => contract.networkLimited && contract.response !== 'oauth_token',
    );
    expect(marked.map(({ rest }) => rest.path).sort()).toEqual(Object.keys(limited).sort());
  });

  // They share what counts them.
  const tried = inSoak
    ? Object.keys(limited)
    : ['/auth/invitations/accept', '/auth/password/forgot'];
  test.each(tried)('%s: twenty a minute over two nodes, then 429', async (path) => {
    const makeBody = limited[path]!;
    const [ip, other] = [elsewhere(), elsewhere()];
    const { token } = await signIn(nodes[0]!.url, 'admin@example.com', adminPassword);
    const post = (node: number, from: string): Promise<Answer> =>
      new Client(nodes[node]!.url, token).post(path, makeBody(), { 'x-forwarded-for': from });
    const answers: Answer[] = [];
    for (let time = 0; time < 23; time += 1) answers.push(await post(time % 2, ip));
    const refused = answers.filter(({ status }) => status === 429);
    expect(answers.indexOf(refused[0]!)).toBe(20);
    for (const answer of refused) {
      expect(answer.body.detail.code).toBe('rate_limited');
      expect(retryAfter(answer)).toBeGreaterThan(0);
      expect(retryAfter(answer)).toBeLessThanOrEqual(60);
    }
    expect((await post(0, other)).status).not.toBe(429);
  });
});

test('exchanges of tokens of a network are counted, also those that are refused', async () => {
  const exchange = (node: number): Promise<Answer> =>
    new Client(nodes[node]!.url).send('POST', '/auth/token', {
      raw: new URLSearchParams({
        grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
        subject_token: 'x.y.z',
        subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
      }).toString(),
      headers: {
        'content-type': 'application/x-www-form-urlencoded',
        'x-forwarded-for': '198.51.102.1',
      },
    });
  for (let time = 0; time < 20; time += 1) expect((await exchange(time % 2)).status).toBe(400);
  const over = await exchange(0);
  expect([over.status, over.body.error]).toEqual([429, 'temporarily_unavailable']);
  expect(Number(over.headers.get('retry-after'))).toBeGreaterThan(0);
});

test('while Redis is away each node counts on its own, and signing in continues', async () => {
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
    const sprayed = await Promise.all(
      Array.from({ length: 60 }, (_each, index) =>
        login(node, `sprayed-${index}@example.com`, '198.51.101.1'),
      ),
    );
    expect(count(sprayed, 'rate_limited')).toBeGreaterThan(20);
  }
});
