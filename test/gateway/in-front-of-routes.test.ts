/** What every request passes before its route: CORS, security headers and the rate limit. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { headers as documented } from '../../gateway/http/response-headers.ts';
import { eventually } from '../support/cluster.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import {
  adminPassword,
  Client,
  signIn,
  startStrata,
  type Answer,
  type Running,
} from '../support/strata.ts';

let database: Database;
let strata: Running;
const folder = mkdtempSync(join(tmpdir(), 'strata-reload-'));
const file = join(folder, 'env');
beforeAll(async () => {
  database = await strataDatabase();
  writeFileSync(
    file,
    'LOG_LEVEL=warn\nRATE_LIMIT_PER_MINUTE=10\nCORS_ORIGINS=https://app.example\n',
  );
  strata = await startStrata({
    DATABASE_URL: database.url,
    ENV_FILE: file,
    BASE_URL: 'https://strata.example',
    TRUSTED_PROXIES: '127.0.0.0/8',
  });
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await database?.drop();
  rmSync(folder, { recursive: true });
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
  const answer = await anyone.get('/healthz', { origin: 'https://app.example' });
  expect(answer.headers.get('access-control-expose-headers')?.split(', ')).toEqual(
    Object.keys(documented),
  );
});

test('answers carry the headers that browsers heed', async () => {
  const { headers } = await new Client(strata.url).get('/healthz');
  expect(headers.get('x-content-type-options')).toBe('nosniff');
  expect(headers.get('content-security-policy')?.split(';')).toEqual([
    "default-src 'none'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ]);
  expect(headers.get('strict-transport-security')).toBe('max-age=31536000; includeSubDomains');
  expect(headers.get('referrer-policy')).toBe('no-referrer');
});

test('a client that asks too often is told when to come back', async () => {
  const answers = await Promise.all(
    Array.from({ length: 20 }, () =>
      new Client(strata.url).get('/auth/me', { 'x-forwarded-for': '192.0.2.1' }),
    ),
  );
  const refused = answers.filter(({ status }) => status === 429);
  expect(refused.length).toBeGreaterThan(5);
  expect(refused[0]!.body.detail.code).toBe('rate_limited');
  expect(Number(refused[0]!.headers.get('retry-after'))).toBeGreaterThan(0);
});

let clients = 0;
test.each([
  ['get', '/tenants/{tenant_id}/scim/v2/Users', 'application/scim+json'],
  ['post', '/tenants/{tenant_id}/ofrep/v1/evaluate/flags', 'application/json'],
  ['post', '/tenants/{tenant_id}/access/v1/evaluation', 'application/problem+json'],
  ['post', '/auth/token', 'application/json'],
  ['post', '/mcp', 'application/json'],
  ['get', '/auth/me', 'application/json'],
])('%s %s says that as the description has it: as %s', async (method, path, mediaType) => {
  const client = new Client(strata.url);
  const headers = { 'x-forwarded-for': `198.51.100.${(clients += 1)}` };
  const { body: described } = await client.get('/openapi.json', headers);
  const [, name] = /(\w+)$/.exec(described.paths[path][method].responses[429].$ref)!;
  const { content } = described.components.responses[name!];
  expect(Object.keys(content)).toEqual([mediaType]);
  const [, schema] = /(\w+)$/.exec(content[mediaType].schema.$ref)!;
  const { required } = described.components.schemas[schema!];

  const address = path.replace('{tenant_id}', randomUUID());
  const ask = (): Promise<Answer> => client.send(method.toUpperCase(), address, { headers });
  const answers = await Promise.all(Array.from({ length: 20 }, ask));
  const refused = answers.find(({ status }) => status === 429)!;
  expect(refused.headers.get('content-type')).toBe(mediaType);
  expect(Object.keys(refused.body)).toEqual(expect.arrayContaining(required));
});

test('other origins, and another level of the log, hold from the reload on', async () => {
  const platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  const reloadWith = async (settings: string): Promise<void> => {
    writeFileSync(file, settings);
    const { status, body } = await platform.post('/config/reload', { reload_env: true });
    expect([status, body.requires_restart]).toEqual([200, []]);
  };
  await platform.put('/config/global/greeting', { config_value: 'hello', is_public: true });
  const read = (): Promise<Answer> => platform.get('/config/global/greeting');
  /** The last of several is one that the gateway repeats from memory. */
  const allowedTo = async (headers: Record<string, string> = {}): Promise<string | null> => {
    for (let time = 0; time < 3; time += 1) await read();
    const answer = await platform.get('/config/global/greeting', headers);
    return answer.headers.get('access-control-allow-origin');
  };
  const linesOf = (part: string): number => strata.output().split(part).length - 1;
  /** Lines may wait for others for a moment. */
  async function untilAllIsLogged(): Promise<void> {
    for (let length = -1; length !== strata.output().length;) {
      length = strata.output().length;
      await delay(200);
      await read();
    }
  }
  const page = { origin: 'https://app.example' };

  await reloadWith('LOG_LEVEL=warn\n');
  expect([await allowedTo(page), await allowedTo()]).toEqual([null, null]);
  expect([linesOf('"msg":"request"'), linesOf('"mod":"broker"')]).toEqual([0, 0]);

  await reloadWith('LOG_LEVEL=debug\nCORS_ORIGINS=https://app.example\n');
  expect([await allowedTo(page), await allowedTo()]).toEqual(['https://app.example', null]);
  const preflight = await platform.send('OPTIONS', '/config/global/greeting', {
    headers: { ...page, 'access-control-request-method': 'PUT' },
  });
  expect([preflight.status, preflight.headers.get('access-control-allow-methods')]).toEqual([
    204,
    'GET, PUT, PATCH, POST, DELETE',
  ]);
  await eventually(async () => expect(linesOf('"msg":"request"')).toBeGreaterThan(3));
  expect(linesOf('"mod":"broker"')).toBeGreaterThan(0);

  await reloadWith('LOG_LEVEL=error\nCORS_ORIGINS=*\n');
  await untilAllIsLogged();
  const before = [linesOf('"msg":"request"'), linesOf('"mod":"broker"')];
  expect([await allowedTo(page), await allowedTo()]).toEqual(['*', '*']);
  await reloadWith('LOG_LEVEL=error\n');
  expect([await allowedTo(page), await allowedTo()]).toEqual([null, null]);
  expect([linesOf('"msg":"request"'), linesOf('"mod":"broker"')]).toEqual(before);
});
