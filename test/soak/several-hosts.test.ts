/**
 * DATABASE_URL names every server of PostgreSQL, as libpq's does, and nothing else leads nodes to
 * the one that takes writes: not at their start, and not once a standby was promoted.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { openDatabase } from '../../shared/database/open.ts';
import { startCluster, type Cluster } from '../support/cluster.ts';
import { startReplicatedPostgres, type ReplicatedServer } from '../support/failover.ts';
import { failOver, requestTimeoutMs, survive } from '../support/faults.ts';
import { migrate } from '../support/postgres.ts';

let server: ReplicatedServer;
let cluster: Cluster;
beforeAll(async () => {
  server = await startReplicatedPostgres();
  // The first of the hosts is a standby when the nodes start.
  await server.addStandby({ synchronous: true });
  cluster = await startCluster({
    gateways: 2,
    platformService: true,
    postgres: async () => server,
    reachedBy: server.byAllHosts,
    environment: { REQUEST_TIMEOUT_MS: String(requestTimeoutMs) },
  });
});
afterAll(() => cluster?.stop());

const options = (url: string) => ({ url, poolSize: 1, timeoutMs: 5000, ssl: false });
const nothing = { schema: 'public', entities: [], migrations: [] };

test('migrations find it, too', () => migrate(server.byAllHosts(cluster.database.url)));

test('a connection leads past hosts that are away, and past a standby', async () => {
  const source = await openDatabase(options(server.byAllHosts(cluster.database.url)), nothing);
  const [found] = await source.query('SELECT pg_is_in_recovery() AS is_standby');
  await source.destroy();
  expect(found).toEqual({ is_standby: false });
});

test('nodes continue on the standby that was promoted', async () => {
  const { lost } = await survive(cluster, failOver(server, { synchronous: true }));
  expect(lost).toEqual([]);
});

test('where none can be written to, each says why', async () => {
  await server.addStandby({ synchronous: false });
  const all = server.byAllHosts(cluster.database.url);
  const [, standby] = /@.*?,(.*?),/.exec(all)!;
  const url = all.replace(/@.*\//, `@127.0.0.1:1,${standby}/`);
  await expect(openDatabase(options(url), nothing)).rejects.toMatchObject({
    code: '25006',
    message: `127.0.0.1:1: connect ECONNREFUSED 127.0.0.1:1, ${standby}: it cannot be written to`,
  });
});
