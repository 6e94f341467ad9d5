/**
 * People read names, not ids: in histories, explanations, documents, the audit and refusals. A name
 * stays in the tenant that knows it: another tenant's people, and the platform's, are never told by
 * name or address.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { eventually } from '../support/cluster.ts';
import { sharedStrata, type SharedStrata } from '../support/shared-strata.ts';
import {
  addMember,
  adminPassword,
  createTenant,
  createTenantWith,
  joinTenant,
  memberPassword,
  signIn,
  type Client,
  type TenantFixture,
} from '../support/strata.ts';

const platformAddress = 'admin@example.com';
const platformName = 'Platform administrator';

let strata: SharedStrata;
let platform: Client;
let acme: TenantFixture;
let other: TenantFixture;

beforeAll(async () => {
  strata = await sharedStrata();
  platform = await signIn(strata.url, platformAddress, adminPassword);
  acme = await createTenant(strata.url, platform, 'Acme names');
  other = await createTenant(strata.url, platform, 'Other names');
});
afterAll(async () => {
  for (const key of ['named', 'shared', 'kept']) await platform.delete(`/config/global/${key}`);
});

/** The header's name, as people read it. */
const authorIn = (headers: Headers): string =>
  decodeURIComponent(headers.get('x-updated-by-name') ?? '');

const of = ({ id }: TenantFixture): string => `/tenants/${id}`;

interface AuditEvent {
  readonly action: string;
  readonly actor: { readonly id: string; readonly name: string | null };
  readonly target: string | null;
}
/** Events arrive in the audit a moment after their writes. */
const audited = (client: Client, query: string, count = 1): Promise<AuditEvent[]> =>
  eventually(async () => {
    const { body } = await client.get(`/audit/events?limit=200&${query}`);
    expect(body.items.length).toBeGreaterThanOrEqual(count);
    return body.items as AuditEvent[];
  });

test('who wrote it, in the history, the document, the explanation and the audit', async () => {
  const { admin, operator, viewer, emails } = acme;
  const service = `${of(acme)}/services/named`;
  const made = await admin.put(service, { service_type: 'cloud_run' });
  expect([made.status, authorIn(made.headers)]).toEqual([201, emails.tenant_admin]);
  const written = await operator.patch(service, { min_instances: 1 });
  expect(authorIn(written.headers)).toBe(emails.operator);
  expect(authorIn((await admin.get(service)).headers)).toBe(emails.operator);

  const { body: history } = await operator.get(`${of(acme)}/config/history?resource_id=named`);
  const authors = history.items.map((item: Record<string, unknown>) => item.changed_by_name);
  expect(authors).toEqual([emails.operator, emails.tenant_admin]);
  const listed = async (query: Record<string, string>): Promise<string[]> => {
    const parameters = new URLSearchParams({ resource_id: 'named', ...query });
    const { body } = await operator.get(`${of(acme)}/config/history?${parameters}`);
    return body.items.map((item: Record<string, unknown>) => item.changed_by_name);
  };
  expect(await listed({ changed_by: emails.operator! })).toEqual([emails.operator]);
  expect(await listed({ changed_by: history.items[1].changed_by })).toEqual([emails.tenant_admin]);
  expect(await listed({ changed_by: 'somebody@else.example' })).toEqual([]);
  const [newer, older] = history.items.map((item: Record<string, string>) => item.changed_at);
  expect(await listed({ since: newer })).toEqual([emails.operator]);
  expect(await listed({ since: older, until: newer })).toEqual([emails.tenant_admin]);
  const { revision } = history.items[0];
  const entry = await operator.get(`${of(acme)}/config/history/${revision}`);
  expect(entry.body.changed_by_name).toBe(emails.operator);

  const effective = `${of(acme)}/config/effective?service_id=named&explain=true`;
  const { explain } = (await viewer.get(effective)).body;
  expect(explain.min_instances).toMatchObject({
    layer: 'service_instance',
    updated_by_name: emails.operator,
  });

  const [event] = await audited(admin, 'action=config.service.updated&order=desc');
  expect(event!.actor.name).toBe(emails.operator);
});

test('a 412 says who came first, and of an entry of the platform, too', async () => {
  const { admin, emails } = acme;
  const refused = await admin.put(`${of(acme)}/config/risk`, {}, { 'if-match': '"0"' });
  expect(refused.status).toBe(412);
  // The risk limits are as the platform made them with the tenant.
  expect(refused.body.detail.message).toContain(`written by ${platformName}`);
  await admin.patch(`${of(acme)}/config/risk`, { global_settings: { max_cost_impact_auto: 3 } });
  const again = await admin.put(`${of(acme)}/config/risk`, {}, { 'if-match': '"0"' });
  expect(again.body.detail.message).toContain(`written by ${emails.tenant_admin} at`);
  expect(authorIn(again.headers)).toBe(emails.tenant_admin);

  const entry = '/config/global/named';
  await platform.put(entry, { config_value: 1, is_public: true });
  const stale = await platform.put(entry, { config_value: 2 }, { 'if-match': '"0"' });
  expect(stale.body.detail.message).toContain(`written by ${platformAddress} at`);
});

test('names that are not ASCII, have line breaks, or are long', async () => {
  const name = 'Jürgen\r\nX-Evil: 1 Ødegård 彩花';
  const { admin } = acme;
  const { user_id: id, client } = await addMember(admin, acme.id, {
    email: 'juergen@acme.example',
    roles: ['tenant_admin'],
  });
  await strata.database.query('UPDATE auth.users SET display_name = $1 WHERE id = $2', [
    name + 'x'.repeat(1000),
    id,
  ]);
  const again = await signIn(strata.url, 'juergen@acme.example', memberPassword);
  const shown = name.replace('\r\n', ' ') + 'x'.repeat(1000);
  const expected = [...shown].slice(0, 200).join('');
  const { headers } = await again.put(`${of(acme)}/config/agents/unicode`, {});
  expect(authorIn(headers)).toBe(expected);
  expect(headers.get('x-evil')).toBeNull();
  expect((await client.get(`${of(acme)}/config/history?limit=1`)).body.items[0]).toMatchObject({
    changed_by_name: expected,
  });
});

test('a service account is called by its name, also by a new one', async () => {
  const { admin } = acme;
  const accounts = `${of(acme)}/service-accounts`;
  const made = await admin.post(accounts, { name: 'deploys', roles: ['operator'] });
  const { id } = made.body;
  const issued = await admin.post(`${accounts}/${id}/api-keys`, {
    name: 'ci',
    scopes: ['config:read', 'config:write'],
  });
  const { api_key: key } = issued.body;
  const put = () =>
    admin.send('PATCH', `${of(acme)}/services/named`, {
      body: { max_instances: 4 },
      headers: { authorization: `Bearer ${key}` },
    });
  expect(authorIn((await put()).headers)).toBe('deploys');
  await admin.patch(`${accounts}/${id}`, { name: 'pipeline' });
  expect(authorIn((await put()).headers)).toBe('pipeline');
});

describe('what does not leave its place', () => {
  test('a tenant learns that the platform wrote, and not who', async () => {
    const { admin, viewer } = acme;
    await platform.put('/config/global/shared', { config_value: 1, is_public: true });
    const entry = await viewer.get('/config/global/shared');
    expect(entry.body.updated_by_name).toBe(platformName);
    expect(authorIn(entry.headers)).toBe(platformName);
    const texts = [
      entry.text,
      (await viewer.get(`${of(acme)}/config/effective?explain=true`)).text,
      (await admin.get(`${of(acme)}/config/history`)).text,
      (await admin.get('/audit/events?limit=200')).text,
      (await admin.get('/config/service-types/cloud_run/default')).text,
    ];
    for (const text of texts) expect(text).not.toContain(platformAddress);
    const [created] = await audited(admin, 'action=tenant.created');
    expect(created!.actor.name).toBe(platformName);
    const { body: history } = await admin.get(`${of(acme)}/config/history?limit=200`);
    expect(history.items.at(-1).changed_by_name).toBe(platformName);
  });

  test("the platform's administrators read who it was", async () => {
    await platform.put('/config/global/kept', { config_value: 1 });
    expect((await platform.get('/config/global/kept')).body.updated_by_name).toBe(platformAddress);
    const { body } = await platform.get('/config/global?limit=200');
    for (const item of body.items) expect(item.updated_by_name).toBe(platformAddress);
    const history = await platform.get('/config/history?resource_id=kept');
    expect(history.body.items[0].changed_by_name).toBe(platformAddress);
    const [created] = await audited(platform, `action=tenant.created&tenant_id=${acme.id}`);
    expect(created!.actor.name).toBe(platformAddress);
  });

  test('somebody in two tenants is called in each what that one knows, and what they are called later is not told to the first', async () => {
    const { user_id: id, client } = await addMember(acme.admin, acme.id, {
      email: 'both@acme.example',
      roles: ['tenant_admin'],
    });
    await client.put(`${of(acme)}/config/agents/both`, {});
    await joinTenant(other.admin, other.id, client, {
      email: 'both@acme.example',
      roles: ['tenant_admin'],
    });
    await acme.admin.delete(`${of(acme)}/users/${id}`);
    await strata.database.query(
      `UPDATE auth.users SET display_name = 'Only for Other' WHERE id = $1`,
      [id],
    );
    const there = await signIn(strata.url, 'both@acme.example', memberPassword, other.id);
    await there.put(`${of(other)}/config/agents/both`, {});

    const entries = async (tenant: TenantFixture): Promise<string[]> => {
      const path = `${of(tenant)}/config/history?resource_id=both`;
      const { body } = await tenant.admin.get(path);
      return body.items.map((item: Record<string, string>) => item.changed_by_name);
    };
    expect(await entries(acme)).toEqual(['both@acme.example']);
    expect(await entries(other)).toEqual(['Only for Other']);
    expect((await acme.admin.get('/audit/events?limit=200')).text).not.toContain('Only for Other');
  });

  test("another tenant's person is found by no address, and named by no id", async () => {
    const [own] = await audited(acme.admin, `actor=${acme.emails.tenant_admin}`);
    expect(own!.actor.name).toBe(acme.emails.tenant_admin);
    const find = async (address: string): Promise<unknown> =>
      (await other.admin.get(`/audit/events?actor=${address}`)).body;
    const nothing = { items: [], next_cursor: null };
    expect(await find(acme.emails.tenant_admin!)).toEqual(nothing);
    expect(await find('nobody@nowhere.example')).toEqual(nothing);
    expect(await find(platformAddress)).toEqual(nothing);
  });
});

describe('the audit is searched', () => {
  test('by address in any case, by the beginning of an action, by target; newest first', async () => {
    const { admin, emails } = acme;
    await admin.put(`${of(acme)}/config/agents/searched`, { default_region: 'a' });
    await admin.put(`${of(acme)}/config/agents/searched`, { default_region: 'b' });
    const found = await audited(admin, 'target=searched&action=config.*&order=desc', 2);
    expect(found.map(({ action }) => action)).toEqual([
      'config.agent.updated',
      'config.agent.created',
    ]);
    const address = emails.tenant_admin!.toUpperCase();
    const by = await audited(admin, `actor=${address}&target=searched`, 2);
    expect(by).toHaveLength(2);
    const everything = await audited(admin, 'action=*', 3);
    expect(everything.length).toBeGreaterThan(by.length);
    const signIns = await audited(admin, 'action=auth.*');
    expect(new Set(signIns.map(({ action }) => action.split('.')[0]))).toEqual(new Set(['auth']));
  });

  test.each(['config_agent.*', 'config.agen%', 'config.%', '*.updated'])(
    'an action such as %s is not a pattern',
    async (action) => {
      await acme.admin.put(`${of(acme)}/config/agents/searched`, { default_region: 'a' });
      await audited(acme.admin, 'action=config.agent.*');
      const { body } = await acme.admin.get(`/audit/events?action=${encodeURIComponent(action)}`);
      expect(body.items).toEqual([]);
    },
  );
});

test('an action is found by its beginning, with an asterisk or without', async () => {
  const found = async (action: string): Promise<string[]> => {
    const events = await audited(acme.admin, `action=${action}`);
    return events.map(({ action: name, target }) => `${name} ${target}`);
  };
  const members = await found('tenant.member*');
  expect(members.length).toBeGreaterThan(0);
  expect(await found('tenant.member')).toEqual(members);
  const invited = members.filter((each) => each.startsWith('tenant.member_invited '));
  expect(await found('tenant.member_invited')).toEqual(invited);
});

test('tenants are found by a part of their name', async () => {
  const names = async (q: string): Promise<string[]> => {
    const { body } = await platform.get(`/tenants?q=${encodeURIComponent(q)}`);
    return body.items.map(({ name }: { name: string }) => name);
  };
  expect(await names('aCme nam')).toEqual(['Acme names']);
  expect((await names(' names')).sort()).toEqual(['Acme names', 'Other names']);
  await createTenantWith(strata.url, platform, 'Haus Über Ökonomie');
  expect(await names('ÜBER ökonomie')).toEqual(['Haus Über Ökonomie']);
  for (const q of ['%', '_', 'nobody', "'"]) expect(await names(q)).toEqual([]);
  expect((await acme.admin.get('/tenants?q=Other%20names')).status).toBe(403);
});

test('names cost a cached read nothing: no question to the database', async () => {
  const path = `${of(acme)}/config/risk`;
  await acme.admin.get(path);
  const changed = await strata.database.query(
    `UPDATE strata.actor_names SET name = 'Changed behind its back' WHERE name = $1 RETURNING name`,
    [acme.emails.tenant_admin],
  );
  expect(changed).not.toEqual([]);
  expect(authorIn((await acme.admin.get(path)).headers)).toBe(acme.emails.tenant_admin);
});
