/** The change feed against a real database: what commits out of order, late, or long ago. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { pino } from 'pino';
import type { DataSource } from 'typeorm';
import { Coherence } from '../../shared/coherence/coherence.ts';
import { createFeed, type Feed, type Poll, type PollResult } from '../../shared/coherence/feed.ts';
import { migrate, openDatabase } from '../../shared/database/open.ts';
import { commitChange, type Change } from '../../shared/commits/commit.ts';
import { commitSchema } from '../../shared/commits/schema.ts';
import { eventually } from '../support/cluster.ts';
import { holdLock } from '../support/held-lock.ts';
import { createDatabase, startPostgres, type Database } from '../support/postgres.ts';

let database: Database;
let db: DataSource;
let feed: Feed;

beforeAll(async () => {
  database = await createDatabase();
  const options = { url: database.url, poolSize: 8, timeoutMs: 10_000, ssl: false };
  await migrate(options, [commitSchema]);
  db = await openDatabase(options, commitSchema);
  feed = createFeed(db);
  await feed.meet();
});
afterAll(async () => {
  await db?.destroy();
  await database?.drop();
});

const system = {
  caller: { type: 'system', id: 'test', tenant_id: null, roles: [], platform_roles: [] },
  requestId: 'r',
} as const;
async function commit(scope: string, key: string, into = db): Promise<Change> {
  const committed: Change[] = [];
  const by = { ...system, committed };
  await commitChange(into, by, scope, async () => ({
    result: undefined,
    keys: [key],
    events: [],
  }));
  return committed[0]!;
}
const keysOf = ({ changes }: { changes: Change[] }): string[] =>
  changes.flatMap(({ keys }) => keys);

/** A poll of a node that takes no care of its tokens. */
async function poll(holder: string, cursor: string | null): Promise<PollResult> {
  const { server } = await feed.leases('0');
  return feed.poll({ holder, token: randomUUID(), fence_ms: 2000, cursor, server });
}
const leave = async (holder: string): Promise<void> => {
  const { leases } = await feed.leases('0');
  const tokens = leases.filter((lease) => lease.holder === holder).map(({ token }) => token);
  await feed.leave({ holder, tokens });
};
/** Who has a lease and has not read the change. */
async function waitedFor(change: Change): Promise<string[]> {
  const { leases } = await feed.leases(change.id);
  return leases.filter(({ hasRead }) => !hasRead).map(({ holder }) => holder);
}

test('a slow transaction that commits out of order is not skipped', async () => {
  const { cursor: first } = await poll('slow-reader', null);
  const slow = new pg.Client({ connectionString: database.url });
  await slow.connect();
  await slow.query('BEGIN');
  // It has its id now, and commits after one with a higher id.
  await slow.query(
    `INSERT INTO strata.changes VALUES (pg_current_xact_id(), 'tenant:slow', 1, '{slow}', clock_timestamp())`,
  );
  await commit('tenant:fast', 'fast');
  const during = await poll('slow-reader', first);
  expect(keysOf(during)).toEqual(['fast']);
  await commit('tenant:fast', 'faster');
  await slow.query('COMMIT');
  await slow.end();
  const after = await poll('slow-reader', during.cursor);
  expect(keysOf(after)).toEqual(expect.arrayContaining(['slow', 'faster']));
  const settled = await poll('slow-reader', after.cursor);
  expect(keysOf(await poll('slow-reader', settled.cursor))).toEqual([]);
});

test('a node that has missed very many changes is told so, in place of all of them', async () => {
  const { cursor } = await poll('away under load', null);
  const commitMany = (revisions: number) =>
    database.query(
      `INSERT INTO strata.changes
       SELECT pg_current_xact_id(), 'tenant:loaded', n, '{k}', clock_timestamp() FROM generate_series(1, $1::int) n`,
      [revisions],
    );
  await commitMany(10_000);
  const most = await poll('away under load', cursor);
  expect(most.complete).toBe(true);
  expect(most.changes).toHaveLength(10_000);
  await commitMany(10_001);
  expect(await poll('away under load', most.cursor)).toMatchObject({
    complete: false,
    changes: [],
  });
  // Nor does PostgreSQL expect so many that it would look through all of the feed, or compile the
  // statement at each poll.
  const one = await openDatabase(
    { url: database.url, poolSize: 1, timeoutMs: 10_000, ssl: false },
    commitSchema,
  );
  await createFeed(one).poll({
    holder: 'planned',
    token: randomUUID(),
    fence_ms: 2000,
    cursor: most.cursor,
  });
  const [plan] = await one.query<{ 'QUERY PLAN': { Plan: { 'Total Cost': number } }[] }[]>(
    `EXPLAIN (FORMAT JSON) EXECUTE strata_read_changes('{"${most.cursor}"}', '1')`,
  );
  await one.destroy();
  const compiledFrom = 100_000;
  expect(plan!['QUERY PLAN'][0]!.Plan['Total Cost']).toBeLessThan(compiledFrom / 10);
  await leave('planned');
});

test('of a transaction whose changes were made at different times, none is removed before all are old', async () => {
  const open = new pg.Client({ connectionString: database.url });
  await open.connect();
  await open.query('BEGIN; SELECT pg_current_xact_id()');
  const { cursor } = await poll('away for minutes', null);
  await open.query(
    `INSERT INTO strata.changes
     SELECT pg_current_xact_id(), 'tenant:slow', minutes, ARRAY[minutes || ' minutes old'], clock_timestamp() - make_interval(mins => minutes)
     FROM unnest(ARRAY[14, 16]) minutes`,
  );
  await open.query('COMMIT');
  await open.end();
  await feed.prune([]);
  const { changes } = await poll('away for minutes', cursor);
  const ofIt = changes.filter((change) => change.scope === 'tenant:slow');
  expect(keysOf({ changes: ofIt })).toEqual(['14 minutes old', '16 minutes old']);
});

test('under a transaction that stays open, in any database of the server, a poll after 100,000 changes is as small as before them', async () => {
  const elsewhere = await createDatabase();
  const open = new pg.Client({ connectionString: elsewhere.url });
  await open.connect();
  await open.query('BEGIN; SELECT pg_current_xact_id()');
  const writer = new pg.Client({ connectionString: database.url });
  await writer.connect();
  let { cursor } = await poll('beside', null);
  const brought: number[] = [];
  const quiet: PollResult[] = [];
  for (let round = 0; round < 50; round += 1) {
    await writer.query(
      `DO $$ BEGIN
         FOR each IN 1..40 LOOP
           INSERT INTO strata.changes
           SELECT pg_current_xact_id(), 'tenant:busy-' || n, 1, '{busy}', clock_timestamp() FROM generate_series(1, 50) n;
           COMMIT;
         END LOOP;
       END $$`,
    );
    const busy = await poll('beside', cursor);
    brought.push(busy.changes.length);
    const next = await poll('beside', busy.cursor);
    quiet.push(next);
    ({ cursor } = next);
  }
  expect(new Set(brought)).toEqual(new Set([2000]));
  // Ids of transactions gain a digit now and then, and there are as many as transactions are open,
  // those of other tests, too.
  const idsIn = ({ cursor: at }: PollResult): number => at.split(/[:,]/).length;
  for (const each of quiet) {
    expect(each.changes).toEqual([]);
    expect(idsIn(each)).toBeLessThan(500);
    expect(JSON.stringify({ ...each, cursor: '' }).length).toBeLessThan(300);
  }
  await open.query('COMMIT');
  await Promise.all([open.end(), writer.end()]);
  await elsewhere.drop();
  expect(await poll('beside', cursor)).toMatchObject({ complete: true, changes: [] });
  await db.query("DELETE FROM strata.changes WHERE scope LIKE 'tenant:busy-%'");
});

test('a lease holder is waited for until its cursor is past the change, or it leaves', async () => {
  await poll('holder', null);
  const change = await commit('tenant:a', 'k');
  expect(await waitedFor(change)).toContain('holder');
  const { cursor } = await poll('holder', (await poll('holder', null)).cursor);
  await poll('holder', cursor);
  expect(await waitedFor(change)).not.toContain('holder');

  const next = await commit('tenant:a', 'k');
  expect(await waitedFor(next)).toContain('holder');
  await leave('holder');
  expect(await waitedFor(next)).not.toContain('holder');
});

test('a holder is waited for while its cursor is of a server from before, which knows other transactions by these ids', async () => {
  const change = await commit('tenant:a', 'k');
  const beyond = `${Number(change.id) + 1_000_000}:${Number(change.id) + 1_000_000}:`;
  const body = { holder: 'before', fence_ms: 2000, cursor: beyond };
  for (const server of ['0 1 00000001 1700000000', undefined]) {
    await feed.poll({ ...body, token: randomUUID(), ...(server !== undefined && { server }) });
    expect([server, await waitedFor(change)]).toEqual([server, expect.arrayContaining(['before'])]);
  }
  await leave('before');
});

test('a node notices that the database went back, also where the answers that told of it were lost', async () => {
  const answers = { areLost: false };
  const coherence = new Coherence({
    nodeId: 'going-back',
    fenceMs: 400,
    requestTimeoutMs: 1000,
    ttlMinutes: () => 5,
    staleIdentityMs: () => 60_000,
    log: pino({ level: 'silent' }),
  });
  const { counters, holder } = coherence;
  /** Some poll has begun and ended after this. */
  async function counted(value: 'polls' | 'pollFailures'): Promise<void> {
    const before = counters[value];
    await eventually(async () => expect(counters[value]).toBeGreaterThanOrEqual(before + 2));
  }
  await coherence.start({
    poll: async (body) => {
      const answer = await feed.poll(body);
      if (answers.areLost) throw new Error('lost');
      return answer;
    },
    leave: feed.leave,
    broadcast: () => {},
    hearsOthers: async () => true,
  });
  try {
    await counted('polls');
    const [kept] = await database.query<{ kept: string }>(
      'SELECT to_json(lease)::text AS kept FROM strata.leases lease WHERE holder = $1',
      [holder],
    );
    await counted('polls');
    answers.areLost = true;
    await counted('pollFailures');
    answers.areLost = false;
    await counted('polls');
    expect(counters.resets).toBe(0);

    answers.areLost = true;
    await database.query(
      `INSERT INTO strata.leases SELECT * FROM json_populate_record(NULL::strata.leases, $1::json)
       ON CONFLICT (holder) DO UPDATE SET token = excluded.token, previous_token = excluded.previous_token, ordinal = excluded.ordinal`,
      [kept!.kept],
    );
    await counted('pollFailures');
    answers.areLost = false;
    await counted('polls');
    expect(counters.resets).toBe(1);
  } finally {
    await coherence.stop();
  }
});

test('a poll that arrives after a later one of its holder renews nothing, and takes no others with it', async () => {
  const sent = (ordinal: number, cursor: string | null) => ({
    holder: 'late',
    token: `poll ${ordinal}`,
    ordinal,
    fence_ms: 2000,
    cursor,
  });
  const { cursor } = await feed.poll(sent(1, null));
  await feed.poll(sent(3, cursor));
  await expect(feed.poll(sent(2, cursor))).rejects.toMatchObject({ type: 'timeout' });
  const together = createFeed(db, { gatherMs });
  const answers = await Promise.allSettled([
    together.poll(sent(2, cursor)),
    together.poll(body('in-time')),
  ]);
  expect(answers.map(({ status }) => status)).toEqual(['rejected', 'fulfilled']);
  const { leases } = await feed.leases('0');
  expect(leases.find(({ holder }) => holder === 'late')?.token).toBe('poll 3');
});

test('a leave that arrives after the next poll takes nothing away', async () => {
  const token = randomUUID();
  await feed.poll({ holder: 'back', token, fence_ms: 2000, cursor: null });
  const late = { holder: 'back', tokens: [token] };
  await poll('back', null);
  await feed.leave(late);
  expect(await waitedFor(await commit('tenant:a', 'k'))).toContain('back');
});

/** Which database and start of its server answers, without when revisions were raised. */
const serverOf = ({ server }: PollResult): string => server.slice(server.indexOf(' '));
const raisedAt = ({ server }: PollResult): number => Number.parseInt(server);
const revisionOf = async (scope: string): Promise<number> => (await commit(scope, 'k')).revision;

/** What makes a database another one, or an older one, than nodes know it as. */
const losses: Record<string, (cursor: string) => Promise<Partial<Poll>>> = {
  'a dump was restored into another cluster': async () => {
    await db.query(
      "UPDATE strata.feed_state SET cluster = '1 00000001 2 3', pruned = '1000000000'",
    );
    return {};
  },
  'a node has read what is in the future': async () => ({ cursor: '99999999:99999999:' }),
  'a node has an answer to a later poll than the database knows': async () => ({
    answered: 'lost',
    ordinal: 3,
  }),
  'revisions were raised later than the database says': async () => {
    await db.query('UPDATE strata.feed_state SET revisions_from = revisions_from - 1');
    return {};
  },
};

test.each(Object.entries(losses))(
  'where %s, no revision is given out twice, and every node begins again',
  async (_what, lose) => {
    const before = await revisionOf('tenant:kept');
    const body = { holder: 'knows', fence_ms: 2000 };
    const first = await feed.poll({ ...body, token: 'one', ordinal: 1, cursor: null });
    const { cursor, server } = await feed.poll({
      ...body,
      token: 'two',
      ordinal: 2,
      answered: 'one',
      cursor: first.cursor,
      server: first.server,
    });
    const known = { ...body, token: 'three', ordinal: 3, answered: 'two', cursor, server };
    const lost = { ...known, ...(await lose(cursor)) };
    const began = Date.now();
    const after = await feed.poll(lost);
    expect([serverOf(after), raisedAt(after) >= began]).toEqual([serverOf(first), true]);
    expect(await revisionOf('tenant:kept')).toBeGreaterThan(Math.max(before, began));
    expect(await revisionOf(`tenant:${randomUUID()}`)).toBeGreaterThan(began);

    // Another node with the same news, and one that was behind, find it done; so does a poll that
    // was on the way.
    const others = [
      feed.poll({ ...lost, holder: 'knows, too' }),
      feed.poll({ ...known, holder: 'was behind', cursor: first.cursor }),
      feed.poll({ ...lost, ordinal: 4 }),
    ];
    for (const { server: found } of await Promise.all(others)) expect(found).toBe(after.server);
    const next = await poll('knows', after.cursor);
    expect([next.complete, next.server]).toEqual([true, after.server]);
  },
);

test('a node may have a lease that another server made, so that the first writes on this one wait for it', async () => {
  await db.query("UPDATE strata.feed_state SET cluster = '1 00000001 2 3'");
  const { server } = await feed.leases('0');
  await feed.poll({ holder: 'patient', token: 'p', fence_ms: 5000, cursor: null, server });
  const { leases } = await feed.leases((await commit('tenant:met', 'k')).id);
  const others = leases.filter(({ holder }) => holder !== 'patient');
  expect(others).toEqual([expect.objectContaining({ fenceMs: 5000, hasRead: false })]);
});

test('where the server has only started again, no revision is raised, and none is given out before the feed knows', async () => {
  const before = await revisionOf('tenant:started');
  const first = await poll('running', null);
  await db.query("UPDATE strata.feed_state SET started = '-infinity'");
  await expect(commit('tenant:started', 'k')).rejects.toMatchObject({
    type: 'service_unavailable',
  });
  expect((await poll('running', first.cursor)).server).toBe(first.server);
  expect(await revisionOf('tenant:started')).toBe(before + 1);
});

test('a server that shows no positions of its log is known by its checkpoints, and one that shows neither is refused', async () => {
  const own = await createDatabase();
  const role = `role_${randomUUID().replaceAll('-', '')}`;
  const url = new URL(own.url);
  Object.assign(url, { username: role, password: 'x' });
  const options = { url: url.href, poolSize: 2, timeoutMs: 10_000, ssl: false };
  const asRole = async (): Promise<string> => {
    const source = await openDatabase(options, commitSchema);
    try {
      const one = createFeed(source);
      await one.meet();
      await commit('tenant:without', 'k', source);
      return serverOf(await one.poll(body('without')));
    } finally {
      await source.destroy();
    }
  };
  try {
    await own.query(`CREATE ROLE ${role} LOGIN PASSWORD 'x'`);
    await own.query(`GRANT CREATE ON DATABASE ${new URL(own.url).pathname.slice(1)} TO ${role}`);
    await migrate(options, [commitSchema]);
    const before = await asRole();
    await own.query('REVOKE EXECUTE ON FUNCTION pg_current_wal_lsn() FROM PUBLIC');
    expect(await asRole()).toBe(before);
    await own.query('REVOKE EXECUTE ON FUNCTION pg_control_checkpoint() FROM PUBLIC');
    await expect(asRole()).rejects.toThrow('permission denied for function pg_control_checkpoint');
  } finally {
    await own.query(`DROP OWNED BY ${role} CASCADE`);
    await own.query(`DROP ROLE ${role}`);
    await own.drop();
  }
});

test('a poll that was not answered, or arrives late, is no reason to raise revisions', async () => {
  const sent = (ordinal: number, answered?: string) => ({
    holder: 'unlucky poller',
    token: `p${ordinal}`,
    ordinal,
    fence_ms: 2000,
    cursor: null,
    ...(answered !== undefined && { answered, server }),
  });
  const { server } = await feed.poll({ ...sent(1), server: undefined });
  const isSame = async (answer: Promise<PollResult>): Promise<void> =>
    expect((await answer).server).toBe(server);
  await isSame(feed.poll(sent(2, 'p1')));
  await isSame(feed.poll(sent(4, 'p1')));
  await isSame(feed.poll(sent(5, 'p4')));
  await expect(feed.poll(sent(3, 'p1'))).rejects.toMatchObject({ type: 'timeout' });
  await isSame(feed.poll(sent(6, 'p5')));
  // It gave its lease back, and a poll of before that arrives after it.
  await feed.leave({ holder: 'unlucky poller', tokens: ['p6'] });
  await isSame(feed.poll(sent(7, 'p6')));
  await isSame(feed.poll(sent(8, 'p6')));
});

test('changes of before the clock of the server was set back keep no later ones', async () => {
  await db.query(`UPDATE strata.changes SET created_at = clock_timestamp() - interval '1 hour'`);
  for (const hours of [1000, -1]) {
    const { id } = await commit('tenant:clock', `made in ${hours} hours`);
    await db.query(
      'UPDATE strata.changes SET created_at = clock_timestamp() + make_interval(hours => $2) WHERE id = $1::xid8',
      [id, hours],
    );
  }
  await feed.prune([]);
  const [left] = await db.query<{ number: number }[]>(
    `SELECT count(*)::int AS number FROM strata.changes WHERE created_at < clock_timestamp()`,
  );
  expect(left!.number).toBe(0);
});

test('a node whose cursor is older than what is kept misses changes', async () => {
  const { cursor } = await poll('away', null);
  await commit('tenant:b', 'k');
  expect((await poll('away', cursor)).complete).toBe(true);
  await db.query(`UPDATE strata.changes SET created_at = clock_timestamp() - interval '1 hour'`);
  await feed.prune([]);
  expect((await poll('away', cursor)).complete).toBe(false);
});

/** Removes the change and those before it, as if they had been made long ago. */
async function pruneTo({ id }: Change): Promise<void> {
  await db.query(
    `UPDATE strata.changes SET created_at = clock_timestamp() - interval '1 hour' WHERE id <= $1::xid8`,
    [id],
  );
  await feed.prune([]);
}

test('a transaction that stays open for longer than changes are kept empties no memory', async () => {
  const other = new pg.Client({ connectionString: database.url });
  await other.connect();
  await other.query('BEGIN; SELECT pg_current_xact_id()');
  const first = await commit('tenant:beside', 'k');
  const second = await commit('tenant:beside', 'k');
  const { cursor } = await poll('beside a dump', null);
  await pruneTo(first);
  await other.query('COMMIT');
  await other.end();
  await pruneTo(second);
  expect(await poll('beside a dump', cursor)).toMatchObject({ complete: true });
});

test('a change that was committed late and removed before it was read counts as missed', async () => {
  const slow = new pg.Client({ connectionString: database.url });
  await slow.connect();
  await slow.query('BEGIN');
  const { rows } = await slow.query(
    `INSERT INTO strata.changes VALUES (pg_current_xact_id(), 'tenant:late', 1, '{late}', clock_timestamp() - interval '1 hour')
     RETURNING id::text`,
  );
  const change = await commit('tenant:beside', 'k');
  const { cursor } = await poll('unlucky', null);
  expect(cursor).toContain(rows[0].id);
  const untouched = await poll('unlucky', cursor);
  expect(untouched.complete).toBe(true);
  await pruneTo(change);
  await slow.query('COMMIT');
  await slow.end();
  await feed.prune([]);
  expect((await poll('unlucky', cursor)).complete).toBe(false);
});

test('ended leases are removed, unless they were renewed meanwhile', async () => {
  await feed.poll({ holder: 'ended', token: 'last', fence_ms: 2000, cursor: null });
  await feed.poll({ holder: 'renewed', token: 'next', fence_ms: 2000, cursor: null });
  await feed.prune([
    { holder: 'ended', token: 'last' },
    { holder: 'renewed', token: 'last' },
  ]);
  const { leases } = await feed.leases('0');
  const holders = leases.map(({ holder }) => holder);
  expect(holders).not.toContain('ended');
  expect(holders).toContain('renewed');
});

test('who asks about changes while the leases are being read is told of each by one reading after it', async () => {
  const { cursor } = await poll('asked', null);
  const read = await commit('tenant:asked', 'read');
  await poll('asked', (await poll('asked', cursor)).cursor);
  const unread = await commit('tenant:asked', 'unread');
  const lock = await holdLock(database, 'LOCK TABLE strata.leases IN ACCESS EXCLUSIVE MODE');
  const first = feed.leases('0');
  await lock.untilWaiting(1);
  const asked = Promise.all(
    Array.from({ length: 20 }, (_each, index) => waitedFor(index % 2 === 0 ? read : unread)),
  );
  // One connection is busy with the leases, and all others are there for whoever wants them.
  await Promise.all(Array.from({ length: 8 - 1 }, () => db.query('SELECT 1')));
  await lock.untilWaiting(1);
  await lock.release();
  await first;
  const isWaitedFor = (await asked).map((holders) => holders.includes('asked'));
  expect(isWaitedFor).toEqual(Array.from({ length: 20 }, (_each, index) => index % 2 === 1));
  await leave('asked');
});

test('a lease is renewed before the feed is read: of a write that commits in between, one of the two knows', async () => {
  const { cursor } = await poll('reader', null);
  await leave('reader');
  const lock = await holdLock(database, 'LOCK TABLE strata.leases IN EXCLUSIVE MODE');
  const polling = poll('reader', cursor);
  await lock.untilWaiting(1);
  const change = await commit('tenant:between', 'between');
  const waited = await waitedFor(change);
  await lock.release();
  const received = keysOf(await polling).includes('between');
  expect(received || waited.includes('reader')).toBe(true);
});

/**
 * A feed that answers polls together which arrive within this many milliseconds: far more than
 * these tests take to make them.
 */
const gatherMs = 300;
const body = (holder: string, cursor: string | null = null) => ({
  holder,
  token: randomUUID(),
  fence_ms: 2000,
  cursor,
});
/** A cursor ends at the transaction of its poll. */
const transactionOf = ({ cursor }: PollResult): string => cursor.split(':')[1]!;

test('polls that arrive at the same moment are one transaction, and each is told what is new to it', async () => {
  const together = createFeed(db, { gatherMs });
  const scope = 'tenant:together';
  const early = await poll('early', null);
  await commit(scope, 'first');
  const late = await poll('late', null);
  await commit(scope, 'second');
  const known = body('known');
  await together.poll(known);
  const answers = await Promise.all([
    together.poll(body('early', early.cursor)),
    together.poll(body('new')),
    together.poll(body('late', late.cursor)),
    together.poll(body('known', late.cursor)),
  ]);
  expect(answers.map(keysOf)).toEqual([['first', 'second'], [], ['second'], ['second']]);
  expect(answers.map(({ complete }) => complete)).toEqual([true, false, true, true]);
  expect(new Set(answers.map(transactionOf)).size).toBe(1);
  const waited = await waitedFor(await commit(scope, 'third'));
  expect(waited).toEqual(expect.arrayContaining(['early', 'new', 'late', 'known']));
});

test('a poll that arrives while others are being answered is renewed and read after it has arrived', async () => {
  const together = createFeed(db, { gatherMs: 1 });
  const { cursor } = await poll('second', null);
  const lock = await holdLock(database, 'LOCK TABLE strata.leases IN EXCLUSIVE MODE');
  const first = together.poll(body('first'));
  await lock.untilWaiting(1);
  await commit('tenant:meanwhile', 'meanwhile');
  const second = together.poll(body('second', cursor));
  await lock.untilWaiting(2);
  await lock.release();
  const answers = await Promise.all([first, second]);
  expect(keysOf(answers[1])).toEqual(['meanwhile']);
  expect(transactionOf(answers[0])).not.toBe(transactionOf(answers[1]));
});

test('of a write that commits while polls are answered together, each of them or its writer knows', async () => {
  const holders = ['reader-one', 'reader-two', 'reader-three'];
  const together = createFeed(db, { gatherMs });
  const cursors = await Promise.all(holders.map(async (each) => (await poll(each, null)).cursor));
  for (const holder of holders) await leave(holder);
  const lock = await holdLock(database, 'LOCK TABLE strata.leases IN EXCLUSIVE MODE');
  const polling = holders.map((each, index) => together.poll(body(each, cursors[index]!)));
  await lock.untilWaiting(1);
  const change = await commit('tenant:among', 'among');
  const waited = await waitedFor(change);
  await lock.release();
  const received = (await Promise.all(polling)).map((answer) => keysOf(answer).includes('among'));
  const knows = holders.map((each, index) => received[index] || waited.includes(each));
  expect(knows).toEqual([true, true, true]);
});

test('a holder that polls twice at once is answered twice, and others beside it', async () => {
  const together = createFeed(db, { gatherMs });
  const twice = [body('twice'), body('twice')];
  const answers = await Promise.all([
    together.poll(twice[0]!),
    together.poll(body('beside-twice')),
    together.poll(twice[1]!),
  ]);
  expect(answers.map(({ cursor }) => cursor)).toEqual(Array(3).fill(expect.any(String)));
  const { leases } = await feed.leases('0');
  const tokens = twice.map(({ token }) => token);
  expect(tokens).toContain(leases.find(({ holder }) => holder === 'twice')?.token);
});

test('a poll that the database refuses takes no others with it', async () => {
  const together = createFeed(db, { gatherMs });
  const answers = await Promise.allSettled([
    together.poll(body('good')),
    together.poll(body('bad', 'no cursor')),
    together.poll(body('as-good')),
  ]);
  expect(answers.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
});

test('the same leases renewed at once through two nodes, in any order, do not wait for each other for ever', async () => {
  const holders = ['crossing-a', 'crossing-b', 'crossing-c'];
  for (const holder of holders) await poll(holder, null);
  const lock = await holdLock(
    database,
    "SELECT FROM strata.leases WHERE holder = 'crossing-b' FOR UPDATE",
  );
  const polling = [holders, holders.toReversed()].flatMap((order) => {
    const together = createFeed(db, { gatherMs: 1 });
    return order.map((holder) => together.poll(body(holder)));
  });
  await lock.untilWaiting(2);
  await lock.release();
  const answers = await Promise.allSettled(polling);
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set(['fulfilled']));
});

test('a change is read although a crash gave it an id that a poll had seen end', async () => {
  const server = await startPostgres();
  const own = await createDatabase(server.url);
  const options = { url: own.url, poolSize: 4, timeoutMs: 10_000, ssl: false };
  await migrate(options, [commitSchema]);
  const before = await openDatabase(options, commitSchema);
  let after: DataSource | undefined;
  let goOn = (): void => {};
  try {
    const body = { holder: 'survivor', fence_ms: 2000 };
    await createFeed(before).meet();
    // Else what has ended without a commit may be on disk by the time of the crash.
    const [walWriter] = await own.query<{ pid: number }>(
      "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'",
    );
    process.kill(walWriter!.pid, 'SIGSTOP');
    goOn = () => process.kill(walWriter!.pid, 'SIGCONT');
    // Between the lease, which is on disk, and the read, three transactions end that leave nothing
    // on disk.
    const lock = await holdLock(own, 'LOCK TABLE strata.changes IN ACCESS EXCLUSIVE MODE');
    const polling = createFeed(before).poll({ ...body, token: 'one', cursor: null });
    await lock.untilWaiting(1);
    const ids: string[] = [];
    const client = new pg.Client({ connectionString: own.url });
    await client.connect();
    for (let each = 0; each < 3; each += 1) {
      await client.query('BEGIN');
      const { rows } = await client.query('SELECT pg_current_xact_id()::text AS id');
      ids.push(rows[0].id);
      await client.query('ROLLBACK');
    }
    await client.end();
    await lock.release();
    const first = await polling;
    await before.destroy();
    await server.restart('SIGKILL', () => {
      process.kill(walWriter!.pid, 'SIGKILL');
      goOn = () => {};
    });
    after = await openDatabase(options, commitSchema);
    await createFeed(after).meet();
    const change = await commit('tenant:reissued', 'reissued', after);
    expect(ids).toContain(change.id);
    const { cursor } = first;
    const second = await createFeed(after).poll({ ...body, token: 'two', cursor });
    expect(keysOf(second)).toEqual(['reissued']);
    expect(second.server).not.toBe(first.server);
  } finally {
    goOn();
    if (before.isInitialized) await before.destroy();
    await after?.destroy();
    await server.stop();
  }
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
  const first = Math.min(...revisions);
  expect(revisions.sort((a, b) => a - b)).toEqual(
    Array.from({ length: 12 }, (_each, index) => first + index),
  );
});
