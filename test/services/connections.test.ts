/** How many connections to PostgreSQL a node has, whatever it hosts and however busy it is. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { eventually } from '../support/cluster.ts';
import { holdLock } from '../support/held-lock.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import {
  adminPassword,
  createTenant,
  signIn,
  startStrata,
  type Client,
  type Running,
  type TenantFixture,
} from '../support/strata.ts';

const most = 13;
let database: Database;
let strata: Running;
let platform: Client;
const tenants: TenantFixture[] = [];
beforeAll(async () => {
  database = await strataDatabase();
  strata = await startStrata({
    DATABASE_URL: database.url,
    DB_POOL_SIZE: String(most),
    REQUEST_TIMEOUT_MS: '4000',
    LOG_LEVEL: 'warn',
  });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  for (let n = 1; n <= 6; n += 1) tenants.push(await createTenant(strata.url, platform, `T ${n}`));
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await database?.drop();
});

async function connections(): Promise<number> {
  const [found] = await database.query<{ number: number }>(
    "SELECT count(*)::int AS number FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'strata-%'",
  );
  return found!.number;
}

test('DB_POOL_SIZE is that of the whole node, and the feed has its own of them', async () => {
  const lock = await holdLock(database, 'LOCK TABLE strata.changes IN EXCLUSIVE MODE');
  const writes = tenants.map(({ id, admin }) =>
    admin.put(`/tenants/${id}/config/agents/busy`, { custom: { a: 1 } }),
  );
  await lock.untilWaiting(2);
  // Those that would have been made have been by the time that the feed answers.
  // A node without a lease would say so of what it answers.
  await eventually(async () => {
    const { status } = await platform.get('/readyz');
    expect(status).toBe(200);
  });
  expect(await connections()).toBeLessThanOrEqual(most);
  await lock.release();
  for (const { status } of await Promise.all(writes)) expect(status).toBeLessThan(300);
  expect(await connections()).toBeLessThanOrEqual(most);
});
