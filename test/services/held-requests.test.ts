/**
 * Requests that wait for a change: how often the database is asked for them, who is woken by what,
 * and how many one caller, one tenant and all of them may hold.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import type { DataSource } from 'typeorm';
import { approvalActions } from '../../services/notifier/actions/approvals.ts';
import {
  notifierSchema,
  type ApprovalRow,
  type AutomationRow,
} from '../../services/notifier/schema.ts';
import { readChangedIn, type Wanted } from '../../services/notifier/stores/changed-rows.ts';
import { HeldRequests } from '../../shared/concurrency/held-requests.ts';
import { TenantChanges } from '../../services/notifier/worker/tenant-changes.ts';
import { serviceCaller, type Caller } from '../../shared/access.ts';
import { commitSchema } from '../../shared/commits/schema.ts';
import { Turns } from '../../shared/concurrency/turns.ts';
import { migrate, openDatabase } from '../../shared/database/open.ts';
import { codeOf } from '../../shared/errors.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import { eventually } from '../support/cluster.ts';
import { createDatabase, type Database } from '../support/postgres.ts';

let database: Database;
let db: DataSource;
let changes: TenantChanges<AutomationRow>;
/** What each statement asked for. */
let statements: Wanted[][];
let asked: Promise<unknown>[];

beforeAll(async () => {
  database = await createDatabase();
  const options = { url: database.url, poolSize: 4, timeoutMs: 10_000, ssl: false };
  await migrate(options, [commitSchema, notifierSchema]);
  db = await openDatabase(options, notifierSchema);
});
afterAll(async () => {
  await db?.destroy();
  await database?.drop();
});
beforeEach(() => {
  statements = [];
  asked = [];
  const limits = {
    HELD_REQUESTS: '12',
    HELD_REQUESTS_PER_TENANT: '5',
    HELD_REQUESTS_PER_CALLER: '3',
  };
  const settings = loadSettings({ SECRET_KEY: 'k'.repeat(32), ...limits }, { roles: [] });
  const read = readChangedIn<AutomationRow>(db, 'automations');
  changes = new TenantChanges({
    announce: () => {},
    read(wanted) {
      statements.push([...wanted]);
      return read(wanted);
    },
    held: new HeldRequests(() => settings),
  });
});
afterEach(async () => {
  changes.stop();
  await Promise.all(asked);
});

async function insertAutomation(tenantId: string): Promise<string> {
  const id = randomUUID();
  await db.query(
    `INSERT INTO notifier.automations (id, tenant_id, state, intent, decided, ttl_seconds, requested_by, request_id, request_hash, created_at)
     VALUES ($1, $2, 'waiting_slot', '{}', '{}', 60, '{}', 'r', 'h', now())`,
    [id, tenantId],
  );
  return id;
}

async function setState(tenantId: string, id: string, state: string): Promise<void> {
  await db.query('UPDATE notifier.automations SET state = $2 WHERE id = $1', [id, state]);
  changes.changed(tenantId);
}

const person = (id: string): Caller => ({ ...serviceCaller(id), type: 'user' });
function hold(tenantId: string, id: string, caller: Caller, ms = 20_000) {
  const fits = ({ state }: AutomationRow): boolean => state !== 'waiting_slot';
  const answer = changes.until({ tenantId, id, ms, caller, fits });
  asked.push(answer.catch(() => null));
  return answer;
}

/** All that was asked so far is held, or was answered. */
const settled = async (): Promise<void> => {
  await changes.until({
    tenantId: randomUUID(),
    id: randomUUID(),
    ms: 0,
    caller: person('looks'),
    fits: () => true,
  });
  statements = [];
};

describe('the database is asked', () => {
  test('once for all who wait for the same, and once for them after a change', async () => {
    const tenantId = randomUUID();
    const id = await insertAutomation(tenantId);
    const waiting = ['a', 'b', 'c', 'd'].map((name) => hold(tenantId, id, person(name)));
    await settled();
    await setState(tenantId, id, 'running');
    const rows = await Promise.all(waiting);
    expect(rows.map((row) => row?.state)).toEqual(Array(4).fill('running'));
    expect(statements).toHaveLength(1);
    expect(statements[0]).toHaveLength(1);
  });

  test('nothing while nothing changes, and nothing for another tenant', async () => {
    const [first, second] = [randomUUID(), randomUUID()];
    const held = hold(first, await insertAutomation(first), person('a'), 1500);
    await settled();
    changes.changed(second);
    expect((await held)?.state).toBe('waiting_slot');
    // For the row as it is when the time is up.
    expect(statements).toHaveLength(1);
  });

  test('for the rows of a tenant together, of which it gives those that changed', async () => {
    const tenantId = randomUUID();
    const ids = [await insertAutomation(tenantId), await insertAutomation(tenantId)];
    const [first, second] = ids.map((id) => hold(tenantId, id, person('a')));
    await settled();
    await setState(tenantId, ids[0]!, 'running');
    expect((await first)?.state).toBe('running');
    expect(statements.map((wanted) => wanted.length)).toEqual([2]);
    expect(statements[0]!.every(({ version }) => version !== null)).toBe(true);
    await setState(tenantId, ids[1]!, 'running');
    expect((await second)?.state).toBe('running');
  });

  test('for all that is waited for where changes were missed', async () => {
    const tenantId = randomUUID();
    const id = await insertAutomation(tenantId);
    const held = hold(tenantId, id, person('a'));
    await settled();
    await db.query(`UPDATE notifier.automations SET state = 'running' WHERE id = $1`, [id]);
    changes.missed();
    expect((await held)?.state).toBe('running');
    expect(statements).toHaveLength(1);
  });
});

test('a row of another tenant is not there', async () => {
  const id = await insertAutomation(randomUUID());
  expect(await hold(randomUUID(), id, person('a'))).toBeNull();
});

test('a stopped node answers with what there is', async () => {
  const tenantId = randomUUID();
  const held = hold(tenantId, await insertAutomation(tenantId), person('a'));
  await settled();
  changes.stop();
  expect((await held)?.state).toBe('waiting_slot');
});

describe('what is held is shared out', () => {
  const refusal = async (answer: Promise<unknown>) => {
    const error: unknown = await answer.then(
      () => undefined,
      (reason: unknown) => reason,
    );
    return [codeOf(error), (error as Error).message];
  };
  const names = (setting: string) => ['rate_limited', expect.stringContaining(`(${setting})`)];

  test('among callers, tenants and all, and a place is free again afterwards', async () => {
    const tenants = [randomUUID(), randomUUID(), randomUUID()] as const;
    const ids = await Promise.all(tenants.map(insertAutomation));
    const held: Promise<unknown>[] = [];
    const holdIn = async (index: 0 | 1 | 2, name: string, count: number): Promise<void> => {
      for (let each = 0; each < count; each += 1)
        held.push(hold(tenants[index], ids[index]!, person(name)));
      await settled();
    };
    const refused = (index: 0 | 1 | 2, name: string) =>
      refusal(hold(tenants[index], ids[index]!, person(name)));

    await holdIn(0, 'a', 3);
    expect(await refused(0, 'a')).toEqual(names('HELD_REQUESTS_PER_CALLER'));
    await holdIn(0, 'b', 2);
    expect(await refused(0, 'c')).toEqual(names('HELD_REQUESTS_PER_TENANT'));
    await holdIn(1, 'd', 3);
    await holdIn(1, 'e', 2);
    await holdIn(2, 'f', 2);
    expect(await refused(2, 'g')).toEqual(names('HELD_REQUESTS'));

    // What needs no place is answered all the same.
    const now = hold(tenants[0], ids[0]!, person('a'), 0);
    expect((await now)?.state).toBe('waiting_slot');

    for (const [index, tenantId] of tenants.entries())
      await setState(tenantId, ids[index]!, 'running');
    await Promise.all(held);
    await setState(tenants[0], ids[0]!, 'waiting_slot');
    await holdIn(0, 'a', 3);
    await eventually(async () =>
      expect(await refused(0, 'a')).toEqual(names('HELD_REQUESTS_PER_CALLER')),
    );
  });
});

test('what a person may decide is read once for all of their requests that came before', async () => {
  const row = {
    id: randomUUID(),
    tenant_id: randomUUID(),
    state: 'pending',
    revision: 1,
    chain: [],
    hop: 0,
    policy: null,
    requested_by: { type: 'service', id: 'scaler' },
    created_at: new Date(),
    escalates_at: null,
    expires_at: new Date(),
    acknowledged_by: null,
    decided_by: null,
  } as unknown as ApprovalRow;
  const reads: string[] = [];
  const call = async (_action: string, { user_id: who }: { user_id: string }) => {
    reads.push(who);
    await new Promise(setImmediate);
    return { decider: null, why_not: null, revisions: {} };
  };
  const options = { approvalChanges: { until: async () => row } };
  const { 'notifier.approvals.get': get } = approvalActions(options as never);
  const asks = (id: string) =>
    Array.from({ length: 100 }, () =>
      get({ tenant_id: row.tenant_id, approval_id: row.id }, {
        caller: { type: 'user', id, roles: [] },
        call,
      } as never),
    );
  const answers = await Promise.all([...asks('ada'), ...asks('bob')]);

  expect(answers).toHaveLength(200);
  for (const { viewer } of answers) expect(viewer).toMatchObject({ may_decide: false });
  // One that began with the first of them, and one for all who came meanwhile.
  expect(reads.toSorted()).toEqual(['ada', 'ada', 'bob', 'bob']);
});

test('a tenant has two turns at a time, and nothing is begun for whoever left while they waited', async () => {
  const turns = new Turns(2);
  const { promise, resolve } = Promise.withResolvers<void>();
  const begun: string[] = [];
  const take = (tenantId: string, what: string, until: number, work = Promise.resolve()) =>
    turns.take(tenantId, until, () => {
      begun.push(what);
      return work;
    });
  const first = ['1', '2'].map((what) => take('one', what, Infinity, promise));
  const late = take('one', 'late', performance.now()).catch(codeOf);
  const third = take('one', '3', Infinity);
  await take('other', 'other', Infinity);
  expect(begun).toEqual(['1', '2', 'other']);
  resolve();
  await Promise.all([...first, third]);
  expect([await late, begun]).toEqual(['timeout', ['1', '2', 'other', '3']]);
});
