/** What stands in front of every route: rate limit, CORS, security headers; and a database that goes away. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { setTimeout as delay } from 'node:timers/promises';
import { createDatabase, startPostgres, type Database, type Server } from '../support/postgres.ts';
import {
  adminPassword,
  Client,
  createTenant,
  signIn,
  startStrata,
  type Running,
  type TenantFixture,
} from '../support/strata.ts';

describe('in front of every route', () => {
  let database: Database;
  let strata: Running;
  beforeAll(async () => {
    database = await createDatabase();
    strata = await startStrata({
      DATABASE_URL: database.url,
      RATE_LIMIT_PER_MINUTE: '10',
      CORS_ORIGINS: 'https://app.example',
    });
  });
  afterAll(async () => {
    await strata?.stop();
    await database?.drop();
  });

  test('pages of the listed origins may call, others may not', async () => {
    const anyone = new Client(strata.url);
    const preflight = await anyone.send('OPTIONS', '/config/global/x', {
      headers: { origin: 'https://app.example', 'access-control-request-method': 'PUT' },
    });
    expect(preflight.headers.get('access-control-allow-origin')).toBe('https://app.example');
    expect(preflight.headers.get('access-control-allow-methods')).toContain('PUT');
    expect(
      (await anyone.get('/healthz', { origin: 'https://evil.example' })).headers.get(
        'access-control-allow-origin',
      ),
    ).toBeNull();
  });

  test('answers carry the headers that browsers heed', async () => {
    const { headers } = await new Client(strata.url).get('/healthz');
    expect(headers.get('x-content-type-options')).toBe('nosniff');
    expect(headers.get('content-security-policy')).toContain("default-src 'none'");
    expect(headers.get('strict-transport-security')).toMatch(/max-age=\d+/);
  });

  test('a client that asks too often is told when to come back', async () => {
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => new Client(strata.url).get('/auth/me')),
    );
    const refused = answers.filter(({ status }) => status === 429);
    expect(refused.length).toBeGreaterThan(5);
    expect(refused[0]!.body.detail.code).toBe('rate_limited');
    expect(Number(refused[0]!.headers.get('retry-after'))).toBeGreaterThan(0);
  });
});

describe('a database that goes away', () => {
  let server: Server;
  let strata: Running;
  let tenant: TenantFixture;
  beforeAll(async () => {
    server = await startPostgres();
    const database = await createDatabase(server.url);
    strata = await startStrata({
      DATABASE_URL: database.url,
      REQUEST_TIMEOUT_MS: '2000',
      LOG_LEVEL: 'error',
    });
    tenant = await createTenant(
      strata.url,
      await signIn(strata.url, 'admin@example.com', adminPassword),
      'Outage',
    );
  });
  afterAll(async () => {
    await strata?.stop('SIGKILL');
    await server?.stop();
  });

  test('what is known is answered, marked; what is not is 503; a write fails with its code; sign-in has its own', async () => {
    const risk = `/tenants/${tenant.id}/config/risk`;
    const known = await tenant.admin.get(risk);
    expect(known.headers.has('x-config-stale')).toBe(false);
    // A stalled server, whose connections stay open, and then one that is gone.
    process.kill(server.pid!, 'SIGSTOP');
    await delay(100);
    process.kill(server.pid!, 'SIGCONT');
    await server.stop();
    const until = Date.now() + 10_000;
    let read = await tenant.admin.get(risk);
    while (!read.headers.has('x-config-stale') && Date.now() < until) {
      await delay(100);
      read = await tenant.admin.get(risk);
    }
    expect([read.status, read.headers.get('x-config-stale'), read.body]).toEqual([
      200,
      'true',
      known.body,
    ]);
    const unknown = await tenant.admin.get(`/tenants/${tenant.id}/config/agents/never_read`);
    expect([unknown.status, unknown.body.detail.code]).toEqual([503, 'service_unavailable']);
    expect(unknown.headers.get('retry-after')).not.toBeNull();
    const write = await tenant.admin.put(risk, {});
    expect([write.status, write.body.detail.code]).toEqual([503, 'service_unavailable']);
    const login = await new Client(strata.url).post('/auth/login', {
      email: 'admin@example.com',
      password: adminPassword,
    });
    expect([login.status, login.body.detail.code]).toEqual([503, 'auth_login_db_error']);
    expect(login.text).not.toMatch(/ECONN|terminat|postgres/i);
    const refresh = await new Client(strata.url).post('/auth/refresh', { refresh_token: 'x' });
    expect([refresh.status, refresh.body.detail.code]).toEqual([503, 'auth_refresh_db_error']);
    const ready = await tenant.admin.get('/readyz');
    expect([ready.status, ready.body.checks.database]).toEqual([503, false]);
  });
});
