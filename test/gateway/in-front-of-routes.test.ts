/** What every request passes before its route: CORS, security headers and the rate limit. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createDatabase, type Database } from '../support/postgres.ts';
import { Client, startStrata, type Running } from '../support/strata.ts';

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
    Array.from({ length: 20 }, () => new Client(strata.url).get('/auth/me')),
  );
  const refused = answers.filter(({ status }) => status === 429);
  expect(refused.length).toBeGreaterThan(5);
  expect(refused[0]!.body.detail.code).toBe('rate_limited');
  expect(Number(refused[0]!.headers.get('retry-after'))).toBeGreaterThan(0);
});
