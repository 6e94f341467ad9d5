/** A cluster of real processes over a real bus: gateways, and two of each service. */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createDatabase, startPostgres, type Database, type Server } from './postgres.ts';
import { startProxy, type Proxy } from './proxy.ts';
import { startNats, startRedis, type Process } from './servers.ts';
import {
  adminPassword,
  createTenant,
  secretKey,
  signIn,
  startStrata,
  type Client,
  type Running,
  type TenantFixture,
} from './strata.ts';

export const baseUrl = 'http://strata.test';
const root = fileURLToPath(new URL('../..', import.meta.url));

export interface Cluster {
  readonly gateways: Running[];
  /** config-1, config-2, identity-1, identity-2. */
  readonly services: Running[];
  readonly platform: Client;
  readonly tenant: TenantFixture;
  readonly database: Database;
  /** NATS, which a test may stop and start again on the same port. */
  bus: Process;
  /** The same of Redis. */
  redis: Process;
  readonly postgres: Server;
  /** By name of the node that reaches the bus through it. */
  readonly proxies: Readonly<Record<string, Proxy>>;
  /** Processes that are stopped where they are; a balancer would find them unwell and send no more writes. */
  readonly suspended: Set<Running>;
  readonly environment: Record<string, string>;
  readonly start: (
    name: string,
    pieces: readonly string[],
    own?: Record<string, string>,
  ) => Promise<Running>;
  /** Starts a node that has ended again, under its name and in its place. */
  readonly revive: (node: Running) => Promise<Running>;
  readonly stop: () => Promise<void>;
}

export interface ClusterOptions {
  readonly gateways?: number;
  readonly natsConfig?: string;
  readonly environment?: Record<string, string>;
  /** Nodes whose connection to the bus can be cut. */
  readonly cuttable?: readonly string[];
}

/** Nodes are few processes, each with several pieces, so that two cores carry them; every service runs twice. */
export async function startCluster({
  gateways: count = 3,
  natsConfig,
  environment: extra = {},
  cuttable = [],
}: ClusterOptions = {}): Promise<Cluster> {
  const [postgres, bus, redis] = await Promise.all([
    startPostgres(),
    startNats(natsConfig ? { config: natsConfig } : {}),
    startRedis(),
  ]);
  const proxies = Object.fromEntries(
    await Promise.all(cuttable.map(async (name) => [name, await startProxy(bus.port)] as const)),
  );
  const database = await createDatabase(postgres.url);
  const environment = {
    DATABASE_URL: database.url,
    NATS_URL: bus.url,
    REDIS_URL: redis.url,
    BASE_URL: baseUrl,
    LOG_LEVEL: 'warn',
    DB_POOL_SIZE: '4',
    SECRET_KEY: secretKey,
    ...extra,
  };
  execFileSync(process.execPath, ['strata.ts', '--migrate'], {
    cwd: root,
    env: { PATH: process.env.PATH, ...environment },
  });
  const all = new Map<Running, Parameters<Cluster['start']>>();
  const start: Cluster['start'] = async (name, pieces, own = {}) => {
    const proxy = proxies[name];
    const node = await startStrata(
      {
        ...environment,
        NODE_ID: name,
        ...(proxy ? { NATS_URL: `nats://127.0.0.1:${proxy.port}` } : {}),
        ...own,
      },
      pieces,
    );
    all.set(node, [name, pieces, own]);
    return node;
  };
  const [services, gateways]: [Running[], Running[]] = [[], []];
  const revive = async (node: Running): Promise<Running> => {
    const again = await start(...all.get(node)!);
    all.delete(node);
    for (const list of [services, gateways])
      if (list.includes(node)) list[list.indexOf(node)] = again;
    return again;
  };
  const cluster: Partial<Cluster> & Pick<Cluster, 'bus' | 'redis'> = { bus, redis };
  const stop = async (): Promise<void> => {
    await Promise.all(
      [...all.keys()].map(async ({ pid, stop: end }) => {
        try {
          process.kill(pid, 'SIGCONT');
        } catch {
          /* ended already */
        }
        await end('SIGKILL');
      }),
    );
    await Promise.all([
      cluster.bus.stop('SIGKILL'),
      cluster.redis.stop('SIGKILL'),
      ...Object.values(proxies).map((proxy) => proxy.stop()),
    ]);
    await postgres.stop();
  };
  try {
    services.push(
      ...(await Promise.all(
        ['config-1', 'config-2']
          .map((name) => start(name, ['tenant-config', 'global-config']))
          .concat(
            ['identity-1', 'identity-2'].map((name) =>
              start(name, ['auth', 'audit', 'config-resolver']),
            ),
          ),
      )),
    );
    gateways.push(
      ...(await Promise.all(
        Array.from({ length: count }, (_each, index) => start(`gateway-${index + 1}`, ['gateway'])),
      )),
    );
    const platform = await eventually(() =>
      signIn(gateways[0]!.url, 'admin@example.com', adminPassword),
    );
    const tenant = await eventually(() =>
      createTenant(gateways[0]!.url, platform, `Cluster ${Date.now()}`),
    );
    return Object.assign(cluster, {
      gateways,
      services,
      platform,
      tenant,
      database,
      postgres,
      proxies,
      suspended: new Set(),
      environment,
      start,
      revive,
      stop,
    }) as Cluster;
  } catch (error) {
    await stop();
    throw error;
  }
}

export const isAlive = ({ process: { exitCode, signalCode } }: Running): boolean =>
  exitCode === null && signalCode === null;

/** Tries again until it succeeds: nodes find each other within seconds. */
export async function eventually<T>(work: () => Promise<T>, withinMs = 15_000): Promise<T> {
  const until = Date.now() + withinMs;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (Date.now() > until) throw error;
      await delay(100);
    }
  }
}

export async function killed(node: Running): Promise<void> {
  const ended = once(node.process, 'exit');
  process.kill(node.pid, 'SIGKILL');
  await ended;
}
