/**
 * Writes of one tenant that are committed together: what each of them is answered, and what is
 * stored of it.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises';
import pino from 'pino';
import type { DataSource } from 'typeorm';
import { projectKind } from '../../services/tenant-config/documents/project.ts';
import { tenantConfigSchema } from '../../services/tenant-config/schema.ts';
import { createFeed } from '../../shared/coherence/feed.ts';
import type { Request } from '../../shared/contract-runtime/request.ts';
import { maxWrites } from '../../shared/commits/combined-commits.ts';
import { lockAndCountFirst, type Change } from '../../shared/commits/commit.ts';
import { startRelay } from '../../shared/commits/relay.ts';
import type { ProjectAddress, ProjectConfig } from '../../shared/contracts/projects.ts';
import { tenantScope } from '../../shared/contracts/revision-scopes.ts';
import { openDatabase } from '../../shared/database/open.ts';
import {
  documentActions,
  type DocumentActions,
  type WrittenDocument,
} from '../../shared/documents/document.ts';
import { codeOf } from '../../shared/errors.ts';
import { eventually } from '../support/cluster.ts';
import { holdLock } from '../support/held-lock.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';

type Projects = DocumentActions<ProjectAddress, ProjectConfig>;

let database: Database;
/** As two processes have them. */
let sources: DataSource[];
let projects: Projects;
let elsewhere: Projects;
let tenantId: string;

beforeAll(async () => {
  database = await strataDatabase();
  // Projects that the database refuses: at once, or only at the commit. And one whose commit ends
  // the connection.
  await database.query(
    `ALTER TABLE tenant_config.cloud_projects ADD CONSTRAINT refused CHECK (id NOT LIKE 'refused%')`,
  );
  await database.query(
    `CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
       IF NEW.id = 'cut-off' THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;
       RAISE 'refused at the commit';
     END $$`,
  );
  await database.query(
    `CREATE CONSTRAINT TRIGGER fail AFTER INSERT ON tenant_config.cloud_projects DEFERRABLE INITIALLY DEFERRED
     FOR EACH ROW WHEN (NEW.id IN ('late-refused', 'cut-off')) EXECUTE FUNCTION fail()`,
  );
  const open = () =>
    openDatabase(
      { url: database.url, poolSize: 4, timeoutMs: 60_000, ssl: false },
      tenantConfigSchema,
    );
  sources = [await open(), await open()];
  await createFeed(sources[0]!).meet();
  [projects, elsewhere] = sources.map((db) => documentActions(db, projectKind)) as [
    Projects,
    Projects,
  ];
});
afterAll(async () => {
  for (const db of sources ?? []) await db.destroy();
  await database?.drop();
});
beforeEach(async () => {
  tenantId = randomUUID();
  await database.query(
    `INSERT INTO tenant_config.tenants VALUES ($1, 'Combined', 'active', now(), now(), NULL, 0, 'test', now())`,
    [tenantId],
  );
});

const requestOf = (id: string, more: Partial<Request> = {}): Request =>
  ({
    caller: { type: 'system', id: `by ${id}`, tenant_id: null, roles: [], platform_roles: [] },
    requestId: id,
    client: {},
    keys: [`key ${id}`],
    checkAnswer: () => {},
    checkRoles: () => {},
    committed: [],
    until: Infinity,
    ...more,
  }) as Partial<Request> as Request;

interface Write {
  readonly id: string;
  readonly name?: string;
  readonly ifMatch?: string;
  readonly onlyNew?: boolean;
  readonly request?: Request;
  readonly by?: Projects;
}
type Written = WrittenDocument<ProjectConfig> & { readonly revision: number };

async function put({
  id,
  name = 'a name',
  ifMatch,
  onlyNew,
  request,
  by,
}: Write): Promise<Written> {
  const params = {
    tenant_id: tenantId,
    project_id: id,
    body: { name },
    ...(ifMatch !== undefined && { if_match: ifMatch }),
    ...(onlyNew && { if_none_match: '*' as const }),
  };
  const written = await (by ?? projects).put(params, request ?? requestOf(id));
  return written as Written;
}

/** The code of an error, and where it names what is current, its entity tag. */
function refusalOf(error: unknown): string {
  const { data } = error as { data?: { headers?: { etag?: string } } };
  const etag = data?.headers?.etag;
  return etag === undefined ? codeOf(error) : `${codeOf(error)} ${etag}`;
}

/**
 * What each write was answered: its revision, or the code of the error. They wait for one that is
 * stuck at the lock, so that all of them come to their turn together. That one has revision 1,
 * where nothing was written before.
 */
async function together(writes: readonly Write[]): Promise<(number | string)[]> {
  const scope = tenantScope(tenantId);
  const lock = await holdLock(
    database,
    'INSERT INTO strata.revisions (scope, revision) VALUES ($1, 0) ON CONFLICT (scope) DO UPDATE SET scope = excluded.scope',
    [scope],
  );
  const first = put({ id: 'first' });
  await lock.untilWaiting(1);
  const answers = Promise.allSettled(writes.map(put));
  await nextTurn();
  await lock.release();
  await first;
  return (await answers).map((answer) =>
    answer.status === 'fulfilled' ? answer.value.revision : refusalOf(answer.reason),
  );
}

/** The revisions of each transaction, oldest first. */
async function transactions(): Promise<number[][]> {
  const rows = await database.query<{ revisions: number[] }>(
    `SELECT array_agg(revision::int ORDER BY revision) AS revisions FROM strata.changes WHERE scope = $1
     GROUP BY id ORDER BY min(revision)`,
    [tenantScope(tenantId)],
  );
  return rows.map(({ revisions }) => revisions);
}

interface Entry {
  readonly revision: number;
  readonly project: string;
  readonly by: string;
  readonly name: string;
  readonly at: Date;
}
const history = (): Promise<Entry[]> =>
  database.query<Entry>(
    `SELECT revision::int AS revision, resource_id AS project, request_id AS by, after->>'name' AS name, changed_at AS at
     FROM tenant_config.configuration_history WHERE tenant_id = $1 ORDER BY revision`,
    [tenantId],
  );
const counter = async (): Promise<number> => {
  const [row] = await database.query<{ revision: number }>(
    'SELECT revision::int AS revision FROM strata.revisions WHERE scope = $1',
    [tenantScope(tenantId)],
  );
  return row!.revision;
};
const upTo = (count: number, from = 1): number[] =>
  Array.from({ length: count }, (_each, index) => from + index);
const ids = (count: number): string[] => upTo(count).map((each) => `p${each}`);

describe('each write keeps its own', () => {
  test('revision, history entry, audit event, change record and time, in the order in which they came', async () => {
    const names = ids(10);
    expect(await together(names.map((id) => ({ id, name: `of ${id}` })))).toEqual(upTo(10, 2));
    expect(await transactions()).toEqual([[1], upTo(10, 2)]);

    const entries = (await history()).slice(1);
    expect(entries.map(({ revision, project, by, name }) => [revision, project, by, name])).toEqual(
      names.map((id, index) => [index + 2, id, id, `of ${id}`]),
    );
    const times = entries.map(({ at }) => at.getTime());
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    const events = await database.query(
      `SELECT event->>'request_id' AS request, event->'actor'->>'id' AS actor, event->>'target' AS target,
         (event->'payload'->>'revision')::int AS revision, event->>'occurred_at' AS at
       FROM strata.outbox WHERE event->>'tenant_id' = $1 ORDER BY seq OFFSET 1`,
      [tenantId],
    );
    expect(events).toEqual(
      entries.map(({ revision, project, at }) => ({
        request: project,
        actor: `by ${project}`,
        target: project,
        revision,
        at: at.toISOString(),
      })),
    );
    const changes = await database.query(
      'SELECT revision::int AS revision, keys FROM strata.changes WHERE scope = $1 ORDER BY revision OFFSET 1',
      [tenantScope(tenantId)],
    );
    expect(changes).toEqual(
      names.map((id, index) => ({ revision: index + 2, keys: [`key ${id}`] })),
    );
    const [row] = await database.query<{ changed_at: Date }>(
      'SELECT changed_at FROM strata.revisions WHERE scope = $1',
      [tenantScope(tenantId)],
    );
    expect(row!.changed_at.getTime()).toBeGreaterThanOrEqual(times.at(-1)!);
    expect(await counter()).toBe(11);
  });

  test('what it made known: one change, of all keys, which each of them waits for', async () => {
    const requests = ids(3).map((id) => requestOf(id));
    await together(requests.map((request) => ({ id: request.requestId, request })));
    const changes: Change[] = requests.flatMap(({ committed }) => committed);
    expect(changes).toHaveLength(3);
    expect(new Set(changes).size).toBe(1);
    expect(changes[0]).toMatchObject({
      scope: tenantScope(tenantId),
      revision: 4,
      keys: ['key p1', 'key p2', 'key p3'],
    });
  });

  test('precondition, which is judged on what the previous one has left', async () => {
    const answers = await together([
      { id: 'x', onlyNew: true, name: 'one' },
      { id: 'x', onlyNew: true, name: 'two' },
      { id: 'x', ifMatch: '"2"', name: 'three' },
      { id: 'x', ifMatch: '"2"', name: 'four' },
      { id: 'x', ifMatch: '"3"', name: 'five' },
    ]);
    expect(answers).toEqual([2, 'precondition_failed "2"', 3, 'precondition_failed "3"', 4]);
    expect(await transactions()).toEqual([[1], [2, 3, 4]]);
    expect((await history()).slice(1).map(({ name }) => name)).toEqual(['one', 'three', 'five']);
  });

  test('of 32 with the same If-Match the first is stored, and the others are told its revision', async () => {
    await put({ id: 'x' });
    const answers = await together(ids(32).map((name) => ({ id: 'x', name, ifMatch: '"1"' })));
    expect(answers).toEqual([3, ...Array(31).fill('precondition_failed "3"')]);
    expect(await counter()).toBe(3);
  });
});

describe('a write that changes nothing', () => {
  test('has no revision, entry or event, and is answered with the document as it stands', async () => {
    const made = await put({ id: 'x', name: 'one' });
    const request = requestOf('again');
    expect(await put({ id: 'x', name: 'one', request })).toEqual({ ...made, outcome: 'updated' });
    expect([await counter(), await transactions()]).toEqual([1, [[1]]]);
    expect(await history()).toHaveLength(1);
    expect(await put({ id: 'x', name: 'two' })).toMatchObject({ revision: 2, updated_by: 'by x' });
  });

  test('is made known as a change is, since what it found may not be known everywhere yet', async () => {
    await put({ id: 'x', name: 'one' });
    const request = requestOf('again');
    await put({ id: 'x', name: 'one', request });
    const known = { scope: tenantScope(tenantId), revision: 1, keys: ['key again'] };
    expect(request.committed).toEqual([{ id: expect.stringMatching(/^\d+$/), ...known }]);
    const [{ id }] = request.committed as [Change];
    const [seen] = await database.query(
      'SELECT pg_visible_in_snapshot($1::xid8, pg_current_snapshot()) AS ended',
      [id],
    );
    expect(seen).toEqual({ ended: true });
  });

  test('among others takes no number from them, and waits for what they commit', async () => {
    await put({ id: 'x', name: 'one' });
    const request = requestOf('again');
    const answers = await together([
      { id: 'y', name: 'new' },
      { id: 'y', name: 'new', request },
      { id: 'x', name: 'one' },
      { id: 'x', name: 'two' },
    ]);
    expect(answers).toEqual([3, 3, 1, 4]);
    expect(request.committed).toMatchObject([{ revision: 4 }]);
    expect(await transactions()).toEqual([[1], [2], [3, 4]]);
  });
});

describe('statements that are on their way together', () => {
  /** Stores a project in a step that comes late. */
  const savingLate = (ended: () => void): typeof projectKind => ({
    ...projectKind,
    async store(...what) {
      await delay(20);
      await projectKind.store(...what).finally(ended);
    },
  });

  test('a write is judged on all that the previous one stores', async () => {
    const by = documentActions(
      sources[0]!,
      savingLate(() => {}),
    );
    const answers = await together([
      { id: 'x', by, name: 'one' },
      { id: 'x', by, name: 'two', ifMatch: '"2"' },
      { id: 'x', by, onlyNew: true },
    ]);
    expect(answers).toEqual([2, 3, 'precondition_failed "3"']);
  });

  test('where the lock takes too long, that is told, and not what it did to the statements behind it', async () => {
    await put({ id: 'x' });
    const impatient = await openDatabase(
      { url: database.url, poolSize: 1, timeoutMs: 1000, ssl: false },
      tenantConfigSchema,
    );
    const lock = await holdLock(
      database,
      'SELECT FROM strata.revisions WHERE scope = $1 FOR UPDATE',
      [tenantScope(tenantId)],
    );
    try {
      const by = documentActions(impatient, projectKind);
      const refused: unknown = await put({ id: 'x', by }).catch((error: unknown) => error);
      expect(refused).toMatchObject({ code: '57014' });
    } finally {
      await lock.release();
      await impatient.destroy();
    }
  });

  test('where one fails, nothing is stored by those that end after it', async () => {
    const saved = Promise.withResolvers<void>();
    const by = documentActions(sources[0]!, savingLate(saved.resolve));
    // PostgreSQL has no text with this character, so that the change cannot be recorded.
    const request = requestOf('x', { keys: ['\0'] });
    await expect(put({ id: 'x', by, request })).rejects.toThrow('unsupported Unicode');
    await saved.promise;
    const stored = await database.query(
      'SELECT FROM tenant_config.cloud_projects WHERE tenant_id = $1',
      [tenantId],
    );
    expect([stored, await transactions()]).toEqual([[], []]);
  });
});

test('where no transaction has begun, no revision is taken', async () => {
  const scope = tenantScope(tenantId);
  await expect(lockAndCountFirst(sources[0]!.manager, scope)).rejects.toMatchObject({
    type: 'service_unavailable',
  });
  expect(await database.query('SELECT FROM strata.revisions WHERE scope = $1', [scope])).toEqual(
    [],
  );
});

describe('what fails takes no one with it', () => {
  test('a refusal leaves no gap', async () => {
    const refusing = requestOf('b', {
      checkAnswer: () => {
        throw new Error('against its contract');
      },
    });
    const answers = await together([
      { id: 'a' },
      { id: 'b', request: refusing },
      { id: 'c', ifMatch: '"9"' },
      { id: 'd' },
    ]);
    expect(answers).toEqual([2, 'internal_error', 'precondition_failed', 3]);
    expect(await transactions()).toEqual([[1], [2, 3]]);
    expect((await history()).map(({ project }) => project)).toEqual(['first', 'a', 'd']);
    expect(refusing.committed).toEqual([]);
  });

  test('where all are refused, nothing is written', async () => {
    const writes = ids(3).map((id) => ({ id, ifMatch: '"9"' }));
    expect(await together(writes)).toEqual(Array(3).fill('precondition_failed'));
    expect([await counter(), await transactions()]).toEqual([1, [[1]]]);
  });

  test('what the database refuses is answered to its writer, and the others are committed once each', async () => {
    const answers = await together([
      { id: 'a' },
      { id: 'refused' },
      { id: 'a', name: 'again', ifMatch: '"2"' },
      { id: 'a', name: 'late', ifMatch: '"2"' },
    ]);
    expect(answers).toEqual([2, 'internal_error', 3, 'precondition_failed "3"']);
    const entries = (await history()).map(({ revision, project, name }) => [
      revision,
      project,
      name,
    ]);
    expect(entries).toEqual([
      [1, 'first', 'a name'],
      [2, 'a', 'a name'],
      [3, 'a', 'again'],
    ]);
    expect(await counter()).toBe(3);
  });

  test('whoever has given up is not committed, and the others are', async () => {
    const answers = await together([
      { id: 'a' },
      { id: 'b', request: requestOf('b', { until: performance.now() }) },
      { id: 'c' },
    ]);
    expect(answers).toEqual([2, 'timeout', 3]);
    expect((await history()).map(({ project }) => project)).toEqual(['first', 'a', 'c']);
  });
});

describe('a commit that fails', () => {
  test('is the failure of all that it would have committed, and of what was refused for them', async () => {
    const answers = await together([
      { id: 'x', onlyNew: true },
      { id: 'late-refused' },
      { id: 'x', onlyNew: true },
    ]);
    expect(answers).toEqual(Array(3).fill('internal_error'));
    expect([await counter(), (await history()).length]).toEqual([1, 1]);
    expect(await put({ id: 'x', onlyNew: true })).toMatchObject({ revision: 2 });
  });

  test('and may have been committed, is not tried again', async () => {
    const evaluated: string[] = [];
    const counting = (id: string): Request =>
      requestOf(id, { checkAnswer: () => void evaluated.push(id) });
    const writes = ['a', 'cut-off', 'c'].map((id) => ({ id, request: counting(id) }));
    expect(await together(writes)).toEqual(Array(3).fill('internal_error'));
    expect(evaluated).toEqual(['a', 'cut-off', 'c']);
    expect(await put({ id: 'after' })).toMatchObject({ revision: 2 });
  });
});

describe('bounds', () => {
  test('so many writes are one transaction, and what comes later has the next', async () => {
    const count = 2 * maxWrites + 3;
    const answers = await together(ids(count).map((id) => ({ id })));
    expect(answers).toEqual(upTo(count, 2));
    expect((await transactions()).map(({ length }) => length)).toEqual([
      1,
      maxWrites,
      maxWrites,
      3,
    ]);
  });

  test('large documents are not stored all at once', async () => {
    const labels = Object.fromEntries(ids(900).map((id) => [id, 'x'.repeat(500)]));
    const requests = ids(6).map((id) => requestOf(id));
    const large = (id: string, request: Request) =>
      projects.put({ tenant_id: tenantId, project_id: id, body: { labels } }, request);
    const first = put({ id: 'first' });
    const answers = requests.map((request) => large(request.requestId, request));
    await Promise.all([first, ...answers]);
    // Of 460 kB each, three are more than a megabyte.
    expect(await transactions()).toEqual([[1], [2, 3, 4], [5, 6, 7]]);
  });

  test('a trial is not among them, and sees what is committed', async () => {
    const { revision } = await put({ id: 'x', name: 'before' });
    const params = { tenant_id: tenantId, project_id: 'x', dry_run: true, body: { name: 'after' } };
    const [tried, written] = await Promise.all([
      projects.put(params, requestOf('trial')),
      put({ id: 'y' }),
    ]);
    expect(tried).toMatchObject({ dry_run: true });
    expect(written.revision).toBe(revision + 1);
    expect((await history()).map(({ project }) => project)).toEqual(['x', 'y']);
  });
});

test('writers of two processes: revisions without gaps, each answered write once, each with its value', async () => {
  const writers = 32;
  const turns = 6;
  const answered: [number, string][] = [];
  await Promise.all(
    upTo(writers).map(async (writer) => {
      for (let turn = 1; turn <= turns; turn += 1) {
        const name = `${writer}.${turn}`;
        const by = writer % 2 === 0 ? projects : elsewhere;
        const { revision } = await put({ id: `p${writer % 5}`, name, by });
        answered.push([revision, name]);
      }
    }),
  );
  const entries = await history();
  expect(entries.map(({ revision }) => revision)).toEqual(upTo(writers * turns));
  expect(entries.map(({ revision, name }) => [revision, name])).toEqual(
    answered.toSorted(([a], [b]) => a - b),
  );
  const times = entries.map(({ at }) => at.getTime());
  expect(times).toEqual(times.toSorted((a, b) => a - b));
  expect((await transactions()).length).toBeLessThan(writers * turns);
});

test('audit events of writes that follow each other closely are handed on together', async () => {
  await database.query('DELETE FROM strata.outbox');
  const handedOn: string[][] = [];
  const began = performance.now();
  const relay = startRelay(
    sources[0]!,
    async (events) => void handedOn.push(events.map(({ request_id: id }) => id!)),
    pino({ level: 'silent' }),
  );
  for (const id of ids(40)) {
    await put({ id });
    relay.wake();
  }
  await eventually(async () => expect(handedOn.flat()).toEqual(ids(40)));
  await relay.stop();
  const elapsedMs = performance.now() - began;
  expect(handedOn.length).toBeLessThanOrEqual(2 + elapsedMs / 50);
});
