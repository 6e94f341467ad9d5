/** Fetching a chain from a number on: the programs of deploy/audit, as receivers run them. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import type { DataSource } from 'typeorm';
import { auditService } from '../../services/audit/audit.service.ts';
import { auditSchema } from '../../services/audit/schema.ts';
import { serviceCaller, type Caller } from '../../shared/access.ts';
import type { AuditEventFacts } from '../../shared/commits/commit.ts';
import { commitSchema } from '../../shared/commits/schema.ts';
import { callAs } from '../../shared/contract-runtime/request.ts';
import type { ParamsOf, ResultOf } from '../../shared/contracts/index.ts';
import { migrate, openDatabase } from '../../shared/database/open.ts';
import { createNode, type Node } from '../../shared/node/broker.ts';
import { liveSettings } from '../../shared/settings/live-settings.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import { eventually } from '../support/cluster.ts';
import { createDatabase, type Database } from '../support/postgres.ts';
import { verdict, verifiers, type Verifier } from '../support/verifiers.ts';

type Line = ResultOf<'audit.export'>['items'][number];

/** What each of them says of these lines. */
const verdicts = (
  lines: readonly unknown[],
  from: readonly string[] = [],
  which: readonly Verifier[] = verifiers,
): Promise<string[]> => Promise.all(which.map((verifier) => verdict(verifier, lines, from)));
const allSay = (text: string): string[] => verifiers.map(() => text);

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
  const [log, metrics] = [pino({ level: 'silent' }), new Registry()];
  node.broker.createService(auditService({ db, settings: () => settings, log, metrics }));
  await node.broker.start();
});
afterAll(async () => {
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
const by = { caller: operator as Caller, requestId: 'r' };

/** All pages. */
async function exported(params: ParamsOf<'audit.export'>): Promise<Line[]> {
  const lines: Line[] = [];
  let cursor: string | null = null;
  do {
    const asked: ParamsOf<'audit.export'> = { ...params, ...(cursor !== null && { cursor }) };
    const { items, next_cursor } = await callAs(node.broker, 'audit.export', asked, by);
    lines.push(...items);
    cursor = next_cursor;
  } while (cursor !== null);
  return lines;
}
const numbersOf = (lines: readonly Line[]) =>
  lines.map((line) => ('skipped' in line ? [line.skipped, line.from, line.seq] : line.seq));

describe('a chain of all kinds of values', () => {
  const tenantId = randomUUID();
  let lines: Line[];
  let end: string;
  beforeAll(async () => {
    const payloads: unknown[] = [
      { b: 1, a: [1.5, -0.25, 12_345_678, true, null], nested: { z: '', y: 'ü "\\" \n €' } },
      'text',
      [],
      { '😀': 1, ﬀ: 2, é: 3 },
      { deep: [[[{ k: 'v' }]]] },
      {},
    ];
    await append(
      ...payloads.map((payload, index) =>
        eventOf(tenantId, {
          payload,
          action: index % 2 === 0 ? 'config.risk.updated' : 'auth.login_succeeded',
        }),
      ),
    );
    lines = await exported({ tenant_id: tenantId, limit: 4 });
    end = `whole: 6 ${lines.at(-1)!.hash}`;
  });

  test('is whole for each program, from the beginning and from where a receiver stopped', async () => {
    expect(await verdicts(lines, [], verifiers.slice(0, 2))).toEqual([end, end]);
    const { seq, hash } = lines[3]!;
    const later = await exported({ tenant_id: tenantId, after: seq });
    expect(numbersOf(later)).toEqual([5, 6]);
    expect(await verdicts(later, [String(seq), hash])).toEqual(allSay(end));
    const [, other] = lines;
    const elsewhere = [String(seq), other!.hash];
    expect(await verdicts(later, elsewhere)).toEqual(allSay('does not join: 5'));
  });

  test('one event that is altered, left out or swapped is named', async () => {
    const from = [String(lines[3]!.seq), lines[3]!.hash];
    const [fifth, sixth] = lines.slice(4) as [Line, Line];
    expect(await verdicts([fifth, { ...sixth, target: 'x' }], from)).toEqual(allSay('altered: 6'));
    expect(await verdicts([sixth], from)).toEqual(allSay('missing: 5'));
    expect(await verdicts([sixth, fifth], from)).toEqual(allSay('missing: 5'));
  });

  test('of some actions is whole as well, with lines for those in between', async () => {
    const found = await exported({ tenant_id: tenantId, action: 'auth.*', limit: 2 });
    expect(numbersOf(found)).toEqual([
      ['filtered', 1, 1],
      2,
      ['filtered', 3, 3],
      4,
      ['filtered', 5, 5],
      6,
    ]);
    expect(await verdicts(found, [], verifiers.slice(0, 2))).toEqual([end, end]);
    const missing = found.toSpliced(1, 1);
    expect(await verdicts(missing, [], verifiers.slice(0, 2))).toEqual([
      'missing: 2',
      'missing: 2',
    ]);
    const none = await exported({ tenant_id: tenantId, action: 'nothing' });
    expect(numbersOf(none)).toEqual([['filtered', 1, 6]]);
    expect(await verdicts(none)).toEqual(allSay(end));
  });

  test('that was cut below a receiver tells it so, and continues', async () => {
    const { seq, hash } = lines[2]!;
    const params = { tenant_id: tenantId, limit: 1 };
    const page = await callAs(node.broker, 'audit.export', params, by);
    await callAs(node.broker, 'audit.cut', { body: { tenant_id: tenantId, seq, hash } }, by);
    await eventually(async () =>
      expect(numbersOf(await exported({ tenant_id: tenantId }))).toEqual([4, 5, 6]),
    );
    const resumed = await exported({ tenant_id: tenantId, after: 1 });
    expect(numbersOf(resumed)).toEqual([['cut', 2, 3], 4, 5, 6]);
    const from = ['1', lines[0]!.hash];
    expect(await verdicts(resumed, from, verifiers.slice(0, 2))).toEqual([end, end]);
    const cursor = page.next_cursor!;
    const rest = await callAs(node.broker, 'audit.export', { tenant_id: tenantId, cursor }, by);
    const paged = [...page.items, ...rest.items];
    expect(await verdicts(paged, [], verifiers.slice(0, 2))).toEqual([end, end]);
    const filtered = await exported({ tenant_id: tenantId, action: 'auth.*' });
    expect(numbersOf(filtered)).toEqual([['cut', 1, 3], 4, ['filtered', 5, 5], 6]);
  });
});

test('purged events are whole where a later one attests them, and else named', async () => {
  const ofDocument = (revision: number, over: Partial<AuditEventFacts> = {}) =>
    eventOf(null, {
      action: 'config.global.updated',
      target: 'leaked',
      payload: { revision, changes: [{ path: '', after: 'canary' }] },
      ...over,
    });
  const { seq = 0, hash } = (await exported({})).at(-1) ?? {};
  await append(ofDocument(1), ofDocument(2));
  await append(ofDocument(3, { action: 'config.global.purged', payload: { below: 2 } }));
  const lines = await exported({ after: seq });
  expect(JSON.stringify(lines)).not.toContain('canary');
  const from = [String(seq), ...(hash === undefined ? [] : [hash])];
  const whole = await verdicts(lines, from);
  expect(whole).toEqual(allSay(`whole: ${seq + 4} ${lines.at(-1)!.hash}`));
  const unattested = await verdicts(lines.slice(0, -1), from, verifiers.slice(0, 2));
  expect(unattested).toEqual(Array(2).fill(`not attested: ${seq + 1}`));
});
