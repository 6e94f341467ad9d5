/** API keys: what is stored of them, what they may do, when they end. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { randomUUID } from 'node:crypto';
import { createApiKeys, newApiKey, parseApiKey } from '../../shared/security/api-keys.ts';
import { createDatabase, type Database } from '../support/postgres.ts';
import {
  adminPassword,
  Client,
  createTenant,
  signIn,
  startStrata,
  type Running,
  type TenantFixture,
} from '../support/strata.ts';

let database: Database;
let strata: Running;
let platform: Client;
let tenant: TenantFixture;
beforeAll(async () => {
  database = await createDatabase();
  strata = await startStrata({ DATABASE_URL: database.url });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, 'Keys');
});
afterAll(async () => {
  await strata?.stop();
  await database?.drop();
});

const make = async (client: Client, body: object) => {
  const answer = await client.post('/auth/api-key', { name: 'ci', ...body });
  expect([answer.status, answer.text]).toEqual([201, expect.any(String)]);
  return answer.body as {
    id: string;
    api_key: string;
    prefix: string;
    scopes: string[];
    expires_at: string;
  };
};
const risk = (): string => `/tenants/${tenant.id}/config/risk`;
const refusal = async (client: Client, path: string) => {
  const { status, body } = await client.get(path);
  return [status, body?.detail?.code];
};

describe('the text of a key', () => {
  test('any one wrong character is noticed without looking anything up', () => {
    fc.assert(
      fc.property(
        fc.uuid({ version: 4 }),
        fc.nat(),
        fc.constantFrom(...'0123456789abcdef'),
        (id, place, character) => {
          const { key, secret } = newApiKey(id);
          expect(parseApiKey(key)).toEqual({ id, secret });
          const at = 7 + (place % (key.length - 7));
          if (key[at] === '_' || key[at] === character) return;
          expect(parseApiKey(key.slice(0, at) + character + key.slice(at + 1))).toBeNull();
        },
      ),
    );
    for (const text of ['', 'strata_', 'strata_x_y', `strata_${'0'.repeat(32)}_${'0'.repeat(72)}`])
      expect(parseApiKey(text)).toBeNull();
  });

  test('a key hashed under the previous SECRET_KEY still fits, under another it does not', () => {
    const { secret } = newApiKey(randomUUID());
    const [old, current, other] = ['o', 'c', 'x'].map((letter) => letter.repeat(32));
    const stored = createApiKeys({ secret_key: old!, secret_key_previous: null }).hash(secret);
    expect(
      createApiKeys({ secret_key: current!, secret_key_previous: old! }).fits(secret, stored),
    ).toBe(true);
    expect(
      createApiKeys({ secret_key: current!, secret_key_previous: other! }).fits(secret, stored),
    ).toBe(false);
  });
});

test('it is shown once, is taken in both headers, and only its hash is stored', async () => {
  const {
    api_key: key,
    prefix,
    id,
  } = await make(tenant.admin, { scopes: ['config:read', 'config:write'] });
  expect(key.startsWith(prefix)).toBe(true);
  expect((await new Client(strata.url, key).get(risk())).status).toBe(200);
  expect((await new Client(strata.url).get(risk(), { 'x-api-key': key })).status).toBe(200);
  const listed = await tenant.admin.get('/auth/api-keys');
  expect(listed.body.items.find((item: { id: string }) => item.id === id)).toMatchObject({
    prefix,
    last_used_at: expect.any(String),
  });
  const { secret } = parseApiKey(key)!;
  expect(listed.text).not.toContain(secret);
  const rows = await database.query('SELECT row_to_json(k) AS row FROM auth.api_keys k');
  expect(JSON.stringify(rows)).not.toContain(secret);
  expect(
    JSON.stringify(await database.query('SELECT event FROM strata.outbox')) +
      JSON.stringify(await database.query('SELECT payload FROM audit.events')) +
      strata.output(),
  ).not.toContain(secret);
});

test('scopes bound it, and so do the roles that its owner has now', async () => {
  const reader = new Client(strata.url, (await make(tenant.admin, {})).api_key);
  expect((await reader.get(risk())).status).toBe(200);
  expect(
    (await reader.patch(risk(), { global_settings: { max_concurrent_automations: 4 } })).body.detail
      .code,
  ).toBe('insufficient_scope');
  expect(await refusal(reader, `/tenants/${tenant.id}/users`)).toEqual([403, 'insufficient_scope']);
  expect((await reader.post('/auth/api-key', { name: 'child' })).body.detail.code).toBe(
    'insufficient_scope',
  );

  const operators = new Client(
    strata.url,
    (
      await make(tenant.operator, {
        scopes: ['config:read', 'config:write', 'members:read', 'platform:read'],
      })
    ).api_key,
  );
  expect((await operators.get(risk())).status).toBe(200);
  expect(await refusal(operators, `/tenants/${tenant.id}/users`)).toEqual([
    403,
    'insufficient_role',
  ]);
  expect(await refusal(operators, '/tenants')).toEqual([403, 'insufficient_role']);
  const {
    body: { items },
  } = await tenant.admin.get(`/tenants/${tenant.id}/users`);
  const operator = items.find(({ email }: { email: string }) => email === tenant.emails.operator);
  await tenant.admin.patch(`/tenants/${tenant.id}/users/${operator.user_id}`, {
    roles: ['viewer'],
  });
  expect(await refusal(operators, risk())).toEqual([403, 'insufficient_role']);
  await tenant.admin.delete(`/tenants/${tenant.id}/users/${operator.user_id}`);
  expect(await refusal(operators, risk())).toEqual([403, 'tenant_mismatch']);
});

test('rotation ends the old secret, revocation the key, disabling the account until it is enabled', async () => {
  const { id, api_key: first } = await make(tenant.admin, {});
  expect((await new Client(strata.url, first).get(risk())).status).toBe(200);
  const rotated = await tenant.admin.post(`/auth/api-keys/${id}/rotate`);
  expect([rotated.status, rotated.headers.get('cache-control')]).toEqual([201, 'no-store']);
  expect(await refusal(new Client(strata.url, first), risk())).toEqual([
    401,
    'auth_api_key_invalid',
  ]);
  const second = new Client(strata.url, rotated.body.api_key);
  expect((await second.get(risk())).status).toBe(200);
  expect((await tenant.viewer.delete(`/auth/api-keys/${id}`)).status).toBe(404);

  const {
    body: {
      items: [account],
    },
  } = await platform.get(`/auth/users?email=${tenant.emails.tenant_admin}`);
  await platform.patch(`/auth/users/${account.id}`, { status: 'disabled' });
  expect(await refusal(second, risk())).toEqual([401, 'auth_api_key_invalid']);
  await platform.patch(`/auth/users/${account.id}`, { status: 'active' });
  expect((await second.get(risk())).status).toBe(200);
  const again = await signIn(strata.url, tenant.emails.tenant_admin!, 'member-password-123');
  expect((await again.delete(`/auth/api-keys/${id}`)).status).toBe(204);
  expect(await refusal(second, risk())).toEqual([401, 'auth_api_key_invalid']);
});

test('it expires, in 90 days unless told, 365 at most', async () => {
  const viewer = tenant.viewer;
  const { expires_at: end, id, api_key: key } = await make(viewer, {});
  expect(Math.round((Date.parse(end) - Date.now()) / 86_400_000)).toBe(90);
  expect((await viewer.post('/auth/api-key', { name: 'x', expires_in_days: 366 })).status).toBe(
    422,
  );
  await database.query(
    `UPDATE auth.api_keys SET expires_at = now() - interval '1 second' WHERE id = '${id}'`,
  );
  expect(
    await refusal(new Client(strata.url, key), `/tenants/${tenant.id}/config/effective`),
  ).toEqual([401, 'auth_api_key_invalid']);
});
