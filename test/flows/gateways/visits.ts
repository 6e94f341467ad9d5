/**
 * A platform administrator looks into a tenant: exactly what a reviewer reads, told to the tenant, and
 * over on every gateway by the time that its end is answered. Two gateways, real mail.
 */
import { beforeAll, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { restRoutes } from '../../../gateway/http/rest.ts';
import type { AccessReport } from '../../../shared/contracts/access-report.ts';
import type { Contract } from '../../../shared/contracts/contract.ts';
import type { Visit } from '../../../shared/contracts/visits.ts';
import { eventually } from '../../support/cluster.ts';
import { watch } from '../../support/event-stream.ts';
import {
  addMember,
  adminPassword,
  Client,
  createTenant,
  joinTenant,
  signIn,
  type TenantFixture,
} from '../../support/strata.ts';
import { cluster, everywhere, mail } from './cluster.ts';

const reason = 'Ticket 4711: a value is not what they expect';
let tenant: TenantFixture;
let id: string;

beforeAll(async () => {
  tenant = await createTenant(cluster.platform.url, cluster.platform, 'Visited');
  ({ id } = tenant);
});

const platformSession = (): Promise<Client> =>
  signIn(cluster.gateways[0]!.url, 'admin@example.com', adminPassword);
const outcome = async (client: Client, path: string): Promise<unknown> => {
  const { status, body } = await client.get(path);
  return status === 200 ? 200 : body.detail.code;
};
const effective = (tenantId: string): string => `/tenants/${tenantId}/config/effective`;
const reads = (visitor: Client, tenantId = id): Promise<unknown[]> =>
  Promise.all(everywhere(visitor.token).map((client) => outcome(client, effective(tenantId))));

interface Visiting {
  readonly visitor: Client;
  readonly visit: Visit;
}
/** Begins a visit, and goes there in the same session. */
async function visiting(tenantId = id, why = reason): Promise<Visiting> {
  const session = await platformSession();
  const made = await session.post(`/tenants/${tenantId}/visits`, { reason: why });
  expect([made.status, made.text]).toEqual([201, expect.stringContaining(why)]);
  const moved = await session.post('/auth/switch-tenant', { tenant_id: tenantId });
  expect(moved.body).toMatchObject({
    tenant: { id: tenantId, roles: ['reviewer'] },
    visit: { id: made.body.id, until: made.body.until },
  });
  return { visitor: new Client(session.url, moved.body.access_token), visit: made.body };
}
const end = (by: Client, { id: visitId }: Visiting['visit'], tenantId = id) =>
  by.post(`/tenants/${tenantId}/visits/${visitId}/end`);

/** What a visitor of the own tenant is answered; undefined where they are let through. */
function refusalOf({ access, rest }: Contract, target: 'own' | 'other'): string | undefined {
  const isElsewhere = rest!.pathParams.includes('tenant_id') && target === 'other';
  if ('whileVisiting' in access)
    return access.level !== 'authenticated' && isElsewhere ? 'tenant_mismatch' : undefined;
  if (rest!.method !== 'GET') return 'visit_reads_only';
  if (access.level === 'authenticated') return undefined;
  if (access.level === 'platform_admin') return 'insufficient_role';
  if (isElsewhere) return 'tenant_mismatch';
  const roles = 'roles' in access ? access.roles : [];
  return roles.includes('reviewer') ? undefined : 'insufficient_role';
}

test('a visitor reads what a reviewer reads, by GET, and does nothing else at all', async () => {
  const { visitor, visit } = await visiting();
  const person = { email: 'reads@visits.example', roles: ['reviewer'] };
  const { client: reviewer } = await addMember(tenant.admin, id, person);
  const other = randomUUID();
  const routes = restRoutes.filter(({ contract }) => contract.access.level !== 'public');
  const open: string[] = [];
  for (const { name, contract, rest } of routes)
    for (const target of ['own', 'other'] as const) {
      const path = rest.path.replaceAll(/\{([a-z_]+)\}/g, (_all, param: string) => {
        if (param === 'tenant_id') return target === 'own' ? id : other;
        return param === 'revision' ? '1' : randomUUID();
      });
      const harmless = rest.method === 'GET' ? {} : { body: { not_a_field: true } };
      const { status, body, text } = await visitor.send(rest.method, path, harmless);
      const code = status === 403 ? (body.code ?? body.detail.code) : undefined;
      expect([name, target, code, text]).toEqual([name, target, refusalOf(contract, target), text]);
      // The cluster has no notifier, which is 503 for everybody.
      expect([name, status === 401 || status === 500]).toEqual([name, false]);
      if (target === 'own' && code === undefined) open.push(name);
      // The same as a reviewer who is a member.
      if (target === 'own' && rest.method === 'GET') {
        const member = await reviewer.send(rest.method, path);
        expect([name, status]).toEqual([name, member.status]);
      }
    }
  expect(open).toEqual(expect.arrayContaining(['config-resolver.resolve', 'auth.me']));
  expect(open.filter((name) => contractOfRoute(name).rest!.method !== 'GET').toSorted()).toEqual([
    'auth.logout',
    'auth.switch-tenant',
    'tenant-config.visits.end',
  ]);
  expect((await end(visitor, visit)).status).toBe(200);
});
const contractOfRoute = (name: string): Contract =>
  restRoutes.find((route) => route.name === name)!.contract;

test('it is a session of a person who signed in recently: no key, no other session', async () => {
  const path = `/tenants/${id}/visits`;
  const made = await cluster.platform.post('/auth/api-key', {
    name: 'all',
    scopes: ['identity:manage', 'platform:read', 'platform:write', 'config:read', 'members:write'],
  });
  const key = new Client(cluster.platform.url, made.body.api_key);
  expect((await key.post(path, { reason })).body.detail.code).toBe('insufficient_scope');
  for (const member of [tenant.admin, tenant.viewer])
    expect((await member.post(path, { reason })).body.detail.code).toBe('insufficient_role');
  for (const bad of [undefined, '', 'short', ' '.repeat(20)])
    expect((await cluster.platform.post(path, { reason: bad })).status).toBe(422);

  const login = { email: 'admin@example.com', password: adminPassword };
  const { body } = await new Client(cluster.gateways[0]!.url).post('/auth/login', login);
  await cluster.database.query(
    `UPDATE auth.sessions SET authenticated_at = now() - interval '11 minutes' WHERE id = $1`,
    [body.session_id],
  );
  const late = new Client(cluster.gateways[0]!.url, body.access_token);
  expect((await late.post(path, { reason })).body.detail.code).toBe('auth_reauth_required');

  const { visitor } = await visiting();
  expect(await reads(visitor)).toEqual([200, 200]);
  expect(await outcome(key, effective(id))).toBe('tenant_mismatch');
  const another = await platformSession();
  const moved = await another.post('/auth/switch-tenant', { tenant_id: id });
  expect(moved.body.detail.code).toBe('auth_no_tenant_membership');
  // Also where its row says that it is there.
  const { body: me } = await another.get('/auth/me');
  await cluster.database.query('UPDATE auth.sessions SET tenant_id = $1 WHERE id = $2', [
    id,
    me.session_id,
  ]);
  const fresh = await platformSession();
  await cluster.database.query(
    `UPDATE auth.sessions SET tenant_id = $1 WHERE id = (
       SELECT id FROM auth.sessions WHERE user_id = $2 ORDER BY created_at DESC LIMIT 1)`,
    [id, me.user.id],
  );
  expect(await reads(fresh)).toEqual(['tenant_mismatch', 'tenant_mismatch']);
});

test.each([
  ['the visitor', ({ visitor, visit }: Visiting) => end(visitor, visit)],
  [
    "the tenant's administrator",
    ({ visit }: Visiting) => end(new Client(cluster.gateways[1]!.url, tenant.admin.token), visit),
  ],
  ['the platform, elsewhere', async ({ visit }: Visiting) => end(await platformSession(), visit)],
  [
    'another visit of theirs',
    async () => (await platformSession()).post(`/tenants/${id}/visits`, { reason }),
  ],
  ['the end of its session', ({ visitor }: Visiting) => visitor.post('/auth/logout', {})],
])('%s ends it on every node, and its streams', async (_who, ends) => {
  const begun = await visiting();
  const { visitor } = begun;
  expect(await reads(visitor)).toEqual([200, 200]);
  const streams = await Promise.all(
    everywhere(visitor.token).map((client) => watch(client, `${effective(id)}/watch`)),
  );
  expect(streams.map(({ status }) => status)).toEqual([200, 200]);
  expect((await ends(begun)).status).toBeLessThan(300);
  for (const code of await reads(visitor))
    expect(['tenant_mismatch', 'auth_session_revoked']).toContain(code);
  await Promise.all(streams.map(({ ended }) => ended));
});

test('it ends by itself, by the clock of the database', async () => {
  const { visitor, visit } = await visiting();
  const minutes = (Date.parse(visit.until) - Date.now()) / 60_000;
  expect(minutes).toBeGreaterThan(29);
  expect(minutes).toBeLessThanOrEqual(30.1);
  expect(await reads(visitor)).toEqual([200, 200]);
  const stream = await watch(visitor, `${effective(id)}/watch`);
  await cluster.database.query(
    `UPDATE tenant_config.visits SET until = created_at + interval '1 millisecond' WHERE id = $1`,
    [visit.id],
  );
  await eventually(async () =>
    expect(await reads(visitor)).toEqual(['tenant_mismatch', 'tenant_mismatch']),
  );
  await stream.ended;
  const { body } = await tenant.admin.get(`/tenants/${id}/visits?limit=1`);
  const [{ until, ended_at: endedAt }] = body.items;
  expect(endedAt).toBe(until);
  // The session has its role of the platform again.
  expect((await visitor.get('/config/nodes')).status).toBe(200);
});

test('the tenant reads who looked and why, in its audit, its list and its mail', async () => {
  const why = `Ticket ${randomUUID()}`;
  const before = mail.received.length;
  const { visitor, visit } = await visiting(id, why);
  await end(visitor, visit);
  const { admin } = tenant;
  for (const what of ['begun', 'ended'])
    await eventually(async () => {
      const { body } = await admin.get(`/audit/events?action=tenant.visit_${what}&limit=200`);
      const event = body.items.find(({ target }: { target: string }) => target === visit.id);
      expect(event).toMatchObject({
        tenant_id: id,
        actor: { type: 'user', id: visit.user_id, name: 'Platform administrator' },
        payload: { user_id: visit.user_id, reason: why },
      });
    });
  await eventually(async () => {
    const notified = mail.received.slice(before).filter(({ raw }) => raw.includes('visit_begun'));
    expect(notified.map(({ to }) => to)).toEqual([[tenant.emails.tenant_admin]]);
  });
  const { body: first } = await admin.get(`/tenants/${id}/visits?limit=1`);
  expect(first.items).toEqual([{ ...visit, ended_at: expect.any(String) }]);
  const next = await admin.get(`/tenants/${id}/visits?limit=1&cursor=${first.next_cursor}`);
  expect(next.body.items[0].created_at < first.items[0].created_at).toBe(true);
  for (const member of [tenant.operator, tenant.viewer])
    expect((await member.get(`/tenants/${id}/visits`)).status).toBe(403);
});

test('a visitor is no member: not in the list, the usage, nor the way of SCIM, and told apart in the report', async () => {
  const { admin } = tenant;
  const usage = () =>
    cluster.database.query('SELECT * FROM strata.usage WHERE tenant_id = $1 ORDER BY what', [id]);
  const before = await usage();
  const { visitor, visit } = await visiting();
  const members = await admin.get(`/tenants/${id}/users?limit=200`);
  expect([members.status, members.text]).toEqual([200, expect.not.stringContaining(visit.user_id)]);
  const reportAt = async (at: string) =>
    (await admin.get(`/tenants/${id}/access-report?at=${at}`)).body as AccessReport;
  const whileThere = new Date().toISOString();
  const { id: visitId, user_id, reason, created_at, until } = visit;
  const visits = [{ id: visitId, user_id, reason, created_at, until }];
  const { visits: seen, ...others } = await reportAt(whileThere);
  expect([seen, JSON.stringify(others)]).toEqual([visits, expect.not.stringContaining(user_id)]);
  const csv = (await admin.get(`/tenants/${id}/access-report?format=csv`)).text;
  expect(csv).toContain(`"visit","${user_id}"`);
  expect(await usage()).toEqual(before);
  const patched = await admin.patch(`/tenants/${id}/users/${visit.user_id}`, {
    roles: ['tenant_admin'],
  });
  expect(patched.status).toBe(404);
  const { body: me } = await visitor.get('/auth/me');
  expect(me).toMatchObject({ tenant: { id }, visit: { id: visit.id }, memberships: [] });
  await end(visitor, visit);
  expect((await visitor.get('/auth/me')).body.visit).toBeUndefined();
  const moments = [whileThere, new Date().toISOString(), new Date(0).toISOString()];
  const reports = await Promise.all(moments.map(reportAt));
  expect(reports.map((report) => report.visits)).toEqual([visits, [], []]);
});

test("a tenant's own rules hold: its policy of sign-ins, and that it is disabled", async () => {
  const { platform, gateways } = cluster;
  const strict = await createTenant(gateways[0]!.url, platform, 'Strict');
  const { visitor, visit } = await visiting(strict.id);
  expect(await reads(visitor, strict.id)).toEqual([200, 200]);
  const policy = { sign_in_policy: 'passkey_or_sso' };
  expect((await platform.patch(`/tenants/${strict.id}`, policy)).status).toBe(200);
  const weak = 'auth_stronger_sign_in_required';
  expect(await reads(visitor, strict.id)).toEqual([weak, weak]);
  const off = { sign_in_policy: 'any', status: 'disabled' };
  expect((await platform.patch(`/tenants/${strict.id}`, off)).status).toBe(200);
  const disabled = 'auth_tenant_disabled';
  expect(await reads(visitor, strict.id)).toEqual([disabled, disabled]);
  const again = await platform.post(`/tenants/${strict.id}/visits`, { reason });
  expect(again.body.detail.code).toBe(disabled);
  expect((await end(platform, visit, strict.id)).body.ended_at).toEqual(expect.any(String));
  expect((await platform.post(`/tenants/${randomUUID()}/visits`, { reason })).status).toBe(404);
});

test('who is a member goes there as one', async () => {
  const { platform, gateways } = cluster;
  const shared = await createTenant(gateways[0]!.url, platform, 'Shared');
  const session = await platformSession();
  const member = { email: 'admin@example.com', roles: ['operator'] };
  await joinTenant(shared.admin, shared.id, session, member);
  const refused = await session.post(`/tenants/${shared.id}/visits`, { reason });
  expect([refused.status, refused.body.detail.code]).toEqual([409, 'conflict']);
});
