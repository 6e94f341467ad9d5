/** The Strata that clients of these tests reach. */
import { afterAll, beforeAll } from '@jest/globals';
import { strataDatabase, type Database } from '../../support/postgres.ts';
import {
  adminPassword,
  signIn,
  startStrata,
  type Client,
  type Running,
} from '../../support/strata.ts';

export let strata: Running;
export let platform: Client;
let database: Database;

beforeAll(async () => {
  database = await strataDatabase();
  strata = await startStrata({ DATABASE_URL: database.url, CORS_ORIGINS: '*' });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await database?.drop();
});
