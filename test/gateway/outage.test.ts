/**
 * What clients see while the database is away: known values marked as stale, everything else
 * refused with its own code.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { setTimeout as delay } from 'node:timers/promises';
import { createDatabase, startPostgres, type Server } from '../support/postgres.ts';
import {
  adminPassword,
  Client,
  createTenant,
  signIn,
  startStrata,
  type Answer,
  type Running,
  type TenantFixture,
} from '../support/strata.ts';

let server: Server;
let strata: Running;
let tenant: TenantFixture;
let risk: string;
/** The risk limits as they were read before the outage, and as they are read during it. */
let before: Answer;
let during: Answer;
let effectiveBefore: Answer;

beforeAll(async () => {
  server = await startPostgres();
  const database = await createDatabase(server.url);
  strata = await startStrata({
    DATABASE_URL: database.url,
    REQUEST_TIMEOUT_MS: '5000',
    LOG_LEVEL: 'error',
  });
  const platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, 'Outage');
  risk = `/tenants/${tenant.id}/config/risk`;
  before = await tenant.admin.get(risk);
  expect((await decide({})).headers.has('x-config-stale')).toBe(false);
  effectiveBefore = await tenant.admin.get(`/tenants/${tenant.id}/config/effective`);
  await takeAway(server);
  during = await readUntilStale();
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await server?.stop();
});

const decide = (body: object): Promise<Answer> =>
  tenant.admin.post(`/tenants/${tenant.id}/decide`, {
    action: 'scale',
    risk_level: 'low',
    ...body,
  });

/** First a stalled server, whose connections stay open, then one that is gone. */
async function takeAway(running: Server): Promise<void> {
  process.kill(running.pid!, 'SIGSTOP');
  await delay(100);
  process.kill(running.pid!, 'SIGCONT');
  await running.stop();
}

/** Until the lease has run out, memory answers as ever. */
async function readUntilStale(): Promise<Answer> {
  const deadline = Date.now() + 60_000;
  let answer = await tenant.admin.get(risk);
  while (!answer.headers.has('x-config-stale') && Date.now() < deadline) {
    await delay(100);
    answer = await tenant.admin.get(risk);
  }
  return answer;
}

const refusalOf = ({ status, body }: Answer): unknown => [status, body.detail.code];

test('what is known is answered, marked as stale', () => {
  expect(before.headers.has('x-config-stale')).toBe(false);
  expect([during.status, during.headers.get('x-config-stale'), during.body]).toEqual([
    200,
    'true',
    before.body,
  ]);
});

test('a decision by known limits is marked as stale, one by limits that were never read is 503', async () => {
  const { status, headers, body } = await decide({ cost_impact: 51 });
  expect([status, headers.get('x-config-stale'), body.decision]).toEqual([200, 'true', 'deny']);
  expect(refusalOf(await decide({ service_id: 'web' }))).toEqual([503, 'service_unavailable']);
});

test('effective values are sent whole and marked: a 304 would say that they still hold', async () => {
  const path = `/tenants/${tenant.id}/config/effective`;
  const etag = effectiveBefore.headers.get('etag')!;
  const answer = await tenant.admin.get(path, { 'if-none-match': etag });
  expect([answer.status, answer.headers.get('x-config-stale'), answer.body]).toEqual([
    200,
    'true',
    effectiveBefore.body,
  ]);
});

test('what was never read is 503, and says when to come back', async () => {
  const unknown = await tenant.admin.get(`/tenants/${tenant.id}/config/agents/never_read`);
  expect(refusalOf(unknown)).toEqual([503, 'service_unavailable']);
  expect(unknown.headers.get('retry-after')).not.toBeNull();
});

test('a write is 503', async () => {
  expect(refusalOf(await tenant.admin.put(risk, {}))).toEqual([503, 'service_unavailable']);
});

test('signing in has codes of its own, and tells nothing of the cause', async () => {
  const anyone = new Client(strata.url);
  const login = await anyone.post('/auth/login', {
    email: 'admin@example.com',
    password: adminPassword,
  });
  expect(refusalOf(login)).toEqual([503, 'auth_login_db_error']);
  expect(login.text).not.toMatch(/ECONN|terminat|postgres/i);
  const refresh = await anyone.post('/auth/refresh', { refresh_token: 'x' });
  expect(refusalOf(refresh)).toEqual([503, 'auth_refresh_db_error']);
});

test('a public route does not look at a credential, which could not be checked', async () => {
  const options = await tenant.admin.post('/auth/webauthn/login/options', {});
  expect(options.status).toBe(200);
  const refresh = await tenant.admin.post('/auth/refresh', { refresh_token: 'x' });
  expect(refusalOf(refresh)).toEqual([503, 'auth_refresh_db_error']);
});

test('a made-up link is known by its signature, without a query', async () => {
  const anyone = new Client(strata.url);
  for (const token of ['x', 'e30.AAAA', `${'a'.repeat(1000)}.${'b'.repeat(43)}`]) {
    const shown = await anyone.get(`/approvals/decision?token=${token}`);
    expect(refusalOf(shown)).toEqual([404, 'not_found']);
  }
});

test('the node is degraded, and names the database: taken away, it could not answer what it knows', async () => {
  const { status, body } = await tenant.admin.get('/readyz');
  expect([status, body.status, body.checks.database]).toEqual([200, 'degraded', false]);
});
