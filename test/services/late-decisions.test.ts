/**
 * A notifier node that stands still for a minute between the moment that it has decided by and what
 * follows from that: limits may go by the time, so it decides again.
 */
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { pino } from 'pino';
import type { DataSource, EntityManager } from 'typeorm';
import {
  automationActions,
  type AutomationOptions,
} from '../../services/notifier/actions/automations.ts';
import { requestApproval } from '../../services/notifier/actions/approvals.ts';
import type { ApprovalOptions } from '../../services/notifier/actions/deciding.ts';
import { redeemActions } from '../../services/notifier/actions/redeeming.ts';
import { notifierSchema } from '../../services/notifier/schema.ts';
import { heldRevisions } from '../../services/notifier/stores/automations.ts';
import { charge, evaluateBudgets } from '../../services/notifier/stores/ledger.ts';
import { startGivingSlots } from '../../services/notifier/worker/automations.ts';
import { serviceCaller } from '../../shared/access.ts';
import type { Request } from '../../shared/contract-runtime/request.ts';
import { openDatabase } from '../../shared/database/open.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import { eventually } from '../support/eventually.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import { secretKey } from '../support/strata.ts';

let database: Database;
let db: DataSource;
let tenantId: string;
/** The moments that limits were looked at for. */
let decided: Date[];
beforeAll(async () => {
  database = await strataDatabase();
  const options = { url: database.url, poolSize: 4, timeoutMs: 10_000, ssl: false };
  db = await openDatabase(options, notifierSchema);
  // As the first node that polls the feed.
  await db.query(
    'UPDATE strata.feed_state SET cluster = strata.cluster(), started = pg_postmaster_start_time()',
  );
});
afterAll(async () => {
  await db?.destroy();
  await database?.drop();
});
beforeEach(() => {
  tenantId = randomUUID();
  decided = [];
});

/** Limits that allow all at every moment. */
const call = (async (action: string, { body }: { body: { at: string } }) => {
  if (action === 'tenant-config.tenants.get') return { status: 'active' };
  decided.push(new Date(body.at));
  const revision = await db.transaction((manager) => heldRevisions(manager, tenantId));
  const allowed = { decision: 'allow', reasons: [], revision };
  return { decided: allowed, slots: { limit: 10 }, is_proven: false, budgets: [] };
}) as never;
const request = {
  call,
  caller: serviceCaller('test'),
  requestId: randomUUID(),
  checkAnswer: () => undefined,
} as unknown as Request;

/** The database to a node whose first look at the time was a minute ago. */
function standingStill(): DataSource {
  let isFirst = true;
  const manager = new Proxy(db.manager, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name);
      if (name !== 'query') return typeof member === 'function' ? member.bind(target) : member;
      return async (sql: string, ...values: unknown[]) => {
        const rows = await target.query<{ now?: Date }[]>(sql, ...(values as [unknown[]]));
        if (!isFirst || !(rows[0]?.now instanceof Date)) return rows;
        isFirst = false;
        return [{ now: new Date(rows[0].now.getTime() - 60_000) }];
      };
    },
  });
  return Object.create(db, { manager: { value: manager as EntityManager } }) as DataSource;
}

const start = (by: DataSource) => {
  const options = {
    db: by,
    changes: { announce: () => undefined },
    grants: { answer: async (row: unknown) => row },
    settings: () => loadSettings({ SECRET_KEY: secretKey }, { roles: [] }),
    takeMails: async () => undefined,
  } as unknown as AutomationOptions;
  const body = { action: 'scale', risk_level: 'low' } as const;
  return automationActions(options)['notifier.automations.start'](
    { tenant_id: tenantId, body },
    request,
  );
};
const expectDecidedAgain = (): void => {
  const [first, last] = [decided[0]!, decided.at(-1)!];
  expect(last.getTime() - first.getTime()).toBeGreaterThanOrEqual(60_000);
};

test('before it starts an automation', async () => {
  expect(await start(standingStill())).toMatchObject({ state: 'running' });
  expectDecidedAgain();
});

test('before it redeems one', async () => {
  const { id, action_digest: digest } = await start(db);
  decided = [];
  const grants = { read: async () => undefined } as never;
  const { 'notifier.automations.redeem': redeem } = redeemActions({ db: standingStill(), grants });
  const body = { action_digest: digest!, executor: 'runner' };
  const params = { tenant_id: tenantId, automation_id: id, body };
  expect(await redeem(params, request)).toMatchObject({ redeemed_by: 'runner' });
  expectDecidedAgain();
});

test('before it gives a slot to what waited for one', async () => {
  const { id } = await start(db);
  decided = [];
  await db.query(
    `UPDATE notifier.automations SET state = 'waiting_slot', granted_at = now(), expires_at = now() + interval '1 hour'
     WHERE id = $1`,
    [id],
  );
  await db.query('UPDATE notifier.automation_tenants SET look_at = now() WHERE tenant_id = $1', [
    tenantId,
  ]);
  const log = pino({ enabled: false });
  const slots = startGivingSlots({ db: standingStill(), log, call, announce: () => undefined });
  try {
    slots.wake(tenantId);
    await eventually(async () => {
      const rows = await db.query<{ state: string }[]>(
        'SELECT state FROM notifier.automations WHERE id = $1',
        [id],
      );
      expect(rows).toEqual([{ state: 'running' }]);
    });
    expectDecidedAgain();
  } finally {
    await slots.stop();
  }
});

test('before it asks for an approval, by a policy that may be another one by now', async () => {
  const answers: Readonly<Record<string, unknown>> = {
    'tenant-config.notifications.open': {
      config: {
        approver_groups: { risk_levels: {}, action_overrides: {} },
        escalation: { max_hops: 0, escalation_window_minutes: 1 },
        approval_policy: { required: { low: 1 }, allow_self: false, machines: false },
        email: { approval_recipients: [], default_recipients: [] },
      },
      revision: 1,
      counted_recipients: [],
      slack_counts: false,
      recent_changes: [],
    },
    'config-resolver.approval-terms': {
      max_cost_impact_approval: { limit: null },
      approval_timeout_minutes: { limit: 30 },
      notification_channels: null,
    },
    'tenant-config.members.approvers': { groups: {}, admins: [] },
  };
  const options = {
    db: standingStill(),
    vault: { seal: () => '' },
    settings: () => loadSettings({ SECRET_KEY: secretKey }, { roles: [] }),
    takeMails: async () => undefined,
  } as unknown as ApprovalOptions;
  const body = { action: 'scale', risk_level: 'low', title: 'Scale' } as const;
  const asking = { ...request, call: async (action: string) => answers[action] } as never;
  const asked = requestApproval(options, tenantId, body, asking);
  await expect(asked).rejects.toMatchObject({ type: 'timeout' });
});

test('a budget is warned of once in a period, also by what was weighed before that ended', async () => {
  const rule = { amount: '10', currency: 'EUR', per: 'hour', warn_at: 0.5 } as const;
  const hourly = { by: 'tenant', name: 'hourly', rule, revision: 1 } as const;
  const intent = { action: 'scale', risk_level: 'low', cost_impact: 6 } as const;
  const asked = { intent, request_id: randomUUID() };
  const anHourAgo = new Date(Date.now() - 3_600_000);
  for (let time = 0; time < 2; time += 1)
    await db.transaction(async (manager) => {
      const weighed = await evaluateBudgets(manager, tenantId, [hourly], asked, anHourAgo);
      await charge(manager, tenantId, weighed, asked.request_id);
    });
  const events = await database.query(
    `SELECT FROM strata.outbox WHERE event->>'tenant_id' = $1 AND event->>'action' = 'budget.warned'`,
    [tenantId],
  );
  expect(events).toHaveLength(1);
});
