/** The Strata of these stories. */
import { afterAll, beforeAll } from '@jest/globals';
import { strataDatabase, type Database } from '../../support/postgres.ts';
import {
  adminPassword,
  signIn,
  startStrata,
  type Client,
  type Running,
} from '../../support/strata.ts';

export let database: Database;
export let strata: Running;
export let platform: Client;

export const settings = (): Record<string, string> => ({
  DATABASE_URL: database.url,
  RATE_LIMIT_PER_MINUTE: '0',
  NETWORK_RATE_LIMIT_PER_MINUTE: '1000',
  WEBHOOK_ALLOW_HTTP: 'true',
  WEBHOOK_ALLOWED_NETWORKS: '127.0.0.0/8',
  DECISIONS_RECORDED_PER_HOUR_PER_TENANT: '200000',
  APPROVAL_WEBHOOK_TIMEOUT_CAP_SECONDS: '300',
});

/** After it was stopped, at another address. */
export async function startAgain(): Promise<void> {
  strata = await startStrata(settings());
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
}

beforeAll(async () => {
  database = await strataDatabase();
  await startAgain();
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await database?.drop();
});
