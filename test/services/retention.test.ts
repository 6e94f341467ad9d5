/**
 * What is removed when it has had its time, on a real database with rows that SQL made old: what
 * goes, what stays although it is old, and that nobody waits for it.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { pino, type Logger } from 'pino';
import type { DataSource } from 'typeorm';
import { authSchema } from '../../services/auth/schema.ts';
import {
  finishErasures,
  removeEndedSessions,
  removeExpiredInvitations,
} from '../../services/auth/stores/retention.ts';
import { findLastUsedTenant, insertSession } from '../../services/auth/sessions/stores/sessions.ts';
import type { NewDelivery } from '../../services/notifier/rules/notice.ts';
import { notifierSchema } from '../../services/notifier/schema.ts';
import { queueNotices } from '../../services/notifier/stores/notices.ts';
import {
  removeEndedApprovals,
  removeEndedAutomations,
  removeOldDecisions,
  removeSettledDeliveries,
  removeUnusedEndpoints,
} from '../../services/notifier/stores/retention.ts';
import { erasingActions } from '../../services/tenant-config/actions/erasing.ts';
import { tenantConfigSchema } from '../../services/tenant-config/schema.ts';
import { commitSchema } from '../../shared/commits/schema.ts';
import { erasingEvent } from '../../shared/contracts/tenants.ts';
import { migrate, openDatabase } from '../../shared/database/open.ts';
import { batchRows, startSweeping, type Sweep } from '../../shared/database/sweeper.ts';
import { erasesTenants } from '../../shared/node/tenant-erasure.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import { eventually } from '../support/cluster.ts';
import { createDatabase, type Database } from '../support/postgres.ts';

const settings = loadSettings({
  SESSION_RETENTION_DAYS: '10',
  APPROVAL_RETENTION_DAYS: '40',
  DELIVERY_RETENTION_DAYS: '20',
  DECISION_RETENTION_DAYS: '30',
});
const tenant = randomUUID();
let database: Database;
let auth: DataSource;
let otherAuth: DataSource;
let notifier: DataSource;

beforeAll(async () => {
  database = await createDatabase();
  const options = { url: database.url, poolSize: 4, timeoutMs: 20_000, ssl: false };
  await migrate(options, [commitSchema, authSchema, notifierSchema]);
  auth = await openDatabase(options, authSchema);
  otherAuth = await openDatabase(options, authSchema);
  notifier = await openDatabase(options, notifierSchema);
});
afterAll(async () => {
  await auth?.destroy();
  await otherAuth?.destroy();
  await notifier?.destroy();
  await database?.drop();
});

/** A log that keeps its lines. */
function keptLog(): { readonly log: Logger; readonly lines: { level: number; msg: string }[] } {
  const lines: { level: number; msg: string }[] = [];
  const log = pino({}, { write: (line) => void lines.push(JSON.parse(line)) });
  return { log, lines };
}

/** All batches of a sweep, by itself; gives what each removed. */
async function batchesOf(db: DataSource, sweep: Sweep, most = batchRows) {
  const batches = [];
  for (;;) {
    const removed = await db.transaction((manager) => sweep(manager, most));
    batches.push(removed);
    if (Object.values(removed).every((rows) => rows < most)) return batches;
  }
}

interface OldSession {
  readonly userId?: string;
  readonly tenantId?: string | null;
  /** Days ago; to come where it is negative. */
  readonly expired: number;
  readonly revoked?: number;
  readonly lastUsed?: number;
  readonly tokens?: number;
}

const sessionEnding = async (session: OldSession): Promise<string> => {
  const { userId = randomUUID(), tenantId = tenant, expired, revoked, lastUsed, tokens } = session;
  const id = randomUUID();
  await database.query(
    `INSERT INTO auth.sessions (id, user_id, tenant_id, created_at, authenticated_at, last_used_at, expires_at, revoked_at)
     VALUES ($1, $2, $3, now() - interval '90 days', now() - interval '90 days', now() - make_interval(days => $4),
       now() - make_interval(days => $5), now() - make_interval(days => $6))`,
    [id, userId, tenantId, lastUsed ?? 60, expired, revoked ?? null],
  );
  await database.query(
    `INSERT INTO auth.refresh_tokens
     SELECT $1 || n, $1::uuid, now() - interval '80 days', now() - interval '79 days', NULL FROM generate_series(1, $2::int) n`,
    [id, tokens ?? 1],
  );
  return id;
};
const ids = async (table: string, column = 'id'): Promise<Set<string>> => {
  const rows = await database.query<{ id: string }>(
    `SELECT DISTINCT ${column} AS id FROM ${table}`,
  );
  return new Set(rows.map(({ id }) => id));
};

describe('sessions', () => {
  const sweep = removeEndedSessions(() => settings);
  beforeEach(() =>
    database.query('TRUNCATE auth.sessions, auth.refresh_tokens, auth.last_used_tenants'),
  );

  test('go when they ended long ago, with their tokens; what is live or ended lately stays, however old', async () => {
    await sessionEnding({ expired: 11 });
    await sessionEnding({ expired: -5, revoked: 11 });
    const kept = [
      await sessionEnding({ expired: -1 }),
      await sessionEnding({ expired: 9 }),
      await sessionEnding({ expired: 5, revoked: 9 }),
    ];
    expect(await batchesOf(auth, sweep)).toEqual([{ sessions: 2, refresh_tokens: 2 }]);
    expect(await ids('auth.sessions')).toEqual(new Set(kept));
    // Used 79 days ago: whoever presents it now has stolen it, and that is still found out.
    expect(await ids('auth.refresh_tokens', 'session_id')).toEqual(new Set(kept));
  });

  test('one with more tokens than a batch removes goes after them', async () => {
    await sessionEnding({ expired: 11, tokens: 25 });
    await sessionEnding({ expired: 12, tokens: 3 });
    const batches = await batchesOf(auth, sweep, 10);
    expect(batches).toEqual([
      { sessions: 0, refresh_tokens: 10 },
      { sessions: 0, refresh_tokens: 10 },
      { sessions: 2, refresh_tokens: 8 },
    ]);
  });

  test('where a person was last is known without them', async () => {
    const userId = randomUUID();
    const [home, elsewhere] = [randomUUID(), randomUUID()];
    await sessionEnding({ userId, tenantId: home, expired: 12, lastUsed: 20 });
    await sessionEnding({ userId, tenantId: elsewhere, expired: 12, lastUsed: 30 });
    await sessionEnding({ userId, tenantId: elsewhere, expired: 12, lastUsed: 50 });
    await sessionEnding({ userId, tenantId: null, expired: 12, lastUsed: 15 });
    const landing = (among: readonly string[]) => findLastUsedTenant(auth.manager, userId, among);
    const both = [home, elsewhere];
    expect([await landing(both), await landing([elsewhere])]).toEqual([home, elsewhere]);
    await batchesOf(auth, sweep, 2);
    expect(await ids('auth.sessions')).toEqual(new Set());
    expect([await landing(both), await landing([elsewhere])]).toEqual([home, elsewhere]);
    await sessionEnding({ userId, tenantId: elsewhere, expired: 12, lastUsed: 16 });
    expect(await landing(both)).toBe(elsewhere);
    await batchesOf(auth, sweep);
    expect(await landing(both)).toBe(elsewhere);
  });

  test('those of a first administrator whose password may be unannounced stay: they say that it is known', async () => {
    const userId = randomUUID();
    await database.query(`INSERT INTO auth.unannounced_admin VALUES ($1, '')`, [userId]);
    const id = await sessionEnding({ userId, expired: 11 });
    await batchesOf(auth, sweep);
    expect(await ids('auth.sessions')).toEqual(new Set([id]));
    await database.query('TRUNCATE auth.unannounced_admin');
  });
});

test('invitations go long after their expiry; one that was used and can still be accepted stays', async () => {
  await database.query(
    `INSERT INTO auth.invitations
     SELECT gen_random_uuid(), $1, gen_random_uuid(), name, name, 'x', now() - interval '30 days',
       now() - make_interval(days => expired), now() - make_interval(days => used)
     FROM (VALUES ('expired', 11, NULL), ('used and expired', 11, 12), ('lately', 9, 12), ('open', -1, 12))
       AS i (name, expired, used)`,
    [tenant],
  );
  const released: string[] = [];
  const sweep = removeExpiredInvitations(
    () => settings,
    async ({ tenant_id: tenantId }) => void released.push(tenantId),
  );
  await batchesOf(auth, sweep);
  expect(await ids('auth.invitations', 'tenant_name')).toEqual(new Set(['lately', 'open']));
  expect(released).toEqual([tenant, tenant]);
});

test('an invitation that is sent again while others are removed keeps its membership', async () => {
  await database.query(
    `INSERT INTO auth.invitations
     SELECT gen_random_uuid(), $1, gen_random_uuid(), name, name, 'x', now() - interval '30 days', now() - make_interval(days => expired)
     FROM (VALUES ('past', 12), ('sent again', 11)) AS i (name, expired)`,
    [tenant],
  );
  const released: string[] = [];
  const sweep = removeExpiredInvitations(
    () => settings,
    async ({ user_id: id }) => {
      released.push(id);
      await database.query(
        `UPDATE auth.invitations SET expires_at = now() + interval '7 days' WHERE tenant_name = 'sent again'`,
      );
    },
  );
  await sweep(auth.manager, batchRows);
  expect(released).toHaveLength(1);
  expect(await ids('auth.invitations', 'tenant_name')).toContain('sent again');
});

test('an invitation, or an account, whose removal always fails holds up no others', async () => {
  await database.query('TRUNCATE auth.invitations');
  await database.query(
    `INSERT INTO auth.invitations
     SELECT gen_random_uuid(), $1, gen_random_uuid(), name, name, 'x', now() - interval '30 days', now() - make_interval(days => expired)
     FROM (VALUES ('fails', 13), ('next', 12), ('last', 11)) AS i (name, expired)`,
    [tenant],
  );
  const [failing] = await database.query<{ user_id: string }>(
    `SELECT user_id FROM auth.invitations WHERE tenant_name = 'fails'`,
  );
  const release = async ({ user_id: id }: { readonly user_id: string }): Promise<void> => {
    if (id === failing!.user_id) throw new Error('it cannot be removed');
  };
  const invitations = removeExpiredInvitations(() => settings, release);
  await expect(invitations(auth.manager, batchRows)).rejects.toThrow('it cannot be removed');
  expect(await ids('auth.invitations', 'tenant_name')).toEqual(new Set(['fails']));

  await database.query(
    `INSERT INTO auth.users (id, email, email_verified, status, created_at, erasing_since)
     SELECT id, 'erased ' || id, false, 'disabled', now(), now()
     FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, 3)) AS i`,
  );
  const tried: string[] = [];
  const accounts = finishErasures(async (id) => {
    tried.push(id);
    if (tried.length === 1) throw new Error('it cannot be finished');
  });
  await expect(accounts(auth.manager, batchRows)).rejects.toThrow('it cannot be finished');
  expect(tried).toHaveLength(3);
});

test('a tenant of which a service cannot erase what it has holds up no other', async () => {
  const [failing, next] = [randomUUID(), randomUUID()];
  const confirmed: unknown[] = [];
  const call = async (action: string, params: { readonly tenant_id?: string }) => {
    if (action === 'tenant-config.tenants.erasing') return [failing, next];
    confirmed.push(params.tenant_id);
    return null;
  };
  const { log, lines } = keptLog();
  const { [erasingEvent]: erasing } = erasesTenants({
    service: 'auth',
    log,
    async erase(_call, tenantId) {
      if (tenantId === failing) throw new Error('it cannot be erased');
      return { done: true };
    },
  });
  const { handler } = erasing as { handler: (ctx: object) => Promise<void> };
  await handler({ broker: { call } });
  expect(confirmed).toEqual([next]);
  expect(lines).toMatchObject([{ level: 40, err: { message: 'it cannot be erased' } }]);
});

interface OldApproval {
  readonly state: string;
  /** Days ago; to come where they are negative. */
  readonly created: number;
  readonly expires: number;
  readonly decided?: number;
}
/** Windows of a day, and two of them. */
const approvalOf = async ({ state, created, expires, decided }: OldApproval): Promise<string> => {
  const id = randomUUID();
  await database.query(
    `INSERT INTO notifier.approvals (id, tenant_id, state, action, risk_level, title, hop, max_hops, window_seconds, chain, frozen,
       requested_by, request_id, request_hash, created_at, expires_at, expires_fixed, decided_at)
     VALUES ($1, $2, $3, 'a', 'low', 't', 0, 1, 86400, '{}', '', '{}', '', '', now() - make_interval(days => $4),
       now() - make_interval(days => $5), false, now() - make_interval(days => $6))`,
    [id, tenant, state, created, expires, decided ?? null],
  );
  return id;
};
const deliveryOf = async (
  approvalId: string,
  settled: number | null,
  attempts = 1,
): Promise<string> => {
  const id = randomUUID();
  await database.query(
    `INSERT INTO notifier.deliveries (id, tenant_id, approval_id, type, hop, channel, endpoint_key, place, target, body, state, attempts,
       round, next_attempt_at, created_at, settled_at)
     VALUES ($1, $2, $3, 'approval.requested', 0, 'webhook', 'k', '0', 't', '{}', $4, 0, 0, now(), now() - interval '90 days',
       now() - make_interval(days => $5))`,
    [id, tenant, approvalId, settled === null ? 'pending' : 'delivered', settled],
  );
  await database.query(
    `INSERT INTO notifier.attempts SELECT $1, n, now(), 1, 200, NULL, NULL FROM generate_series(1, $2::int) n`,
    [id, attempts],
  );
  return id;
};

describe('approvals and deliveries', () => {
  beforeEach(() =>
    database.query('TRUNCATE notifier.approvals, notifier.deliveries, notifier.attempts'),
  );
  const sweepDeliveries = removeSettledDeliveries(() => settings);
  const sweepApprovals = removeEndedApprovals(() => settings);

  test('deliveries go with their attempts; those of a pending approval, and what is still to be sent, stay', async () => {
    const decided = await approvalOf({ state: 'approved', created: 35, expires: 30, decided: 34 });
    const pending = await approvalOf({ state: 'pending', created: 90, expires: -10 });
    await deliveryOf(decided, 21, 3);
    const kept = [
      await deliveryOf(decided, 19),
      await deliveryOf(decided, null),
      await deliveryOf(pending, 60),
    ];
    expect(await batchesOf(notifier, sweepDeliveries)).toEqual([{ deliveries: 1, attempts: 3 }]);
    expect(await ids('notifier.deliveries')).toEqual(new Set(kept));
    expect(await ids('notifier.attempts', 'delivery_id')).toEqual(new Set(kept));
  });

  test('approvals go with all their deliveries; what is pending, ended lately or being replayed stays', async () => {
    const gone = [
      await approvalOf({ state: 'denied', created: 60, expires: -100, decided: 41 }),
      await approvalOf({ state: 'expired', created: 60, expires: 41 }),
      // Its two windows were over 43 days ago, whenever it would have expired.
      await approvalOf({ state: 'exhausted', created: 45, expires: -100 }),
    ];
    const replayed = await approvalOf({ state: 'approved', created: 60, expires: 50, decided: 55 });
    const kept = [
      replayed,
      await approvalOf({ state: 'pending', created: 60, expires: 50 }),
      await approvalOf({ state: 'approved', created: 60, expires: 50, decided: 39 }),
      await approvalOf({ state: 'expired', created: 60, expires: 39 }),
      await approvalOf({ state: 'exhausted', created: 41, expires: -100 }),
    ];
    for (const id of gone) await deliveryOf(id, 1, 4);
    const deliveries = [await deliveryOf(replayed, null), await deliveryOf(kept[2]!, 39)];
    const batches = await batchesOf(notifier, sweepApprovals, 5);
    expect(batches.every((batch) => Object.values(batch).every((rows) => rows <= 5))).toBe(true);
    expect(await ids('notifier.approvals')).toEqual(new Set(kept));
    expect(await ids('notifier.deliveries')).toEqual(new Set(deliveries));
    expect(await ids('notifier.attempts', 'delivery_id')).toEqual(new Set(deliveries));
  });

  test('an approval that an automation waits or runs by stays until that has ended', async () => {
    const id = await approvalOf({ state: 'approved', created: 60, expires: 50, decided: 55 });
    await database.query(
      `INSERT INTO notifier.automations (id, tenant_id, state, intent, decided, approval_id, ttl_seconds, requested_by, request_id,
         request_hash, created_at)
       VALUES (gen_random_uuid(), $1, 'waiting_slot', '{}', '{}', $2, 60, '{}', '', '', now())`,
      [tenant, id],
    );
    await batchesOf(notifier, sweepApprovals);
    expect(await ids('notifier.approvals')).toEqual(new Set([id]));
    await database.query(`UPDATE notifier.automations SET state = 'finished', ended_at = now()`);
    await batchesOf(notifier, sweepApprovals);
    expect(await ids('notifier.approvals')).toEqual(new Set());
    await database.query('TRUNCATE notifier.automations');
  });

  test('an approval whose delivery is being replayed just now stays, too', async () => {
    const id = await approvalOf({ state: 'approved', created: 60, expires: 50, decided: 55 });
    const delivery = await deliveryOf(id, 55);
    await notifier.transaction(async (replay) => {
      await replay.query(
        `UPDATE notifier.deliveries SET state = 'pending', settled_at = NULL WHERE id = $1`,
        [delivery],
      );
      for (const sweep of [sweepDeliveries, sweepApprovals]) await batchesOf(notifier, sweep);
    });
    expect(await ids('notifier.approvals')).toEqual(new Set([id]));
    expect(await ids('notifier.deliveries')).toEqual(new Set([delivery]));
  });
});

describe('endpoints', () => {
  const sweep = removeUnusedEndpoints(() => settings);
  beforeEach(() =>
    database.query('TRUNCATE notifier.approvals, notifier.deliveries, notifier.endpoints'),
  );
  const endpointServed = (key: string, days: number): Promise<unknown> =>
    database.query(
      `INSERT INTO notifier.endpoints VALUES ($1, now() - make_interval(days => $2), 3, NULL, 7)`,
      [key, days],
    );
  const noticeFor = (key: string): NewDelivery => ({
    id: randomUUID(),
    type: 'approval.requested',
    hop: 0,
    channel: 'webhook',
    endpoint_key: key,
    place: '0',
    target: 't',
    body: '{}',
  });

  test('go when nothing was sent to them for long; one that a notice waits for stays', async () => {
    await endpointServed('unused', 21);
    await endpointServed('used', 19);
    await endpointServed('k', 21);
    const approval = await approvalOf({ state: 'pending', created: 30, expires: -10 });
    await deliveryOf(approval, null);
    expect(await batchesOf(notifier, sweep)).toEqual([{ endpoints: 1 }]);
    expect(await ids('notifier.endpoints', 'key')).toEqual(new Set(['used', 'k']));
  });

  test('are held by a notice that is being queued, keep their pause, and are made again where they are gone', async () => {
    await endpointServed('old', 90);
    await endpointServed('older', 100);
    const approval = { id: randomUUID(), tenant_id: tenant };
    const sweepMeanwhile = () => batchesOf(notifier, sweep);
    const isSwept = await notifier.transaction(async (manager) => {
      await queueNotices(manager, approval, 5, [noticeFor('old'), noticeFor('new')]);
      return sweepMeanwhile();
    });
    expect(isSwept).toEqual([{ endpoints: 1 }]);
    await sweepMeanwhile();
    const kept = await database.query(
      `SELECT key, paused_revision FROM notifier.endpoints WHERE served_at > now() - interval '7 hours' ORDER BY key`,
    );
    expect(kept).toEqual([
      { key: 'new', paused_revision: null },
      { key: 'old', paused_revision: 7 },
    ]);
    // A sweep that is not committed yet, and a notice that has to wait for it.
    await database.query(`UPDATE notifier.endpoints SET served_at = now() - interval '90 days'`);
    let queued: Promise<unknown> | undefined;
    await auth.transaction(async (sweeping) => {
      await sweep(sweeping, batchRows);
      queued = notifier.transaction((manager) =>
        queueNotices(manager, approval, 5, [noticeFor('old')]),
      );
      await delay(200);
    });
    await queued;
    const waiting = await database.query(
      `SELECT d.state FROM notifier.deliveries d JOIN notifier.endpoints e ON e.key = d.endpoint_key WHERE d.endpoint_key = 'old' ORDER BY d.created_at`,
    );
    expect(waiting).toEqual([{ state: 'failed' }, { state: 'pending' }]);
  });
});

describe('a sweep', () => {
  beforeEach(() =>
    database.query('TRUNCATE auth.sessions, auth.refresh_tokens, auth.last_used_tenants'),
  );
  const sweepSessions = removeEndedSessions(() => settings);
  const manySessions = (count: number): Promise<unknown> =>
    database.query(
      `INSERT INTO auth.sessions (id, user_id, tenant_id, created_at, authenticated_at, last_used_at, expires_at)
       SELECT gen_random_uuid(), gen_random_uuid(), $1, now(), now(), now(), now() - interval '20 days'
       FROM generate_series(1, $2::int)`,
      [tenant, count],
    );
  const countSessions = async (): Promise<number> => {
    const [row] = await database.query<{ n: number }>(
      'SELECT count(*)::int AS n FROM auth.sessions',
    );
    return row!.n;
  };

  test('of 20,000 rows is twenty statements of a thousand, and people sign in between them', async () => {
    await manySessions(20_000);
    const live = await sessionEnding({ expired: -1 });
    const batches: number[] = [];
    const counted: Sweep = async (manager, most) => {
      const removed = await sweepSessions(manager, most);
      batches.push(removed.sessions!);
      return removed;
    };
    const { log, lines } = keptLog();
    const sweeper = startSweeping({
      db: auth,
      log,
      name: 'test',
      sweeps: { sessions: counted },
      firstMs: 0,
    });
    let signIns = 0;
    while (lines.length === 0) {
      await otherAuth.transaction((manager) =>
        insertSession(manager, randomUUID(), tenant, { method: 'password', confinedTo: null }, {}),
      );
      signIns += 1;
      await delay(5);
    }
    await sweeper.stop();
    expect(batches).toEqual([...Array.from({ length: 20 }, () => batchRows), 0]);
    expect(lines[0]).toMatchObject({ level: 30, removed: { sessions: 20_000, refresh_tokens: 0 } });
    expect(await countSessions()).toBe(signIns + 1);
    expect(await ids('auth.sessions')).toContain(live);
    expect(signIns).toBeGreaterThan(10);
  });

  test('leaves what is locked for the next time, and waits for no one', async () => {
    await manySessions(3);
    await otherAuth.transaction(async (manager) => {
      await manager.query('SELECT id FROM auth.sessions LIMIT 1 FOR UPDATE');
      expect(await batchesOf(auth, sweepSessions)).toEqual([{ sessions: 2, refresh_tokens: 0 }]);
    });
    expect(await batchesOf(auth, sweepSessions)).toEqual([{ sessions: 1, refresh_tokens: 0 }]);
  });

  const sweepInvitations = removeExpiredInvitations(
    () => settings,
    async () => {},
  );
  test.each([
    ['sessions', () => auth, sweepSessions, 'sessions_end'],
    ['invitations', () => auth, sweepInvitations, 'invitations_expiry'],
    ['deliveries', () => notifier, removeSettledDeliveries(() => settings), 'deliveries_settled'],
    ['approvals', () => notifier, removeEndedApprovals(() => settings), 'approvals_ended'],
  ] as const)('of %s has an index for what is old', async (_what, source, sweep, index) => {
    const db = source();
    const logged = jest.spyOn(db.logger, 'logQuery');
    await batchesOf(db, sweep);
    const statement = logged.mock.calls.find(([sql]) => sql.startsWith('WITH'));
    logged.mockRestore();
    const [sql, parameters] = statement!;
    const plan = await db.transaction(async (manager) => {
      // The tables are empty here; with millions of rows the planner needs no telling.
      await manager.query('SET LOCAL enable_seqscan = off');
      return manager.query(`EXPLAIN ${sql}`, parameters);
    });
    expect(JSON.stringify(plan)).toContain(index);
  });

  test('is made by one node at a time', async () => {
    await manySessions(6000);
    let running = 0;
    let most = 0;
    const watched: Sweep = async (manager, rows) => {
      running += 1;
      most = Math.max(most, running);
      const removed = await sweepSessions(manager, rows);
      await delay(20);
      running -= 1;
      return removed;
    };
    const { log } = keptLog();
    const sweepers = [auth, otherAuth].map((db) =>
      startSweeping({
        db,
        log,
        name: 'test',
        sweeps: { sessions: watched },
        firstMs: 0,
        retryMs: 10,
      }),
    );
    await eventually(async () => expect(await countSessions()).toBe(0));
    for (const sweeper of sweepers) await sweeper.stop();
    expect(most).toBe(1);
  });

  test('that asks others keeps no connection from those who answer', async () => {
    const options = { url: database.url, poolSize: 1, timeoutMs: 20_000, ssl: false };
    const alone = await openDatabase(options, authSchema);
    await database.query(
      `INSERT INTO auth.invitations
       SELECT gen_random_uuid(), $1, gen_random_uuid(), 'past', 'past', 'x', now() - interval '30 days', now() - interval '11 days'`,
      [tenant],
    );
    const release = () => alone.transaction(async (manager) => void manager.query('SELECT'));
    const { log, lines } = keptLog();
    const sweeper = startSweeping({
      db: alone,
      log,
      name: 'test',
      sweeps: {},
      asking: { invitations: removeExpiredInvitations(() => settings, release) },
      firstMs: 0,
    });
    await eventually(async () => expect(lines).not.toEqual([]));
    await sweeper.stop();
    await alone.destroy();
    expect(lines).toMatchObject([{ level: 30, removed: { invitations: 1 } }]);
  });

  test('that fails is logged once and tried again, and does not hold up the others', async () => {
    await manySessions(1);
    const { log, lines } = keptLog();
    let tries = 0;
    const broken: Sweep = async (manager) => {
      tries += 1;
      if (tries < 4) await manager.query('SELECT * FROM auth.no_such_table');
      return { things: 1 };
    };
    const sweeper = startSweeping({
      db: auth,
      log,
      name: 'test',
      sweeps: { things: broken, sessions: sweepSessions },
      firstMs: 0,
      retryMs: 20,
    });
    await eventually(async () => expect(tries).toBe(4));
    await sweeper.stop();
    expect(await countSessions()).toBe(0);
    expect(lines.map(({ level, msg }) => [level, msg])).toEqual([
      [40, 'things past their retention cannot be removed; it is tried again every minute'],
      [30, 'sessions past their retention were removed'],
      [30, 'things past their retention were removed'],
    ]);
  });
});

test('automations that ended long ago are removed; those that run or wait stay however old they are', async () => {
  const insert = (state: string, endedDaysAgo: number | null): Promise<unknown> =>
    database.query(
      `INSERT INTO notifier.automations (id, tenant_id, state, intent, decided, ttl_seconds, requested_by, request_id, request_hash, created_at, ended_at)
       VALUES ($1, $2, $3, '{}', '{}', 300, '{}', 'r', 'h', now() - interval '90 days', now() - make_interval(days => $4))`,
      [randomUUID(), tenant, state, endedDaysAgo],
    );
  for (const state of ['finished', 'denied', 'expired', 'finished']) await insert(state, 41);
  for (const state of ['running', 'waiting_slot', 'waiting_approval']) await insert(state, null);
  await insert('finished', 39);
  const batches = await batchesOf(
    notifier,
    removeEndedAutomations(() => settings),
    3,
  );
  expect(batches).toEqual([{ automations: 3 }, { automations: 1 }]);
  const left = await database.query<{ state: string }>(
    'SELECT state FROM notifier.automations ORDER BY state',
  );
  expect(left.map(({ state }) => state)).toEqual([
    'finished',
    'running',
    'waiting_approval',
    'waiting_slot',
  ]);
});

test('recorded decisions go when their days are over', async () => {
  await database.query(
    `INSERT INTO notifier.decisions
     SELECT gen_random_uuid(), $1, now() - make_interval(days => day), now(), '{}', '{}', 'allow', 'none', NULL, 1, 1,
       false, false
     FROM generate_series(25, 34) AS day`,
    [tenant],
  );
  const sweep = removeOldDecisions(() => settings);
  expect(await batchesOf(notifier, sweep, 3)).toEqual([{ decisions: 3 }, { decisions: 2 }]);
  expect(await ids('notifier.decisions', 'decision_id')).toHaveProperty('size', 5);
});

test('after a year of use tables hold what is within its time and nothing else, and no batch locks rows for long', async () => {
  await database.query(
    `TRUNCATE auth.sessions, auth.refresh_tokens, auth.last_used_tenants,
       notifier.approvals, notifier.deliveries, notifier.attempts`,
  );
  // Each day 60 sessions with two tokens, and 20 approvals that were decided and delivered at once.
  await database.query(
    `INSERT INTO auth.sessions (id, user_id, tenant_id, created_at, authenticated_at, last_used_at, expires_at)
     SELECT gen_random_uuid(), gen_random_uuid(), $1, now(), now(), now(), now() - make_interval(days => day, hours => 1)
     FROM generate_series(0, 364) day, generate_series(1, 60)`,
    [tenant],
  );
  await database.query(
    `INSERT INTO auth.refresh_tokens
     SELECT id::text || n, id, created_at, created_at, NULL FROM auth.sessions, generate_series(1, 2) n`,
  );
  await database.query(
    `INSERT INTO notifier.approvals (id, tenant_id, state, action, risk_level, title, hop, max_hops, window_seconds, chain, frozen,
       requested_by, request_id, request_hash, created_at, expires_at, expires_fixed, decided_at)
     SELECT gen_random_uuid(), $1, 'approved', 'a', 'low', 't', 0, 1, 3600, '{}', '', '{}', '', '', ended, ended, false, ended
     FROM generate_series(0, 364) day, generate_series(1, 20),
       LATERAL (SELECT now() - make_interval(days => day, hours => 1) AS ended) AS moment`,
    [tenant],
  );
  await database.query(
    `INSERT INTO notifier.deliveries (id, tenant_id, approval_id, type, hop, channel, endpoint_key, place, target, body, state, attempts,
       round, next_attempt_at, created_at, settled_at)
     SELECT gen_random_uuid(), tenant_id, id, 'approval.requested', 0, 'webhook', 'k', '0', 't', '{}', 'delivered', 1, 0, now(),
       created_at, created_at FROM notifier.approvals`,
  );
  await database.query(
    'INSERT INTO notifier.attempts SELECT id, 1, created_at, 1, 200, NULL, NULL FROM notifier.deliveries',
  );

  // What an ANALYZE leaves that ran while these rows were being inserted: pages, and no live row.
  await database.query(
    `UPDATE pg_class SET reltuples = 0, relpages = 500 WHERE oid = ANY (ARRAY[
       'auth.sessions', 'auth.refresh_tokens', 'notifier.approvals', 'notifier.deliveries', 'notifier.attempts'
     ]::regclass[])`,
  );

  const durations: number[] = [];
  const sweepAll = async (db: DataSource, sweep: Sweep): Promise<void> => {
    let removed = batchRows;
    while (removed >= batchRows) {
      // What a batch locks it holds no longer than its transaction takes.
      const began = performance.now();
      const batch = await db.transaction((manager) => sweep(manager, batchRows));
      durations.push(performance.now() - began);
      removed = Math.max(...Object.values(batch));
      // By work, whatever the machine: a statement removes a thousand rows of a table and no more.
      expect(removed).toBeLessThanOrEqual(batchRows);
    }
  };
  await sweepAll(
    auth,
    removeEndedSessions(() => settings),
  );
  await sweepAll(
    notifier,
    removeSettledDeliveries(() => settings),
  );
  await sweepAll(
    notifier,
    removeEndedApprovals(() => settings),
  );

  const left = async (table: string): Promise<number> => {
    const [row] = await database.query<{ n: number }>(`SELECT count(*)::int AS n FROM ${table}`);
    return row!.n;
  };
  expect({
    sessions: await left('auth.sessions'),
    tokens: await left('auth.refresh_tokens'),
    deliveries: await left('notifier.deliveries'),
    attempts: await left('notifier.attempts'),
    approvals: await left('notifier.approvals'),
  }).toEqual({
    sessions: 10 * 60,
    tokens: 10 * 60 * 2,
    deliveries: 20 * 20,
    attempts: 20 * 20,
    approvals: 40 * 20,
  });
  // A pause of a busy machine counts as a lock here, so it is the quickest batches that must be
  // short. All are of one size.
  const sorted = durations.toSorted((one, other) => one - other);
  expect(sorted.length).toBeGreaterThan(40);
  expect(sorted[Math.floor(sorted.length / 4)]).toBeLessThan(1000);
});

test('a tenant is erased when requests from before have ended, whatever the clock of the node says', async () => {
  const options = { url: database.url, poolSize: 1, timeoutMs: 20_000, ssl: false };
  await migrate(options, [tenantConfigSchema]);
  const tenants = await openDatabase(options, tenantConfigSchema);
  const { request_timeout_ms: ms } = settings;
  const begin = async (msAgo: number): Promise<string> => {
    const id = randomUUID();
    await database.query(
      `INSERT INTO tenant_config.tenants (id, name, status, created_at, updated_at, notification_revision,
         notification_updated_by, notification_updated_at, erasing_since)
       VALUES ($1, 'Erased', 'disabled', now(), now(), 0, 'test', now(), now() - make_interval(secs => $2))`,
      [id, msAgo / 1000],
    );
    return id;
  };
  await begin(0);
  const quiet = await begin(3 * ms);
  const began = Date.now();
  const clock = jest.spyOn(Date, 'now');
  try {
    const { 'tenant-config.tenants.erasing': erasing } = erasingActions(tenants, () => settings);
    for (const aheadMs of [0, 3_600_000, -3_600_000]) {
      clock.mockReturnValue(began + aheadMs);
      expect([aheadMs, await erasing()]).toEqual([aheadMs, [quiet]]);
    }
  } finally {
    clock.mockRestore();
    await tenants.destroy();
  }
});
