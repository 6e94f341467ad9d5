/**
 * Checkpoints of the audit: what shows against one that is kept elsewhere, and would not show in
 * the chains themselves.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import type { DataSource } from 'typeorm';
import { commandTable } from '../../cli/command-table.ts';
import { commands } from '../../cli/commands.ts';
import { run } from '../../cli/interpreter.ts';
import type { Session } from '../../cli/session.ts';
import { auditService } from '../../services/audit/audit.service.ts';
import { auditSchema } from '../../services/audit/schema.ts';
import { removeOldCheckpoints, signHeads } from '../../services/audit/stores/checkpoints.ts';
import { startCheckpoints } from '../../services/audit/worker/checkpoints.ts';
import { serviceCaller, type Caller } from '../../shared/access.ts';
import { eventHash, type ExportedEvent } from '../../shared/security/audit-chain.ts';
import { openCheckpoint } from '../../shared/security/audit-checkpoint.ts';
import type { AuditEventFacts } from '../../shared/commits/commit.ts';
import { commitSchema } from '../../shared/commits/schema.ts';
import { callAs } from '../../shared/contract-runtime/request.ts';
import type { ActionName, ParamsOf, ResultOf } from '../../shared/contracts/index.ts';
import { migrate, openDatabase } from '../../shared/database/open.ts';
import { createNode, type Node } from '../../shared/node/broker.ts';
import { openNote } from '../../shared/security/signed-note.ts';
import { liveSettings } from '../../shared/settings/live-settings.ts';
import { loadSettings, type Settings } from '../../shared/settings/settings.ts';
import { eventually } from '../support/cluster.ts';
import { createDatabase, type Database } from '../support/postgres.ts';

let database: Database;
let db: DataSource;
let node: Node;
let settings: Settings;
const log = pino({ level: 'silent' });
const folder = mkdtempSync(join(tmpdir(), 'checkpoints-'));

beforeAll(async () => {
  database = await createDatabase();
  const options = { url: database.url, poolSize: 4, timeoutMs: 10_000, ssl: false };
  await migrate(options, [commitSchema, auditSchema]);
  db = await openDatabase(options, auditSchema);
  settings = loadSettings({ LOG_LEVEL: 'silent', SECRET_KEY: 'k'.repeat(32) }, { roles: [] });
  node = createNode({ settings: liveSettings(settings, {}, []) });
  const metrics = new Registry();
  node.broker.createService(auditService({ db, settings: () => settings, log, metrics }));
  await node.broker.start();
});
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await node?.broker.stop();
  await db?.destroy();
  await database?.drop();
});

const eventOf = (
  tenantId: string | null,
  over: Partial<AuditEventFacts> = {},
): AuditEventFacts => ({
  id: randomUUID(),
  action: 'config.risk.updated',
  actor: { type: 'user', id: 'u' },
  tenant_id: tenantId,
  target: 't',
  payload: { index: 1 },
  request_id: 'r',
  occurred_at: new Date().toISOString(),
  ...over,
});
const append = (...body: AuditEventFacts[]) =>
  callAs(node.broker, 'audit.append', { body }, { caller: serviceCaller('test'), requestId: 'r' });

const operator = { type: 'operator', id: 'test', tenant_id: null, roles: [], platform_roles: [] };
const ask = <A extends ActionName>(action: A, params: ParamsOf<A>): Promise<ResultOf<A>> =>
  callAs(node.broker, action, params, { caller: operator as Caller, requestId: 'r' });

/** As the loop does it an hour later. */
async function sign(): Promise<void> {
  await database.query("UPDATE audit.checkpoints SET made_at = made_at - interval '1 hour'");
  await db.transaction((manager) => signHeads(manager, settings, 100));
}
const listed = async (tenantId?: string) => {
  const { items } = await ask(
    'audit.checkpoints.list',
    tenantId === undefined ? { limit: 200 } : { tenant_id: tenantId },
  );
  return items;
};
const verifierKey = async (): Promise<string> => (await listed())[0]!.verifier_key;

/** Runs a command as an operator, and says what it printed and how it ended. */
async function typed(...words: string[]) {
  const session: Session = {
    call: (action, params) => ask(action, params as ParamsOf<typeof action>),
    tenants: async () => [],
  };
  const printed: string[] = [];
  const output = {
    print: (text: string) => printed.push(text),
    signal: new AbortController().signal,
  };
  const problem = await run(words, session, output, commandTable(commands, {})).then(
    () => null,
    (error: Error) => error.message,
  );
  return { text: printed.join('\n'), problem };
}
/** Verifies against notes without trusting the server; the rows by chain. */
async function verifiedAgainst(notes: string, ...flags: string[]) {
  const file = join(folder, `${randomUUID()}.txt`);
  writeFileSync(file, notes);
  const key = await verifierKey();
  const words = ['audit', 'verify', '--checkpoint', file, '--key', key, '--json', ...flags];
  const { text, problem } = await typed(...words);
  const rows = text === '' ? [] : (JSON.parse(text) as Record<string, unknown>[]);
  return { problem, rows, of: (chain: string) => rows.find((row) => row.chain === chain)! };
}
const verified = async (tenantId: string) => {
  const { valid, chains } = await ask('audit.verify', { tenant_id: tenantId });
  return { valid, problem: chains[0]!.broken_at?.problem, seq: chains[0]!.broken_at?.seq };
};

async function tamper(...statements: [string, unknown[]][]): Promise<void> {
  await database.query('ALTER TABLE audit.events DISABLE TRIGGER append_only');
  for (const [statement, values] of statements) await database.query(statement, values);
  await database.query('ALTER TABLE audit.events ENABLE TRIGGER append_only');
}
/** The last event as whoever owns the database would rewrite it: the chain holds afterwards. */
async function rewriteLast(chain: string): Promise<void> {
  const { items } = await ask('audit.export', { tenant_id: chain });
  const { seq, hash: _hash, previous, actor, ...event } = items.at(-1) as ExportedEvent;
  const forged = { ...event, actor: { type: actor.type, id: actor.id }, payload: { index: 7 } };
  const hash = eventHash(forged, seq, previous);
  await tamper(
    [
      `UPDATE audit.events SET payload = '{"index": 7}', hash = $3 WHERE chain = $1 AND seq = $2`,
      [chain, seq, hash],
    ],
    ['UPDATE audit.chains SET hash = $2 WHERE chain = $1', [chain, hash]],
  );
}
/** As if the files of the database were those of when the chain had so many events. */
const putBack = (chain: string, seq: number) =>
  tamper(
    ['DELETE FROM audit.checkpoints WHERE chain = $1 AND seq > $2', [chain, seq]],
    ['DELETE FROM audit.events WHERE chain = $1 AND seq > $2', [chain, seq]],
    [
      'UPDATE audit.chains SET seq = $2, hash = (SELECT hash FROM audit.events WHERE chain = $1 AND seq = $2) WHERE chain = $1',
      [chain, seq],
    ],
  );

let tenantId: string;
let kept: string;
beforeEach(async () => {
  // What tests have signed with other keys, or rewritten.
  await database.query("DELETE FROM audit.checkpoints WHERE chain <> 'platform'");
  tenantId = randomUUID();
  await append(eventOf(tenantId), eventOf(tenantId));
  await sign();
  await append(eventOf(tenantId), eventOf(tenantId), eventOf(null));
  await sign();
  kept = (await typed('audit', 'checkpoints')).text;
});

test("heads are signed when they have moved, and a tenant's copy has its own chain alone", async () => {
  const [own, ...others] = await listed(tenantId);
  expect([own!.seq, others]).toEqual([4, []]);
  expect(openCheckpoint(own!.note, [own!.verifier_key])).toEqual({
    chain: tenantId,
    seq: 4,
    hash: own!.hash,
    made_at: own!.made_at,
  });
  const tenantAdmin = {
    type: 'user',
    id: 'u',
    tenant_id: tenantId,
    roles: ['tenant_admin'],
    platform_roles: [],
  } as unknown as Caller;
  const asTenant = await callAs(
    node.broker,
    'audit.checkpoints.list',
    {},
    {
      caller: tenantAdmin,
      requestId: 'r',
    },
  );
  expect(asTenant.items.map(({ tenant_id }) => tenant_id)).toEqual([tenantId]);
  expect((await listed()).map(({ tenant_id }) => tenant_id)).toEqual(
    expect.arrayContaining([tenantId, null]),
  );
  // In the same hour nothing is signed again, and nothing that has not moved in the next.
  const count = () => database.query('SELECT FROM audit.checkpoints');
  const before = (await count()).length;
  await append(eventOf(tenantId));
  await db.transaction((manager) => signHeads(manager, settings, 100));
  expect(await count()).toHaveLength(before);
  await sign();
  expect(await count()).toHaveLength(before + 1);
});

test('very many chains are signed some at a time, of which no look sees one again', async () => {
  await append(eventOf(randomUUID()), eventOf(randomUUID()), eventOf(randomUUID()));
  await database.query("UPDATE audit.checkpoints SET made_at = made_at - interval '1 hour'");
  const looked: string[] = [];
  const signOne = (): Promise<string | undefined> =>
    db.transaction((manager) => signHeads(manager, settings, 1, looked.at(-1)));
  let last = await signOne();
  for (; last !== undefined; last = await signOne()) looked.push(last);
  expect(looked.length).toBeGreaterThanOrEqual(3);
  expect(looked).toEqual([...new Set(looked)].toSorted());
  const unsigned = await database.query(
    `SELECT FROM audit.chains c WHERE seq > 0
       AND seq > COALESCE((SELECT max(k.seq) FROM audit.checkpoints k WHERE k.chain = c.chain), 0)`,
  );
  expect(unsigned).toHaveLength(0);
});

test('a chain that no one touched verifies, on the server and without trusting it', async () => {
  expect((await verified(tenantId)).valid).toBe(true);
  const { problem, of } = await verifiedAgainst(kept);
  expect(problem).toBeNull();
  expect(of(tenantId)).toMatchObject({ events: 4, checkpoints: 1, head: expect.any(String) });
  expect(of('platform').broken_at).toBeUndefined();
});

describe('found and named', () => {
  test('a rewrite of the last event, whose chain holds by itself', async () => {
    await rewriteLast(tenantId);
    expect(await verified(tenantId)).toMatchObject({
      valid: false,
      seq: 4,
      problem: expect.stringMatching(/^rewritten: the checkpoint of 20/),
    });
    const { problem, of } = await verifiedAgainst(kept);
    expect(problem).toMatch(/broken_at says where/);
    expect(of(tenantId)).toMatchObject({
      broken_at: 4,
      problem: expect.stringMatching(/^rewritten: /),
    });
    const { seq, hash } = (await ask('audit.export', { tenant_id: tenantId })).items.at(-1)!;
    const cut = { body: { tenant_id: tenantId, seq, hash } };
    await expect(ask('audit.cut', cut)).rejects.toThrow(/broken at 4: its checkpoint has another/);
    await database.query('DELETE FROM audit.checkpoints WHERE chain = $1', [tenantId]);
    expect((await verified(tenantId)).valid).toBe(true);
  });

  test('files of the database that were put back, which say nothing of it themselves', async () => {
    await putBack(tenantId, 2);
    expect((await verified(tenantId)).valid).toBe(true);
    const { of } = await verifiedAgainst(kept);
    expect(of(tenantId)).toMatchObject({
      events: 2,
      broken_at: 3,
      problem: expect.stringMatching(/^lost: .* has events up to 4$/),
    });
  });

  test('events that a failover has lost, also when others have taken their places', async () => {
    await putBack(tenantId, 3);
    await append(eventOf(tenantId), eventOf(tenantId));
    expect((await verified(tenantId)).valid).toBe(true);
    const earlier = (await typed('audit', 'checkpoints', '--tenant', tenantId)).text;
    const { of } = await verifiedAgainst(`${kept}\n\n${earlier}\n`);
    expect(of(tenantId)).toMatchObject({
      events: 2,
      checkpoints: 2,
      broken_at: 4,
      problem: expect.stringMatching(/^rewritten: /),
    });
  });

  test('an event that the server altered, under the hash that was signed', async () => {
    await tamper([
      `UPDATE audit.events SET payload = '{"index": 7}' WHERE chain = $1 AND seq = 2`,
      [tenantId],
    ]);
    expect((await verifiedAgainst(kept)).of(tenantId)).toMatchObject({ events: 1, broken_at: 2 });
  });

  test('a chain that is gone as a whole', async () => {
    await tamper(
      ['DELETE FROM audit.events WHERE chain = $1', [tenantId]],
      ['DELETE FROM audit.chains WHERE chain = $1', [tenantId]],
    );
    const { chains } = await ask('audit.verify', {});
    expect(chains.find(({ tenant_id }) => tenant_id === tenantId)!.broken_at).toMatchObject({
      seq: 1,
      problem: expect.stringMatching(/^lost: /),
    });
    expect((await verifiedAgainst(kept)).of(tenantId)).toMatchObject({ broken_at: 1 });
  });

  test('each hour by the node itself, which does not sign what was rewritten', async () => {
    await rewriteLast(tenantId);
    await append(eventOf(tenantId));
    await sign();
    expect((await listed(tenantId))[0]!.seq).toBe(4);
    const loop = startCheckpoints({ db, settings: () => settings, log });
    await eventually(async () => expect(loop.broken()).toBeGreaterThan(0));
    await loop.stop();
  });
});

test('a note that was altered, or that another key has signed, is no checkpoint', async () => {
  const altered = kept.replace(/\n4\n/, '\n3\n');
  expect((await verifiedAgainst(altered)).problem).toMatch(/does not fit the note/);
  const file = join(folder, 'kept.txt');
  writeFileSync(file, kept);
  const other = { ...settings, secret_key: 'o'.repeat(32), secret_key_previous: null };
  await append(eventOf(tenantId));
  await database.query("UPDATE audit.checkpoints SET made_at = made_at - interval '1 hour'");
  await db.transaction((manager) => signHeads(manager, other, 100));
  const theirs = (await listed(tenantId))[0]!.note;
  expect((await verifiedAgainst(theirs)).problem).toMatch(/none of the given keys/);
  expect((await verifiedAgainst(`${kept}\nsomething else\n`)).problem).toMatch(/no signed note/);
  expect((await typed('audit', 'verify', '--checkpoint', file)).problem).toMatch(/--key is needed/);
});

test('while SECRET_KEY is rotated, the key that was pinned before verifies as well', async () => {
  const pinned = await verifierKey();
  const rotating = {
    ...settings,
    secret_key: 'n'.repeat(32),
    secret_key_previous: settings.secret_key,
  };
  await append(eventOf(tenantId));
  await database.query("UPDATE audit.checkpoints SET made_at = made_at - interval '1 hour'");
  await db.transaction((manager) => signHeads(manager, rotating, 100));
  expect(openCheckpoint((await listed(tenantId))[0]!.note, [pinned]).seq).toBe(5);
});

test('a chain that was cut, or erased with its tenant, still verifies', async () => {
  const { items } = await ask('audit.export', { tenant_id: tenantId });
  const { seq, hash } = items[2]!;
  await ask('audit.cut', { body: { tenant_id: tenantId, seq, hash } });
  await eventually(async () =>
    expect((await ask('audit.export', { tenant_id: tenantId })).items).toHaveLength(1),
  );
  const cut = await verifiedAgainst(kept);
  expect(cut.of(tenantId)).toMatchObject({ events: 4, begins_at: 4 });
  expect(cut.of(tenantId).broken_at).toBeUndefined();
  const last = items[3]!;
  await ask('audit.cut', { body: { tenant_id: tenantId, seq: last.seq, hash: last.hash } });
  await append(eventOf(tenantId));
  await eventually(async () =>
    expect((await ask('audit.export', { tenant_id: tenantId })).items[0]!.seq).toBe(5),
  );
  expect((await verifiedAgainst(kept)).of(tenantId).broken_at).toBeUndefined();

  await append(eventOf(null, { action: 'tenant.erased', target: tenantId }));
  await eventually(async () => {
    const [row] = await database.query<{ done: boolean }>(
      'SELECT erased_at IS NOT NULL AS done FROM audit.erased_chains WHERE chain = $1',
      [tenantId],
    );
    expect(row?.done).toBe(true);
  });
  expect((await verifiedAgainst(kept)).of(tenantId)).toMatchObject({ erased: true });
  expect((await verified(tenantId)).valid).toBe(true);
});

test('checkpoints of more than a month ago go, but for the newest of a chain', async () => {
  await database.query(
    "UPDATE audit.checkpoints SET made_at = made_at - interval '32 days' WHERE chain = $1",
    [tenantId],
  );
  await removeOldCheckpoints(db.manager, 100);
  const rows = await database.query<{ seq: string }>(
    'SELECT seq FROM audit.checkpoints WHERE chain = $1',
    [tenantId],
  );
  expect(rows.map(({ seq }) => Number(seq))).toEqual([4]);
});

test('a signed note of the package that defined them opens', () => {
  // https://pkg.go.dev/golang.org/x/mod/sumdb/note
  const key = 'PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW';
  const text =
    "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n";
  const signature =
    'x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=';
  const note = `${text}\n— PeterNeumann ${signature}\n`;
  expect(openNote(note, [key])).toBe(text);
  expect(() => openNote(note.replace('answer', 'question'), [key])).toThrow('does not fit');
});

test('a start says that SECRET_KEY is neither of those that the audit was signed under', async () => {
  await append(eventOf(null));
  await sign();
  const saidAtStart = async (keys: Partial<Settings>): Promise<string> => {
    const lines: string[] = [];
    const listening = pino({ level: 'warn' }, { write: (line: string) => void lines.push(line) });
    const own = { ...settings, ...keys };
    const loop = startCheckpoints({ db, settings: () => own, log: listening });
    await eventually(async () => expect(loop.broken()).toBeDefined());
    await loop.stop();
    return lines.filter((line) => line.includes('SECRET_KEY')).join('');
  };
  const another = 'p'.repeat(32);
  expect(await saidAtStart({})).toBe('');
  expect(await saidAtStart({ secret_key: another })).toMatch(
    /secrets and API keys stored under that key/,
  );
  expect(await saidAtStart({ secret_key: another, secret_key_previous: settings.secret_key })).toBe(
    '',
  );
});
