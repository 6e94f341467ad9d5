/**
 * Policies on how to sign in: what a session by password alone may still do, and who sets a policy.
 */
import { beforeAll, describe, expect, test } from '@jest/globals';
import { writeFileSync } from 'node:fs';
import { restRoutes } from '../../gateway/http/rest.ts';
import { eventually } from '../support/cluster.ts';
import { watch } from '../support/event-stream.ts';
import { holdLock } from '../support/held-lock.ts';
import { sharedStrata, type SharedStrata } from '../support/shared-strata.ts';
import {
  adminPassword,
  Client,
  createTenant,
  joinTenant,
  memberPassword,
  signIn,
  type Answer,
  type TenantFixture,
} from '../support/strata.ts';

let strata: SharedStrata;
let platform: Client;
let tenant: TenantFixture;
let other: TenantFixture;
beforeAll(async () => {
  strata = await sharedStrata();
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, 'Strict');
  other = await createTenant(strata.url, platform, 'Lenient');
});

/** Of AuthZEN's routes errors are problem details, which have the code beside the detail. */
const outcome = ({ status, body }: Answer): string =>
  status < 300 ? String(status) : `${status} ${body.code ?? body.detail.code}`;
const weak = '403 auth_stronger_sign_in_required';
const tenantPath = (id = tenant.id): string => `/tenants/${id}`;
const risk = (id = tenant.id): string => `/tenants/${id}/config/risk`;
async function setPolicy(policy: string, by = platform): Promise<string> {
  return outcome(await by.patch(tenantPath(), { sign_in_policy: policy }));
}
/**
 * A session that was signed in with a passkey, as the browser's own test in test/flows makes one.
 */
async function withPasskey(email: string, password: string): Promise<Client> {
  const signedIn = await new Client(strata.url).post('/auth/login', { email, password });
  const { session_id: id, access_token: token } = signedIn.body;
  await strata.database.query(`UPDATE auth.sessions SET method = 'passkey' WHERE id = '${id}'`);
  return new Client(strata.url, token);
}

const stillAllowed = [
  'POST /auth/logout',
  'GET /auth/me',
  'GET /auth/watch',
  'GET /auth/sessions',
  'DELETE /auth/sessions/{session_id}',
  'POST /auth/switch-tenant',
  'POST /auth/webauthn/register/options',
  'POST /auth/webauthn/register/verify',
];

test('under passkey_or_sso a session by password alone may only register a passkey', async () => {
  const strong = await withPasskey(tenant.emails.tenant_admin!, memberPassword);
  const key = await tenant.admin.post('/auth/api-key', { name: 'before' });
  const stream = await watch(tenant.admin, `${tenantPath()}/config/watch`);
  await stream.until(({ event }) => event === 'ready');
  expect((await platform.get(tenantPath())).body.sign_in_policy).toBe('any');
  expect(outcome(await tenant.admin.get(risk()))).toBe('200');

  expect(await setPolicy('passkey_or_sso')).toBe('200');
  expect((await platform.get(tenantPath())).body.sign_in_policy).toBe('passkey_or_sso');
  const { data } = await stream.until(({ event }) => event === 'closed');
  expect(data).toEqual({ code: 'auth_stronger_sign_in_required' });

  const fresh = await signIn(strata.url, tenant.emails.tenant_admin!, memberPassword);
  for (const session of [tenant.admin, fresh]) {
    for (const { contract, rest } of restRoutes) {
      if (contract.access.level === 'public') continue;
      const route = `${rest.method} ${rest.path}`;
      const path = rest.path
        .replace('{tenant_id}', tenant.id)
        .replaceAll(/\{[a-z_]+\}/g, '00000000-0000-4000-8000-000000000000');
      const sent = rest.method === 'GET' ? {} : { body: { not_a_field: true } };
      const answer = outcome(await session.send(rest.method, path, sent));
      if (stillAllowed.includes(route)) expect([route, answer]).not.toEqual([route, weak]);
      else expect([route, answer]).toEqual([route, weak]);
    }
  }
  expect(outcome(await fresh.post('/auth/webauthn/register/options', {}))).toBe('200');
  expect(outcome(await strong.get(risk()))).toBe('200');
  expect(outcome(await new Client(strata.url, key.body.api_key).get(risk()))).toBe('200');
  expect(outcome(await fresh.post('/auth/api-key', { name: 'after' }))).toBe(weak);
  expect(outcome(await other.admin.get(risk(other.id)))).toBe('200');

  expect(await setPolicy('any')).toBe('200');
  expect(outcome(await tenant.admin.get(risk()))).toBe('200');
});

test('the method of a sign-in outlives a refresh and a change of tenant', async () => {
  const signedIn = await new Client(strata.url).post('/auth/login', {
    email: tenant.emails.operator,
    password: memberPassword,
  });
  await setPolicy('passkey_or_sso');
  const refreshed = await new Client(strata.url).post('/auth/refresh', {
    refresh_token: signedIn.body.refresh_token,
  });
  const client = new Client(strata.url, refreshed.body.access_token);
  expect(outcome(await client.get(risk()))).toBe(weak);
  const switched = await client.post('/auth/switch-tenant', { tenant_id: tenant.id });
  expect(outcome(await new Client(strata.url, switched.body.access_token).get(risk()))).toBe(weak);
  await setPolicy('any');
});

test('a tenant_admin sets it, signed in strongly, and nothing else of the tenant', async () => {
  expect(await setPolicy('passkey_or_sso', tenant.admin)).toBe(weak);
  const strong = await withPasskey(tenant.emails.tenant_admin!, memberPassword);
  const made = await strong.post('/auth/api-key', {
    name: 'policy',
    scopes: ['platform:write', 'config:write'],
  });
  const key = new Client(strata.url, made.body.api_key);
  expect(await setPolicy('passkey_or_sso', key)).toBe('403 insufficient_scope');
  for (const body of [
    { name: 'Renamed' },
    { status: 'disabled' },
    { name: 'x', sign_in_policy: 'any' },
  ])
    expect(outcome(await strong.patch(tenantPath(), body))).toBe('403 insufficient_role');
  expect(await setPolicy('passkey_or_sso', tenant.operator)).toBe('403 insufficient_role');
  expect(await setPolicy('passkey_or_sso', other.admin)).toBe('403 tenant_mismatch');
  expect(await setPolicy('sms', strong)).toBe('422 validation_failed');
  expect(await setPolicy('passkey_or_sso', strong)).toBe('200');
  expect(outcome(await tenant.admin.get(risk()))).toBe(weak);
  expect(await setPolicy('any', tenant.admin)).toBe(weak);
  expect(await setPolicy('any', strong)).toBe('200');
  expect(outcome(await tenant.admin.get(risk()))).toBe('200');
});

describe('keys that a password made', () => {
  type Key = { readonly id: string; readonly name: string };
  const namesOf = ({ items }: { items: Key[] }): string[] => items.map(({ name }) => name).sort();
  async function makeKey(by: Client, name: string, path = '/auth/api-key'): Promise<Client> {
    const { status, body } = await by.post(path, { name });
    expect(status).toBe(201);
    return new Client(strata.url, body.api_key);
  }

  test('are named where the policy is turned on, and end where it says so', async () => {
    const strict = await createTenant(strata.url, platform, 'Strict with keys');
    const address = strict.emails.tenant_admin!;
    const strong = await withPasskey(address, memberPassword);
    const account = await strict.admin.post(`${tenantPath(strict.id)}/service-accounts`, {
      name: 'robot',
      roles: ['operator'],
    });
    const ofAccount = `${tenantPath(strict.id)}/service-accounts/${account.body.id}/api-keys`;
    const weakKeys = [
      await makeKey(strict.admin, 'by password'),
      await makeKey(strict.admin, 'of the robot', ofAccount),
      await makeKey(strong, 'from before it was kept'),
    ];
    const kept = await makeKey(strong, 'by passkey');
    const elsewhere = await makeKey(other.admin, 'of another tenant');
    await strata.database.query(
      `UPDATE auth.api_keys SET made_with = NULL WHERE name = 'from before it was kept'`,
    );
    const read = (key: Client, id = strict.id) => key.get(risk(id)).then(outcome);
    const weakNames = ['by password', 'from before it was kept', 'of the robot'];
    const list = `${tenantPath(strict.id)}/password-keys`;
    expect(namesOf((await strong.get(list)).body)).toEqual(weakNames);
    expect(outcome(await other.admin.get(list))).toBe('403 tenant_mismatch');
    const own = await strong.get('/auth/api-keys');
    expect(own.body.items).toContainEqual(
      expect.objectContaining({ name: 'by passkey', made_with: 'passkey' }),
    );

    const policy = { sign_in_policy: 'passkey_or_sso' };
    const turned = await strong.patch(tenantPath(strict.id), policy);
    expect(turned.body.password_keys).toMatchObject({ count: 3, ended: false });
    expect(namesOf(turned.body.password_keys)).toEqual(weakNames);
    expect(turned.body.password_keys.items).toContainEqual(
      expect.objectContaining({ name: 'by password', email: address, made_with: 'password' }),
    );
    expect(await Promise.all(weakKeys.map((key) => read(key)))).toEqual(['200', '200', '200']);

    const ended = await strong.patch(tenantPath(strict.id), { ...policy, end_password_keys: true });
    expect(ended.body.password_keys).toMatchObject({ count: 3, ended: true });
    const refused = '401 auth_api_key_invalid';
    expect(await Promise.all(weakKeys.map((key) => read(key)))).toEqual([
      refused,
      refused,
      refused,
    ]);
    expect([await read(kept), await read(elsewhere, other.id)]).toEqual(['200', '200']);
    expect((await strong.get(list)).body.items).toEqual([]);
    await eventually(async () => {
      const { body } = await platform.get(
        `/audit/events?action=auth.api_key_ended&tenant_id=${strict.id}`,
      );
      expect(body.items).toHaveLength(3);
    });
  });

  test('end with the policy only, and a new secret makes a key as strong as its session', async () => {
    const strict = await createTenant(strata.url, platform, 'Strict with a new secret');
    const made = await strict.admin.post('/auth/api-key', { name: 'rotated' });
    const strong = await withPasskey(strict.emails.tenant_admin!, memberPassword);
    const list = `${tenantPath(strict.id)}/password-keys`;
    expect((await strong.get(list)).body.items).toHaveLength(1);
    for (const body of [
      { end_password_keys: true },
      { end_password_keys: true, sign_in_policy: 'any' },
    ])
      expect(outcome(await strong.patch(tenantPath(strict.id), body))).toBe(
        '422 validation_failed',
      );
    await strong.post(`/auth/api-keys/${made.body.id}/rotate`);
    expect((await strong.get(list)).body.items).toEqual([]);
  });
});

test('a password session of another tenant gives no key of a strict one a new secret', async () => {
  const strict = await createTenant(strata.url, platform, 'Strict from elsewhere');
  const email = strict.emails.operator!;
  const strong = await withPasskey(email, memberPassword);
  await joinTenant(other.admin, other.id, strong, { email, roles: ['viewer'] });
  const inStrict = await strong.post('/auth/switch-tenant', { tenant_id: strict.id });
  const session = new Client(strata.url, inStrict.body.access_token);
  const made = await session.post('/auth/api-key', { name: 'by passkey' });
  const key = new Client(strata.url, made.body.api_key);
  const byPassword = await signIn(strata.url, email, memberPassword, other.id);
  const rotate = (by: Client) => by.post(`/auth/api-keys/${made.body.id}/rotate`);
  const admin = await withPasskey(strict.emails.tenant_admin!, memberPassword);
  await admin.patch(tenantPath(strict.id), { sign_in_policy: 'passkey_or_sso' });
  expect(outcome(await rotate(byPassword))).toBe(weak);
  expect(outcome(await key.get(risk(strict.id)))).toBe('200');
  expect(outcome(await rotate(session))).toBe('201');
});

test('a key that a password was making while the policy came is none', async () => {
  const strict = await createTenant(strata.url, platform, 'Strict meanwhile');
  const admin = await withPasskey(strict.emails.tenant_admin!, memberPassword);
  const counter = `SELECT FROM strata.revisions WHERE scope = 'auth' FOR UPDATE`;
  const lock = await holdLock(strata.database, counter);
  const making = strict.operator.post('/auth/api-key', { name: 'late' });
  await lock.untilWaiting(1);
  const policy = { sign_in_policy: 'passkey_or_sso' };
  expect(outcome(await admin.patch(tenantPath(strict.id), policy))).toBe('200');
  await lock.release();
  expect(outcome(await making)).toBe(weak);
  expect((await admin.get(`${tenantPath(strict.id)}/password-keys`)).body.items).toEqual([]);
});

test("the platform's policy binds its administrators from the reload on, and no one else", async () => {
  const strong = await withPasskey('admin@example.com', adminPassword);
  const made = await platform.post('/auth/api-key', { name: 'ops', scopes: ['platform:read'] });
  writeFileSync(strata.envFile, 'PLATFORM_SIGN_IN_POLICY=passkey_or_sso\n');
  expect(outcome(await platform.post('/config/reload', { reload_env: true }))).toBe('200');
  const fresh = await signIn(strata.url, 'admin@example.com', adminPassword);
  for (const session of [platform, fresh]) {
    expect(outcome(await session.get('/tenants'))).toBe(weak);
    expect(outcome(await session.get('/audit/events'))).toBe(weak);
    expect(outcome(await session.post('/config/reload', { reload_env: true }))).toBe(weak);
    expect(outcome(await session.get('/auth/me'))).toBe('200');
    expect(outcome(await session.post('/auth/webauthn/register/options', {}))).toBe('200');
  }
  expect(outcome(await strong.get('/tenants'))).toBe('200');
  expect(outcome(await new Client(strata.url, made.body.api_key).get('/tenants'))).toBe('200');
  expect(outcome(await tenant.admin.get(risk()))).toBe('200');
  writeFileSync(strata.envFile, '');
  expect(outcome(await strong.post('/config/reload', { reload_env: true }))).toBe('200');
  expect(outcome(await platform.get('/tenants'))).toBe('200');
});
