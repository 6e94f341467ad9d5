/**
 * What is larger than NATS carries in one message: a document of nearly 1 MiB, its audit event,
 * several in a list.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { DataSource } from 'typeorm';
import { createNode, type Node } from '../../shared/node/broker.ts';
import { liveSettings } from '../../shared/settings/live-settings.ts';
import { createLog } from '../../shared/telemetry/log.ts';
import { migrate, openDatabase } from '../../shared/database/open.ts';
import type { AuditEventFacts } from '../../shared/commits/commit.ts';
import { startRelay } from '../../shared/commits/relay.ts';
import { commitSchema } from '../../shared/commits/schema.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import { eventually } from '../support/cluster.ts';
import { createDatabase, type Database } from '../support/postgres.ts';
import { startNats, type Process } from '../support/servers.ts';
import { secretKey } from '../support/strata.ts';

let nats: Process;
let database: Database;
let db: DataSource;
let asker: Node;
let owner: Node;
const settingsOf = (nodeId: string) =>
  loadSettings(
    { NODE_ID: nodeId, NATS_URL: nats.url, SECRET_KEY: secretKey, LOG_LEVEL: 'silent' },
    { roles: [] },
  );

beforeAll(async () => {
  [nats, database] = await Promise.all([startNats(), createDatabase()]);
  const options = { url: database.url, poolSize: 4, timeoutMs: 10_000, ssl: false };
  await migrate(options, [commitSchema]);
  db = await openDatabase(options, commitSchema);
  [asker, owner] = ['asker', 'owner'].map((name) =>
    createNode({ settings: liveSettings(settingsOf(name), {}, []) }),
  ) as [Node, Node];
  owner.broker.createService({
    name: '$large',
    actions: {
      echo: ({ params }: { params: unknown }) => params,
      many: ({ params }: { params: { bytes: number } }) => ({ text: 'ü'.repeat(params.bytes / 2) }),
    },
  });
  await Promise.all([asker.broker.start(), owner.broker.start()]);
  await asker.broker.waitForServices('$large');
});
afterAll(async () => {
  await Promise.all([asker?.broker.stop(), owner?.broker.stop()]);
  await db?.destroy();
  await nats?.stop();
  await database?.drop();
});

test('requests and answers of any size arrive whole, many at the same time', async () => {
  const sizes = [1, 500_000, 524_288, 1_048_576, 3_000_000, 7_777_777];
  const sent = sizes.map((bytes) => ({ bytes, text: String(bytes % 7).repeat(bytes) }));
  const answers = await Promise.all(
    sent.map((each) =>
      asker.broker.call<{ bytes: number; text: string }, typeof each>('$large.echo', each),
    ),
  );
  answers.forEach(({ bytes, text }, index) => {
    expect([bytes, text === sent[index]!.text]).toEqual([sent[index]!.bytes, true]);
  });
  // Each character has two bytes, which may come in two chunks.
  expect(await asker.broker.call('$large.many', { bytes: 2_000_001 * 2 })).toEqual({
    text: 'ü'.repeat(2_000_001),
  });
});

test('large audit events are handed on few at a time, and none waits behind them', async () => {
  const events = Array.from({ length: 5 }, (_each, index) => ({
    payload: { index, text: 'x'.repeat(700_000) },
  }));
  for (const event of events)
    await db.query(
      'INSERT INTO strata.outbox (event_id, event, created_at) VALUES (gen_random_uuid(), $1, now())',
      [JSON.stringify(event)],
    );
  const batches: number[][] = [];
  const relay = startRelay(
    db,
    async (given: AuditEventFacts[]) => {
      batches.push(given.map(({ payload }) => (payload as { index: number }).index));
    },
    createLog(settingsOf('relay')),
  );
  await eventually(async () => {
    expect(await db.query('SELECT 1 FROM strata.outbox')).toEqual([]);
  });
  await relay.stop();
  expect(batches).toEqual([[0, 1], [2, 3], [4]]);
});
