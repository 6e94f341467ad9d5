/** Deciding over REST: the tenant's own effective limits, whoever asks, and nothing for a typo. */
import { beforeAll, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { sharedStrata, type SharedStrata } from '../support/shared-strata.ts';
import {
  adminPassword,
  createTenantWith,
  signIn,
  type Answer,
  type Client,
  type TenantWith,
} from '../support/strata.ts';

let strata: SharedStrata;
let platform: Client;
let tenant: TenantWith<'viewer'>;

beforeAll(async () => {
  strata = await sharedStrata();
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenantWith(strata.url, platform, 'Decide', ['viewer']);
  const { id, admin } = tenant;
  await admin.put(`/tenants/${id}/services/web`, { service_type: 'cloud_run' });
  await admin.put(`/tenants/${id}/config/agents/scaler`, {});
});

const plain = { action: 'scale', risk_level: 'low' };
const ask = (body: object, by: Client = tenant.admin) =>
  by.post(`/tenants/${tenant.id}/decide`, { ...plain, ...body });
const patchRisk = (body: object) => tenant.admin.patch(`/tenants/${tenant.id}/config/risk`, body);

test('decides by the limits of what is touched, and says which document set them', async () => {
  const written = await patchRisk({
    service_overrides: { cloud_run: { max_cost_impact_auto: 2 } },
  });
  const { status, body } = await ask({ cost_impact: 3, service_id: 'web' }, tenant.viewer);
  expect([status, body]).toEqual([
    200,
    {
      decision_id: expect.any(String),
      decision: 'approval_required',
      reasons: [
        {
          rule: 'max_cost_impact_auto',
          limit: 2,
          asked: 3,
          layer: 'tenant_risk',
          source: `risk_config_${tenant.id}`,
          revision: Number(written.headers.get('x-config-revision')),
        },
      ],
      revision: { tenant: expect.any(Number), platform: expect.any(Number) },
    },
  ]);
  expect((await ask({ cost_impact: 3 })).body.decision).toBe('allow');
});

test('a switch is off for every answer after it was answered', async () => {
  for (let time = 0; time < 5; time += 1) {
    // Once loaded, once derived, and from then on remembered.
    for (let again = 0; again < 3; again += 1)
      expect((await ask({ agent_type: 'scaler' })).body.decision).toBe('allow');
    await patchRisk({ global_settings: { automation_enabled: false } });
    const { body } = await ask({ agent_type: 'scaler' });
    expect(body.decision).toBe('deny');
    expect(body.reasons[0]).toMatchObject({
      rule: 'automation_enabled',
      limit: false,
      asked: 'scale',
    });
    await patchRisk({ global_settings: { automation_enabled: true } });
    expect((await ask({ agent_type: 'scaler' })).body.decision).toBe('allow');
  }
});

test('a bound decides over the limits of the layers, from the moment it was answered', async () => {
  const bounds = `/tenants/${tenant.id}/config/bounds`;
  expect((await ask({ cost_impact: 3 })).body.decision).toBe('allow');
  await tenant.admin.put(bounds, { max_cost_impact_auto: { maximum: 1, reason: 'careful' } });
  const bounded = await ask({ cost_impact: 3 });
  expect(bounded.body).toMatchObject({
    decision: 'approval_required',
    reasons: [{ rule: 'max_cost_impact_auto', limit: 1, asked: 3 }],
  });
  await tenant.admin.patch(bounds, { automation_enabled: { const: false, reason: 'stop' } });
  expect((await ask({ cost_impact: 3 })).body.decision).toBe('deny');
  const started = await tenant.admin.post(`/tenants/${tenant.id}/automations`, plain);
  expect([started.status, started.body.state]).toEqual([201, 'denied']);
  await tenant.admin.delete(bounds);
  expect((await ask({ cost_impact: 3 })).body.decision).toBe('allow');
});

test('outside of business hours it says when they open', async () => {
  await patchRisk({ global_settings: { business_hours_only: true } });
  const hours = { days: ['mon'], start: '09:00', end: '17:00', timezone: 'Europe/Berlin' };
  await tenant.admin.patch(`/tenants/${tenant.id}/services/web`, { business_hours: hours });
  const at = '2026-07-05T12:00:00+02:00';
  const closed = await ask({ service_id: 'web', at });
  expect(closed.body).toMatchObject({ decision: 'deny', retry_at: '2026-07-06T07:00:00.000Z' });
  const open = await ask({ service_id: 'web', at: closed.body.retry_at });
  expect(open.body).toMatchObject({ decision: 'allow', reasons: [] });
  const none = await ask({ at: '2026-02-30T12:00:00Z' });
  expect([none.status, none.body.errors?.[0].path]).toEqual([422, '/at']);
  await patchRisk({ global_settings: { business_hours_only: false } });
});

test('a typo is 404 with the nearest names', async () => {
  const other = await createTenantWith(strata.url, platform, 'Decide near');
  await other.admin.put(`/tenants/${other.id}/services/wep`, { service_type: 'cloud_run' });
  const refused = await ask({ service_id: 'wep', agent_type: 'scalar' });
  expect([refused.status, refused.body.detail.code]).toEqual([404, 'not_found']);
  expect(refused.body.detail.message).toBe(
    'No agent named "scalar". Did you mean scaler? No service named "wep". Did you mean web?',
  );
  const typed = await ask({ service_type: 'cloudrun' });
  expect(typed.status).toBe(404);
  expect(typed.body.detail.message).toContain('Did you mean cloud_run,');
});

test.each([
  ['no action', { action: undefined }, '/action'],
  ['no risk level', { risk_level: undefined }, '/risk_level'],
  ['a risk level that is none', { risk_level: 'severe' }, '/risk_level'],
  ['a cost below nothing', { cost_impact: -1 }, '/cost_impact'],
  ['a cost as text', { cost_impact: '3' }, '/cost_impact'],
  ['a scaling below nothing', { resource_scaling: -1 }, '/resource_scaling'],
  ['a limit of its own', { max_cost_impact_auto: 99 }, '/max_cost_impact_auto'],
])('%s is refused', async (_name, body, path) => {
  const { status, body: answer } = await ask(body);
  expect([status, answer.errors?.[0].path]).toEqual([422, path]);
});

test('another tenant decides nothing here', async () => {
  const other = await createTenantWith(strata.url, platform, 'Decide else');
  const refused = await ask({}, other.admin);
  expect([refused.status, refused.body.detail.code]).toEqual([403, 'tenant_mismatch']);
});

test('a rollback counts where it names what it takes back, of this tenant and this service', async () => {
  const { id, admin } = tenant;
  const other = await createTenantWith(strata.url, platform, 'Decide foreign');
  for (const at of [`/tenants/${id}/services/db`, `/tenants/${other.id}/services/web`])
    await (at.includes(id) ? admin : other.admin).put(at, { service_type: 'cloud_run' });
  const revisionOf = async (answer: Promise<Answer>) =>
    Number((await answer).headers.get('x-config-revision'));
  const web = await revisionOf(admin.patch(`/tenants/${id}/services/web`, { min_instances: 2 }));
  const start = async (by: Client, of: string, body: object) => {
    const made = await by.post(`/tenants/${of}/automations`, { ...plain, ...body });
    expect([made.status, made.text]).toEqual([201, expect.any(String)]);
    return made.body;
  };
  const onWeb = { service_id: 'web' };
  const ran = await start(admin, id, onWeb);
  const waits = await start(admin, id, { ...onWeb, risk_level: 'high' });
  const foreign = await start(other.admin, other.id, onWeb);

  const risky = { ...onWeb, risk_level: 'high', is_rollback: true };
  const outcome = async (body: object) => {
    const { status, body: answer } = await ask({ ...risky, ...body });
    expect(status).toBe(200);
    return [answer.decision, answer.warnings?.[0].path];
  };
  const counts = ['allow', undefined];
  const asked = ['approval_required', '/takes_back'];
  expect(await outcome({})).toEqual(['approval_required', '/is_rollback']);
  expect(await outcome({ takes_back: { automation_id: ran.id } })).toEqual(counts);
  expect(await outcome({ takes_back: { revision: web } })).toEqual(counts);
  const ofDb = { service_id: 'db' };
  for (const [why, body] of Object.entries({
    'of another service': { ...ofDb, takes_back: { automation_id: ran.id } },
    'that never ran': { takes_back: { automation_id: waits.id } },
    "of another tenant's": { takes_back: { automation_id: foreign.id } },
    'that is none': { takes_back: { automation_id: randomUUID() } },
    'a revision of another document': { ...ofDb, takes_back: { revision: web } },
    'a revision that is none': { takes_back: { revision: 1_000_000 } },
  }))
    expect([why, await outcome(body)]).toEqual([why, asked]);

  const refused = await ask({ ...risky, takes_back: { automation_id: ran.id, revision: web } });
  expect(refused.status).toBe(422);
  const said = await start(admin, id, risky);
  expect([said.state, said.warnings[0].path]).toEqual(['waiting_approval', '/is_rollback']);
  expect(said.warnings[0].message).toContain('takes_back');
  const { body: approval } = await admin.get(`/tenants/${id}/approvals/${said.approval_id}`);
  expect(approval.resource).toEqual(onWeb);
  const proven = await start(admin, id, { ...risky, takes_back: { automation_id: ran.id } });
  expect([proven.state, proven.reasons[0].rule]).toEqual(['running', 'auto_approve_rollbacks']);
});
