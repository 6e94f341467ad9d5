/**
 * PgBouncer in transaction mode between the nodes and PostgreSQL: each transaction has another
 * connection, which knows nothing of the previous one. What time-outs are for has to hold all the
 * same.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { serverTimeouts } from '../../shared/database/pooler.ts';
import { eventually, killed, startCluster, type Cluster } from '../support/cluster.ts';
import { faults, requestTimeoutMs, survive } from '../support/faults.ts';
import { holdLock } from '../support/held-lock.ts';
import {
  createDatabase,
  migrate,
  startPostgres,
  withClient,
  type Server,
} from '../support/postgres.ts';
import { startPgBouncer, type Process } from '../support/servers.ts';
import { startStrata } from '../support/strata.ts';

let server: Server;
let pooler: Process;
let cluster: Cluster;
beforeAll(async () => {
  server = await startPostgres();
  for (const [name, ms] of Object.entries(serverTimeouts(requestTimeoutMs)))
    await withClient(server.url, (client) => client.query(`ALTER ROLE strata SET ${name} = ${ms}`));
  pooler = await startPgBouncer(server.url);
  cluster = await startCluster({
    gateways: 2,
    postgres: async () => server,
    reachedBy: throughPooler,
    environment: { DB_POOLER: 'true', REQUEST_TIMEOUT_MS: String(requestTimeoutMs) },
  });
});
afterAll(async () => {
  await cluster?.stop();
  await pooler?.stop();
});

const through = (by: Process, url: string): string =>
  url.replace(new URL(url).host, new URL(by.url).host);
const throughPooler = (url: string): string => through(pooler, url);

test('migrations go through it, and leave no lock behind', async () => {
  const database = await createDatabase(server.url);
  await migrate(throughPooler(database.url), { DB_POOLER: 'true' });
  const held = await database.query("SELECT FROM pg_locks WHERE locktype = 'advisory'");
  expect(held).toEqual([]);
});

test('a node that was not told of it says so', async () => {
  const start = startStrata({ DATABASE_URL: throughPooler(cluster.database.url) });
  await expect(start).rejects.toThrow(
    /unsupported startup parameter.*Set DB_POOLER=true where it is a pooler/,
  );
});

test.each(['true', 'false'])(
  'nor does one start without time-outs, with DB_POOLER=%s',
  async (dbPooler) => {
    const database = await createDatabase(server.url);
    await migrate(database.url);
    await database.query(
      `ALTER ROLE strata IN DATABASE ${new URL(database.url).pathname.slice(1)} SET statement_timeout = 0`,
    );
    const ignoring = await startPgBouncer(server.url, [
      'ignore_startup_parameters = statement_timeout,idle_in_transaction_session_timeout',
    ]);
    const start = startStrata({
      DATABASE_URL: through(ignoring, database.url),
      DB_POOLER: dbPooler,
      REQUEST_TIMEOUT_MS: String(requestTimeoutMs),
    });
    await expect(start).rejects.toThrow(
      /statement_timeout is 0 in PostgreSQL.*set DB_POOLER=true, run ALTER ROLE strata IN DATABASE t_\w+ SET statement_timeout = 1750; and have/,
    );
    await ignoring.stop();
  },
);

const chosen = ['nothing goes wrong', 'PostgreSQL is restarted'];
for (const fault of faults.filter(({ name }) => chosen.some((each) => name.startsWith(each))))
  test(fault.name, async () => {
    await survive(cluster, fault, { tries: 3 });
  });

const path = '/config/global/pooler';
test('a node that is stopped within a transaction holds its lock no longer than that may take', async () => {
  const { database, platform, services } = cluster;
  const table = await holdLock(database, 'LOCK TABLE strata.changes IN EXCLUSIVE MODE');
  const writing = platform.put(path, { config_value: 1 });
  await table.untilWaiting(1);
  for (const node of services) process.kill(node.pid, 'SIGSTOP');
  await table.release();
  await eventually(async () => {
    const [found] = await database.query<{ number: number }>(
      "SELECT count(*)::int AS number FROM pg_stat_activity WHERE state = 'idle in transaction'",
    );
    expect(found!.number).toBe(1);
  });
  const counter = "SELECT FROM strata.revisions WHERE scope = 'platform' FOR UPDATE";
  await (await holdLock(database, counter)).release();
  for (const node of services) process.kill(node.pid, 'SIGCONT');
  await writing;
  await eventually(async () => {
    expect((await platform.put(path, { config_value: 2 })).status).toBeLessThan(300);
  });
});

test('nothing waits for a lock once its client has an answer', async () => {
  const { database, platform } = cluster;
  const counter = "SELECT FROM strata.revisions WHERE scope = 'platform' FOR UPDATE";
  const lock = await holdLock(database, counter);
  const writes = [1, 2, 3].map((value) => platform.put(path, { config_value: value }));
  for (const { status } of await Promise.all(writes)) expect([503, 504]).toContain(status);
  await lock.untilWaiting(0);
  await lock.release();
});

test('a node that is killed where it was stopped leaves no lock behind', async () => {
  const { database, platform, services } = cluster;
  const [node] = services;
  process.kill(node!.pid, 'SIGSTOP');
  await killed(node!);
  await cluster.revive(node!);
  await eventually(async () => {
    expect((await platform.put(path, { config_value: 3 })).status).toBeLessThan(300);
  });
  const waiting = await database.query(
    "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'",
  );
  expect(waiting).toEqual([]);
});
