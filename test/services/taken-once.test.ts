/**
 * Challenges, pending sign-ins and links, where Redis has forgotten that they were taken, as a
 * replica has that took over before it received it.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { DataSource } from 'typeorm';
import { authSchema } from '../../services/auth/schema.ts';
import { takenOnce } from '../../services/auth/stores/taken-once.ts';
import {
  createShortLivedState,
  type ShortLivedState,
} from '../../shared/concurrency/short-lived-state.ts';
import { openDatabase } from '../../shared/database/open.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';

let database: Database;
let db: DataSource;
beforeAll(async () => {
  database = await strataDatabase();
  const options = { url: database.url, poolSize: 4, timeoutMs: 10_000, ssl: false };
  db = await openDatabase(options, authSchema);
});
afterAll(async () => {
  await db?.destroy();
  await database?.drop();
});

/** Gives what was taken again and again. */
function forgetful(): ShortLivedState {
  const state = createShortLivedState();
  return { ...state, take: state.peek };
}

test('what Redis gives again is taken once, by whoever asks first', async () => {
  const state = takenOnce(forgetful(), db);
  await state.put('link', { user: 'ada' }, 60);
  expect(await state.peek('link')).toEqual({ user: 'ada' });
  const taken = await Promise.all([1, 2, 3, 4].map(() => state.take('link')));
  expect(taken.filter((each) => each !== null)).toEqual([{ user: 'ada' }]);
  expect(await state.take('link')).toBeNull();
});

test('another value under the same key is another one', async () => {
  const state = takenOnce(forgetful(), db);
  await state.put('challenge', 'first', 60);
  expect(await state.take('challenge')).toBe('first');
  await state.put('challenge', 'second', 60);
  expect(await state.take('challenge')).toBe('second');
});

test('a value that was never put is none', async () => {
  expect(await takenOnce(forgetful(), db).take('unknown')).toBeNull();
});
