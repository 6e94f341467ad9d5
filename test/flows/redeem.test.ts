/** Exactly this action, once: what an executor is told right before it acts. */
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { eventually } from '../support/cluster.ts';
import { grown } from '../support/grown.ts';
import { holdLock } from '../support/held-lock.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import {
  adminPassword,
  createTenant,
  signIn,
  startStrata,
  type Client,
  type Running,
  type TenantFixture,
} from '../support/strata.ts';

let database: Database;
let strata: Running;
let platform: Client;
let tenant: TenantFixture;

beforeAll(async () => {
  database = await strataDatabase();
  strata = await startStrata({
    DATABASE_URL: database.url,
    RATE_LIMIT_PER_MINUTE: '0',
    // One for each that waits for a lock.
  });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await database?.drop();
});
beforeEach(async () => {
  tenant = await createTenant(strata.url, platform, `Redeem ${randomUUID()}`);
  await grown(database, tenant.id);
});

const path = (rest = ''): string => `/tenants/${tenant.id}/automations${rest}`;
const exact = { resource: { name: 'checkout-api' }, parameters: { min_instances: 4 } };
async function start(body: object = {}) {
  const answer = await tenant.admin.post(path(), {
    action: 'scale',
    risk_level: 'low',
    ...exact,
    ...body,
  });
  expect([answer.status, answer.text]).toEqual([201, expect.any(String)]);
  return answer.body;
}
const redeem = (id: string, action_digest: string, executor = 'runner') =>
  tenant.operator.post(path(`/${id}/redeem`), { action_digest, executor });
const codeOf = async (id: string, digest: string): Promise<unknown[]> => {
  const { status, body } = await redeem(id, digest);
  return [status, body.detail?.code];
};
const stop = () =>
  tenant.admin.patch(`/tenants/${tenant.id}/config/bounds`, {
    automation_enabled: { const: false },
  });

test('an action is redeemed once, with all of it, and stays consumed', async () => {
  const { id, action_digest: digest } = await start();
  const { status, body } = await redeem(id, digest);
  expect([status, body]).toMatchObject([
    200,
    { ...exact, action_digest: digest, redeemed_by: 'runner', redeemed_at: expect.any(String) },
  ]);
  expect(await codeOf(id, digest)).toEqual([409, 'grant_used']);
  await tenant.admin.post(path(`/${id}/finish`), { outcome: 'failed' });
  expect(await codeOf(id, digest)).toEqual([409, 'grant_used']);
});

test('another action is refused, which the audit says, and consumes nothing', async () => {
  const first = await start();
  const second = await start({ parameters: { min_instances: 400 } });
  expect(second.action_digest).not.toBe(first.action_digest);
  expect(await codeOf(first.id, second.action_digest)).toEqual([422, 'digest_mismatch']);
  await eventually(async () => {
    const events = await tenant.admin.get(
      `/audit/events?action=automation.redeem_refused&tenant_id=${tenant.id}`,
    );
    expect(events.body.items[0]).toMatchObject({
      target: first.id,
      payload: { executor: 'runner', refused: 'digest_mismatch' },
    });
  });
  expect((await redeem(first.id, first.action_digest)).status).toBe(200);
});

test('what has ended, waits or was stopped is not redeemed', async () => {
  const finished = await start();
  await tenant.admin.post(path(`/${finished.id}/finish`), { outcome: 'done' });
  const waiting = await start({ risk_level: 'high' });
  const expired = await start();
  await database.query(
    `UPDATE notifier.automations SET expires_at = notifier.slot_now() - interval '1 second' WHERE id = $1`,
    [expired.id],
  );
  const frozen = await start();
  for (const { id, action_digest: digest } of [finished, waiting, expired])
    expect(await codeOf(id, digest)).toEqual([410, 'automation_over']);
  const always = { start: '00:00', end: '00:00', timezone: 'UTC' };
  const days = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'];
  const freezes = `/tenants/${tenant.id}/config/freezes`;
  await tenant.admin.put(freezes, { f: { during: [{ days, ...always }] } });
  expect(await codeOf(frozen.id, frozen.action_digest)).toEqual([410, 'automation_over']);
  await tenant.admin.delete(freezes);
  expect((await redeem(frozen.id, frozen.action_digest)).status).toBe(200);
});

test('executors that meet redeem it once', async () => {
  const { id, action_digest: digest } = await start();
  const lock = await holdLock(
    database,
    'SELECT tenant_id FROM notifier.automation_tenants WHERE tenant_id = $1 FOR UPDATE',
    [tenant.id],
  );
  const asked = Promise.all(Array.from({ length: 8 }, (_, n) => redeem(id, digest, `r${n}`)));
  await lock.untilWaiting(8);
  await lock.release();
  const statuses = (await asked).map(({ status }) => status).sort();
  expect(statuses).toEqual([200, ...Array(7).fill(409)]);
});

test('an emergency stop that was answered is followed by no redemption', async () => {
  const { id, action_digest: digest } = await start();
  const lock = await holdLock(
    database,
    'SELECT tenant_id FROM notifier.automation_tenants WHERE tenant_id = $1 FOR UPDATE',
    [tenant.id],
  );
  // It has been decided by what held before, and waits for the lock.
  const asked = codeOf(id, digest);
  await lock.untilWaiting(1);
  expect((await stop()).status).toBe(200);
  await lock.release();
  expect(await asked).toEqual([410, 'automation_over']);
});

test('people who approve are shown exactly what they approve', async () => {
  const { approval_id: approval } = await start({ risk_level: 'high' });
  const { body } = await tenant.operator.get(`/tenants/${tenant.id}/approvals/${approval}`);
  expect(body.resource).toEqual(exact);
});

test('what looks like a secret is refused', async () => {
  const { status, body } = await tenant.admin.post(path(), {
    action: 'scale',
    risk_level: 'low',
    parameters: { database: { password: 'x' } },
  });
  expect([status, body.errors[0].path]).toEqual([422, '/parameters/database/password']);
});
