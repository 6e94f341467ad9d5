/**
 * The relay on a real database and a real audit service: what one refused event stops, what a slow
 * audit holds up, and what is left to another node.
 */
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import type { DataSource } from 'typeorm';
import { commandTable } from '../../cli/command-table.ts';
import { commands } from '../../cli/commands.ts';
import { run } from '../../cli/interpreter.ts';
import type { Session } from '../../cli/session.ts';
import { auditService } from '../../services/audit/audit.service.ts';
import { auditSchema } from '../../services/audit/schema.ts';
import { serviceCaller } from '../../shared/access.ts';
import type { AuditEventFacts } from '../../shared/commits/commit.ts';
import { startRelay, triesUntilAside } from '../../shared/commits/relay.ts';
import { commitSchema } from '../../shared/commits/schema.ts';
import { callAs } from '../../shared/contract-runtime/request.ts';
import type { ActionName, ParamsOf, ResultOf } from '../../shared/contracts/index.ts';
import { migrate, openDatabase } from '../../shared/database/open.ts';
import { StrataError } from '../../shared/errors.ts';
import { createNode, type Node } from '../../shared/node/broker.ts';
import { liveSettings } from '../../shared/settings/live-settings.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import { createMetrics } from '../../shared/telemetry/metrics.ts';
import { eventually } from '../support/cluster.ts';
import { createDatabase, type Database } from '../support/postgres.ts';

const log = pino({ level: 'silent' });
let database: Database;
let db: DataSource;
let node: Node;

beforeAll(async () => {
  database = await createDatabase();
  const options = { url: database.url, poolSize: 6, timeoutMs: 10_000, ssl: false };
  await migrate(options, [commitSchema, auditSchema]);
  db = await openDatabase(options, auditSchema);
  const settings = loadSettings({ LOG_LEVEL: 'silent', SECRET_KEY: 'k'.repeat(32) }, { roles: [] });
  node = createNode({ settings: liveSettings(settings, {}, []) });
  node.broker.createService(
    auditService({ db, settings: () => settings, log, metrics: new Registry() }),
  );
  await node.broker.start();
});
afterAll(async () => {
  await node?.broker.stop();
  await db?.destroy();
  await database?.drop();
});
beforeEach(() => database.query('TRUNCATE strata.outbox, strata.chain_waits'));

/** Longer than the audit takes. */
const tooLong = 'x'.repeat(101);

async function commit(tenantId: string | null, index: number, action = 'config.risk.updated') {
  const event: AuditEventFacts = {
    id: randomUUID(),
    action,
    actor: { type: 'user', id: 'u' },
    tenant_id: tenantId,
    target: tenantId,
    payload: { index },
    request_id: 'r',
    occurred_at: new Date().toISOString(),
  };
  await database.query(
    'INSERT INTO strata.outbox (event_id, event, created_at) VALUES ($1, $2, clock_timestamp())',
    [event.id, JSON.stringify(event)],
  );
  return event.id;
}

const deliver = (body: AuditEventFacts[]): Promise<unknown> =>
  callAs(node.broker, 'audit.append', { body }, { caller: serviceCaller('test'), requestId: 'r' });

const operator = {
  type: 'operator',
  id: 'test',
  tenant_id: null,
  roles: [],
  platform_roles: [],
} as const;
const ask = <A extends ActionName>(action: A, params: ParamsOf<A>): Promise<ResultOf<A>> =>
  callAs(node.broker, action, params, { caller: operator, requestId: 'r' });

/** What a command of the console prints. */
async function typed(...words: string[]): Promise<string> {
  const session: Session = {
    call: (action, params) => ask(action, params as ParamsOf<typeof action>),
    tenants: async () => [],
  };
  const printed: string[] = [];
  const print = (text: string) => printed.push(text);
  const output = { print, signal: new AbortController().signal };
  await run(words, session, output, commandTable(commands, {}));
  return printed.join('\n');
}

const recorded = async (tenantId: string): Promise<number[]> => {
  const rows = await database.query<{ index: number }>(
    `SELECT (payload->>'index')::int AS index FROM audit.events WHERE chain = $1 ORDER BY seq`,
    [tenantId],
  );
  return rows.map(({ index }) => index);
};
const waits = () =>
  database.query<{ chain: string; event_id: string; tries: number }>(
    'SELECT chain, event_id, tries FROM strata.chain_waits',
  );
const chainsAside = async (): Promise<string | undefined> => {
  const { coherence } = node;
  const bus = { connected: () => true, counters: { drops: 0, refused: 0 } };
  const registry = createMetrics({ coherence, bus: bus as never, commits: db });
  return /^strata_audit_chains_aside (\d+)$/m.exec(await registry.metrics())?.[1];
};
const makeDue = () => database.query('UPDATE strata.chain_waits SET retry_at = now()');

test('one refused event stops its chain alone, visibly, and nothing of it is lost or out of order', async () => {
  const [ill, well, later] = [randomUUID(), randomUUID(), randomUUID()];
  await commit(ill, 0);
  await commit(well, 0);
  const poisoned = await commit(ill, 1, tooLong);
  await commit(ill, 2);
  await commit(well, 1);
  const relay = startRelay(db, deliver, log);
  try {
    await eventually(async () => expect(await recorded(well)).toEqual([0, 1]));
    await eventually(async () => expect(await waits()).toHaveLength(1));
    expect(await recorded(ill)).toEqual([0]);

    // What comes afterwards waits behind it, or does not wait at all.
    await commit(ill, 3);
    await commit(later, 0);
    relay.wake();
    await eventually(async () => expect(await recorded(later)).toEqual([0]));
    await eventually(async () =>
      expect(
        await database.query('SELECT FROM strata.outbox WHERE chain = $1 AND aside', [ill]),
      ).toHaveLength(3),
    );

    // Tried again, for as long as it takes to say so.
    for (let tries = 2; tries <= triesUntilAside; tries += 1) {
      expect(await chainsAside()).toBe('0');
      await makeDue();
      relay.wake();
      await eventually(async () =>
        expect(await waits()).toEqual([{ chain: ill, event_id: poisoned, tries }]),
      );
    }
    expect(await chainsAside()).toBe('1');
    const { chains } = await ask('audit.verify', { tenant_id: ill });
    expect(chains[0]!.waits_at?.event_id).toBe(poisoned);
    expect(await typed('audit', 'waiting')).toContain(poisoned);

    // Whatever was the cause is mended.
    await database.query(
      `UPDATE strata.outbox SET event = (event::jsonb || '{"action": "config.risk.updated"}')::json
       WHERE event_id = $1`,
      [poisoned],
    );
    await typed('audit', 'retry', '--tenant', ill);
    relay.wake();
    await eventually(async () => expect(await recorded(ill)).toEqual([0, 1, 2, 3]));
    expect(await waits()).toEqual([]);
    expect(await chainsAside()).toBe('0');
    expect((await ask('audit.verify', { tenant_id: ill })).valid).toBe(true);
    expect(
      await database.query('SELECT FROM strata.outbox WHERE chain <> $1', ['platform']),
    ).toEqual([]);
  } finally {
    await relay.stop();
  }
});

test('a chain of which very much waits is handed on a batch at a time, in order', async () => {
  const ill = randomUUID();
  const count = 1001;
  await commit(ill, 0, tooLong);
  await database.query(
    `INSERT INTO strata.outbox (event_id, event, created_at)
     SELECT id, json_build_object('id', id, 'action', 'config.risk.updated', 'actor', json_build_object('type', 'user', 'id', 'u'),
       'tenant_id', $1::uuid, 'target', NULL, 'payload', json_build_object('index', n), 'request_id', 'r', 'occurred_at', $2::text), now()
     FROM (SELECT n, gen_random_uuid() AS id FROM generate_series(1, $3::int) n ORDER BY n) AS made`,
    [ill, new Date().toISOString(), count - 1],
  );
  // How many are taken back at once.
  await database.query(
    `CREATE TABLE taken_back AS SELECT 0 AS rows WHERE false;
     CREATE FUNCTION note_taken_back() RETURNS trigger LANGUAGE plpgsql AS
       $$ BEGIN INSERT INTO taken_back SELECT count(*) FROM changed WHERE NOT aside; RETURN NULL; END $$;
     CREATE TRIGGER taken_back AFTER UPDATE ON strata.outbox REFERENCING NEW TABLE AS changed
       FOR EACH STATEMENT EXECUTE FUNCTION note_taken_back()`,
  );
  const relay = startRelay(db, deliver, log);
  try {
    await eventually(async () =>
      expect(
        await database.query('SELECT FROM strata.outbox WHERE NOT aside AND chain = $1', [ill]),
      ).toEqual([]),
    );
    await database.query(
      `UPDATE strata.outbox SET event = (event::jsonb || '{"action": "config.risk.updated"}')::json
       WHERE seq = (SELECT min(seq) FROM strata.outbox WHERE chain = $1)`,
      [ill],
    );
    await makeDue();
    relay.wake();
    await eventually(async () => expect(await recorded(ill)).toHaveLength(count));
    expect(await recorded(ill)).toEqual(Array.from({ length: count }, (_each, index) => index));
    await eventually(async () => expect(await waits()).toEqual([]));
    const [most] = await database.query<{ rows: number }>(
      'SELECT max(rows) AS rows FROM taken_back',
    );
    expect(most!.rows).toBeLessThan(200);
  } finally {
    await relay.stop();
    await database.query('DROP TABLE taken_back; DROP FUNCTION note_taken_back CASCADE');
  }
});

test('where the audit is away no event is at fault', async () => {
  const tenants = [randomUUID(), randomUUID()];
  for (const tenant of tenants) await commit(tenant, 0);
  let isAway = true;
  let asked = 0;
  const relay = startRelay(
    db,
    async (events) => {
      asked += 1;
      if (isAway) throw new StrataError('service_unavailable');
      await deliver(events);
    },
    log,
  );
  try {
    await eventually(async () => expect(asked).toBeGreaterThan(3));
    expect(await waits()).toEqual([]);
    isAway = false;
    relay.wake();
    for (const tenant of tenants)
      await eventually(async () => expect(await recorded(tenant)).toEqual([0]));
  } finally {
    await relay.stop();
  }
});

test('an event that the audit never answers is found, too', async () => {
  const [ill, well] = [randomUUID(), randomUUID()];
  await commit(ill, 0);
  await commit(well, 0);
  const relay = startRelay(
    db,
    async (events) => {
      if (events.some(({ tenant_id: tenant }) => tenant === ill)) throw new StrataError('timeout');
      await deliver(events);
    },
    log,
  );
  try {
    await eventually(async () => expect(await recorded(well)).toEqual([0]));
    await eventually(async () =>
      expect(await waits()).toEqual([expect.objectContaining({ chain: ill, tries: 1 })]),
    );
  } finally {
    await relay.stop();
  }
});

test('while the audit is asked nothing is locked, and another node takes over a relay that is gone', async () => {
  const tenant = randomUUID();
  await commit(tenant, 0);
  const hanging = Promise.withResolvers<void>();
  const asked = Promise.withResolvers<void>();
  const gone = startRelay(
    db,
    async () => {
      asked.resolve();
      await hanging.promise;
    },
    log,
  );
  await asked.promise;
  const other = startRelay(db, deliver, log);
  try {
    expect(
      await database.query(
        `SELECT FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'`,
      ),
    ).toEqual([]);
    expect(
      await database.query(
        `SELECT FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
      ),
    ).toEqual([]);
    await commit(tenant, 1);
    await delay(100);
    expect(await recorded(tenant)).toEqual([]);
    await database.query(`UPDATE strata.relay_lease SET until = '-infinity'`);
    other.wake();
    await eventually(async () => expect(await recorded(tenant)).toEqual([0, 1]));
  } finally {
    hanging.resolve();
    await Promise.all([gone.stop(), other.stop()]);
  }
});
