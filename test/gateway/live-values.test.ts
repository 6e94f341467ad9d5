/** Effective values that a service holds live: entity tags that never confirm another value, and the least revisions of both scopes. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { strataDatabase, type Database } from '../support/postgres.ts';
import {
  adminPassword,
  createTenant,
  signIn,
  startStrata,
  type Answer,
  type Client,
  type Running,
  type TenantFixture,
} from '../support/strata.ts';

const folder = mkdtempSync(join(tmpdir(), 'strata-live-'));
const envFile = join(folder, 'strata.env');
let database: Database;
let strata: Running;
let platform: Client;
let tenant: TenantFixture;

beforeAll(async () => {
  setEnvironment(11);
  database = await strataDatabase();
  strata = await startStrata({ DATABASE_URL: database.url, ENV_FILE: envFile });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, 'Live');
});
afterAll(async () => {
  await strata?.stop();
  await database?.drop();
  rmSync(folder, { recursive: true, force: true });
});

function setEnvironment(timeoutSeconds: number): void {
  writeFileSync(envFile, `HTTP_CLIENT_TIMEOUT_SECONDS=${timeoutSeconds}\n`);
}
async function reload(timeoutSeconds: number): Promise<void> {
  setEnvironment(timeoutSeconds);
  const { status } = await platform.post('/config/reload', { reload_env: true });
  expect(status).toBe(200);
}

const effective = (query = ''): string => `/tenants/${tenant.id}/config/effective${query}`;
const read = (headers?: Record<string, string>, query = ''): Promise<Answer> =>
  tenant.viewer.get(effective(query), headers);
const tagOf = ({ headers }: Answer): string => headers.get('etag')!;
const ifNoneMatch = (tag: string): Promise<Answer> => read({ 'if-none-match': tag });

describe('the entity tag of effective values', () => {
  test('names both revisions and the environment, which is in no body', async () => {
    const answer = await read();
    const { tenant: ofTenant, platform: ofPlatform } = answer.body.revision;
    expect(tagOf(answer)).toMatch(new RegExp(`^"${ofTenant}\\.${ofPlatform}-[A-Za-z0-9_-]{8,}"$`));
    expect(answer.body).not.toHaveProperty('environment');
    const repeated = [await read(), await read(), await read()];
    expect(repeated.map(tagOf)).toEqual(Array.from(repeated, () => tagOf(answer)));
    expect(repeated.map(({ text }) => text)).toEqual(Array.from(repeated, () => answer.text));
  });

  test.each<[string, (tag: string) => string, number]>([
    ['itself', (tag) => tag, 304],
    ['itself, weak', (tag) => `W/${tag}`, 304],
    ['one of several', (tag) => `"1", ${tag}`, 304],
    ['anything', () => '*', 304],
    ['another', (tag) => tag.replace('-', '0-'), 200],
    ['its revisions alone', (tag) => `${tag.split('-')[0]}"`, 200],
  ])('If-None-Match with %s', async (_what, given, status) => {
    const answer = await read();
    const again = await ifNoneMatch(given(tagOf(answer)));
    expect([again.status, again.text, tagOf(again)]).toEqual([
      status,
      status === 304 ? '' : answer.text,
      tagOf(answer),
    ]);
  });

  test.each<[string, () => Promise<unknown>]>([
    [
      'the tenant',
      () => tenant.admin.patch(`/tenants/${tenant.id}/config/risk`, { service_overrides: {} }),
    ],
    [
      'the platform',
      () => platform.put('/config/global/live', { config_value: 1, is_public: true }),
    ],
    [
      "the tenant's bounds",
      () =>
        tenant.admin.patch(`/tenants/${tenant.id}/config/bounds`, {
          max_resource_scaling: { maximum: 2, reason: 'a test' },
        }),
    ],
    [
      "the platform's bounds",
      () =>
        platform.patch('/config/bounds', {
          max_concurrent_automations: { maximum: 3, reason: 'a test' },
        }),
    ],
  ])('matches no more once %s has changed', async (_who, change) => {
    const before = await read();
    await change();
    const after = await ifNoneMatch(tagOf(before));
    expect(after.status).toBe(200);
    expect(tagOf(after)).not.toBe(tagOf(before));
    expect((await ifNoneMatch(tagOf(after))).status).toBe(304);
  });

  test('matches no more once a reload has moved a default of the environment, under the same revisions', async () => {
    const before = await read();
    expect(before.body.values.http_client_timeout_seconds).toBe(11);
    await reload(12);
    const after = await ifNoneMatch(tagOf(before));
    expect([after.status, after.body.values.http_client_timeout_seconds]).toEqual([200, 12]);
    expect(after.body.revision).toEqual(before.body.revision);
    expect(tagOf(after)).not.toBe(tagOf(before));
    await reload(11);
    expect((await ifNoneMatch(tagOf(before))).status).toBe(304);
  });

  test('is that of a moment of the past, too', async () => {
    const now = await read();
    const past = await read({}, `?as_of=${now.body.revision.tenant - 1}`);
    expect(tagOf(past)).not.toBe(tagOf(now));
    const again = await read(
      { 'if-none-match': tagOf(past) },
      `?as_of=${past.body.revision.tenant}`,
    );
    expect(again.status).toBe(304);
  });
});

describe('X-Min-Revision of effective values', () => {
  const atLeast = async (text: string): Promise<unknown> => {
    const { status, body } = await read({ 'x-min-revision': text });
    return status === 200 ? status : [status, body.detail.code];
  };

  test('is one of the tenant, or those of tenant and platform', async () => {
    const { tenant: ofTenant, platform: ofPlatform } = (await read()).body.revision;
    for (const there of [`${ofTenant}`, `${ofTenant}.${ofPlatform}`, '0', '0.0', `0.${ofPlatform}`])
      expect([there, await atLeast(there)]).toEqual([there, 200]);
    for (const yetToCome of [
      `${ofTenant + 1}`,
      `${ofTenant}.${ofPlatform + 1}`,
      `0.${ofPlatform + 1}`,
    ])
      expect([yetToCome, await atLeast(yetToCome)]).toEqual([
        yetToCome,
        [412, 'precondition_failed'],
      ]);
    await platform.put('/config/global/live', { config_value: 2, is_public: true });
    expect(await atLeast(`${ofTenant}.${ofPlatform + 1}`)).toBe(200);
  });

  test.each(['x', '-1', '1.', '.1', '1.2.3', '1,2', '1e3', '12345678901234567'])(
    '%s is none',
    async (text) => {
      const { status, body } = await read({ 'x-min-revision': text });
      expect([status, body.errors]).toEqual([
        422,
        [{ path: '/x-min-revision', message: expect.any(String) }],
      ]);
    },
  );
});
