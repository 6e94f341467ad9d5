/** Redis for a failover: a primary with a replica under three Sentinels, and a cluster. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Redis } from 'ioredis';
import { eventually } from './cluster.ts';
import { startProxy } from './proxy.ts';
import { binary, freePort, startRedis, type Process } from './servers.ts';

export interface Sentinels {
  /** REDIS_URL and REDIS_SENTINEL. */
  readonly url: string;
  readonly name: string;
  readonly primary: Process;
  readonly replica: Process;
  /**
   * Keeps what happens in `unseen` from the replica, kills the primary, and resolves once the
   * Sentinels have promoted the replica.
   */
  readonly failOver: (unseen: () => Promise<void>) => Promise<void>;
  readonly stop: () => Promise<void>;
}

const name = 'strata';
const sentinelCount = 3;

async function asked<T>(port: number, work: (client: Redis) => Promise<T>): Promise<T> {
  const client = new Redis(port, { lazyConnect: true, retryStrategy: () => null });
  client.on('error', () => {});
  await client.connect();
  try {
    return await work(client);
  } finally {
    client.disconnect();
  }
}

const synced = (port: number): Promise<void> =>
  eventually(() =>
    asked(port, async (client) => {
      const info = await client.info('replication');
      if (!info.includes('master_link_status:up')) throw new Error('the replica is not in sync');
    }),
  );

export async function startSentinels(): Promise<Sentinels> {
  const folder = mkdtempSync(join(tmpdir(), 'strata-sentinels-'));
  const primary = await startRedis();
  const replica = await startRedis({ argv: ['--replicaof', '127.0.0.1', String(primary.port)] });
  await synced(replica.port);
  const sentinels: Process[] = [];
  for (let index = 0; index < sentinelCount; index += 1) {
    const port = await freePort();
    const file = join(folder, `${port}.conf`);
    writeFileSync(
      file,
      [
        `sentinel monitor ${name} 127.0.0.1 ${primary.port} 2`,
        `sentinel down-after-milliseconds ${name} 700`,
        `sentinel failover-timeout ${name} 5000`,
        '',
      ].join('\n'),
    );
    sentinels.push(await startRedis({ port, sentinel: file }));
  }
  for (const { port } of sentinels)
    await eventually(() =>
      asked(port, async (client) => {
        const [replicas, others] = [
          await client.call('SENTINEL', 'REPLICAS', name),
          await client.call('SENTINEL', 'SENTINELS', name),
        ] as unknown[][];
        if (replicas!.length !== 1 || others!.length !== sentinelCount - 1)
          throw new Error('a Sentinel does not know all others yet');
      }),
    );
  const link = await startProxy(primary.port);
  return {
    url: `redis://${sentinels.map(({ port }) => `127.0.0.1:${port}`).join(',')}`,
    name,
    primary,
    replica,
    async failOver(unseen) {
      // Sentinels lead it back to the primary itself after some seconds.
      await asked(replica.port, (client) => client.replicaof('127.0.0.1', link.port));
      await synced(replica.port);
      link.hold('back');
      await unseen();
      await primary.stop('SIGKILL');
      link.cut();
      await eventually(() =>
        asked(replica.port, async (client) => {
          if ((await client.role())[0] !== 'master') throw new Error('no one was promoted');
        }),
      );
    },
    async stop() {
      await Promise.all([primary, replica, ...sentinels].map((each) => each.stop('SIGKILL')));
      await link.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Three primaries without replicas, with a third of the slots each. */
export async function startRedisCluster(): Promise<Process[]> {
  const folder = mkdtempSync(join(tmpdir(), 'strata-redis-cluster-'));
  const nodes = await Promise.all(
    [1, 2, 3].map(async (index) =>
      startRedis({
        argv: [
          '--cluster-enabled',
          'yes',
          '--cluster-config-file',
          join(folder, `nodes-${index}.conf`),
          '--cluster-port',
          String(await freePort()),
        ],
      }),
    ),
  );
  const places = nodes.map(({ port }) => `127.0.0.1:${port}`);
  await promisify(execFile)(binary('redis-cli', 'redis-tools'), [
    '--cluster',
    'create',
    ...places,
    '--cluster-yes',
  ]);
  for (const { port } of nodes)
    await eventually(() =>
      asked(port, async (client) => {
        const info = String(await client.call('CLUSTER', 'INFO'));
        if (!info.includes('cluster_state:ok')) throw new Error('the cluster is not ready');
      }),
    );
  return nodes;
}
