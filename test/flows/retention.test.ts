/** A month and a year later: what a start removes, what it keeps, and what can still be proved. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { requireProvedAudit, type AuditEvent } from '../support/audit.ts';
import { eventually } from '../support/cluster.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import {
  adminPassword,
  Client,
  createTenant,
  memberPassword,
  signIn,
  startStrata,
  type Running,
  type TenantFixture,
} from '../support/strata.ts';

let database: Database;
let receiver: Receiver;
let strata: Running;
let tenant: TenantFixture;
let platform: Client;

const start = async (environment: Record<string, string> = {}): Promise<void> => {
  strata = await startStrata({
    DATABASE_URL: database.url,
    WEBHOOK_ALLOW_HTTP: 'true',
    WEBHOOK_ALLOWED_NETWORKS: '127.0.0.0/8',
    ...environment,
  });
};
beforeAll(async () => {
  database = await strataDatabase();
  receiver = await startReceiver();
  await start();
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, 'Years');
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await receiver?.close();
  await database?.drop();
});

const path = (rest: string): string => `/tenants/${tenant.id}${rest}`;
const ask = async (title: string, fields: object = {}): Promise<string> => {
  const body = { action: 'scale_up', risk_level: 'low', title, ...fields };
  const { status, body: made } = await tenant.operator.post(path('/approvals'), body);
  expect([status, made]).toEqual([202, expect.objectContaining({ state: 'pending' })]);
  return made.id;
};
const login = async (email: string) => {
  const answer = await new Client(strata.url).post('/auth/login', {
    email,
    password: memberPassword,
  });
  return answer.body as { access_token: string; refresh_token: string; session_id: string };
};
const refresh = (token: string) =>
  new Client(strata.url).post('/auth/refresh', { refresh_token: token });
const count = async (from: string, values: unknown[] = []): Promise<number> => {
  const [row] = await database.query<{ n: number }>(
    `SELECT count(*)::int AS n FROM ${from}`,
    values,
  );
  return row!.n;
};
/** Makes what there is in the columns older. */
const age = (table: string, columns: readonly string[], days: number, where = 'true') =>
  database.query(
    `UPDATE ${table} SET ${columns.map((column) => `${column} = ${column} - interval '${days} days'`).join(', ')} WHERE ${where}`,
  );

test('sessions, links, approvals and deliveries go in time; what is live stays, and the audit proves what was decided', async () => {
  const saved = await tenant.admin.put(path('/config/notifications'), {
    webhook: { url: receiver.url },
  });
  expect(saved.status).toBeLessThan(300);
  const old = await login(tenant.emails.viewer!);
  const oldNext = (await refresh(old.refresh_token)).body.refresh_token as string;
  const live = await login(tenant.emails.viewer!);
  const invite = (email: string) => tenant.admin.post(path('/users'), { email, roles: ['viewer'] });
  await invite('late@example.com');
  const removed = await invite('removed@example.com');
  await tenant.admin.delete(path(`/users/${removed.body.user_id}`));
  // One whom another tenant invites lately, and a person who has an account.
  const second = await createTenant(strata.url, platform, 'Second');
  await invite('wanted@example.com');
  const wanted = { email: 'wanted@example.com', roles: ['viewer'] };
  await second.admin.post(`/tenants/${second.id}/users`, wanted);
  await invite(second.emails.viewer!);

  const decided = await ask('Decided long ago', { resource: 'run/checkout', cost_impact: 12.5 });
  const answer = await tenant.admin.post(path(`/approvals/${decided}/decision`), {
    decision: 'approve',
    comment: 'go',
  });
  expect(answer.body.state).toBe('approved');
  const waiting = await ask('Still waiting', {
    expires_at: new Date(Date.now() + 3600_000).toISOString(),
  });
  await eventually(async () =>
    expect(await count(`notifier.deliveries WHERE state = 'pending'`)).toBe(0),
  );
  const kept = await count('notifier.deliveries WHERE approval_id = $1', [waiting]);
  expect(kept).toBeGreaterThan(0);
  await eventually(async () => expect(await count('strata.outbox')).toBe(0));
  await strata.stop();

  const oldSession = `session_id = '${old.session_id}'`;
  await age('auth.sessions', ['expires_at', 'created_at'], 41, `id = '${old.session_id}'`);
  await age('auth.refresh_tokens', ['created_at', 'used_at'], 41, oldSession);
  await age('auth.invitations', ['expires_at', 'created_at'], 41, `tenant_id = '${tenant.id}'`);
  await age('auth.users', ['created_at'], 41, 'NOT email_verified');
  const approvalTimes = ['created_at', 'decided_at', 'acknowledged_at'];
  await age('notifier.approvals', approvalTimes, 30);
  await age('notifier.deliveries', ['created_at', 'settled_at'], 30);
  await age('notifier.endpoints', ['served_at'], 30);
  await start({
    SESSION_RETENTION_DAYS: '10',
    APPROVAL_RETENTION_DAYS: '25',
    DELIVERY_RETENTION_DAYS: '20',
  });

  await eventually(async () => {
    expect(await count('auth.sessions WHERE id = $1', [old.session_id])).toBe(0);
    expect(await count('notifier.approvals WHERE id = $1', [decided])).toBe(0);
  }, 60_000);
  expect(await count('auth.refresh_tokens WHERE session_id = $1', [old.session_id])).toBe(0);
  await eventually(async () => expect(await count('auth.invitations')).toBe(1));
  expect(await count(`tenant_config.members WHERE status = 'invited'`)).toBe(1);
  const accounts = await database.query<{ email: string }>(
    `SELECT email FROM auth.users WHERE email LIKE '%@example.com' OR email = $1 ORDER BY email`,
    [second.emails.viewer],
  );
  expect(accounts.map(({ email }) => email)).toEqual([
    'admin@example.com',
    second.emails.viewer,
    'wanted@example.com',
  ]);
  await eventually(async () => expect(await count('notifier.endpoints')).toBe(0));
  expect(await count('notifier.deliveries WHERE approval_id = $1', [decided])).toBe(0);
  const orphans = 'notifier.attempts WHERE delivery_id NOT IN (SELECT id FROM notifier.deliveries)';
  expect(await count(orphans)).toBe(0);
  expect((await refresh(oldNext)).body.detail.code).toBe('auth_refresh_invalid');

  // Lists and single reads say the same, and what is live is as it was.
  const admin = await signIn(strata.url, tenant.emails.tenant_admin!, memberPassword);
  const { body: approvals } = await admin.get(path('/approvals'));
  expect(approvals.items.map(({ id }: { id: string }) => id)).toEqual([waiting]);
  expect((await admin.get(path(`/approvals/${decided}`))).status).toBe(404);
  const { body: deliveries } = await admin.get(path('/notifications/deliveries'));
  expect(
    new Set(deliveries.items.map((each: { approval_id: string }) => each.approval_id)),
  ).toEqual(new Set([waiting]));
  expect(deliveries.items.length).toBe(kept);
  const [delivery] = deliveries.items;
  const again = path(`/notifications/deliveries/${delivery.id}`);
  expect((await admin.post(`${again}/replay`)).body.state).toBe('pending');
  await eventually(async () => {
    const { body } = await admin.get(again);
    expect([body.state, body.attempts]).toEqual(['delivered', delivery.attempts + 1]);
  });
  const viewer = new Client(strata.url, live.access_token);
  expect((await viewer.get('/auth/me')).body.session_id).toBe(live.session_id);
  expect((await refresh(live.refresh_token)).status).toBe(200);
  expect(
    (await admin.post(path(`/approvals/${waiting}/decision`), { decision: 'deny' })).status,
  ).toBe(200);

  // Who asked for what, and who decided it when.
  const { body: audit } = await admin.get('/audit/events?limit=200');
  const proof = audit.items.filter(({ target }: AuditEvent) => target === decided);
  expect(proof).toEqual([
    expect.objectContaining({
      action: 'approval.requested',
      actor: { type: 'user', id: expect.any(String), name: 'operator@years.example' },
      payload: expect.objectContaining({
        action: 'scale_up',
        title: 'Decided long ago',
        resource: 'run/checkout',
        cost_impact: 12.5,
      }),
    }),
    expect.objectContaining({
      action: 'approval.approved',
      actor: { type: 'user', id: answer.body.decision.by, name: 'admin@years.example' },
      payload: expect.objectContaining({ action: 'scale_up', comment: 'go', via: 'api' }),
    }),
  ]);
  await requireProvedAudit(admin);
});
