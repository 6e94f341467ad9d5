/** API keys: what is stored of them, what they may do, when they end. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { keyScopes } from '../../shared/contracts/roles.ts';
import { createApiKeys, newApiKey, parseApiKey } from '../../shared/security/api-keys.ts';
import { eventually } from '../support/cluster.ts';
import fc from '../support/properties.ts';
import { sharedStrata, type SharedStrata } from '../support/shared-strata.ts';
import {
  addMember,
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
/** What is written for the platform. */
const ofPlatform = [
  '/config/global/private-of-the-platform',
  '/config/service-types/dormant/default',
  '/config/global/public-of-the-platform',
] as const;
beforeAll(async () => {
  strata = await sharedStrata();
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, 'Keys');
});
// Other files use this platform after it.
afterAll(async () => {
  for (const path of ofPlatform) await platform.delete(path);
});

interface IssuedKey {
  readonly id: string;
  readonly api_key: string;
  readonly prefix: string;
  readonly scopes: string[];
  readonly expires_at: string;
}
async function make(owner: Client, body: object): Promise<IssuedKey> {
  const { status, body: issued, text } = await owner.post('/auth/api-key', { name: 'ci', ...body });
  if (status !== 201) throw new Error(text);
  return issued;
}
/** A client that has nothing but a new key of this owner. */
async function clientWithKey(owner: Client, body: object): Promise<Client> {
  const { api_key: key } = await make(owner, body);
  return new Client(strata.url, key);
}
const risk = (): string => `/tenants/${tenant.id}/config/risk`;
const outcome = ({ status, body }: Answer): string =>
  status < 300 ? String(status) : `${status} ${body.detail.code}`;
/** How a request of this client for this path ends: a status, with the code where it is refused. */
const reading = async (client: Client, path: string): Promise<string> =>
  outcome(await client.get(path));

/** The power that each audit event of the tenant says, newest first. */
async function powersOf(prefix: string): Promise<string[]> {
  const { items } = (await tenant.admin.get('/audit/events?limit=200&order=desc')).body;
  const events = items as { action: string; payload: { power?: string } }[];
  return events
    .filter(({ action }) => action.startsWith(prefix))
    .map(({ payload }) => payload.power ?? 'none');
}

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
    const withWrongChecksum = `strata_${'0'.repeat(32)}_${'0'.repeat(72)}`;
    for (const text of ['', 'strata_', 'strata_x_y', withWrongChecksum])
      expect(parseApiKey(text)).toBeNull();
  });

  test('a key hashed under the previous SECRET_KEY still fits, under another it does not', () => {
    const { secret } = newApiKey(randomUUID());
    const [old, current, other] = ['o'.repeat(32), 'c'.repeat(32), 'x'.repeat(32)] as const;
    const stored = createApiKeys({ secret_key: old, secret_key_previous: null }).hash(secret);
    const afterRotation = createApiKeys({ secret_key: current, secret_key_previous: old });
    const ofOthers = createApiKeys({ secret_key: current, secret_key_previous: other });
    expect(afterRotation.fits(secret, stored)).toBe(true);
    expect(ofOthers.fits(secret, stored)).toBe(false);
  });
});

test('it is shown once, is taken in both headers, and only its hash is stored', async () => {
  const issued = await make(tenant.admin, { scopes: ['config:read', 'config:write'] });
  const { api_key: key, prefix, id } = issued;
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
  const rows = await strata.database.query('SELECT row_to_json(k) AS row FROM auth.api_keys k');
  expect(JSON.stringify(rows)).not.toContain(secret);
  const waiting = await strata.database.query('SELECT event FROM strata.outbox');
  const recorded = await strata.database.query('SELECT payload FROM audit.events');
  expect(JSON.stringify([waiting, recorded])).not.toContain(secret);
  expect(await strata.output()).not.toContain(secret);
});

test('scopes bound it, and so do the roles that its owner has now', async () => {
  const reader = await clientWithKey(tenant.admin, {});
  expect((await reader.get(risk())).status).toBe(200);
  const change = { global_settings: { max_concurrent_automations: 4 } };
  expect(outcome(await reader.patch(risk(), change))).toBe('403 insufficient_scope');
  expect(await reading(reader, `/tenants/${tenant.id}/users`)).toBe('403 insufficient_scope');
  expect(outcome(await reader.post('/auth/api-key', { name: 'child' }))).toBe(
    '403 insufficient_scope',
  );

  const operators = await clientWithKey(tenant.operator, {
    scopes: ['config:read', 'config:write', 'members:read', 'platform:read'],
  });
  expect((await operators.get(risk())).status).toBe(200);
  expect(await reading(operators, `/tenants/${tenant.id}/users`)).toBe('403 insufficient_role');
  expect(await reading(operators, '/tenants')).toBe('403 insufficient_role');
  const members = await tenant.admin.get(`/tenants/${tenant.id}/users`);
  const operator = members.body.items.find(
    ({ email }: { email: string }) => email === tenant.emails.operator,
  );
  const member = `/tenants/${tenant.id}/users/${operator.user_id}`;
  await tenant.admin.patch(member, { roles: ['viewer'] });
  expect(await reading(operators, risk())).toBe('403 insufficient_role');
  await tenant.admin.delete(member);
  expect(await reading(operators, risk())).toBe('401 auth_api_key_invalid');
});

test.each([
  ['config:write', 'members:write', 'approvals:write', 'approvals:decide'],
  ['identity:manage'],
])('a key with %s makes no one a tenant_admin', async (...scopes) => {
  const key = await clientWithKey(tenant.admin, { scopes: [...scopes, 'members:read'] });
  const users = `/tenants/${tenant.id}/users`;
  const members = (await key.get(users)).body.items as { email: string; user_id: string }[];
  const { user_id: viewer } = members.find(({ email }) => email === tenant.emails.viewer)!;
  const raised = await key.patch(`${users}/${viewer}`, { roles: ['viewer', 'tenant_admin'] });
  expect(outcome(raised)).toBe('403 insufficient_scope');
  const roles = ['tenant_admin'];
  expect(outcome(await key.post(users, { email: 'new-admin@keys.example', roles }))).toBe(
    '403 insufficient_scope',
  );
  const isPowerful = scopes.includes('identity:manage');
  const operator = { email: `operator-by-key-${scopes.length}@keys.example`, roles: ['operator'] };
  expect(outcome(await key.post(users, operator))).toBe(
    isPowerful ? '201' : '403 insufficient_scope',
  );
  const { user_id: admin } = members.find(({ email }) => email === tenant.emails.tenant_admin)!;
  const expected = isPowerful ? '200' : '403 insufficient_scope';
  for (const id of [viewer, admin])
    expect(outcome(await key.patch(`${users}/${id}`, { groups: ['night'] }))).toBe(expected);
});

test('a key changes who is asked and who decides with approvals:configure alone', async () => {
  const all = keyScopes.filter((scope) => scope !== 'approvals:configure');
  const [weak, able] = await Promise.all(
    [all, ['approvals:configure', 'config:write', 'config:read']].map((scopes) =>
      clientWithKey(tenant.admin, { scopes }),
    ),
  );
  const config = `/tenants/${tenant.id}/config`;
  const recipients = { email: { approval_recipients: ['mine@keys.example'] } };
  for (const query of ['', '?dry_run=true'])
    expect(outcome(await weak!.put(`${config}/notifications${query}`, recipients))).toBe(
      '403 insufficient_scope',
    );
  const written = await able!.put(`${config}/notifications`, recipients);
  expect(written.status).toBe(200);
  const { 'x-config-revision': revision } = Object.fromEntries(written.headers);
  expect(outcome(await weak!.post(`${config}/rollback`, { undo: Number(revision) }))).toBe(
    '403 insufficient_scope',
  );
  expect(outcome(await able!.post(`${config}/rollback`, { undo: Number(revision) }))).toBe('200');
  await eventually(async () =>
    expect(await powersOf('config.notifications.')).toEqual(['approvers', 'approvers']),
  );
});

test('the audit says of what is powerful which power it took, and of nothing else', async () => {
  const users = `/tenants/${tenant.id}/users`;
  for (const [email, roles] of [
    ['audited-viewer@keys.example', ['viewer']],
    ['audited-operator@keys.example', ['operator']],
  ])
    expect((await tenant.admin.post(users, { email, roles })).status).toBe(201);
  const changed = { global_settings: { max_concurrent_automations: 3 } };
  expect((await tenant.admin.patch(risk(), changed)).status).toBe(200);
  await eventually(async () => {
    expect((await powersOf('tenant.member_invited')).slice(0, 2)).toEqual(['sign_in', 'none']);
    expect(new Set(await powersOf('config.risk.'))).toEqual(new Set(['none']));
  });
});

test('a key of a platform administrator names people and providers with identity:manage alone', async () => {
  const weak = await clientWithKey(platform, {
    scopes: keyScopes.filter((scope) => scope !== 'identity:manage'),
  });
  const provider = {
    name: 'Mine',
    issuer: 'https://id.keys.example',
    client_id: 'strata',
    client_secret: 'secret',
    domains: [{ domain: 'example.com', verified: true }],
    redirect_uris: ['https://app.keys.example/'],
  };
  const refused = '403 insufficient_scope';
  expect(outcome(await weak.post('/auth/sso/providers', provider))).toBe(refused);
  const admin = { email: 'somebody@keys.example', password: 'a-long-first-password' };
  expect(outcome(await weak.post('/tenants', { name: 'By key', admin }))).toBe(refused);
  const { items } = (await weak.get('/auth/users')).body;
  const account = `/auth/users/${items[0].id}`;
  expect(outcome(await weak.patch(account, { status: 'disabled' }))).toBe(refused);
  expect(outcome(await weak.delete(account))).toBe(refused);
});

test("what is the platform's alone is seen with platform:read only, whoever owns the key", async () => {
  const keyWith = (...scopes: string[]): Promise<Client> => clientWithKey(platform, { scopes });
  const [config, audit, write, read] = await Promise.all([
    keyWith('config:read'),
    keyWith('audit:read'),
    keyWith('platform:write'),
    keyWith('platform:read', 'config:read', 'audit:read'),
  ]);
  const [entry, type, publicEntry] = ofPlatform;
  const secret = 'seen-by-the-platform-only';
  expect((await platform.put(entry, { config_value: secret })).status).toBe(201);
  const dormant = { is_active: false, default_settings: { note: secret } };
  expect((await platform.put(type, dormant)).status).toBe(201);
  await platform.put(publicEntry, { config_value: 1, is_public: true });

  for (const path of [entry, type]) {
    // Twice: the second answer is one from memory.
    expect(await reading(config, path)).toBe('404 not_found');
    expect((await read.get(path)).text).toContain(secret);
    expect(await reading(config, path)).toBe('404 not_found');
  }
  expect(await reading(config, publicEntry)).toBe('200');
  expect(await reading(config, '/config/global')).toBe('403 insufficient_scope');
  expect((await config.get('/config/service-types?limit=200')).text).not.toContain(secret);
  expect((await read.get('/config/service-types?limit=200')).text).toContain(secret);

  // A writer gets no sight of what stays as it was.
  for (const path of [entry, type]) {
    expect(outcome(await write.patch(path, {}))).toBe('404 not_found');
    expect(outcome(await write.patch(`${path}?dry_run=true`, {}))).toBe('404 not_found');
    expect(outcome(await write.put(`${path}?dry_run=true`, { config_value: 2 }))).toMatch(/^4/);
    expect(outcome(await write.delete(`${path}?dry_run=true`))).toBe('404 not_found');
    const body = path === entry ? { config_value: 2 } : dormant;
    for (const [name, condition] of [
      ['if-match', '"999999"'],
      ['if-none-match', '*'],
    ] as const) {
      const refused = await write.put(path, body, { [name]: condition });
      expect(outcome(refused)).toBe('412 precondition_failed');
      const said = refused.text + JSON.stringify([...refused.headers]);
      expect(said).not.toMatch(/admin@example\.com|at revision|x-updated-by|etag/);
    }
  }
  expect(outcome(await write.put(entry, { config_value: secret }))).toBe('200');
  const items = [{ action: 'put', path: entry, body: { config_value: `${secret}, later` } }];
  const proposed = { title: 'Later', reason: 'Not yet', items };
  const { id } = (await platform.post('/config/changesets', proposed)).body;
  const set = `/config/changesets/${id}`;
  for (const taken of [
    await write.patch(set, { title: 'Then' }),
    await write.post(`${set}/cancel`),
  ]) {
    expect(outcome(taken)).toBe('200');
    expect(taken.text).not.toContain(secret);
  }
  expect((await read.get(set)).text).toContain(secret);

  const newest = '/audit/events?limit=200&order=desc';
  await eventually(async () => expect((await read.get(newest)).text).toContain(secret));
  const events = await audit.get(newest);
  expect([events.status, events.body.items.length > 0]).toEqual([200, true]);
  expect(events.text).not.toContain(secret);
});

test('it ends with the membership of its owner, in that tenant alone, and does not come back with it', async () => {
  const email = 'comes-back@example.com';
  const { user_id: id } = await addMember(tenant.admin, tenant.id, { email, roles: ['operator'] });
  const other = await createTenant(strata.url, platform, 'Keys elsewhere');
  const inBoth = await signIn(strata.url, email, memberPassword);
  await joinTenant(other.admin, other.id, inBoth, { email, roles: ['operator'] });
  const keyIn = async (tenantId: string): Promise<Client> =>
    clientWithKey(await signIn(strata.url, email, memberPassword, tenantId), {});
  const [here, elsewhere] = [await keyIn(tenant.id), await keyIn(other.id)];
  expect((await here.get(risk())).status).toBe(200);

  expect((await tenant.admin.delete(`/tenants/${tenant.id}/users/${id}`)).status).toBe(204);
  expect(await reading(here, risk())).toBe('401 auth_api_key_invalid');
  const back = await signIn(strata.url, email, memberPassword, other.id);
  await joinTenant(tenant.admin, tenant.id, back, { email, roles: ['operator'] });
  expect(await reading(here, risk())).toBe('401 auth_api_key_invalid');
  expect(await reading(elsewhere, `/tenants/${other.id}/config/risk`)).toBe('200');
  const { items } = (await back.get('/auth/activity')).body;
  expect(items.map((event: { action: string }) => event.action)).toContain('auth.api_key_ended');

  // As after a removal that died before it came to the keys.
  const lost = await keyIn(tenant.id);
  await strata.database.query(`DELETE FROM tenant_config.members WHERE user_id = '${id}'`);
  expect((await tenant.admin.delete(`/tenants/${tenant.id}/users/${id}`)).status).toBe(404);
  expect(await reading(lost, risk())).toBe('401 auth_api_key_invalid');

  // The same, and nobody removes them again before they are asked back.
  await joinTenant(tenant.admin, tenant.id, back, { email, roles: ['operator'] });
  const left = await keyIn(tenant.id);
  await strata.database.query(`DELETE FROM tenant_config.members WHERE user_id = '${id}'`);
  await joinTenant(tenant.admin, tenant.id, back, { email, roles: ['operator'] });
  expect(await reading(left, risk())).toBe('401 auth_api_key_invalid');
});

test('rotation ends the old secret, revocation the key, disabling the account until it is enabled', async () => {
  const { id, api_key: first } = await make(tenant.admin, {});
  expect((await new Client(strata.url, first).get(risk())).status).toBe(200);
  const rotated = await tenant.admin.post(`/auth/api-keys/${id}/rotate`);
  expect([rotated.status, rotated.headers.get('cache-control')]).toEqual([201, 'no-store']);
  expect(await reading(new Client(strata.url, first), risk())).toBe('401 auth_api_key_invalid');
  const second = new Client(strata.url, rotated.body.api_key);
  expect((await second.get(risk())).status).toBe(200);
  expect((await tenant.viewer.delete(`/auth/api-keys/${id}`)).status).toBe(404);

  const accounts = await platform.get(`/auth/users?email=${tenant.emails.tenant_admin}`);
  const account = `/auth/users/${accounts.body.items[0].id}`;
  await platform.patch(account, { status: 'disabled' });
  expect(await reading(second, risk())).toBe('401 auth_api_key_invalid');
  await platform.patch(account, { status: 'active' });
  expect((await second.get(risk())).status).toBe(200);
  const again = await signIn(strata.url, tenant.emails.tenant_admin!, 'member-password-123');
  expect((await again.delete(`/auth/api-keys/${id}`)).status).toBe(204);
  expect(await reading(second, risk())).toBe('401 auth_api_key_invalid');
});

test('it expires, in 90 days by default, 365 at most', async () => {
  const viewer = tenant.viewer;
  const { expires_at: end, id, api_key: key } = await make(viewer, {});
  expect(Math.round((Date.parse(end) - Date.now()) / 86_400_000)).toBe(90);
  expect((await viewer.post('/auth/api-key', { name: 'x', expires_in_days: 366 })).status).toBe(
    422,
  );
  // The gateway knows it by then, and asks no one.
  await strata.database.query(
    `UPDATE auth.api_keys SET expires_at = now() + interval '10 seconds' WHERE id = '${id}'`,
  );
  const used = () => reading(new Client(strata.url, key), `/tenants/${tenant.id}/config/effective`);
  expect(await used()).toBe('200');
  await eventually(async () => expect(await used()).toBe('401 auth_api_key_invalid'));
});
