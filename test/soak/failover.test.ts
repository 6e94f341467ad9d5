/**
 * A standby of PostgreSQL takes the place of the primary under running nodes. With a synchronous
 * one nothing that was answered is lost; what an asynchronous one has not received is, and no node
 * continues answering it.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { openDatabase } from '../../shared/database/open.ts';
import { startCluster, type Cluster } from '../support/cluster.ts';
import { startReplicatedPostgres, type ReplicatedServer } from '../support/failover.ts';
import { demote, failOver, requestTimeoutMs, survive, visitStandby } from '../support/faults.ts';

let server: ReplicatedServer;
let cluster: Cluster;
beforeAll(async () => {
  server = await startReplicatedPostgres();
  cluster = await startCluster({
    gateways: 2,
    platformService: true,
    postgres: async () => server,
    environment: { REQUEST_TIMEOUT_MS: String(requestTimeoutMs) },
  });
});
afterAll(() => cluster?.stop());

test('a standby is not asked, for reads neither', async () => {
  await server.addStandby({ synchronous: false });
  const options = { url: server.url, poolSize: 1, timeoutMs: 5000, ssl: false };
  await server.visitStandby(async () => {
    const opening = openDatabase(options, { schema: 'public', entities: [], migrations: [] });
    await expect(opening).rejects.toMatchObject({ code: '25006' });
  });
});

test('an address that leads to a standby for a second leaves no one there', async () => {
  await server.addStandby({ synchronous: false });
  const { lost } = await survive(cluster, visitStandby(server, 1000));
  expect(lost).toEqual([]);
});

test('a former primary that still answers has no one who asks it', async () => {
  await server.addStandby({ synchronous: false });
  const { lost } = await survive(cluster, demote(server));
  expect(lost).toEqual([]);
});

test('a synchronous standby has everything that was answered', async () => {
  await server.addStandby({ synchronous: true });
  const { lost } = await survive(cluster, failOver(server, { synchronous: true }));
  expect(lost).toEqual([]);
});

test('what an asynchronous standby has not received is lost, and no node continues answering it', async () => {
  await server.addStandby({ synchronous: false });
  const { lost } = await survive(cluster, failOver(server, { synchronous: false }));
  expect(lost.length).toBeGreaterThan(0);
});
