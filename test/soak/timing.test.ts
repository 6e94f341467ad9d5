/**
 * Answers tell nothing by their time: interleaved tries, of which a quarter is quicker than what is
 * compared, so that pauses of a busy machine count little. A round that noise spoilt is tried
 * again, and counts in all of them together; a real difference stays.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { performance } from 'node:perf_hooks';
import { strataDatabase, type Database } from '../support/postgres.ts';
import {
  adminPassword,
  Client,
  createTenant,
  memberPassword,
  signIn,
  startStrata,
  type Answer,
  type Running,
  type TenantFixture,
} from '../support/strata.ts';

let database: Database;
let strata: Running;
let tenant: TenantFixture;
let disabled: string;
beforeAll(async () => {
  database = await strataDatabase();
  strata = await startStrata({
    DATABASE_URL: database.url,
    TRUSTED_PROXIES: '127.0.0.1/32',
    LOG_LEVEL: 'error',
  });
  const platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, 'Timing');
  disabled = tenant.emails.viewer!;
  const { body } = await platform.get(`/auth/users?email=${disabled}`);
  await platform.patch(`/auth/users/${body.items[0].id}`, { status: 'disabled' });
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await database?.drop();
});

let networks = 0;
/** From a network of its own, so that no try is slowed. */
const post = (path: string, body: unknown): Promise<Answer> => {
  networks += 1;
  return new Client(strata.url).post(path, body, {
    'x-forwarded-for': `10.${(networks >> 8) & 255}.${networks & 255}.1`,
  });
};
const quartile = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[values.length >> 2]!;

/** Times in milliseconds, of kinds that take turns beginning. */
async function timesOf(
  tries: number,
  kinds: readonly (() => Promise<unknown>)[],
): Promise<number[][]> {
  const times = kinds.map((): number[] => []);
  for (let round = 0; round < tries; round += 1) {
    for (let turn = 0; turn < kinds.length; turn += 1) {
      const kind = (round + turn) % kinds.length;
      const began = performance.now();
      await kinds[kind]!();
      times[kind]!.push(performance.now() - began);
    }
  }
  return times;
}

async function expectAlike(
  tries: number,
  kinds: readonly (() => Promise<unknown>)[],
  allowedMs: (shortest: number) => number,
): Promise<void> {
  await timesOf(10, kinds);
  const areAlike = (found: readonly number[]): boolean =>
    Math.max(...found) - Math.min(...found) <= allowedMs(Math.min(...found));
  const all = kinds.map((): number[] => []);
  const seen: number[][] = [];
  for (let attempt = 0; attempt < 10; attempt += 1) {
    const times = await timesOf(tries, kinds);
    for (const [kind, ofKind] of all.entries()) ofKind.push(...times[kind]!);
    const found = [times.map(quartile), all.map(quartile)];
    if (found.some(areAlike)) return;
    seen.push(...found);
  }
  throw new Error(`times in ms differ in every round: ${JSON.stringify(seen)}`);
}

test('signing in: unknown, wrong password and disabled take the same time', async () => {
  const login = (email: string, password: string) => async (): Promise<void> => {
    expect((await post('/auth/login', { email, password })).body.detail.code).toBe(
      'auth_invalid_credentials',
    );
  };
  await expectAlike(
    80,
    [
      login('nobody@example.com', memberPassword),
      login(tenant.emails.operator!, 'wrong-password-123'),
      login(disabled, memberPassword),
    ],
    (shortest) => shortest * 0.1,
  );
});

test('asking for a reset link takes the same time with and without an account', async () => {
  const forgot = (email: string) => async (): Promise<void> => {
    expect((await post('/auth/password/forgot', { email })).status).toBe(202);
  };
  await expectAlike(
    80,
    [forgot('nobody@example.com'), forgot(tenant.emails.operator!), forgot(disabled)],
    (shortest) => Math.max(1, shortest * 0.1),
  );
});
