/** The audit service on a real database: what is handed over twice, and what was removed behind its back. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import type { DataSource } from 'typeorm';
import { auditService } from '../../services/audit/audit.service.ts';
import { auditSchema } from '../../services/audit/schema.ts';
import { serviceCaller } from '../../shared/access.ts';
import { createNode, type Node } from '../../shared/cluster/broker.ts';
import { callAs } from '../../shared/cluster/request.ts';
import type { AuditEventFacts } from '../../shared/commits/commit.ts';
import { commitSchema } from '../../shared/commits/schema.ts';
import { migrate, openDatabase } from '../../shared/database/open.ts';
import { liveSettings } from '../../shared/live-settings.ts';
import { loadSettings } from '../../shared/settings.ts';
import { createDatabase, type Database } from '../support/postgres.ts';

let database: Database;
let db: DataSource;
let node: Node;

beforeAll(async () => {
  database = await createDatabase();
  const options = { url: database.url, poolSize: 4, timeoutMs: 10_000, ssl: false };
  await migrate(options, [commitSchema, auditSchema]);
  db = await openDatabase(options, auditSchema);
  const settings = loadSettings({ LOG_LEVEL: 'silent' }, { pieces: [] });
  node = createNode({ settings: liveSettings(settings, {}, []) });
  node.broker.createService(auditService({ db }));
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
const verify = (tenantId: string) =>
  callAs(
    node.broker,
    'audit.verify',
    { tenant_id: tenantId },
    { caller: operator, requestId: 'r' },
  );

/** As whoever owns the database could do it: the trigger that refuses changes is taken off for a moment. */
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
