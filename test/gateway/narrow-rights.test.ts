/**
 * Keys that are narrowed to services, agents or documents, and the roles that only approve or only
 * take changes back. That each contract keeps to them is walked in rules/credential-walk.test.ts,
 * gateway/isolation.test.ts and services/bus-access.test.ts; here is what handlers judge, and what
 * somebody would try.
 */
import { beforeAll, describe, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { keyScopes } from '../../shared/contracts/roles.ts';
import type { NarrowedTo } from '../../shared/contracts/narrow-keys.ts';
import { runPasted } from '../support/pasted.ts';
import { sharedStrata, type SharedStrata } from '../support/shared-strata.ts';
import {
  addMember,
  adminPassword,
  Client,
  createTenant,
  signIn,
  type Answer,
  type TenantFixture,
} from '../support/strata.ts';

let strata: SharedStrata;
let tenant: TenantFixture;
let reviewer: Client;
let reverter: Client;
let at: string;

const outcome = ({ status, body }: Answer) => [status, body?.detail?.code];
const refused = [403, 'insufficient_scope'];
const role = [403, 'insufficient_role'];

async function narrowKey(narrowed_to: NarrowedTo, scopes = keyScopes): Promise<Client> {
  const made = await tenant.admin.post('/auth/api-key', { name: 'narrow', scopes, narrowed_to });
  expect([made.status, made.body.narrowed_to]).toEqual([201, narrowed_to]);
  return new Client(strata.url, made.body.api_key);
}

async function member(role: string): Promise<Client> {
  const added = { email: `${role}@narrow.example`, roles: [role] };
  return (await addMember(tenant.admin, tenant.id, added)).client;
}

beforeAll(async () => {
  strata = await sharedStrata();
  const platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, 'Narrow');
  at = `/tenants/${tenant.id}`;
  for (const id of ['checkout', 'search'])
    await tenant.admin.put(`${at}/services/${id}`, { service_type: 'cloud_run' });
  for (const type of ['scaler', 'pruner'])
    await tenant.admin.put(`${at}/config/agents/${type}`, { default_region: 'europe-west1' });
  reviewer = await member('reviewer');
  reverter = await member('reverter');
});

describe('a narrow key', () => {
  let ofCheckout: Client;
  beforeAll(async () => {
    ofCheckout = await narrowKey({ service_ids: ['checkout'] });
  });

  test('reads its own context and no other, also from memory and as a stream', async () => {
    const effective = `${at}/config/effective`;
    // What everybody may read is in memory from then on.
    for (const query of ['', '?service_id=search', '?service_id=checkout'])
      for (let time = 0; time < 3; time += 1)
        expect((await tenant.admin.get(effective + query)).status).toBe(200);
    for (const query of ['', '?service_id=search', '?agent_type=scaler'])
      expect(outcome(await ofCheckout.get(effective + query))).toEqual(refused);
    for (const query of ['?service_id=checkout', '?service_id=checkout&agent_type=scaler'])
      expect((await ofCheckout.get(effective + query)).status).toBe(200);
    expect(outcome(await ofCheckout.get(`${effective}/watch?service_id=search`))).toEqual(refused);
    const ending = new AbortController();
    const stream = await fetch(`${strata.url}${effective}/watch?service_id=checkout`, {
      headers: { authorization: `Bearer ${ofCheckout.token}` },
      signal: ending.signal,
    });
    expect(stream.status).toBe(200);
    ending.abort();
  });

  test('with two lists takes what both can name to be in both', async () => {
    const both = await narrowKey({ service_ids: ['checkout'], agent_types: ['scaler'] });
    const effective = `${at}/config/effective`;
    for (const query of ['service_id=checkout', 'service_id=checkout&agent_type=pruner'])
      expect(outcome(await both.get(`${effective}?${query}`))).toEqual(refused);
    expect((await both.get(`${effective}?service_id=checkout&agent_type=scaler`)).status).toBe(200);
    for (const path of ['services/checkout', 'config/agents/scaler'])
      expect((await both.get(`${at}/${path}`)).status).toBe(200);
  });

  test('writes its own document, tries it in no other context, and reads nothing beside', async () => {
    const own = `${at}/services/checkout`;
    expect((await ofCheckout.patch(own, { max_instances: 5 })).status).toBe(200);
    expect(outcome(await ofCheckout.patch(`${at}/services/search`, {}))).toEqual(refused);
    expect(outcome(await ofCheckout.put(`${at}/services/new`, {}))).toEqual(refused);
    for (const path of [
      'services',
      'config/risk',
      'config/agents/scaler',
      'config/history',
      'config/history/1',
      'config/bounds/violations',
      'config/changesets',
      'automations',
      'approvals',
      'users',
      'access-report',
    ])
      expect([path, ...outcome(await ofCheckout.get(`${at}/${path}`))]).toEqual([path, ...refused]);
    for (const path of ['/configurations/', '/audit/events', '/audit/export', '/auth/api-keys'])
      expect([path, ...outcome(await ofCheckout.get(path))]).toEqual([path, ...refused]);
    const ofRisk = await narrowKey({
      documents: [`${at}/config/risk`],
      service_ids: ['checkout'],
    });
    const trial = `${at}/config/risk?dry_run=true&effective=true&for_service_id=`;
    const body = { global_settings: { max_cost_impact_auto: 7 } };
    expect(outcome(await ofRisk.patch(`${trial}search`, body))).toEqual(refused);
    expect((await ofRisk.patch(`${trial}checkout`, body)).status).toBe(200);
    for (const [path, limits] of [
      ['bounds', { max_instances: { maximum: 3 } }],
      ['budgets', {}],
    ] as const) {
      const document = `${at}/config/${path}`;
      const ofIt = await narrowKey({ documents: [document] });
      const dryRun = `${document}?dry_run=true`;
      expect((await ofIt.put(dryRun, limits)).status).toBe(200);
      expect(outcome(await ofIt.put(`${dryRun}&impact=true`, limits))).toEqual(refused);
    }
  });

  test('makes no key, account or trust, whatever its scopes', async () => {
    const asked = { name: 'wider', scopes: ['config:read'] };
    for (const [path, body] of [
      ['/auth/api-key', asked],
      [`${at}/service-accounts`, { name: 'wider', roles: ['tenant_admin'] }],
      [`${at}/users`, { email: 'wider@narrow.example', roles: ['tenant_admin'] }],
    ] as const)
      expect(outcome(await ofCheckout.post(path, body))).toEqual(refused);
  });

  test('is listed with what it is for, keeps that when rotated, and is in the audit', async () => {
    const { body } = await tenant.admin.get('/auth/api-keys');
    const only = '{"service_ids":["checkout"]}';
    const listed = body.items.find(
      ({ narrowed_to: to }: { narrowed_to?: object }) => JSON.stringify(to) === only,
    );
    const rotated = await tenant.admin.post(`/auth/api-keys/${listed.id}/rotate`, {});
    expect(rotated.body.narrowed_to).toEqual(listed.narrowed_to);
    ofCheckout = new Client(strata.url, rotated.body.api_key);
    expect(outcome(await ofCheckout.get(`${at}/services/search`))).toEqual(refused);
    expect((await ofCheckout.get('/auth/me')).status).toBe(200);
    const { text } = await tenant.admin.get('/auth/activity');
    expect(text).toContain(`"narrowed_to":${only}`);
  });

  test.each([
    ['another tenant', () => `/tenants/${randomUUID()}/config/risk`],
    ['a list', () => `${at}/services`],
    ['a name that is none', () => `${at}/config/agents/UPPER`],
    ['another spelling', () => `${at}/config/agents/sc%61ler`],
  ])('is not made for %s', async (_what, path) => {
    const narrowed_to = { documents: [path()] };
    const made = await tenant.admin.post('/auth/api-key', { name: 'none', narrowed_to });
    expect([made.status, made.body.errors[0].path]).toEqual([422, '/narrowed_to/documents/0']);
  });

  test('starts and ends automations of its own service, and finds no other', async () => {
    const automations = `${at}/automations`;
    const start = { action: 'scale', risk_level: 'low' };
    const others = await tenant.admin.post(automations, { ...start, service_id: 'search' });
    expect(others.status).toBe(201);
    const digest = 'a'.repeat(64);
    const other = `${automations}/${others.body.id}`;
    for (const body of [start, { ...start, service_id: 'search' }]) {
      expect(outcome(await ofCheckout.post(automations, body))).toEqual(refused);
      expect(outcome(await ofCheckout.post(`${at}/decide`, body))).toEqual(refused);
    }
    expect(outcome(await ofCheckout.get(other))).toEqual([404, 'not_found']);
    for (const [step, body] of [
      ['heartbeat', undefined],
      ['redeem', { action_digest: digest, executor: 'x' }],
      ['finish', { outcome: 'stolen' }],
    ] as const)
      expect(outcome(await ofCheckout.post(`${other}/${step}`, body))).toEqual([404, 'not_found']);
    const mine = { ...start, service_id: 'checkout' };
    expect((await ofCheckout.post(`${at}/decide`, mine)).body.decision).toBe('allow');
    const started = await ofCheckout.post(automations, mine);
    expect([started.status, started.body.state]).toEqual([201, 'running']);
    const own = `${automations}/${started.body.id}`;
    expect((await ofCheckout.get(own)).body.grant).toEqual(expect.any(String));
    expect((await ofCheckout.post(`${own}/finish`, { outcome: 'succeeded' })).status).toBe(200);
  });

  test('is told no name near one that is not there', async () => {
    const service_id = 'checkouts';
    const narrow = await narrowKey({ service_ids: [service_id] });
    const asking = await tenant.admin.post('/auth/api-key', {
      name: 'asking',
      scopes: ['approvals:write'],
    });
    const intent = { action: 'scale', risk_level: 'low', service_id };
    for (const { status, body } of [
      await narrow.get(`${at}/config/effective?service_id=${service_id}&strict=true`),
      await narrow.post(`${at}/decide`, intent),
      await narrow.post(`${at}/automations`, intent),
      await new Client(strata.url, asking.body.api_key).post(`${at}/approvals`, {
        ...intent,
        title: 'Scale',
      }),
    ])
      expect([status, body.detail.message]).toEqual([404, 'No service named "checkouts".']);
    // Somebody who may list them is.
    const known = await tenant.admin.post(`${at}/decide`, intent);
    expect(known.body.detail.message).toContain('Did you mean checkout, search?');
  });

  test('proposes changes of its own documents, and takes those back alone', async () => {
    const sets = `${at}/config/changesets`;
    const item = (path: string) => ({ action: 'patch', path, body: { max_instances: 4 } });
    const [inside, outside] = [`${at}/services/checkout`, `${at}/services/search`];
    const set = (...paths: string[]) => ({ title: 'T', reason: 'R', items: paths.map(item) });
    expect(outcome(await ofCheckout.post(sets, set(inside, outside)))).toEqual(refused);
    const made = await ofCheckout.post(sets, set(inside));
    expect(made.status).toBe(201);
    const others = await tenant.admin.post(sets, set(outside));
    for (const step of ['submit', 'cancel', 'rebase'])
      expect(outcome(await ofCheckout.post(`${sets}/${others.body.id}/${step}`))).toEqual(refused);
    const taken = { items: [item(inside)] };
    expect(outcome(await ofCheckout.patch(`${sets}/${others.body.id}`, taken))).toEqual(refused);
    const wider = { items: [item(outside)] };
    expect(outcome(await ofCheckout.patch(`${sets}/${made.body.id}`, wider))).toEqual(refused);
    expect((await ofCheckout.post(`${sets}/${made.body.id}/submit`)).status).toBe(200);

    const written = await tenant.admin.patch(outside, { max_instances: 9 });
    const undo = { undo: Number(written.headers.get('x-config-revision')) };
    expect(outcome(await ofCheckout.post(`${at}/config/rollback`, undo))).toEqual(refused);
    const own = await tenant.admin.patch(inside, { max_instances: 9 });
    const back = { undo: Number(own.headers.get('x-config-revision')) };
    expect((await ofCheckout.post(`${at}/config/rollback`, back)).status).toBe(200);
  });

  test('is made and used as the documentation says', () => {
    const output = runPasted('docs/operations/trust.md', 'Narrow keys', {
      STRATA: strata.url,
      TOKEN: tenant.admin.token,
      TENANT: tenant.id,
    });
    expect(output).toEqual(['checkout', 'insufficient_scope', 'insufficient_scope']);
  });

  test('of a service account is no wider', async () => {
    const accounts = `${at}/service-accounts`;
    const account = await tenant.admin.post(accounts, { name: 'bot', roles: ['operator'] });
    const made = await tenant.admin.post(`${accounts}/${account.body.id}/api-keys`, {
      name: 'narrow',
      scopes: ['config:read', 'config:write'],
      narrowed_to: { agent_types: ['scaler'] },
    });
    const key = new Client(strata.url, made.body.api_key);
    expect((await key.get(`${at}/config/agents/scaler`)).status).toBe(200);
    expect(outcome(await key.get(`${at}/config/agents/pruner`))).toEqual(refused);
    expect(outcome(await key.patch(`${at}/config/agents/scaler`, {}))).toEqual(role);
    const { body } = await tenant.admin.get(`${accounts}/${account.body.id}/api-keys`);
    expect(body.items[0].narrowed_to).toEqual({ agent_types: ['scaler'] });
  });
});

describe('a reviewer', () => {
  const approval = { action: 'scale', risk_level: 'high', title: 'Scale up' };

  test('reads the configuration and approves, and writes and starts nothing', async () => {
    for (const path of ['config/risk', 'services', 'config/history', 'automations', 'approvals'])
      expect((await reviewer.get(`${at}/${path}`)).status).toBe(200);
    const start = { action: 'scale', risk_level: 'low', service_id: 'checkout' };
    for (const [path, body] of [
      ['approvals', approval],
      ['automations', start],
      ['config/changesets', { title: 'T', reason: 'R', items: [] }],
      ['config/rollback', { revision: 1 }],
    ] as const)
      expect(outcome(await reviewer.post(`${at}/${path}`, body))).toEqual(role);
    expect(outcome(await reviewer.patch(`${at}/services/checkout`, {}))).toEqual(role);
    const asked = await tenant.operator.post(`${at}/approvals`, approval);
    const decided = await reviewer.post(`${at}/approvals/${asked.body.id}/decision`, {
      decision: 'approve',
    });
    expect([decided.status, decided.body.state]).toEqual([200, 'approved']);
  });

  test('is shown no grant, which an executor would act by', async () => {
    const start = { action: 'scale', risk_level: 'low', service_id: 'checkout' };
    const started = await tenant.operator.post(`${at}/automations`, start);
    expect(started.body.grant).toEqual(expect.any(String));
    const seen = await reviewer.get(`${at}/automations/${started.body.id}`);
    expect([seen.status, seen.body.grant]).toEqual([200, undefined]);
  });

  test('who was made one after the question does not answer it', async () => {
    const asked = await tenant.operator.post(`${at}/approvals`, approval);
    const added = { email: 'late@narrow.example', roles: ['reviewer'] };
    const { client: late } = await addMember(tenant.admin, tenant.id, added);
    const decision = { decision: 'approve' };
    const path = `${at}/approvals/${asked.body.id}/decision`;
    expect((await late.post(path, decision)).status).toBe(403);
    const puppet = await tenant.admin.post(`${at}/approvals`, approval);
    const theirs = `${at}/approvals/${puppet.body.id}/decision`;
    expect(outcome(await late.post(theirs, decision))).toEqual([
      403,
      'approval_decider_added_by_requester',
    ]);
    expect((await reviewer.post(path, decision)).status).toBe(200);
  });

  test('approves a change set, which is applied with its author’s rights', async () => {
    const sets = `${at}/config/changesets`;
    const items = [{ action: 'patch', path: `${at}/services/search`, body: { max_instances: 3 } }];
    const made = await tenant.operator.post(sets, { title: 'T', reason: 'R', items });
    const set = `${sets}/${made.body.id}`;
    await tenant.operator.post(`${set}/submit`);
    expect(outcome(await reviewer.post(`${set}/cancel`))).toEqual(role);
    const { digest } = made.body;
    const approved = await reviewer.post(`${set}/approve`, { digest });
    expect([approved.status, approved.body.state]).toEqual([200, 'applied']);
  });
});

describe('a reverter', () => {
  const rollback = (body: object, query = '') =>
    reverter.post(`${at}/config/rollback${query}`, body);
  const revisionOf = ({ headers }: Answer): number => Number(headers.get('x-config-revision'));

  test('reads the history and takes back what anybody wrote, and does nothing else', async () => {
    const service = `${at}/services/checkout`;
    const written = await tenant.admin.patch(service, { automation_enabled: false });
    expect((await reverter.get(`${at}/config/history`)).status).toBe(200);
    const undo = { undo: revisionOf(written), reason: 'it was too much' };
    expect((await rollback(undo, '?dry_run=true')).status).toBe(200);
    expect((await rollback(undo)).status).toBe(200);
    expect((await tenant.admin.get(service)).body.automation_enabled).toBeUndefined();
    for (const path of ['config/risk', 'services', 'config/effective', 'approvals', 'automations'])
      expect(outcome(await reverter.get(`${at}/${path}`))).toEqual(role);
    expect(outcome(await reverter.patch(service, { max_instances: 1 }))).toEqual(role);
    const start = { action: 'scale', risk_level: 'low' };
    for (const path of ['decide', 'automations', 'approvals'])
      expect(outcome(await reverter.post(`${at}/${path}`, start))).toEqual(role);
  });

  test.each([
    ['who approves', 'notifications', { approval_policy: { required: { high: 2 } } }],
    ['what takes an approval', 'change-policy', { config_types: ['agent_config'] }],
    ['who gets the proof', 'event-destinations', {}],
  ])('does not give back %s', async (_what, name, body) => {
    const written = await tenant.admin.put(`${at}/config/${name}`, body);
    expect([200, 201]).toContain(written.status);
    const undo = { undo: revisionOf(written) };
    for (const query of ['', '?dry_run=true', '?propose=true'])
      expect(outcome(await rollback(undo, query))).toEqual(role);
  });

  test('proposes nothing, and breaks no glass', async () => {
    const policy = `${at}/config/change-policy`;
    expect((await tenant.admin.get(policy)).status).toBe(200);
    const history = await tenant.admin.get(`${at}/config/history?config_type=agent_config`);
    const undo = { undo: history.body.items[0].revision };
    expect(outcome(await rollback(undo))).toEqual([403, 'change_approval_required']);
    const reason = { 'x-change-reason': 'because' };
    const proposed = await reverter.post(`${at}/config/rollback?propose=true`, undo, reason);
    expect(outcome(proposed)).toEqual(role);
    const glass = { 'x-break-glass': 'it burns and no one else is awake' };
    expect(outcome(await reverter.post(`${at}/config/rollback`, undo, glass))).toEqual(role);
  });
});
