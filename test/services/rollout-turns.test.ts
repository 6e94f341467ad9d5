/** Turns of the runner: one node has it, and one that comes back late has lost it. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { DataSource } from 'typeorm';
import { globalConfigSchema } from '../../services/global-config/schema.ts';
import { answersOf, endTurn, takeTurn } from '../../services/global-config/stores/rollout-runs.ts';
import { commitSchema } from '../../shared/commits/schema.ts';
import { migrate, openDatabase } from '../../shared/database/open.ts';
import { createDatabase, type Database } from '../support/postgres.ts';

let database: Database;
let db: DataSource;
beforeAll(async () => {
  database = await createDatabase();
  const options = { url: database.url, poolSize: 8, timeoutMs: 10_000, ssl: false };
  await migrate(options, [commitSchema, globalConfigSchema]);
  db = await openDatabase(options, globalConfigSchema);
  await db.query(
    `INSERT INTO global_config.rollouts (id, document, state, created_at, revision, updated_by, updated_at)
     VALUES ('one', '{}', 'running', now(), 1, 'u', now())`,
  );
});
afterAll(async () => {
  await db?.destroy();
  await database?.drop();
});

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
  const other = await takeTurn(db.manager, 'one');
  await expect(endTurn(db.manager, late, answer('pass'))).rejects.toThrow('Another node');
  expect((await answersOf(db.manager, ['one'])).get('one')).toEqual([]);
  await endTurn(db.manager, other, answer('fail'));
  expect((await answersOf(db.manager, ['one'])).get('one')).toMatchObject([{ result: 'fail' }]);
  // Not twice, either: the next look is a turn of its own.
  await expect(takeTurn(db.manager, 'one')).rejects.toThrow('It is not its turn.');
});
