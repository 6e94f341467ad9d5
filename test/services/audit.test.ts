/**
 * The audit service on a real database: what is handed over twice, and what was removed behind its
 * back. The newest events, and the proof of long chains.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { createPublicKey, randomUUID, verify as verifySignature } from 'node:crypto';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import canonicalize from 'canonicalize';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import type { DataSource } from 'typeorm';
import { commandTable } from '../../cli/command-table.ts';
import { commands } from '../../cli/commands.ts';
import { run } from '../../cli/interpreter.ts';
import type { Session } from '../../cli/session.ts';
import { eventActions } from '../../services/audit/actions/events.ts';
import { auditService } from '../../services/audit/audit.service.ts';
import { auditSchema } from '../../services/audit/schema.ts';
import { removeCutEvents } from '../../services/audit/stores/cuts.ts';
import { eraseChunk, readErased } from '../../services/audit/stores/erased-chains.ts';
import { serviceCaller } from '../../shared/access.ts';
import { createNode, type Node } from '../../shared/node/broker.ts';
import { callAs, type Request } from '../../shared/contract-runtime/request.ts';
import type { AuditEventFacts } from '../../shared/commits/commit.ts';
import { commitSchema } from '../../shared/commits/schema.ts';
import { migrate, openDatabase } from '../../shared/database/open.ts';
import { encodeCursor } from '../../shared/documents/paging.ts';
import { codeOf, type StrataError } from '../../shared/errors.ts';
import { liveSettings } from '../../shared/settings/live-settings.ts';
import type { ActionName, ParamsOf, ResultOf } from '../../shared/contracts/index.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import { eventually } from '../support/cluster.ts';
import { createDatabase, type Database } from '../support/postgres.ts';
import { soakTest } from '../support/soak.ts';

let database: Database;
let db: DataSource;
let node: Node;

beforeAll(async () => {
  database = await createDatabase();
  const options = { url: database.url, poolSize: 4, timeoutMs: 10_000, ssl: false };
  await migrate(options, [commitSchema, auditSchema]);
  db = await openDatabase(options, auditSchema);
  const settings = loadSettings({ LOG_LEVEL: 'silent', SECRET_KEY: 'k'.repeat(32) }, { roles: [] });
  node = createNode({ settings: liveSettings(settings, {}, []) });
  node.broker.createService(
    auditService({
      db,
      settings: () => settings,
      log: pino({ level: 'silent' }),
      metrics: new Registry(),
    }),
  );
  await node.broker.start();
});
afterAll(async () => {
  await node?.broker.stop();
  await db?.destroy();
  await database?.drop();
});

const eventOf = (tenantId: string, index: number): AuditEventFacts => ({
  id: randomUUID(),
  action: 'config.risk.updated',
  actor: { type: 'user', id: 'u' },
  tenant_id: tenantId,
  target: tenantId,
  payload: { index },
  request_id: 'r',
  occurred_at: new Date().toISOString(),
});

const append = async (body: AuditEventFacts[]): Promise<number> => {
  const caller = serviceCaller('test');
  const answer = await callAs(node.broker, 'audit.append', { body }, { caller, requestId: 'r' });
  return answer.recorded;
};

const operator = {
  type: 'operator',
  id: 'test',
  tenant_id: null,
  roles: [],
  platform_roles: [],
} as const;
const ask = <A extends ActionName>(action: A, params: ParamsOf<A>): Promise<ResultOf<A>> =>
  callAs(node.broker, action, params, { caller: operator, requestId: 'r' });
const verify = (tenantId: string, cursor?: string) =>
  ask('audit.verify', { tenant_id: tenantId, ...(cursor !== undefined && { cursor }) });

/** What a command of the console prints, how it ends, which actions it calls, and their answers. */
async function typed(...words: string[]) {
  const called: ActionName[] = [];
  const answers: unknown[] = [];
  const session: Session = {
    call: async (action, params) => {
      called.push(action);
      const answer = await ask(action, params as ParamsOf<typeof action>);
      answers.push(answer);
      return answer;
    },
    tenants: async () => [],
  };
  const printed: string[] = [];
  const print = (text: string) => printed.push(text);
  const output = { print, signal: new AbortController().signal };
  const problem = await run(words, session, output, commandTable(commands, {})).then(
    () => null,
    (error: Error) => error.message,
  );
  return { lines: printed.flatMap((text) => text.split('\n')), called, answers, problem };
}

/**
 * As whoever owns the database could do it: the trigger that refuses changes is taken off for a
 * moment.
 */
async function tamper(statement: string, values: unknown[]): Promise<void> {
  await database.query('ALTER TABLE audit.events DISABLE TRIGGER append_only');
  await database.query(statement, values);
  await database.query('ALTER TABLE audit.events ENABLE TRIGGER append_only');
}

test('events that are handed over again are recorded once, and do not hold up those behind them', async () => {
  const tenantId = randomUUID();
  const [first, second, third] = [0, 1, 2].map((index) => eventOf(tenantId, index)) as [
    AuditEventFacts,
    AuditEventFacts,
    AuditEventFacts,
  ];
  expect(await append([first, second])).toBe(2);
  expect(await append([second, third, third])).toBe(1);
  const rows = await database.query<{ id: string }>(
    'SELECT id FROM audit.events WHERE chain = $1 ORDER BY seq',
    [tenantId],
  );
  expect(rows.map(({ id }) => id)).toEqual([first.id, second.id, third.id]);
  expect((await verify(tenantId)).valid).toBe(true);
});

test('an event that was changed, and one that was removed, is where the chain breaks', async () => {
  for (const statement of [
    `UPDATE audit.events SET payload = '{}' WHERE chain = $1 AND seq = 2`,
    'DELETE FROM audit.events WHERE chain = $1 AND seq = 2',
  ]) {
    const tenantId = randomUUID();
    await append([0, 1, 2].map((index) => eventOf(tenantId, index)));
    await tamper(statement, [tenantId]);
    const { valid, chains } = await verify(tenantId);
    expect([valid, chains[0]!.broken_at?.seq]).toEqual([false, 2]);
  }
});

test('the newest events cannot be removed unnoticed', async () => {
  const tenantId = randomUUID();
  await append([0, 1, 2].map((index) => eventOf(tenantId, index)));
  await tamper('DELETE FROM audit.events WHERE chain = $1 AND seq = 3', [tenantId]);
  const { valid, chains } = await verify(tenantId);
  expect([valid, chains[0]!.broken_at?.seq]).toEqual([false, 3]);
});

test('a head that was taken away, or put back, is noticed', async () => {
  const tenantId = randomUUID();
  await append([0, 1].map((index) => eventOf(tenantId, index)));
  const [older] = await database.query('SELECT * FROM audit.chains WHERE chain = $1', [tenantId]);
  await append([eventOf(tenantId, 2)]);
  await database.query('UPDATE audit.chains SET seq = 2, hash = $2 WHERE chain = $1', [
    tenantId,
    (older as { hash: string }).hash,
  ]);
  const putBack = await verify(tenantId);
  expect([putBack.valid, putBack.chains[0]!.broken_at?.seq]).toEqual([false, 3]);
  await database.query('DELETE FROM audit.chains WHERE chain = $1', [tenantId]);
  const takenAway = await verify(tenantId);
  expect([takenAway.valid, takenAway.chains[0]!.broken_at?.seq]).toEqual([false, 1]);
});

describe('newest first', () => {
  const tenantId = randomUUID();
  const indexOf = ({ payload }: { payload: unknown }) => (payload as { index: number }).index;
  beforeAll(async () => {
    const began = Date.now() - 60_000;
    const events = Array.from({ length: 300 }, (_each, index) => ({
      ...eventOf(tenantId, index),
      occurred_at: new Date(began + index).toISOString(),
    }));
    await append(events);
  });

  test('pages go back in time, each event once', async () => {
    const seen: number[] = [];
    let cursor: string | null | undefined;
    do {
      const page = await ask('audit.events.list', {
        tenant_id: tenantId,
        order: 'desc',
        limit: 70,
        ...(typeof cursor === 'string' && { cursor }),
      });
      seen.push(...page.items.map(indexOf));
      cursor = page.next_cursor;
    } while (cursor !== null);
    expect(seen).toEqual(Array.from({ length: 300 }, (_each, index) => 299 - index));
    const oldest = await ask('audit.events.list', { tenant_id: tenantId, limit: 2 });
    expect(oldest.items.map(indexOf)).toEqual([0, 1]);
  });

  test.each(['asc', 'desc'] as const)(
    'a page goes through so many for those that fit, and the next one continues there: %s',
    async (order) => {
      const wakers = { onErasure: jest.fn(), onMails: jest.fn(), onAppend: jest.fn() };
      const list = eventActions(db, wakers, 100)['audit.events.list'];
      const request = { caller: serviceCaller('test') } as Request;
      const pages = async (filter: object): Promise<number[][]> => {
        const read: number[][] = [];
        let cursor: string | null | undefined;
        do {
          const asked = { tenant_id: tenantId, order, limit: 80, ...filter };
          const page = await list(
            typeof cursor === 'string' ? { ...asked, cursor } : asked,
            request,
          );
          read.push(page.items.map(indexOf));
          cursor = page.next_cursor;
        } while (cursor !== null);
        return read;
      };
      expect(await pages({ target: 'nothing has it' })).toEqual([[], [], [], []]);
      const all = Array.from({ length: 300 }, (_each, index) => index);
      const inOrder = order === 'asc' ? all : all.toReversed();
      expect((await pages({ action: '*' })).flat()).toEqual(inOrder);
      expect((await pages({})).map(({ length }) => length)).toEqual([80, 80, 80, 60]);
    },
  );

  test("the events of one tenant are found without reading everybody else's", async () => {
    await database.query(
      `INSERT INTO audit.events
       SELECT $1::text, n, gen_random_uuid(), 'a', 'user', 'u', $1::uuid, NULL, '{}', NULL, now() - n * interval '1 second', ''
       FROM generate_series(1, 20000) n`,
      [randomUUID()],
    );
    await database.query('ANALYZE audit.events');
    const logged = jest.spyOn(db.logger, 'logQuery');
    for (const order of ['asc', 'desc'] as const)
      await ask('audit.events.list', { tenant_id: tenantId, order, limit: 20 });
    const statements = logged.mock.calls.filter(([sql]) => sql.includes('"audit"."events"'));
    logged.mockRestore();
    expect(statements.length).toBe(4);
    for (const [sql, parameters] of statements) {
      const plan = JSON.stringify(await db.query(`EXPLAIN ${sql}`, parameters));
      expect(plan).toContain('events_chain_time');
    }
  });

  test('the console shows the newest twenty of an hour after one request', async () => {
    const { lines, called } = await typed('audit', 'tail', '--tenant', tenantId);
    expect(called).toEqual(['audit.events.list']);
    const newest = await ask('audit.events.list', {
      tenant_id: tenantId,
      order: 'desc',
      limit: 20,
    });
    const times = newest.items.map(({ occurred_at: time }) => time).toReversed();
    expect(lines.map((line) => line.split(' ')[0])).toEqual(times);
    expect(
      (await typed('audit', 'tail', '--tenant', tenantId, '--limit', '250')).lines.length,
    ).toBe(250);
  });
});

test('what is left of a long chain that was erased is looked through once', async () => {
  const chain = randomUUID();
  await database.query(
    `WITH erased AS (INSERT INTO audit.erased_chains VALUES ($1, now(), 1))
     INSERT INTO audit.erased_links SELECT $1, n, 'hash' FROM generate_series(11, 5000) n WHERE n <> 4000`,
    [chain],
  );
  await database.query('ANALYZE audit.erased_links');
  const { done: erased, blocks } = await readBy('whole_until', () => readErased(db.manager, chain));
  expect([erased?.position.seq, erased?.broken?.seq]).toEqual([5000, 4000]);
  expect(blocks).toBeLessThan(1000);
});

/** What the work does, and what its first statement with these words reads, done once more. */
async function readBy<T>(words: string, work: () => Promise<T>) {
  const logged = jest.spyOn(db.logger, 'logQuery');
  const done = await work();
  const [sql, parameters] = logged.mock.calls.find(([text]) => text.includes(words))!;
  logged.mockRestore();
  const { Plan } = await db.transaction(async (manager) => {
    await manager.query(`SELECT set_config('strata.erases_audit', 'on', true)`);
    const [{ 'QUERY PLAN': plans }] = await manager.query<
      [{ 'QUERY PLAN': [{ Plan: Record<'Shared Hit Blocks' | 'Shared Read Blocks', number> }] }]
    >(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${sql}`, parameters);
    return plans[0];
  });
  const rows = [...JSON.stringify(Plan).matchAll(/"Actual Rows":([\d.]+)/g)];
  return {
    done,
    blocks: Plan['Shared Hit Blocks'] + Plan['Shared Read Blocks'],
    mostRows: Math.max(...rows.map(([, count]) => Number(count))),
  };
}

describe('a long chain is proved in pieces', () => {
  const tenantId = randomUUID();
  const count = 20;
  const record = async (chain: string, events: number): Promise<void> => {
    for (let index = 0; index < events; index += 1)
      await append([{ ...eventOf(chain, index), payload: { text: 'x'.repeat(1_000_000) } }]);
  };
  beforeAll(() => record(tenantId, count));
  type Chunk = ResultOf<'audit.verify'>;

  test('of some megabytes, which the console follows, and only the last says that it is valid', async () => {
    const { lines, called, answers, problem } = await typed(
      'audit',
      'verify',
      '--tenant',
      tenantId,
    );
    expect(problem).toBeNull();
    expect(lines.at(-1)).toMatch(new RegExp(`^${tenantId}  ${count} +[0-9a-f]{64}$`));
    expect(new Set(called)).toEqual(new Set(['audit.verify']));
    const chunks = answers as Chunk[];
    // More than its megabytes make, where the chain had to rest.
    expect(chunks.length).toBeGreaterThanOrEqual(3);
    expect(chunks.map(({ valid }) => valid)).toEqual([...chunks.slice(1).map(() => null), true]);
    const chains = chunks.map(({ chains: [chain] }) => chain!);
    expect(new Set(chains.slice(0, -1).map(({ head }) => head))).toEqual(new Set([null]));
    expect(chains.at(-1)).toMatchObject({ events: count, head: expect.any(String) });
  });

  test('what was verified may not change before the next piece', async () => {
    const chunk = await verify(tenantId);
    await expect(verify(randomUUID(), chunk.next_cursor!)).rejects.toMatchObject({
      type: 'validation_failed',
    });
    const [, chain, seq] = Buffer.from(chunk.next_cursor!, 'base64url').toString().split(' ');
    const forged = Buffer.from(`whole ${chain} ${seq} ${'0'.repeat(64)}`).toString('base64url');
    expect((await verify(tenantId, forged)).valid).toBe(false);
  });

  test('no later piece is valid again once a link was broken, and the other chains are still proved', async () => {
    await tamper(`UPDATE audit.events SET payload = '{}' WHERE chain = $1 AND seq = 2`, [tenantId]);
    const last = 'ffffffff-ffff-4fff-bfff-ffffffffffff';
    await record(last, 12);
    const { problem, lines, answers } = await typed('audit', 'verify');
    const chunks = answers as Chunk[];
    const [chunk] = chunks.slice(-1);
    expect([chunk!.valid, chunk!.chains]).toEqual([
      false,
      [{ tenant_id: last, events: 12, head: expect.any(String) }],
    ]);
    expect(problem).toContain('is broken');
    expect(lines.some((line) => line.startsWith(tenantId) && line.includes(' 1 '))).toBe(true);
  });
});

test('a proof in the middle of writes holds', async () => {
  const tenantId = randomUUID();
  const write = async (): Promise<void> => {
    for (let index = 0; index < 60; index += 1) await append([eventOf(tenantId, index)]);
  };
  const proofs: (boolean | null)[] = [];
  const prove = async (): Promise<void> => {
    for (let index = 0; index < 20; index += 1) proofs.push((await verify(tenantId)).valid);
  };
  await Promise.all([write(), prove()]);
  expect(new Set(proofs)).toEqual(new Set([true]));
});

/** All are asked for, so no line stands for others. */
type Exported = Exclude<ResultOf<'audit.export'>['items'][number], { skipped: unknown }>;

describe('a chain that is cut', () => {
  const tenantId = randomUUID();
  const cutAt = (seq: number, hash: string) =>
    ask('audit.cut', { body: { tenant_id: tenantId, seq, hash } });
  const exported = async (before?: string) => {
    const items: Exported[] = [];
    let cursor: string | null = null;
    do {
      const page: ResultOf<'audit.export'> = await ask('audit.export', {
        tenant_id: tenantId,
        limit: 4,
        ...(before !== undefined && { before }),
        ...(cursor !== null && { cursor }),
      });
      items.push(...(page.items as Exported[]));
      cursor = page.next_cursor;
    } while (cursor !== null);
    return items;
  };
  const left = async (): Promise<number[]> => {
    const rows = await database.query<{ seq: string }>(
      'SELECT seq FROM audit.events WHERE chain = $1 ORDER BY seq',
      [tenantId],
    );
    return rows.map(({ seq }) => Number(seq));
  };

  beforeAll(async () => {
    const events = Array.from({ length: 9 }, (_each, index) => ({
      ...eventOf(tenantId, index),
      occurred_at: new Date(Date.UTC(2026, 0, index + 1)).toISOString(),
    }));
    await append(events);
  });

  test('is exported in its order, until the first event that is not from before', async () => {
    expect((await exported()).map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
    const before = await exported('2026-01-06T00:00:00.000Z');
    expect(before.map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 5]);
    expect(before.at(-1)!.payload).toEqual({ index: 4 });
  });

  test('is cut only by whoever knows the hash of the last event that goes', async () => {
    const events = await exported();
    for (const [seq, hash] of [
      [5, events[5]!.hash],
      [10, events[8]!.hash],
    ] as const)
      await expect(cutAt(seq, hash)).rejects.toMatchObject({ type: 'conflict' });
    expect(await left()).toHaveLength(9);
  });

  test('continues from a signed statement, and verifies from there', async () => {
    const events = await exported();
    const cut = await cutAt(5, events[4]!.hash);
    expect(cut).toMatchObject({ tenant_id: tenantId, seq: 5, hash: events[4]!.hash });
    await eventually(async () => expect(await left()).toEqual([6, 7, 8, 9]));
    await append([eventOf(tenantId, 10)]);
    const { tenant_id: _tenant, ...statement } = cut;
    const proof = await verify(tenantId);
    expect(proof).toMatchObject({ valid: true, chains: [{ events: 10, cut: statement }] });
    expect((await exported()).map(({ seq }) => seq)).toEqual([6, 7, 8, 9, 10]);
    await expect(cutAt(5, events[4]!.hash)).rejects.toMatchObject({ type: 'conflict' });

    // As anybody can check it who was told the public key.
    const { seq, hash, cut_at, cut_by } = cut;
    const said = canonicalize({ chain: tenantId, seq, hash, cut_at, cut_by })!;
    const key = createPublicKey({
      key: { kty: 'OKP', crv: 'Ed25519', x: cut.public_key },
      format: 'jwk',
    });
    const signature = Buffer.from(cut.signature, 'base64url');
    expect(verifySignature(null, Buffer.from(said), key, signature)).toBe(true);
  });

  test('is cut again further on, and breaks where the statement is changed', async () => {
    const events = await exported();
    await cutAt(7, events.find(({ seq }) => seq === 7)!.hash);
    await eventually(async () => expect((await left())[0]).toBe(8));
    expect((await verify(tenantId)).valid).toBe(true);
    const change = (set: string) =>
      database.query(`UPDATE audit.cuts SET ${set} WHERE chain = $1`, [tenantId]);
    for (const field of ['hash', 'cut_by']) {
      await change(`${field} = reverse(${field})`);
      const { valid, chains } = await verify(tenantId);
      expect([field, valid, chains[0]!.broken_at?.seq]).toEqual([field, false, 7]);
      await change(`${field} = reverse(${field})`);
    }
    expect((await verify(tenantId)).valid).toBe(true);
  });

  test('is not cut where it is broken', async () => {
    await tamper(`UPDATE audit.events SET payload = '{}' WHERE chain = $1 AND seq = 9`, [tenantId]);
    const { seq, hash } = (await exported()).at(-1)!;
    await expect(cutAt(seq, hash)).rejects.toMatchObject({ type: 'conflict' });
    expect(await left()).toEqual([8, 9, 10]);
  });
});

describe('verifications at the same time', () => {
  const tenants = [randomUUID(), randomUUID(), randomUUID()];
  /** How many verifications the database is asked for, which read a page of events each. */
  let begun = 0;
  let running = 0;
  let most = 0;
  let transactions: jest.SpiedFunction<typeof db.transaction>;
  beforeAll(async () => {
    for (const tenantId of tenants) {
      for (let batch = 0; batch < 6; batch += 1)
        await append(Array.from({ length: 500 }, (_each, index) => eventOf(tenantId, index)));
    }
    const { transaction } = db;
    transactions = jest.spyOn(db, 'transaction').mockImplementation(async (...args: unknown[]) => {
      const isProof = args[0] === 'REPEATABLE READ';
      if (isProof) {
        begun += 1;
        running += 1;
        most = Math.max(most, running);
      }
      try {
        return await (transaction as (...all: unknown[]) => Promise<unknown>).apply(db, args);
      } finally {
        if (isProof) running -= 1;
      }
    });
  });
  afterAll(() => transactions.mockRestore());
  beforeEach(() => {
    begun = 0;
    most = 0;
  });

  test('of one chain share a run, which begins after all of them have asked', async () => {
    const [tenantId] = tenants as [string];
    const first = verify(tenantId);
    await eventually(async () => expect(running).toBe(1));
    await append([eventOf(tenantId, 3000)]);
    const others = await Promise.all(Array.from({ length: 59 }, () => verify(tenantId)));
    expect((await first).valid).toBe(true);
    for (const { valid, chains } of others) {
      expect(valid).toBe(true);
      expect(chains[0]!.events).toBe(3001);
    }
    expect(begun).toBe(2);
  });

  test('of several chains leave connections to everyone else', async () => {
    const proofs = Promise.all(tenants.map((tenantId) => verify(tenantId)));
    await eventually(async () => expect(running).toBeGreaterThan(0));
    await ask('audit.events.list', { tenant_id: tenants[0]! });
    expect(running).toBeGreaterThan(0);
    for (const { valid } of await proofs) expect(valid).toBe(true);
    expect(most).toBe(2);
  });

  test('from many positions of one chain wait in a bounded line', async () => {
    const [tenantId] = tenants as [string];
    const cursors = Array.from({ length: 60 }, (_each, index) =>
      encodeCursor(`whole ${tenantId} ${index} ${'0'.repeat(64)}`),
    );
    const answers = await Promise.allSettled(cursors.map((cursor) => verify(tenantId, cursor)));
    const refused = answers.flatMap((answer) =>
      answer.status === 'rejected' ? [answer.reason as StrataError] : [],
    );
    expect(refused).toHaveLength(60 - 1 - 4);
    for (const error of refused) {
      expect(codeOf(error)).toBe('rate_limited');
      expect(error.message).toMatch('AUDIT_VERIFICATIONS_WAITING');
    }
  });

  soakTest('answer other requests in between', async () => {
    const delays = monitorEventLoopDelay({ resolution: 1 });
    const large = randomUUID();
    for (let batch = 0; batch < 4; batch += 1)
      await append(
        Array.from({ length: 100 }, (_each, index) => ({
          ...eventOf(large, index),
          payload: { text: 'x'.repeat(10_000) },
        })),
      );
    delays.enable();
    await verify(large);
    delays.disable();
    // 20 ms by themselves; a busy machine stops the process for as long.
    expect(delays.percentile(95) / 1e6).toBeLessThan(20);
  });
});

describe('a purge of a document', () => {
  const ofDocument = (revision: number, over: Partial<AuditEventFacts> = {}): AuditEventFacts => ({
    ...eventOf(randomUUID(), revision),
    action: 'config.global.updated',
    tenant_id: null,
    target: 'leaked',
    payload: { revision, reason: 'r', changes: [{ path: '', after: 'canary' }], power: 'proof' },
    ...over,
  });
  const purgeOf = (below: number): AuditEventFacts =>
    ofDocument(below + 1, { action: 'config.global.purged', payload: { below } });
  const kept = async (): Promise<string[]> => {
    const rows = await database.query<{ id: string }>(
      "SELECT id FROM audit.events WHERE payload->'changes' IS NOT NULL",
    );
    return rows.map(({ id }) => id);
  };
  async function isPlatformWhole(): Promise<boolean> {
    let cursor: string | undefined;
    for (;;) {
      const { chains, next_cursor: next } = await ask(
        'audit.verify',
        cursor === undefined ? {} : { cursor },
      );
      const platform = chains.find(({ tenant_id: tenantId }) => tenantId === null);
      if (platform?.broken_at) return false;
      if (platform && platform.head !== null) return true;
      expect(next).not.toBeNull();
      cursor = next!;
    }
  }

  test('takes its changes alone, of however many events, and the chain holds', async () => {
    const many = Array.from({ length: 230 }, (_, index) => ofDocument(index + 1));
    const later = ofDocument(300);
    const others = [
      ofDocument(5, { action: 'config.service_type.updated' }),
      ofDocument(6, { target: 'leaked-not' }),
      ofDocument(7, { tenant_id: randomUUID() }),
    ];
    await append([...many, ...others, later]);
    await append([purgeOf(250)]);
    expect((await kept()).toSorted()).toEqual([...others, later].map(({ id }) => id).toSorted());
    const [left] = await database.query<{ payload: object }>(
      'SELECT payload FROM audit.events WHERE id = $1',
      [many[0]!.id],
    );
    expect(left!.payload).toEqual({ revision: 1, reason: 'r', power: 'proof', purged: true });
    expect(await isPlatformWhole()).toBe(true);
  });

  test('an event that comes after the purge of its document loses them on arrival', async () => {
    await append([purgeOf(250)]);
    const before = await kept();
    const late = ofDocument(249);
    const after = ofDocument(251);
    await append([late, after]);
    // Handed over again, as after an answer that was lost.
    await append([late]);
    expect((await kept()).filter((id) => !before.includes(id))).toEqual([after.id]);
    expect(await isPlatformWhole()).toBe(true);
  });

  // Last, because the platform's chain stays broken.
  test('covers no event that was changed before it', async () => {
    const changed = ofDocument(1, { target: 'forged' });
    await append([changed]);
    const actorOf = (id: string) =>
      tamper('UPDATE audit.events SET actor_id = $2 WHERE id = $1', [changed.id, id]);
    await actorOf('somebody else');
    expect(await isPlatformWhole()).toBe(false);
    await append([
      ofDocument(2, {
        action: 'config.global.purged',
        target: 'forged',
        payload: { below: 1 },
      }),
    ]);
    expect(await kept()).not.toContain(changed.id);
    expect(await isPlatformWhole()).toBe(false);
  });
});

describe('of a chain of very many events', () => {
  const chain = randomUUID();
  const most = 20_000;
  beforeAll(async () => {
    await database.query(
      `WITH head AS (INSERT INTO audit.chains VALUES ($1, $2, 'hash'))
       INSERT INTO audit.events
       SELECT $1::text, n, gen_random_uuid(), 'a', 'user', 'u', $1::uuid, NULL, '{}', NULL, '2026-01-01'::timestamptz + n * interval '1 second', 'hash'
       FROM generate_series(1, $2::int) n`,
      [chain, most],
    );
    await database.query('ANALYZE audit.events');
  });
  const at = (seq: number): string => new Date(Date.UTC(2026, 0, 1) + seq * 1000).toISOString();

  test('a page of an export until a moment reads no more than the page', async () => {
    const until = 12_000;
    const asked = { tenant_id: chain, before: at(until), limit: 20 };
    const first = await readBy('min(seq)', () => ask('audit.export', asked));
    expect(first.done.items).toHaveLength(20);
    expect(first.blocks).toBeLessThan(100);
    const cursor = Buffer.from(String(until - 15)).toString('base64url');
    const last = await readBy('min(seq)', () => ask('audit.export', { ...asked, cursor }));
    const numbers = last.done.items.map(({ seq }) => seq);
    expect([numbers[0], numbers.at(-1), last.done.next_cursor]).toEqual([
      until - 14,
      until - 1,
      null,
    ]);
    expect(last.blocks).toBeLessThan(100);
  });

  test('none is looked at for the cut of another', async () => {
    await database.query(
      `INSERT INTO audit.cuts SELECT gen_random_uuid(), 5, 'hash', now(), 'u', '', '' FROM generate_series(1, 3)`,
    );
    await database.query('ANALYZE audit.cuts');
    const { done, blocks } = await readBy('DELETE', () =>
      db.transaction((manager) => removeCutEvents(manager, 1000)),
    );
    expect(done).toBe(false);
    expect(blocks).toBeLessThan(100);
    await database.query('TRUNCATE audit.cuts');
  });

  test('a part that is erased is found without the hashes of those before it', async () => {
    await database.query('INSERT INTO audit.erased_chains VALUES ($1, NULL, NULL)', [chain]);
    await database.query(
      `INSERT INTO audit.erased_links SELECT chain, seq, hash FROM audit.events WHERE chain = $1 AND seq <= 15000`,
      [chain],
    );
    await tamper('DELETE FROM audit.events WHERE chain = $1 AND seq <= 15000', [chain]);
    await database.query('VACUUM ANALYZE audit.erased_links');
    await database.query('VACUUM ANALYZE audit.events');
    const { mostRows } = await readBy('USING audit.erased_links', () => db.transaction(eraseChunk));
    expect(mostRows).toBeLessThanOrEqual(1000);
  });
});
