/** The clock of slots, where the answer to a reading of it takes long. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { pino } from 'pino';
import type { DataSource } from 'typeorm';
import { notifierSchema } from '../../services/notifier/schema.ts';
import { startSlotClock } from '../../services/notifier/worker/slot-clock.ts';
import { openDatabase } from '../../shared/database/open.ts';
import { eventually } from '../support/eventually.ts';
import { holdLock } from '../support/held-lock.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';

let database: Database;
let db: DataSource;
beforeAll(async () => {
  database = await strataDatabase();
  const options = { url: database.url, poolSize: 4, timeoutMs: 10_000, ssl: false };
  db = await openDatabase(options, notifierSchema);
});
afterAll(async () => {
  await db?.destroy();
  await database?.drop();
});

const clockSince = async (moment: string): Promise<void> => {
  const [clock] = await db.query<{ has_moved: boolean }[]>(
    `SELECT observed_at > ${moment} AS has_moved FROM notifier.slot_clock`,
  );
  expect(clock).toEqual({ has_moved: true });
};

test('a reading that waits for the database moves no slot', async () => {
  const id = randomUUID();
  const ends = new Date('2030-01-01T00:00:00Z');
  await db.query(
    `INSERT INTO notifier.automations
       (id, tenant_id, state, intent, decided, ttl_seconds, requested_by, request_id, request_hash, created_at, expires_at)
     VALUES ($1, $1, 'running', '{}', '{}', 300, '{}', '', '', now(), $2)`,
    [id, ends],
  );
  const [start] = await db.query<{ now: Date }[]>('SELECT clock_timestamp() AS now');
  const loop = startSlotClock({ db, log: pino({ level: 'silent' }) });
  try {
    await eventually(() => clockSince(`'${start!.now.toISOString()}'`));
    const behind = await holdLock(
      database,
      `UPDATE notifier.slot_clock SET observed_at = now() - interval '1 minute'`,
    );
    await behind.untilWaiting(1);
    const locking = holdLock(database, 'SELECT FROM notifier.slot_clock FOR UPDATE');
    await behind.untilWaiting(2);
    await behind.commit();
    const lock = await locking;
    await lock.untilWaiting(1);
    // For so long the database's clock was read before its own.
    await delay(2500);
    await lock.release();
    await eventually(() => clockSince(`clock_timestamp() - interval '2 seconds'`), 30_000);
    const [row] = await db.query<{ expires_at: Date }[]>(
      'SELECT expires_at FROM notifier.automations WHERE id = $1',
      [id],
    );
    expect(row).toEqual({ expires_at: ends });
  } finally {
    await loop.stop();
  }
});
