/** Destinations that hang, and one that does not: in one process, with sends that never end. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { pino } from 'pino';
import type { DataSource } from 'typeorm';
import { auditSchema } from '../../services/audit/schema.ts';
import { appendEvents } from '../../services/audit/stores/chains.ts';
import { claimDestinations } from '../../services/audit/stores/destinations.ts';
import { startPushing } from '../../services/audit/worker/pushing.ts';
import type { Call } from '../../shared/contract-runtime/request.ts';
import { openDatabase } from '../../shared/database/open.ts';
import { OutgoingError } from '../../shared/outgoing/outgoing-error.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';

let database: Database;
let db: DataSource;
beforeAll(async () => {
  database = await strataDatabase();
  const options = { url: database.url, poolSize: 4, timeoutMs: 10_000, ssl: false };
  db = await openDatabase(options, auditSchema);
});
afterAll(async () => {
  await db?.destroy();
  await database?.drop();
});

const hangs = 'https://hangs.example/';
const answers = 'https://answers.example/';

/** An event of each chain. */
const append = (chains: readonly string[]): Promise<unknown> =>
  appendEvents(
    db.manager,
    chains.map((chain) => ({
      id: randomUUID(),
      action: 'config.risk.updated',
      actor: { type: 'user', id: 'u' },
      tenant_id: chain,
      target: 't',
      payload: {},
      request_id: null,
      occurred_at: new Date().toISOString(),
    })),
  );
/** Documents of which one chain's destinations answer. */
const documents = (healthy: string | undefined) =>
  (async (_action: unknown, { tenant_id: chain }: { tenant_id: string }) => {
    const url = chain === healthy ? answers : hangs;
    const names = ['d1', 'd2', 'd3', 'd4', 'd5'];
    return { destinations: Object.fromEntries(names.map((n) => [n, { url }])), revision: 1 };
  }) as Call;

/** What pushes to one that answers and to others that never do, until `stop` ends all of them. */
function startPushingTo(healthy: string | undefined) {
  const end = Promise.withResolvers<never>();
  end.promise.catch(() => undefined);
  const delivered = Promise.withResolvers<string>();
  /** Emits how many hang. */
  const hung = new EventEmitter();
  let hanging = 0;
  const pushing = startPushing({
    db,
    call: documents(healthy),
    log: pino({ level: 'silent' }),
    http: {
      async send({ url }) {
        if (url === hangs) {
          hanging += 1;
          hung.emit(`${hanging}`);
          return end.promise;
        }
        delivered.resolve('delivered');
        return { status: 204, headers: {}, body: Buffer.of(), cut: null, durationMs: 1 };
      },
    },
  });
  return {
    wake: pushing.wake,
    delivered: delivered.promise,
    hung,
    hanging: () => hanging,
    async stop() {
      end.reject(new OutgoingError('timed_out', 'did not answer in time'));
      await pushing.stop();
    },
  };
}

test('a destination that answers waits for none of a hundred that hang', async () => {
  const chains = Array.from({ length: 21 }, () => randomUUID());
  const [healthy] = chains;
  await append(chains);
  // Those that hang have waited for longer, and failed once.
  await db.query(
    `INSERT INTO audit.destinations
       (chain, name, revision, target, max_seconds, seq, searched, head, due_at, failures)
     SELECT chain, 'd' || n, 1, '', 0, 0, 0, 1, now() - CASE WHEN chain = $2 THEN 1 ELSE 60 END * interval '1 second',
       CASE WHEN chain = $2 THEN 0 ELSE 1 END
     FROM unnest($1::text[]) AS c (chain), generate_series(1, 5) AS n WHERE chain <> $2 OR n = 1`,
    [chains, healthy],
  );
  const pushing = startPushingTo(healthy);
  try {
    // Those that hang never end by themselves.
    const late = delay(10_000, 'too late', { ref: false });
    expect(await Promise.race([pushing.delivered, late])).toBe('delivered');
    expect(pushing.hanging()).toBeLessThanOrEqual(16);
  } finally {
    await pushing.stop();
  }
  const rows = await db.query<{ seq: number; failures: number }[]>(
    'SELECT seq, failures FROM audit.destinations WHERE chain = $1',
    [healthy],
  );
  expect(rows).toEqual([{ seq: 1, failures: 0 }]);
});

test('a destination waits seconds for fifty that are slow and have never failed', async () => {
  await db.query('DELETE FROM audit.destinations');
  const [healthy, ...slow] = Array.from({ length: 11 }, () => randomUUID());
  await append([healthy!, ...slow]);
  const write = (chains: readonly string[], count: number): Promise<unknown> =>
    db.query(
      `INSERT INTO audit.destinations
         (chain, name, revision, target, max_seconds, seq, searched, head, due_at)
       SELECT chain, 'd' || n, 1, '', 0, 0, 0, 1, now()
       FROM unnest($1::text[]) AS c (chain), generate_series(1, $2::int) AS n`,
      [chains, count],
    );
  await write(slow, 5);
  const pushing = startPushingTo(healthy);
  try {
    await once(pushing.hung, '48');
    await write([healthy!], 1);
    pushing.wake();
    // Slow ones end after 30 s at the latest; here they do not.
    const late = delay(10_000, 'too late', { ref: false });
    expect(await Promise.race([pushing.delivered, late])).toBe('delivered');
  } finally {
    await pushing.stop();
  }
});

test('a document that is written over and over has no slot of others', async () => {
  await db.query('DELETE FROM audit.destinations');
  const [rewritten, healthy] = [randomUUID(), randomUUID()];
  await append([rewritten, healthy]);
  const write = (chain: string, count: number): Promise<unknown> =>
    db.query(
      `INSERT INTO audit.destinations AS d
         (chain, name, revision, target, max_seconds, seq, searched, head, due_at)
       SELECT $1, 'd' || n, 1, '', 0, 0, 0, 1, now() FROM generate_series(1, $2::int) AS n
       ON CONFLICT (chain, name) DO UPDATE SET due_at = now(), lease = NULL, failures = 0`,
      [chain, count],
    );
  const pushing = startPushingTo(healthy);
  try {
    for (const all of [5, 10]) {
      const begun = once(pushing.hung, `${all}`);
      await write(rewritten, 5);
      pushing.wake();
      await begun;
    }
    await write(rewritten, 5);
    await write(healthy, 1);
    pushing.wake();
    await pushing.delivered;
    expect(pushing.hanging()).toBe(10);
  } finally {
    await pushing.stop();
  }
});

test('a connection that has claimed before claims also once a newer release has added a column', async () => {
  const claims = () => Promise.all([1, 2, 3, 4].map(() => claimDestinations(db, 1, 'well', [])));
  await claims();
  await db.query('ALTER TABLE audit.destinations ADD COLUMN newer int4');
  expect(await claims()).toHaveLength(4);
});
