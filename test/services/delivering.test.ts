/**
 * The queue of notices on a real database: who may claim what and when, what is recorded of an
 * attempt, what is audited.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { ClientBase, QueryConfig } from 'pg';
import { pino } from 'pino';
import type { DataSource } from 'typeorm';
import { lostConfig } from '../../services/notifier/rules/frozen-config.ts';
import { noticesOf, webhookId, type NewDelivery } from '../../services/notifier/rules/notice.ts';
import { ApprovalEntity, notifierSchema } from '../../services/notifier/schema.ts';
import {
  cancelUnsent,
  pausedReason,
  queueNotices,
} from '../../services/notifier/stores/notices.ts';
import { recordAttempts, type AttemptRecord } from '../../services/notifier/stores/attempts.ts';
import {
  claimDue,
  releaseClaims,
  sendsPerTenant,
  type Claim,
} from '../../services/notifier/stores/claims.ts';
import { dueApprovals } from '../../services/notifier/stores/due-approvals.ts';
import { readQueue, unknownChannels } from '../../services/notifier/stores/queue.ts';
import { attemptDelivery } from '../../services/notifier/worker/attempt.ts';
import { startDelivering } from '../../services/notifier/worker/deliver.ts';
import { startEscalating } from '../../services/notifier/worker/escalate.ts';
import { createRecorder } from '../../services/notifier/worker/record.ts';
import { createSender } from '../../services/notifier/channels/sender.ts';
import { channels } from '../../shared/contracts/notifier.ts';
import { migrate, openDatabase } from '../../shared/database/open.ts';
import { commitSchema } from '../../shared/commits/schema.ts';
import { eventually } from '../support/cluster.ts';
import { holdLock } from '../support/held-lock.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import { createDatabase, type Database } from '../support/postgres.ts';

const tenant = randomUUID();
const worker = randomUUID();
const otherWorker = randomUUID();
let database: Database;
let db: DataSource;

beforeAll(async () => {
  database = await createDatabase();
  const options = { url: database.url, poolSize: 10, timeoutMs: 20_000, ssl: false };
  await migrate(options, [commitSchema, notifierSchema]);
  db = await openDatabase(options, notifierSchema);
});
afterAll(async () => {
  await db?.destroy();
  await database?.drop();
});
beforeEach(() =>
  db.query(
    'TRUNCATE notifier.approvals, notifier.deliveries, notifier.attempts, notifier.endpoints, strata.outbox',
  ),
);

/** An approval with `count` notices waiting for each endpoint. */
async function queue(endpoints: readonly string[], count = 1): Promise<string> {
  const id = randomUUID();
  await db.query(
    `INSERT INTO notifier.approvals (id, tenant_id, state, action, risk_level, title, hop, max_hops, window_seconds, chain, frozen, requested_by, request_id, request_hash,
       created_at, expires_at, expires_fixed)
     VALUES ($1, $2, 'pending', 'a', 'low', 't', 0, 0, 60, '{}', '', '{}', '', '', now(), now() + interval '1 hour', false)`,
    [id, tenant],
  );
  await db.query(
    `INSERT INTO notifier.endpoints (key, served_at, failures) SELECT k, now(), 0 FROM unnest($1::text[]) k ON CONFLICT DO NOTHING`,
    [endpoints],
  );
  await db.query(
    `INSERT INTO notifier.deliveries (id, tenant_id, approval_id, type, hop, channel, endpoint_key, place, target, body, state, attempts, round, next_attempt_at, created_at)
     SELECT gen_random_uuid(), $1, $2, 'approval.requested', 0, 'webhook', k, n::text, 'https://a.example', '{}', 'pending', 0, 0, now(), now()
     FROM unnest($3::text[]) k, generate_series(1, $4::int) n`,
    [tenant, id, endpoints, count],
  );
  return id;
}
/** How an attempt at a claimed delivery ended. */
const ended = (
  { id, round }: Claim,
  result: AttemptRecord['result'],
  waitMs = 0,
): AttemptRecord => ({
  id,
  round,
  result,
  wait_ms: waitMs,
  duration_ms: 1,
  status: null,
  answer: null,
  error: result === 'delivered' ? null : 'no',
});
/**
 * Records attempts of a worker at one endpoint; `pausedRevision` says that the endpoint has
 * answered 410.
 */
function record(
  by: string,
  attempts: readonly AttemptRecord[],
  endpointKey: string,
  pausedRevision: number | null = null,
): Promise<void> {
  const delivered = attempts.filter(({ result }) => result === 'delivered');
  const endpoint = {
    key: endpointKey,
    delivered: delivered.length > 0,
    failures: attempts.length - delivered.length,
    paused_revision: pausedRevision,
  };
  return recordAttempts(db, by, attempts, [endpoint]);
}
/** Payloads of the events of failed deliveries, in the order in which they failed. */
async function failureEvents(): Promise<Record<string, unknown>[]> {
  const rows = await db.query<{ action: string; payload: Record<string, unknown> }[]>(
    `SELECT event->>'action' AS action, event->'payload' AS payload FROM strata.outbox ORDER BY created_at`,
  );
  expect(rows.every(({ action }) => action === 'approval.delivery_failed')).toBe(true);
  return rows.map(({ payload }) => payload);
}
/** How many of the claims are for each endpoint. */
function byEndpoint(claims: readonly Claim[]): Record<string, number> {
  const groups = Map.groupBy(claims, ({ endpoint_key: key }) => key);
  return Object.fromEntries([...groups].map(([key, all]) => [key, all.length]));
}
async function states(): Promise<string[]> {
  const rows = await db.query<{ state: string }[]>(
    'SELECT state FROM notifier.deliveries ORDER BY created_at',
  );
  return rows.map(({ state }) => state);
}
/** Makes every delivery of an endpoint one of this channel. */
const ofChannel = (endpointKey: string, channel: string) =>
  db.query('UPDATE notifier.deliveries SET channel = $2 WHERE endpoint_key = $1', [
    endpointKey,
    channel,
  ]);
/** Lets the claims of a worker that has died end. */
async function endClaims(): Promise<void> {
  await db.query(
    `UPDATE notifier.deliveries SET lease_until = lease_until - interval '11 seconds' WHERE lease_until IS NOT NULL`,
  );
  await db.query(`UPDATE notifier.endpoints SET due_at = due_at - interval '11 seconds'`);
}

describe('a channel that this release does not know', () => {
  const newer = [...channels, 'pager'];

  test('waits, untouched, for a node whose release knows it, and holds up no other notice', async () => {
    await queue(['pager'], 40);
    await ofChannel('pager', 'pager');
    await queue(['a'], 3);
    expect(byEndpoint(await claimDue(db, worker, 20))).toEqual({ a: 3 });
    expect(await claimDue(db, worker, 20)).toEqual([]);
    const rows = await db.query<unknown[]>(
      `SELECT DISTINCT state, attempts, round, lease, lease_until FROM notifier.deliveries WHERE channel = 'pager'`,
    );
    expect(rows).toEqual([
      { state: 'pending', attempts: 0, round: 0, lease: null, lease_until: null },
    ]);
    expect(await unknownChannels(db)).toEqual([{ channel: 'pager', waiting: 40 }]);
    expect(byEndpoint(await claimDue(db, otherWorker, 20, { known: newer }))).toEqual({
      pager: 16,
    });
  });

  test('an attempt at what cannot be read ends as final, and rejects for no claim', async () => {
    await queue(['a']);
    const [claim] = await claimDue(db, worker, 1);
    const unused = new Proxy({}, { get: () => () => Promise.reject(new Error('not sent')) });
    const sender = createSender({
      settings: () => loadSettings({}),
      http: unused as never,
      mailer: unused as never,
      verifiedDomains: async () => [],
      copies: unused as never,
    });
    const open = () => ({ config: {}, groups: {}, admins: [], revision: 1 }) as never;
    const log = pino({ level: 'silent' });
    for (const channel of [
      'webhook',
      'email',
      'chat',
      'teams',
      'slack',
      'pager',
      '__proto__',
      'constructor',
      '',
    ]) {
      const unreadable = { ...claim!, channel: channel as never, place: 'nowhere', body: '{' };
      const { record } = await attemptDelivery(unreadable, open, { log, sender });
      expect([channel, record.error]).toEqual([channel, expect.stringContaining('see the log')]);
    }
  });
});

describe('who may claim what', () => {
  test('an endpoint has at most sixteen on their way, over all workers', async () => {
    for (let round = 0; round < 20; round += 1) {
      await queue([`a${round}`], 30);
      const taken = await Promise.all(
        Array.from({ length: 6 }, () => claimDue(db, randomUUID(), 1024)),
      );
      expect(new Set(taken.flat().map(({ id }) => id)).size).toBe(16);
      expect(taken.flat()).toHaveLength(16);
      expect(await claimDue(db, otherWorker, 1024)).toEqual([]);
    }
  });

  test('the endpoint served longest ago comes first, so that none waits for the others', async () => {
    await queue(['a', 'b'], 20);
    expect(byEndpoint(await claimDue(db, worker, 6))).toEqual({ a: 6 });
    await queue(['c']);
    expect(byEndpoint(await claimDue(db, worker, 6))).toEqual({ b: 6 });
    expect(byEndpoint(await claimDue(db, worker, 14))).toEqual({ a: 10, c: 1, b: 3 });
  });

  test('a tenant whose endpoints all hang leaves slots for the others, and can be left out', async () => {
    const hanging = Array.from({ length: 50 }, (_each, index) => `webhook evil ${index}`);
    await queue(hanging, 16);
    await queue(['webhook good 0'], 2);
    const ofTenants = (claims: readonly Claim[]) =>
      Object.fromEntries(
        [...Map.groupBy(claims, ({ endpoint_key: key }) => key.split(' ')[1]!)].map(
          ([name, all]) => [name, all.length],
        ),
      );
    expect(ofTenants(await claimDue(db, worker, 1024))).toEqual({
      evil: sendsPerTenant,
      good: 2,
    });
    await queue(['webhook good 1'], 1);
    const left = await claimDue(db, worker, 1024, { except: ['evil'] });
    expect(ofTenants(left)).toEqual({ good: 1 });
    expect(ofTenants(await claimDue(db, worker, 1024))).toEqual({ evil: sendsPerTenant });
  });

  /** A worker whose sends end when it stops; `sent` has the endpoint of each that has begun. */
  function startHanging() {
    const { promise: hangs, resolve: end } = Promise.withResolvers<never>();
    const sent: string[] = [];
    const delivering = startDelivering({
      db,
      log: pino({ level: 'silent' }),
      open: () => ({ config: {}, revision: 1 }) as never,
      sender: {
        retryPlan: () => undefined as never,
        send({ endpoint_key: key }) {
          sent.push(key);
          return hangs;
        },
      },
    });
    const delivered = { result: 'delivered', duration_ms: 1, status: 200 };
    return {
      delivering,
      sent,
      async stop(): Promise<void> {
        end({ ...delivered, answer: null, error: null } as never);
        await delivering.stop();
      },
    };
  }

  test('however many tenants have endpoints that hang, some slots are free, also for their mail', async () => {
    const tenants = Array.from({ length: 12 }, () => randomUUID());
    const hanging = tenants.flatMap((id) =>
      Array.from({ length: 20 }, (_each, index) => `webhook ${id} ${index}`),
    );
    const ownTenants = () =>
      db.query(`UPDATE notifier.deliveries SET tenant_id = split_part(endpoint_key, ' ', 2)::uuid`);
    await queue(hanging, 16);
    await ownTenants();
    const { delivering, sent, stop } = startHanging();
    try {
      await eventually(async () => {
        const { in_flight: before } = delivering.counts();
        expect(before).toBeGreaterThan(896);
        const [row] = await db.query<[{ now: number }]>(
          `SELECT count(*)::int AS now FROM notifier.deliveries WHERE lease IS NULL`,
        );
        expect(row.now).toBe(hanging.length * 16 - before);
      });
      const late = [`webhook ${randomUUID()} 0`, `email ${tenants[0]}`, `email ${randomUUID()}`];
      const failing = `webhook ${randomUUID()} 0`;
      await db.query(
        'INSERT INTO notifier.endpoints (key, served_at, failures) VALUES ($1, now(), 1)',
        [failing],
      );
      await queue([failing, ...late]);
      await ownTenants();
      delivering.wake();
      await eventually(async () => expect(sent).toEqual(expect.arrayContaining(late)));
      expect(sent).not.toContain(failing);
      const have = new Set(sent.map((key) => key.split(' ')[1]));
      expect([...have]).toEqual(expect.arrayContaining(tenants));
    } finally {
      await stop();
    }
  });

  test('while the mail server hangs, mails of many tenants hold up none of their webhooks', async () => {
    const tenants = Array.from({ length: 70 }, () => randomUUID());
    const own = () =>
      db.query(`UPDATE notifier.deliveries SET tenant_id = split_part(endpoint_key, ' ', 2)::uuid,
        channel = split_part(endpoint_key, ' ', 1)`);
    await queue(
      tenants.map((id) => `email ${id}`),
      16,
    );
    await own();
    const { delivering, sent, stop } = startHanging();
    try {
      await eventually(async () => expect(sent.length).toBeGreaterThan(400));
      await queue(tenants.map((id) => `webhook ${id} 0`));
      await own();
      delivering.wake();
      await eventually(async () => {
        const webhooks = sent.filter((key) => key.startsWith('webhook '));
        expect(webhooks).toHaveLength(tenants.length);
      });
    } finally {
      await stop();
    }
  });

  test('where one endpoint has most of what is pending, none is looked for in all of it', async () => {
    await queue(['most'], 20_000);
    await queue(['none'], 0);
    await db.query('UPDATE notifier.endpoints SET due_at = now()');
    await db.query('ANALYZE notifier.deliveries, notifier.endpoints');
    const runner = db.createQueryRunner();
    const query = jest.spyOn((await runner.connect()) as ClientBase, 'query');
    const made = jest.spyOn(db, 'createQueryRunner').mockReturnValueOnce(runner);
    expect(await claimDue(db, worker, 20)).toHaveLength(16);
    made.mockRestore();
    const [{ text, values }] = query.mock.calls[0] as unknown as [QueryConfig];
    query.mockRestore();
    const plan: unknown = await db.query(`EXPLAIN ${text}`, values);
    expect(JSON.stringify(plan)).not.toContain('Seq Scan on deliveries');
  });

  test('an endpoint that another worker takes from is passed over, and no one waits for it', async () => {
    await queue(['a', 'b'], 3);
    const lock = await holdLock(
      database,
      `SELECT FROM notifier.endpoints WHERE key = 'a' FOR UPDATE`,
    );
    try {
      const claims = await Promise.race([
        claimDue(db, worker, 100),
        delay(60_000, undefined, { ref: false }),
      ]);
      expect(claims && byEndpoint(claims)).toEqual({ b: 3 });
    } finally {
      await lock.release();
    }
    expect(byEndpoint(await claimDue(db, otherWorker, 100))).toEqual({ a: 3 });
  });

  test('of many workers at once each delivery has one', async () => {
    await queue(
      Array.from({ length: 40 }, (_each, n) => `e${n}`),
      8,
    );
    const taken: string[] = [];
    await Promise.all(
      Array.from({ length: 8 }, async () => {
        const claimer = randomUUID();
        for (;;) {
          const claims = await claimDue(db, claimer, 25);
          taken.push(...claims.map(({ id }) => id));
          // Nothing may be left for it while another holds the endpoints. With more than there are,
          // some were claimed twice.
          if (taken.length > 320 || (claims.length === 0 && taken.length === 320)) return;
        }
      }),
    );
    expect(taken).toHaveLength(320);
    expect(new Set(taken).size).toBe(320);
  });

  test("what a dead worker had claimed is another's once the claim has ended; the dead one records nothing any more", async () => {
    await queue(['a']);
    const [first] = await claimDue(db, worker, 10);
    expect(await claimDue(db, otherWorker, 10)).toEqual([]);
    await endClaims();
    const [again] = await claimDue(db, otherWorker, 10);
    expect([again!.id, again!.round]).toEqual([first!.id, 0]);
    await record(worker, [ended(first!, 'failed')], 'a');
    expect(await failureEvents()).toEqual([]);
    expect(await states()).toEqual(['pending']);
    await record(otherWorker, [ended(again!, 'delivered')], 'a');
    expect(await states()).toEqual(['delivered']);
    expect(await db.query('SELECT n FROM notifier.attempts')).toEqual([{ n: 1 }]);
  });

  test('an attempt is recorded once, though its recording is repeated', async () => {
    await queue(['a']);
    const [first] = await claimDue(db, worker, 10);
    await record(worker, [ended(first!, 'retry')], 'a');
    await claimDue(db, worker, 10);
    await record(worker, [ended(first!, 'retry')], 'a');
    expect(await db.query('SELECT attempts FROM notifier.deliveries')).toEqual([{ attempts: 1 }]);
  });

  test('what the database refuses is set aside alone, stays claimed, and is offered again', async () => {
    await queue(['a', 'b', 'c']);
    const claims = await claimDue(db, worker, 10);
    const ofEndpoint = (key: string) => claims.find(({ endpoint_key: of }) => of === key)!;
    // As if its counter had been put back.
    await db.query(
      'INSERT INTO notifier.attempts (delivery_id, n, at, duration_ms) VALUES ($1, 1, now(), 1)',
      [ofEndpoint('b').id],
    );
    const recorded: string[] = [];
    const timers = jest.spyOn(globalThis, 'setTimeout');
    try {
      const recorder = createRecorder({
        db,
        worker,
        log: pino({ level: 'silent' }),
        onRecorded: (batch) => recorded.push(...batch.map(({ claim }) => claim.endpoint_key)),
      });
      await Promise.all(
        ['a', 'b', 'c'].map((key) => {
          const claim = ofEndpoint(key);
          const attempt = { claim, record: ended(claim, 'delivered') };
          return recorder.record({ ...attempt, countsAsFailure: false, pausedRevision: null });
        }),
      );
      expect(recorded).toEqual(['a', 'c']);
      expect(
        await db.query(`SELECT endpoint_key FROM notifier.deliveries WHERE lease IS NOT NULL`),
      ).toEqual([{ endpoint_key: 'b' }]);
      await db.query('DELETE FROM notifier.attempts WHERE delivery_id = $1', [ofEndpoint('b').id]);
      const [offerAgain] = timers.mock.calls.find(([, ms]) => ms === 30_000)!;
      offerAgain();
      await eventually(async () => expect(recorded).toEqual(['a', 'c', 'b']));
    } finally {
      timers.mockRestore();
    }
  });

  test('one that is queued while its endpoint was looked at is found by the next look', async () => {
    await queue(['a'], 20);
    const lock = await holdLock(
      database,
      `INSERT INTO notifier.deliveries (id, tenant_id, approval_id, type, hop, channel, endpoint_key, place, target, body, state, attempts, round, next_attempt_at, created_at)
       SELECT gen_random_uuid(), tenant_id, approval_id, type, hop, channel, 'a', place, target, body, 'pending', 0, 0, now(), now()
       FROM notifier.deliveries LIMIT 1`,
    );
    const first = await claimDue(db, worker, 100);
    await record(
      worker,
      first.map((claim) => ended(claim, 'delivered')),
      'a',
    );
    const second = await claimDue(db, worker, 100, { recorded: ['a'] });
    await record(
      worker,
      second.map((claim) => ended(claim, 'delivered')),
      'a',
    );
    expect([first.length, second.length]).toEqual([16, 4]);
    expect(await claimDue(db, worker, 100, { recorded: ['a'] })).toEqual([]);
    await lock.commit();
    expect(await claimDue(db, worker, 100)).toHaveLength(1);
  });

  test('what no one looks at in time is overdue, and not what waits for an endpoint', async () => {
    await queue(['a'], 20);
    await db.query(`UPDATE notifier.deliveries SET next_attempt_at = now() - interval '9 minutes'`);
    expect(await readQueue(db)).toMatchObject({ pending: 20, unknown_channel: 0 });
    expect((await readQueue(db))!.overdue_seconds).toBeGreaterThan(500);
    const claims = await claimDue(db, worker, 100);
    expect((await readQueue(db))!.overdue_seconds).toBe(0);
    await record(
      worker,
      claims.map((claim) => ended(claim, 'retry')),
      'a',
    );
    await db.query(`UPDATE notifier.endpoints SET due_at = now() - interval '9 minutes'`);
    expect((await readQueue(db))!.overdue_seconds).toBeGreaterThan(500);
  });

  test('what was released on shutdown is claimed at once', async () => {
    await queue(['a'], 3);
    await claimDue(db, worker, 10);
    await releaseClaims(db, worker);
    expect(await claimDue(db, otherWorker, 10)).toHaveLength(3);
  });
});

describe('the circuit breaker', () => {
  /** Claims first sends, or retries, of endpoint a and lets them fail. */
  async function fail(times: number, result: 'retry' | 'failed' = 'failed'): Promise<void> {
    let failed = 0;
    while (failed < times) {
      const claims = await claimDue(db, worker, Math.min(8, times - failed));
      expect(claims).not.toEqual([]);
      const attempts = claims.map((claim) => ended(claim, result));
      await record(worker, attempts, 'a');
      failed += claims.length;
    }
  }
  /** Lets the 30 s pass after which a probe is due. */
  const letProbeTimePass = () =>
    db.query(
      `UPDATE notifier.endpoints SET blocked_until = blocked_until - interval '31 seconds', due_at = due_at - interval '31 seconds'`,
    );

  test('opens after 20 failures in a row and then lets one first send pass at a time', async () => {
    await queue(['a'], 40);
    await fail(20);
    expect(await claimDue(db, worker, 100)).toEqual([]);
    await letProbeTimePass();
    expect(await claimDue(db, worker, 100)).toHaveLength(1);
    expect(await claimDue(db, worker, 100)).toEqual([]);
  });

  test('never holds back a retry: a notice that has begun keeps to its own waits', async () => {
    await queue(['a'], 40);
    await fail(20, 'retry');
    const retries = await claimDue(db, worker, 100);
    expect(retries.map(({ round }) => round > 0)).toEqual(Array(16).fill(true));
  });

  test('retries neither use up nor put off the probe, the one first send that is due', async () => {
    await queue(['a'], 40);
    await fail(20, 'retry');
    const probeTime = () => db.query('SELECT blocked_until FROM notifier.endpoints');
    const opened = await probeTime();
    const retries = await claimDue(db, worker, 8);
    const failures = retries.map((claim) => ended(claim, 'retry'));
    await record(worker, failures, 'a');
    expect(await probeTime()).toEqual(opened);

    await letProbeTimePass();
    const passed = await claimDue(db, worker, 100);
    expect(passed).toHaveLength(16);
    expect(passed.filter(({ round }) => round === 0)).toHaveLength(1);
    const passedRetries = passed.filter(({ round }) => round > 0);
    const failedAgain = passedRetries.map((claim) => ended(claim, 'retry'));
    await record(worker, failedAgain, 'a');
    const later = await claimDue(db, worker, 100);
    expect(later.map(({ round }) => round > 0)).toEqual(Array(15).fill(true));
  });

  test('closes with the first success', async () => {
    await queue(['a'], 40);
    await fail(20);
    await letProbeTimePass();
    const [probe] = await claimDue(db, worker, 100);
    await record(worker, [ended(probe!, 'delivered')], 'a');
    expect(await claimDue(db, worker, 100)).toHaveLength(16);
  });

  test("one endpoint's does not hold back another", async () => {
    await queue(['a'], 40);
    await fail(20);
    await queue(['b']);
    expect(byEndpoint(await claimDue(db, worker, 100))).toEqual({ b: 1 });
  });
});

describe('a delivery that fails', () => {
  test('is audited once, with the status and the reason', async () => {
    await queue(['a']);
    const [only] = await claimDue(db, worker, 1);
    const failure = { ...ended(only!, 'failed'), status: 404, error: 'answered 404' };
    await record(worker, [failure], 'a');
    await record(worker, [failure], 'a');
    expect(await failureEvents()).toEqual([
      {
        delivery_id: only!.id,
        channel: 'webhook',
        target: 'https://a.example',
        status: 404,
        reason: 'answered 404',
      },
    ]);
  });

  test('because its endpoint has gone is audited, sent or not', async () => {
    await queue(['a', 'b'], 3);
    const [sent] = await claimDue(db, worker, 1);
    await record(worker, [ended(sent!, 'failed')], sent!.endpoint_key, 7);
    const rows = await db.query<{ id: string; reason: string }[]>(
      `SELECT id, reason FROM notifier.deliveries WHERE state = 'failed'`,
    );
    expect(rows).toHaveLength(3);
    const events = await failureEvents();
    expect(events.map(({ delivery_id: id, reason }) => `${id} ${reason}`).sort()).toEqual(
      rows.map(({ id, reason }) => `${id} ${reason}`).sort(),
    );
    expect(events.filter(({ reason }) => reason === pausedReason)).toHaveLength(2);
  });

  test('because its endpoint is paused when it is queued is audited, in the same transaction', async () => {
    const approval = await queue(['a']);
    const [sent] = await claimDue(db, worker, 1);
    await record(worker, [ended(sent!, 'delivered')], 'a', 7);
    const row = await db.manager.findOneByOrFail(ApprovalEntity, { id: approval });
    const id = randomUUID();
    const notice: NewDelivery = {
      id,
      type: 'approval.escalated',
      hop: 1,
      channel: 'webhook',
      endpoint_key: 'a',
      place: '0',
      target: 'https://a.example',
      body: '{}',
    };
    const queueing = db.transaction(async (manager) => {
      await queueNotices(manager, row, 7, [notice]);
      throw new Error('rolled back');
    });
    await expect(queueing).rejects.toThrow('rolled back');
    expect(await failureEvents()).toEqual([]);

    await db.transaction((manager) => queueNotices(manager, row, 7, [notice]));
    expect(await failureEvents()).toEqual([
      {
        delivery_id: id,
        channel: 'webhook',
        target: 'https://a.example',
        status: null,
        reason: pausedReason,
      },
    ]);
  });
});

describe('notices to very many', () => {
  test('are queued by statements of which none is long', async () => {
    const approval = await queue([]);
    const row = await db.manager.findOneByOrFail(ApprovalEntity, { id: approval });
    const large = { ...row, description: 'x'.repeat(200_000) };
    const destinations = Array.from({ length: 40 }, (_each, index) => ({
      channel: 'email' as const,
      place: `${index}@example.com`,
      target: `${index}@example.com`,
      endpoint_key: `email ${tenant}`,
    }));
    const lengths: number[] = [];
    await db.transaction(async (manager) => {
      const query = jest.spyOn(manager, 'query');
      const notices = noticesOf(large, 'approval.requested', destinations, new Date());
      expect(await queueNotices(manager, row, 7, notices)).toBe(true);
      lengths.push(
        ...query.mock.calls.map(([, parameters]) => String((parameters as unknown[])[0]).length),
      );
    });
    expect(Math.max(...lengths)).toBeLessThan(1_000_000);
    const queued = await db.query<{ place: string; id: string; said: string }[]>(
      `SELECT place, id, body::json->>'id' AS said FROM notifier.deliveries WHERE length(body) > 200000`,
    );
    expect(new Set(queued.map(({ place }) => place)).size).toBe(40);
    expect(queued.map(({ said }) => said)).toEqual(queued.map(({ id }) => webhookId(id)));
  });

  test('read and open once what their approval is sent by', async () => {
    const approvals = [await queue(['a', 'b', 'c'], 20), await queue(['a', 'd'], 20)];
    await db.query('UPDATE notifier.approvals SET frozen = id::text');
    const claims = await claimDue(db, worker, 10);
    expect(claims.filter(({ frozen }) => frozen !== null)).toHaveLength(
      new Set(claims.map(({ approval_id: id }) => id)).size,
    );
    const known = await claimDue(db, worker, 10, { opened: approvals });
    expect(known.map(({ frozen }) => frozen)).toEqual(Array.from({ length: 10 }, () => null));
    await endClaims();

    const opened: string[] = [];
    const sent: unknown[] = [];
    const delivered = {
      result: 'delivered',
      duration_ms: 1,
      status: 200,
      answer: null,
      error: null,
    };
    const delivering = startDelivering({
      db,
      log: pino({ level: 'silent' }),
      open(sealed) {
        opened.push(sealed);
        return { config: { of: sealed }, revision: 1 } as never;
      },
      sender: {
        retryPlan: () => undefined as never,
        async send({ id }, config) {
          sent.push([id, config]);
          return delivered as never;
        },
      },
    });
    try {
      await eventually(async () => expect(new Set(await states())).toEqual(new Set(['delivered'])));
    } finally {
      await delivering.stop();
    }
    expect(opened.toSorted()).toEqual(approvals.toSorted());
    const expected = await db.query<{ id: string; approval_id: string }[]>(
      'SELECT id, approval_id FROM notifier.deliveries',
    );
    expect(new Map(sent as [string, unknown][])).toEqual(
      new Map(expected.map(({ id, approval_id: of }) => [webhookId(id), { of }])),
    );
  });
});

describe('a decision', () => {
  const cancel = (approval: string) => db.transaction((manager) => cancelUnsent(manager, approval));

  test('tells whoever may have been reached, also by a worker that died before it said so', async () => {
    const approval = await queue(['a', 'b']);
    const [sent] = await claimDue(db, worker, 1);
    await endClaims();
    expect((await cancel(approval)).map(({ endpoint_key: key }) => key)).toEqual([
      sent!.endpoint_key,
    ]);
    expect(await claimDue(db, otherWorker, 10)).toEqual([]);
  });

  test('an attempt that ends after it is logged; the delivery is not sent again', async () => {
    const approval = await queue(['a', 'b']);
    const sent = await claimDue(db, worker, 10);
    await cancel(approval);
    await record(worker, [ended(sent[0]!, 'retry')], 'a');
    await record(worker, [ended(sent[1]!, 'delivered')], 'b');
    expect((await states()).sort()).toEqual(['cancelled', 'delivered']);
    expect(await db.query('SELECT n FROM notifier.attempts')).toHaveLength(2);
    expect(await claimDue(db, otherWorker, 10)).toEqual([]);
  });

  test('and a recording that meet at a delivery in the middle do not wait for each other', async () => {
    const approval = await queue(['a', 'b', 'c']);
    const claims = await claimDue(db, worker, 10);
    const [, middle] = claims.map(({ id }) => id).toSorted();
    const lock = await holdLock(
      database,
      'SELECT FROM notifier.deliveries WHERE id = $1 FOR UPDATE',
      [middle],
    );
    const attempts = claims.map((claim) => ended(claim, 'delivered'));
    const recording = recordAttempts(db, worker, attempts, []);
    await lock.untilWaiting(1);
    const cancelling = cancel(approval);
    await lock.untilWaiting(2);
    await lock.release();
    await Promise.all([recording, cancelling]);
  });

  test('and the recording of the same deliveries never wait for each other', async () => {
    for (let round = 0; round < 60; round += 1) {
      const endpoints = Array.from({ length: 40 }, (_each, n) => `r${round}-${n}`);
      const approval = await queue(endpoints);
      const claims = await claimDue(db, worker, 100);
      expect(claims).toHaveLength(40);
      const result = round % 2 ? 'delivered' : 'retry';
      const attempts = claims.map((claim) => ended(claim, result, 3_600_000));
      const endpointRecords = claims.map(({ endpoint_key: key }) => ({
        key,
        delivered: true,
        failures: 0,
        paused_revision: null,
      }));
      await Promise.all([
        cancel(approval),
        recordAttempts(db, worker, attempts.toReversed(), endpointRecords),
        recordAttempts(db, otherWorker, [], endpointRecords.toReversed()),
      ]);
    }
  });
});

test('approvals that are due have turns by tenant: very many of one hold up no other', async () => {
  const [many, few] = [randomUUID(), randomUUID()];
  const ids = await Promise.all(Array.from({ length: 32 }, () => queue([])));
  await db.query(
    `UPDATE notifier.approvals SET tenant_id = CASE WHEN n <= 30 THEN $2::uuid ELSE $3 END,
       expires_at = now() - make_interval(secs => 100 - n)
     FROM unnest($1::uuid[]) WITH ORDINALITY AS due (id, n) WHERE due.id = approvals.id`,
    [ids, many, few],
  );
  const round = await dueApprovals(db, ids.slice(0, 1));
  const expected = [1, 30, 2, 31, 3, 4, 5, 6, 7, 8, 9, 10];
  expect(round.map(({ id }) => ids.indexOf(id))).toEqual(expected);
});

test('one that takes long to fire is followed by what has become due meanwhile', async () => {
  const [many, few] = [randomUUID(), randomUUID()];
  const ids = await Promise.all(Array.from({ length: 5 }, () => queue([])));
  const last = ids.pop()!;
  await db.query(
    `UPDATE notifier.approvals SET tenant_id = $1, expires_at = now() - interval '1 hour' WHERE id = ANY($2)`,
    [many, ids],
  );
  // As a node of the cluster does that has met the database.
  await db.query(
    'UPDATE strata.feed_state SET cluster = strata.cluster(), started = pg_postmaster_start_time()',
  );
  const asked: string[] = [];
  const escalating = startEscalating({
    db,
    log: pino({ level: 'silent' }),
    vault: { openIfKept: () => ({ ...lostConfig, revision: 1 }) },
    onQueued: () => undefined,
    onChanged: (tenantId) => asked.push(tenantId),
    // As where thousands are asked: longer than a round is to take.
    call: (async () => {
      if (asked.length === 0) {
        await db.query(
          'UPDATE notifier.approvals SET tenant_id = $1, expires_at = now() WHERE id = $2',
          [few, last],
        );
        await delay(1100);
      }
      return { groups: {}, admins: [], groups_with_deciders: [] };
    }) as never,
  });
  try {
    await eventually(async () => expect(asked).toHaveLength(5));
  } finally {
    await escalating.stop();
  }
  expect(asked).toEqual([many, few, many, many, many]);
});

test('one is not fired by members that were looked up before its node stood still', async () => {
  const id = await queue([]);
  await db.query(
    `UPDATE notifier.approvals SET expires_at = now() - interval '1 hour' WHERE id = $1`,
    [id],
  );
  await db.query(
    'UPDATE strata.feed_state SET cluster = strata.cluster(), started = pg_postmaster_start_time()',
  );
  let looks = 0;
  // The first look is of a minute ago.
  const standing = Object.create(db, {
    query: {
      async value(...asked: Parameters<typeof db.query>) {
        const rows = await db.query<{ at: Date }[]>(...asked);
        if (rows.length === 0) return rows;
        looks += 1;
        return looks > 1 ? rows : rows.map((row) => ({ ...row, at: new Date(+row.at - 60_000) }));
      },
    },
  }) as typeof db;
  let asked = 0;
  let fired = 0;
  const escalating = startEscalating({
    db: standing,
    log: pino({ level: 'silent' }),
    vault: { openIfKept: () => ({ ...lostConfig, revision: 1 }) },
    onQueued: () => undefined,
    onChanged: () => (fired = asked),
    call: (async () => {
      asked += 1;
      return { groups: {}, admins: [], groups_with_deciders: [] };
    }) as never,
  });
  try {
    await eventually(async () => expect(fired).toBe(2));
  } finally {
    await escalating.stop();
  }
});

test('one that cannot be fired is not tried, nor logged, with each look', async () => {
  const id = await queue([]);
  await db.query(`UPDATE notifier.approvals SET escalates_at = now() WHERE id = $1`, [id]);
  await db.query(
    'UPDATE strata.feed_state SET cluster = strata.cluster(), started = pg_postmaster_start_time()',
  );
  let looks = 0;
  const counting = Object.create(db, {
    query: {
      async value(...asked: Parameters<typeof db.query>) {
        looks += 1;
        return db.query(...asked);
      },
    },
  }) as typeof db;
  const lines: string[] = [];
  const escalating = startEscalating({
    db: counting,
    log: pino({}, { write: (line) => void lines.push(JSON.parse(line).msg) }),
    vault: { openIfKept: () => undefined },
    onQueued: () => undefined,
    onChanged: () => undefined,
    call: (async () => ({ groups: {}, admins: [], groups_with_deciders: [] })) as never,
  });
  try {
    await eventually(async () => expect(looks).toBeGreaterThan(4));
  } finally {
    await escalating.stop();
  }
  expect(lines).toEqual(['an approval cannot be escalated; it is tried again']);
});
