/** The change feed against a real database: what commits out of order, late, or long ago. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import pg from 'pg';
import type { DataSource } from 'typeorm';
import { createFeed, type Feed } from '../../shared/cluster/coherence/feed.ts';
import { migrate, openDatabase } from '../../shared/database/open.ts';
import { commitChange, type Change } from '../../shared/commits/commit.ts';
import { commitSchema } from '../../shared/commits/schema.ts';
import { holdLock } from '../support/held-lock.ts';
import { createDatabase, type Database } from '../support/postgres.ts';

let database: Database;
let db: DataSource;
let feed: Feed;

beforeAll(async () => {
  database = await createDatabase();
  const options = { url: database.url, poolSize: 8, timeoutMs: 10_000, ssl: false };
  await migrate(options, [commitSchema]);
  db = await openDatabase(options, commitSchema);
  feed = createFeed(db, 2000);
});
afterAll(async () => {
  await db?.destroy();
  await database?.drop();
});

const system = {
  caller: { type: 'system', id: 'test', tenant_id: null, roles: [], platform_roles: [] },
  requestId: 'r',
} as const;
async function commit(scope: string, key: string): Promise<Change> {
  const committed: Change[] = [];
  await commitChange(db, { ...system, committed }, scope, async () => ({
    result: undefined,
    keys: [key],
    events: [],
  }));
  return committed[0]!;
}
const keysOf = ({ changes }: { changes: Change[] }): string[] =>
  changes.flatMap(({ keys }) => keys);

test('a slow transaction that commits out of order is not skipped', async () => {
  const { cursor: first } = await feed.poll('slow-reader', null);
  const slow = new pg.Client({ connectionString: database.url });
  await slow.connect();
  await slow.query('BEGIN');
  // It has its id now, and commits after one with a higher id.
  await slow.query(
    `INSERT INTO strata.changes VALUES (pg_current_xact_id(), 'tenant:slow', 1, '{slow}', clock_timestamp())`,
  );
  await commit('tenant:fast', 'fast');
  const meanwhile = await feed.poll('slow-reader', first);
  expect(keysOf(meanwhile)).toEqual(['fast']);
  await commit('tenant:fast', 'faster');
  await slow.query('COMMIT');
  await slow.end();
  const after = await feed.poll('slow-reader', meanwhile.cursor);
  expect(keysOf(after)).toEqual(expect.arrayContaining(['slow', 'faster']));
  const settled = await feed.poll('slow-reader', after.cursor);
  expect(keysOf(await feed.poll('slow-reader', settled.cursor))).toEqual([]);
});

test('a lease holder is waited for until its cursor is past the change, it leaves, or its lease runs out', async () => {
  await feed.poll('holder', null);
  const change = await commit('tenant:a', 'k');
  expect(await feed.leaseHolders(change.id)).toContain('holder');
  const { cursor } = await feed.poll('holder', (await feed.poll('holder', null)).cursor);
  await feed.poll('holder', cursor);
  expect(await feed.leaseHolders(change.id)).not.toContain('holder');

  const next = await commit('tenant:a', 'k');
  expect(await feed.leaseHolders(next.id)).toContain('holder');
  await db.query(
    `UPDATE strata.leases SET renewed_at = clock_timestamp() - interval '2.1 seconds' WHERE node_id = 'holder'`,
  );
  expect(await feed.leaseHolders(next.id)).not.toContain('holder');
  await feed.poll('holder', cursor);
  expect(await feed.leaseHolders(next.id)).toContain('holder');
  await feed.leave('holder');
  expect(await feed.leaseHolders(next.id)).not.toContain('holder');
});

test('a node whose cursor is older than what is kept, or from another database, starts with empty caches', async () => {
  const { cursor } = await feed.poll('away', null);
  await commit('tenant:b', 'k');
  expect((await feed.poll('away', cursor)).reset).toBe(false);
  await db.query(`UPDATE strata.changes SET created_at = clock_timestamp() - interval '1 hour'`);
  await feed.prune();
  expect((await feed.poll('away', cursor)).reset).toBe(true);
  expect((await feed.poll('away', '99999999')).reset).toBe(true);
});

test('a lease is renewed before the feed is read: of a write that commits in between, one of the two knows', async () => {
  const { cursor } = await feed.poll('reader', null);
  await feed.leave('reader');
  const lock = await holdLock(database, 'LOCK TABLE strata.leases IN EXCLUSIVE MODE');
  const polling = feed.poll('reader', cursor);
  await lock.untilWaiting(1);
  const change = await commit('tenant:between', 'between');
  const waitedFor = await feed.leaseHolders(change.id);
  await lock.release();
  const told = keysOf(await polling).includes('between');
  expect(told || waitedFor.includes('reader')).toBe(true);
});

test('revisions of a scope have no gaps, also where transactions fail or are discarded', async () => {
  const revisions: number[] = [];
  await Promise.all(
    Array.from({ length: 20 }, async (_each, index) => {
      const committed: Change[] = [];
      const by = { ...system, committed };
      await commitChange(
        db,
        by,
        'tenant:gapless',
        async () => {
          if (index % 5 === 0) throw new Error('fails');
          return { result: undefined, keys: [], events: [] };
        },
        { discard: index % 5 === 1 },
      ).catch(() => undefined);
      revisions.push(...committed.map(({ revision }) => revision));
    }),
  );
  expect(revisions.sort((a, b) => a - b)).toEqual(
    Array.from({ length: 12 }, (_each, index) => index + 1),
  );
});
