/**
 * Turns of the runner: one node has it, one that comes back late has lost it, and a rollout whose
 * gates do not answer keeps no other waiting. Turns of temporary changes that end, and of scheduled
 * change sets.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { pino } from 'pino';
import type { DataSource } from 'typeorm';
import { platformChangeSetOptions } from '../../services/global-config/actions/change-sets.ts';
import { Planner } from '../../services/global-config/actions/plan.ts';
import type { RolloutGates } from '../../services/global-config/actions/rollout-gates.ts';
import { rolloutActions } from '../../services/global-config/actions/rollouts.ts';
import { startRunningRollouts } from '../../services/global-config/actions/rollout-runner.ts';
import { platformDocuments } from '../../services/global-config/documents/platform-documents.ts';
import { ChangeSetEntity, globalConfigSchema } from '../../services/global-config/schema.ts';
import { answersOf, endTurn, takeTurn } from '../../services/global-config/stores/rollout-runs.ts';
import { startTemporaryChanges } from '../../services/tenant-config/worker/temporary-changes.ts';
import { serviceCaller } from '../../shared/access.ts';
import { Applying } from '../../shared/change-sets/apply.ts';
import { ChangeSets } from '../../shared/change-sets/change-sets.ts';
import { digestOf } from '../../shared/change-sets/rules.ts';
import { dueNow, startSchedule } from '../../shared/change-sets/schedule.ts';
import type { Content } from '../../shared/change-sets/schema.ts';
import { commitSchema } from '../../shared/commits/schema.ts';
import type { Request } from '../../shared/contract-runtime/request.ts';
import type { Rollout, StoredRollout } from '../../shared/contracts/rollouts.ts';
import { dueTemporaries } from '../../shared/documents/temporary-changes.ts';
import { migrate, openDatabase } from '../../shared/database/open.ts';
import { StrataError } from '../../shared/errors.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import { eventually } from '../support/eventually.ts';
import { createDatabase, type Database } from '../support/postgres.ts';

let database: Database;
let db: DataSource;
beforeAll(async () => {
  database = await createDatabase();
  const options = { url: database.url, poolSize: 8, timeoutMs: 10_000, ssl: false };
  await migrate(options, [commitSchema, globalConfigSchema]);
  db = await openDatabase(options, globalConfigSchema);
  // As the first node that polls the feed.
  await db.query(
    'UPDATE strata.feed_state SET cluster = strata.cluster(), started = pg_postmaster_start_time()',
  );
  await plan('one');
});
afterAll(async () => {
  await db?.destroy();
  await database?.drop();
});

const plan = (id: string): Promise<unknown> =>
  db.query(
    `INSERT INTO global_config.rollouts (id, document, state, created_at, revision, updated_by, updated_at)
     VALUES ($1, '{"items":[]}', 'running', now(), 1, 'u', now())`,
    [id],
  );
const answer = (result: 'pass' | 'fail') => {
  const at = new Date().toISOString();
  return [{ stage: 0, gate: 0, result, detail: result, since: at, at }];
};
const over = (): Promise<unknown> =>
  db.query("UPDATE global_config.rollout_runs SET due_at = now() - interval '1 second'");

test('one of many nodes has the turn', async () => {
  const taken = await Promise.allSettled(
    Array.from({ length: 20 }, () => takeTurn(db.manager, 'one')),
  );
  expect(taken.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  await expect(takeTurn(db.manager, 'one')).rejects.toThrow('It is not its turn.');
});

test('a node that comes back late has lost the turn, and leaves nothing behind', async () => {
  await over();
  const late = await takeTurn(db.manager, 'one');
  await over();
  const isOver = 'Its turn is over.';
  // Also where nobody else has the turn: what gates answered is too old.
  await expect(endTurn(db.manager, late, answer('pass'))).rejects.toThrow(isOver);
  const other = await takeTurn(db.manager, 'one');
  await expect(endTurn(db.manager, late, answer('pass'))).rejects.toThrow(isOver);
  expect((await answersOf(db.manager, ['one'])).get('one')).toEqual([]);
  await endTurn(db.manager, other, answer('fail'));
  expect((await answersOf(db.manager, ['one'])).get('one')).toMatchObject([{ result: 'fail' }]);
  // Not twice, either: the next look is a turn of its own.
  await expect(takeTurn(db.manager, 'one')).rejects.toThrow('It is not its turn.');
});

test('a rollout that is being run is not begun again, and no other waits for it', async () => {
  await over();
  const begun: string[] = [];
  const began = new Map(['one', 'two'].map((id) => [id, Promise.withResolvers<void>()]));
  const answered = Promise.withResolvers<void>();
  const runner = startRunningRollouts({
    db,
    log: pino({ enabled: false }),
    run: (id) => {
      begun.push(id);
      began.get(id)!.resolve();
      return answered.promise;
    },
  });
  runner.wake();
  await began.get('one')!.promise;
  await plan('two');
  runner.wake();
  await began.get('two')!.promise;
  let hasStopped = false;
  const stopped = runner.stop().then(() => {
    hasStopped = true;
  });
  // The look on its way ends meanwhile; what it has begun does not.
  await db.query('SELECT');
  expect(hasStopped).toBe(false);
  answered.resolve();
  await stopped;
  expect(begun).toEqual(['one', 'two']);
});

test('temporary changes that are due have turns by scope: very many of one hold up no other', async () => {
  await db.query(
    `INSERT INTO strata.temporary_changes
       (id, scope, path, until, due_at, revision, fields, made, changed_by, created_at)
     SELECT gen_random_uuid(), CASE WHEN n <= 30 THEN 'many' ELSE 'few' END, '/' || n, at, at, n, '[]', '{}', 'u', at
     FROM generate_series(1, 32) AS n, LATERAL (SELECT now() - make_interval(secs => 100 - n) AS at) AS due`,
  );
  const due = await dueTemporaries(db, 6);
  expect(due.map(({ scope }) => scope)).toEqual(['many', 'few', 'many', 'few', 'many', 'many']);
});

test('a tenant whose temporary changes get no answer is waited for once in a look', async () => {
  await db.query(
    `INSERT INTO strata.temporary_changes
       (id, scope, path, until, due_at, revision, fields, made, changed_by, created_at)
     SELECT gen_random_uuid(), 'tenant:' || $1, '/' || n, now(), now(), n, '[]', '{}', 'u', now()
     FROM generate_series(1, 30) AS n`,
    [randomUUID()],
  );
  let asked = 0;
  const complained = Promise.withResolvers<void>();
  const loop = startTemporaryChanges({
    db,
    log: pino({}, { write: () => complained.resolve() }),
    async call() {
      asked += 1;
      throw new StrataError('timeout');
    },
  });
  await complained.promise;
  await loop.stop();
  expect(asked).toBeLessThan(5);
});

test('scheduled change sets of a tenant that get no answer hold up no other tenant', async () => {
  const [many, few] = [randomUUID(), randomUUID()];
  await db.query(
    `INSERT INTO global_config.change_sets (id, tenant_id, state, digest, content, created_at, updated_at, due_at)
     SELECT gen_random_uuid(), CASE WHEN n <= 30 THEN $1::uuid ELSE $2::uuid END, 'scheduled', '', '{}', at, at, at
     FROM generate_series(1, 32) AS n, LATERAL (SELECT now() - make_interval(secs => 100 - n) AS at) AS due`,
    [many, few],
  );
  const unanswered: string[] = [];
  const others: string[] = [];
  const schedule = startSchedule({
    db,
    entity: ChangeSetEntity,
    service: 'global-config',
    log: pino({ enabled: false }),
    async run(tenantId, id) {
      (tenantId === many ? unanswered : others).push(id);
      if (tenantId === many) throw new StrataError('timeout');
      const applied = `UPDATE global_config.change_sets SET state = 'applied' WHERE id = $1`;
      await db.query(applied, [id]);
    },
  });
  try {
    await eventually(async () => expect(others).toHaveLength(2));
    await eventually(async () => expect(unanswered.length).toBeGreaterThan(1));
  } finally {
    await schedule.stop();
  }
  // The next of the tenant, too, is not held up by its first.
  expect(unanswered.length).toBeLessThan(5);
  expect(new Set(unanswered).size).toBe(unanswered.length);
});

const documentsOf = (source: DataSource) =>
  platformDocuments(source, () => loadSettings({}, { roles: [] }));
const request = {
  caller: serviceCaller('global-config'),
  requestId: randomUUID(),
  committed: [],
  keys: [],
  checkAnswer: () => undefined,
} as unknown as Request;

test('a rollout whose documents there is no room for any more is held, and says so', async () => {
  const [id, at] = [randomUUID(), new Date().toISOString()];
  const by = { type: 'operator', id: 'o' } as const;
  const document: StoredRollout = {
    id,
    title: 'A rollout',
    reason: 'It is time',
    state: 'running',
    stage: 0,
    stage_at: at,
    stages: [{ percent: 100, bake_minutes: 0, gate: [] }],
    salt: id,
    on_fail: 'hold',
    max_hold_minutes: 60,
    digest: '',
    items: [
      {
        action: 'put',
        path: `/config/global/${id}`,
        config_type: 'global_config',
        resource_id: id,
        base: null,
        before: null,
        after: { config_key: id, config_value: 1, is_public: true, requires_restart: false },
      },
    ],
    changeset_id: null,
    approvals: 0,
    approver_groups: [],
    revisions: null,
    note: null,
    started_by: by,
    created_by: by.id,
    created_at: at,
  };
  await db.query(
    `INSERT INTO global_config.rollouts (id, document, state, created_at, revision, updated_by, updated_at)
     VALUES ($1, $2, 'running', now(), 1, 'u', now())`,
    [id, JSON.stringify(document)],
  );
  await db.query(
    `INSERT INTO global_config.global_configurations
       (config_key, config_value, is_public, requires_restart, revision, updated_by, updated_at)
     SELECT 'of_others_' || n, '1', true, false, 1, 'u', now() FROM generate_series(1, 1000) AS n`,
  );
  const gates = { ask: async () => [] } as unknown as RolloutGates;
  const planner = new Planner(db, documentsOf(db));
  const { 'global-config.rollouts.run': run } = rolloutActions(db, planner, gates, () => undefined);
  const { state, note } = (await run({ rollout_id: id }, request)) as Rollout;
  expect([state, note]).toEqual([
    'held',
    expect.stringContaining('It may not advance: There would be more than 1000 public entries'),
  ]);
  await db.query('DELETE FROM global_config.global_configurations');
});

/** The platform's, approved by the console two minutes ago, to be applied then. */
async function dueForMinutes(apply: Content['apply'], dueAt?: Date): Promise<string> {
  const [id, minutesAgo] = [randomUUID(), new Date(Date.now() - 120_000)];
  const by = { type: 'operator', id: 'o', principals: [] } as const;
  const item = { path: `/config/global/${id}`, base: null, before: null, changes: [] };
  const body = { config_value: 1, is_public: true, requires_restart: false };
  const after = { ...body, config_key: id };
  const content: Content = {
    title: 'A change',
    reason: 'It is time',
    apply,
    items: [{ action: 'put', body, after, ...item }],
    authors: [by],
    required: 1,
    groups: [],
    submitted_at: minutesAgo.toISOString(),
    approved_by: [{ ...by, at: minutesAgo.toISOString(), comment: null }],
    note: null,
    ended_by: null,
  };
  await db.query(
    `INSERT INTO global_config.change_sets (id, state, digest, content, created_at, updated_at, due_at)
     VALUES ($1, 'scheduled', $2, $3, $4, $4, $5)`,
    [id, digestOf(null, content), JSON.stringify(content), minutesAgo, dueAt ?? minutesAgo],
  );
  return id;
}

test('a change set whose node stood still before it was applied is looked at again', async () => {
  // It began after the look of two minutes ago.
  const from = new Date(Date.now() - 60_000).toISOString().slice(0, 16);
  const freeze = { during: [{ from, until: '9999-01-01T00:00', timezone: 'UTC' }] };
  await db.query(
    `INSERT INTO global_config.freezes (id, document, revision, updated_by, updated_at)
     VALUES ('platform', $1, 1, 'u', now())`,
    [JSON.stringify({ tonight: freeze })],
  );
  const options = platformChangeSetOptions(db, documentsOf(db));
  const applying = new Applying(options, new ChangeSets(options));
  const at = new Date(Date.now() - 120_000);
  const scheduled = await dueForMinutes({ at: at.toISOString() }, at);
  const stoodStill = applying.run(null, scheduled, { due: true, late: false, now: at }, request);
  await expect(stoodStill).rejects.toThrow('stood still');
  const due = await dueNow(db, ChangeSetEntity, scheduled);
  const { state, content } = await applying.run(null, scheduled, due, request);
  expect([state, content.note]).toEqual(['suspended', 'The freeze tonight holds.']);
  // By the node of whoever approved it.
  const approved = await dueForMinutes('on_approval');
  await expect(applying.apply(null, approved, 'run', request)).rejects.toThrow('stood still');
});

test('a change set that was scheduled again since it was found due is not applied then', async () => {
  const options = platformChangeSetOptions(db, documentsOf(db));
  const applying = new Applying(options, new ChangeSets(options));
  const at = new Date(Date.now() + 3600_000);
  const id = await dueForMinutes({ at: at.toISOString() }, at);
  for (const late of [false, true]) {
    const found = { due: true, late, now: new Date() };
    await expect(applying.run(null, id, found, request)).rejects.toThrow('It is not due.');
  }
});
