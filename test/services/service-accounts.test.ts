/** Service accounts: what they may do, who makes them and their keys, and when that ends. */
import { beforeAll, expect, jest, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { apiKeyActions } from '../../services/auth/api-keys/actions/api-keys.ts';
import { serviceAccountKeyActions } from '../../services/auth/api-keys/actions/service-account-keys.ts';
import {
  findUnusedInvitation,
  putInvitation,
} from '../../services/auth/invitations/stores/invitations.ts';
import type { AuthParts } from '../../services/auth/parts.ts';
import { authSchema } from '../../services/auth/schema.ts';
import { sessionActions } from '../../services/auth/sessions/actions/sessions.ts';
import type { Request } from '../../shared/contract-runtime/request.ts';
import { openDatabase } from '../../shared/database/open.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import { eventually } from '../support/cluster.ts';
import { holdLock } from '../support/held-lock.ts';
import { sharedStrata, type SharedStrata } from '../support/shared-strata.ts';
import {
  addMember,
  adminPassword,
  Client,
  createTenant,
  secretKey,
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
  tenant = await createTenant(strata.url, platform, 'Machines');
  other = await createTenant(strata.url, platform, 'Other machines');
});

const accounts = (id = tenant.id): string => `/tenants/${id}/service-accounts`;
const outcome = ({ status, body }: Answer): string =>
  status < 300 ? String(status) : `${status} ${body.detail.code}`;
const reading = async (client: Client, path: string): Promise<string> =>
  outcome(await client.get(path));
const risk = (): string => `/tenants/${tenant.id}/config/risk`;

async function make(body: object, by = tenant.admin): Promise<string> {
  const made = await by.post(accounts(), { name: 'pipeline', ...body });
  if (made.status !== 201) throw new Error(made.text);
  return made.body.id;
}
interface Issued {
  readonly id: string;
  readonly client: Client;
}
async function keyOf(account: string, ...scopes: string[]): Promise<Issued> {
  const path = `${accounts()}/${account}/api-keys`;
  const made = await tenant.admin.post(path, { name: 'ci', ...(scopes.length > 0 && { scopes }) });
  if (made.status !== 201) throw new Error(made.text);
  return { id: made.body.id, client: new Client(strata.url, made.body.api_key) };
}
const longAgo = "authenticated_at = now() - interval '11 minutes'";
/** A sign-in of the administrator that is no longer recent. */
async function oldSession(): Promise<Client> {
  const client = await signIn(strata.url, tenant.emails.tenant_admin!, 'member-password-123');
  const { body } = await client.get('/auth/me');
  // Known to no gateway yet in its old form: the row is changed before a second request would find
  // it in memory.
  await strata.database.query(
    `UPDATE auth.sessions SET ${longAgo} WHERE id = '${body.session_id}'`,
  );
  await platform.post('/config/reload', { reload_env: true });
  return client;
}

test('it does what its roles and the scopes of its key allow, and says who it is', async () => {
  const made = await tenant.admin.post(accounts(), {
    name: 'deploy-pipeline',
    description: 'rolls out',
    roles: ['operator'],
  });
  expect([made.status, made.body]).toEqual([
    201,
    {
      id: expect.any(String),
      name: 'deploy-pipeline',
      description: 'rolls out',
      roles: ['operator'],
      status: 'active',
      created_by: expect.any(String),
      created_at: expect.any(String),
      updated_at: expect.any(String),
    },
  ]);
  const id = made.body.id as string;
  const { client } = await keyOf(id, 'config:read', 'config:write', 'auth:self', 'members:read');
  expect(await reading(client, risk())).toBe('200');
  expect(outcome(await client.patch(risk(), {}))).toBe('403 insufficient_role');
  expect(await reading(client, `/tenants/${tenant.id}/users`)).toBe('403 insufficient_role');
  expect(await reading(client, `/tenants/${other.id}/config/risk`)).toBe('403 tenant_mismatch');
  expect(await reading(client, '/tenants')).toBe('403 insufficient_role');
  expect((await client.get('/auth/me')).body).toEqual({
    user: null,
    service_account: { id, name: 'deploy-pipeline' },
    tenant: { id: tenant.id, name: 'Machines', roles: ['operator'] },
    memberships: [{ tenant_id: tenant.id, name: 'Machines', roles: ['operator'] }],
    session_id: null,
  });
  expect(outcome(await client.post('/auth/logout', {}))).toBe('204');

  // An operator is no administrator, whatever kind of principal.
  const service = `/tenants/${tenant.id}/services/checkout`;
  expect((await client.put(service, { service_type: 'cloud_run' })).status).toBe(201);
  expect((await client.get(service)).headers.get('x-updated-by')).toBe(id);
  expect(outcome(await client.patch(service, { automation_enabled: false }))).toBe(
    '403 insufficient_role',
  );
  await eventually(async () => {
    const { body } = await tenant.admin.get(`/audit/events?actor=${id}`);
    expect(body.items[0]).toMatchObject({ actor: { type: 'service', id } });
  });
});

test('one with config:read alone sees public global entries and no private one', async () => {
  const { client } = await keyOf(
    await make({ roles: ['tenant_admin'] }),
    'config:read',
    'platform:read',
  );
  await platform.put('/config/global/machines-private', { config_value: 1 });
  await platform.put('/config/global/machines-public', { config_value: 1, is_public: true });
  expect(await reading(client, '/config/global/machines-private')).toBe('404 not_found');
  expect(await reading(client, '/config/global/machines-public')).toBe('200');
  expect(await reading(client, '/config/global')).toBe('403 insufficient_role');
  for (const key of ['machines-private', 'machines-public'])
    await platform.delete(`/config/global/${key}`);
});

test('a change of roles, disabling and removal hold for its keys at once', async () => {
  const id = await make({ roles: ['operator'] });
  const path = `${accounts()}/${id}`;
  const { client } = await keyOf(id);
  expect(await reading(client, risk())).toBe('200');
  expect(outcome(await tenant.admin.patch(path, { roles: ['viewer'] }))).toBe('200');
  expect(await reading(client, risk())).toBe('403 insufficient_role');
  await tenant.admin.patch(path, { roles: ['operator'], description: null });
  expect(await reading(client, risk())).toBe('200');
  await tenant.admin.patch(path, { status: 'disabled' });
  expect(await reading(client, risk())).toBe('401 auth_api_key_invalid');
  await tenant.admin.patch(path, { status: 'active' });
  expect(await reading(client, risk())).toBe('200');
  await platform.patch(`/tenants/${tenant.id}`, { status: 'disabled' });
  expect(await reading(client, risk())).toBe('403 auth_tenant_disabled');
  await platform.patch(`/tenants/${tenant.id}`, { status: 'active' });
  expect(await reading(client, risk())).toBe('200');
  expect(outcome(await tenant.admin.delete(path))).toBe('204');
  expect(await reading(client, risk())).toBe('401 auth_api_key_invalid');
  expect(outcome(await tenant.admin.delete(path))).toBe('404 not_found');
  const left = await strata.database.query(
    `SELECT id FROM auth.api_keys WHERE service_account_id = '${id}'`,
  );
  expect(left).toEqual([]);
});

test('a key whose account is gone is invalid, even where its row was left behind', async () => {
  const id = await make({ roles: ['operator'] });
  const { client } = await keyOf(id);
  await strata.database.query('CREATE TABLE kept AS SELECT * FROM auth.api_keys');
  expect(outcome(await tenant.admin.delete(`${accounts()}/${id}`))).toBe('204');
  await strata.database.query(
    `INSERT INTO auth.api_keys SELECT * FROM kept WHERE service_account_id = '${id}'`,
  );
  await strata.database.query('DROP TABLE kept');
  expect(await reading(client, risk())).toBe('401 auth_api_key_invalid');
});

test('its keys outlive who made them, are listed, and end one by one', async () => {
  const id = await make({ roles: ['operator'] });
  const [first, second] = [await keyOf(id), await keyOf(id)];
  // Whoever made them leaves: their own account is disabled.
  const maker = await platform.get(`/auth/users?email=${tenant.emails.tenant_admin}`);
  const user = `/auth/users/${maker.body.items[0].id}`;
  await platform.patch(user, { status: 'disabled' });
  expect(await reading(first.client, risk())).toBe('200');
  await platform.patch(user, { status: 'active' });
  const admin = await signIn(strata.url, tenant.emails.tenant_admin!, 'member-password-123');
  tenant = { ...tenant, admin };
  const keys = `${accounts()}/${id}/api-keys`;
  const page = await admin.get(`${keys}?limit=1`);
  expect(page.body.items).toHaveLength(1);
  const rest = await admin.get(`${keys}?limit=1&cursor=${page.body.next_cursor}`);
  const ids = [...page.body.items, ...rest.body.items].map((key: { id: string }) => key.id);
  expect(ids.sort()).toEqual([first.id, second.id].sort());
  expect(page.text + rest.text).not.toContain('hash');
  expect(outcome(await admin.delete(`${keys}/${first.id}`))).toBe('204');
  expect(await reading(first.client, risk())).toBe('401 auth_api_key_invalid');
  expect(await reading(second.client, risk())).toBe('200');
});

test('keys are made by an administrator who has just signed in, and by no key', async () => {
  const id = await make({ roles: ['viewer'] });
  const keys = `${accounts()}/${id}/api-keys`;
  const admin = await signIn(strata.url, tenant.emails.tenant_admin!, 'member-password-123');
  const made = await admin.post('/auth/api-key', {
    name: 'members',
    scopes: ['members:write', 'members:read'],
  });
  const key = new Client(strata.url, made.body.api_key);
  expect(await reading(key, keys)).toBe('200');
  expect(outcome(await key.post(keys, { name: 'x' }))).toBe('403 insufficient_scope');
  expect(outcome(await key.post(accounts(), { name: 'x', roles: ['viewer'] }))).toBe('201');
  for (const roles of [['tenant_admin'], ['viewer', 'tenant_admin']]) {
    expect(outcome(await key.post(accounts(), { name: 'x', roles }))).toMatch(/^403/);
    expect(outcome(await key.patch(`${accounts()}/${id}`, { roles }))).toMatch(/^403/);
  }
  // Nor does it wake one that is asleep.
  await admin.patch(`${accounts()}/${id}`, { roles: ['tenant_admin'], status: 'disabled' });
  expect(outcome(await key.patch(`${accounts()}/${id}`, { status: 'active' }))).toBe(
    '403 insufficient_scope',
  );

  const old = await oldSession();
  expect(outcome(await old.post(keys, { name: 'x' }))).toBe('403 auth_reauth_required');
  expect(outcome(await old.post(accounts(), { name: 'x', roles: ['tenant_admin'] }))).toBe(
    '403 auth_reauth_required',
  );
  expect(outcome(await old.post(accounts(), { name: 'x', roles: ['operator'] }))).toBe(
    '403 auth_reauth_required',
  );
  expect(outcome(await old.post(accounts(), { name: 'x', roles: ['viewer'] }))).toBe('201');
});

test('who is no administrator any more when it comes to their turn makes no key and no trust', async () => {
  const account = await make({ roles: ['operator'] });
  const member = { email: 'leaver@machines.example', roles: ['tenant_admin'] };
  const leaver = await addMember(tenant.admin, tenant.id, member);
  const counter = 'SELECT FROM strata.revisions WHERE scope = $1 FOR UPDATE';
  const lock = await holdLock(strata.database, counter, [`members:${tenant.id}`]);
  const demoted = tenant.admin.patch(`/tenants/${tenant.id}/users/${leaver.user_id}`, {
    roles: ['viewer'],
  });
  await lock.untilWaiting(1);
  const late = [
    leaver.client.post(`${accounts()}/${account}/api-keys`, { name: 'late' }),
    leaver.client.put(`${accounts()}/${account}/trust`, { rules: [] }),
  ];
  await lock.untilWaiting(1 + late.length);
  await lock.release();
  expect(outcome(await demoted)).toBe('200');
  const refused = late.map(() => '403 insufficient_role');
  expect((await Promise.all(late)).map(outcome)).toEqual(refused);
  const { body } = await tenant.admin.get(`${accounts()}/${account}/api-keys`);
  expect(body.items).toEqual([]);
});

test("another tenant's accounts and keys are not there", async () => {
  const id = await make({ roles: ['viewer'] });
  const { id: keyId } = await keyOf(id);
  const theirs = `${accounts(other.id)}/${id}`;
  expect(outcome(await other.admin.patch(theirs, { name: 'taken' }))).toBe('404 not_found');
  expect(outcome(await other.admin.delete(theirs))).toBe('404 not_found');
  expect(outcome(await other.admin.post(`${theirs}/api-keys`, { name: 'x' }))).toBe(
    '404 not_found',
  );
  expect(outcome(await other.admin.get(`${theirs}/api-keys`))).toBe('404 not_found');
  expect(outcome(await other.admin.delete(`${theirs}/api-keys/${keyId}`))).toBe('404 not_found');
  expect(outcome(await tenant.operator.get(accounts()))).toBe('403 insufficient_role');
  expect((await other.admin.get(accounts(other.id))).text).not.toContain(id);
});

test('a tenant has 200 accounts and an account 20 keys at most', async () => {
  const id = await make({ roles: ['viewer'] });
  const { id: expired } = await keyOf(id);
  for (let made = 1; made < 20; made += 1) await keyOf(id);
  const keys = `${accounts()}/${id}/api-keys`;
  expect(outcome(await tenant.admin.post(keys, { name: 'one more' }))).toBe('409 conflict');
  await strata.database.query(
    `UPDATE auth.api_keys SET expires_at = now() WHERE id = '${expired}'`,
  );
  await keyOf(id);

  await strata.database.query(
    `INSERT INTO tenant_config.service_accounts (tenant_id, id, name, roles, status, created_by, created_at, updated_at)
     SELECT '${other.id}', gen_random_uuid(), 'a', '{viewer}', 'active', 'test', now(), now() FROM generate_series(1, 200)`,
  );
  const body = { name: 'one more', roles: ['viewer'] };
  expect(outcome(await other.admin.post(accounts(other.id), body))).toBe('422 quota_exceeded');
  const first = await other.admin.get(`${accounts(other.id)}?limit=200`);
  expect([first.body.items.length, first.body.next_cursor]).toEqual([200, null]);
});

/** All that there are but the clock. */
const timers = [
  ...(['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] as const),
  ...(['setImmediate', 'clearImmediate', 'nextTick', 'queueMicrotask'] as const),
  ...(['performance', 'hrtime'] as const),
];
test('an auth node whose clock is ahead ends no session, removes no key, and makes none that lasts longer', async () => {
  const id = await make({ roles: ['viewer'] });
  const { id: keyId } = await keyOf(id);
  const { body: me } = await tenant.admin.get('/auth/me');
  const { url } = strata.database;
  const db = await openDatabase({ url, poolSize: 2, timeoutMs: 5000, ssl: false }, authSchema);
  const parts = {
    db,
    settings: () => loadSettings({ SECRET_KEY: secretKey }, { roles: [] }),
  } as unknown as AuthParts;
  const caller = {
    type: 'user',
    id: me.user.id,
    session_id: me.session_id,
    platform_roles: [],
  };
  const membership = { tenant_id: tenant.id, tenant_status: 'active', roles: ['tenant_admin'] };
  const request = { caller, call: async () => [membership], committed: [], requestId: 'x' };
  jest.useFakeTimers({ now: Date.now() + 400 * 86_400_000, doNotFake: timers });
  try {
    const { 'auth.sessions.resolve': stateOf } = sessionActions(parts);
    const { value } = await stateOf({ session_id: me.session_id });
    expect(value!.status).toBe('active');
    await serviceAccountKeyActions(parts)['auth.service-account-key.create'](
      { tenant_id: tenant.id, account_id: id, body: { name: 'ahead' } },
      request as unknown as Request,
    );
    const invitation = { tenant_id: other.id, user_id: me.user.id, tenant_name: 'Other' };
    await putInvitation(db.manager, { ...invitation, invited_by: 'test' }, 'a token');
    expect(await findUnusedInvitation(db.manager, 'a token')).not.toBeNull();
  } finally {
    jest.useRealTimers();
    await db.destroy();
  }
  const { body } = await tenant.admin.get(`${accounts()}/${id}/api-keys`);
  expect(body.items.map((key: { id: string }) => key.id)).toContain(keyId);
  const [longest] = await strata.database.query(
    `SELECT (SELECT max(expires_at) FROM auth.api_keys WHERE service_account_id = '${id}')
         <= now() + interval '90 days' AS key,
       (SELECT max(expires_at) FROM auth.invitations WHERE tenant_id = '${other.id}')
         <= now() + interval '7 days' AS invitation`,
  );
  expect(longest).toEqual({ key: true, invitation: true });
});

test('one whose clock is behind gives out no key that has expired', async () => {
  const id = await make({ roles: ['viewer'] });
  const { id: keyId } = await keyOf(id);
  await strata.database.query(`UPDATE auth.api_keys SET expires_at = now() WHERE id = '${keyId}'`);
  const { url } = strata.database;
  const db = await openDatabase({ url, poolSize: 2, timeoutMs: 5000, ssl: false }, authSchema);
  const settings = () => loadSettings({ SECRET_KEY: secretKey }, { roles: [] });
  jest.useFakeTimers({ now: Date.now() - 86_400_000, doNotFake: timers });
  try {
    const { 'auth.api-key.resolve': resolve } = apiKeyActions({ db, settings } as never);
    expect((await resolve({ key_id: keyId })).value!.usable).toBe(false);
  } finally {
    jest.useRealTimers();
    await db.destroy();
  }
});

test('what makes no account is refused', async () => {
  for (const body of [
    {},
    { name: 'x' },
    { name: '', roles: ['viewer'] },
    { name: 'x'.repeat(101), roles: ['viewer'] },
    { name: 'x', roles: [] },
    { name: 'x', roles: ['platform_admin'] },
    { name: 'x', roles: ['viewer'], status: 'active' },
    { name: 'x', roles: ['viewer'], password: 'p' },
  ])
    expect(outcome(await tenant.admin.post(accounts(), body))).toBe('422 validation_failed');
  const unknownAccount = `${accounts()}/${randomUUID()}`;
  expect(outcome(await tenant.admin.patch(unknownAccount, { name: 'x' }))).toBe('404 not_found');
  expect(outcome(await tenant.admin.post(`${unknownAccount}/api-keys`, { name: 'x' }))).toBe(
    '404 not_found',
  );
});
