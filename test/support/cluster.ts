/** A cluster of real processes over a real bus: gateways, and two of each service. */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createDatabase, startPostgres, type Database, type Server } from './postgres.ts';
import { startNats, startRedis, type Process } from './servers.ts';
import { adminPassword, createTenant, secretKey, signIn, startStrata, type Client, type Running, type TenantFixture } from './strata.ts';

export const baseUrl = 'http://strata.test';
const root = fileURLToPath(new URL('../..', import.meta.url));

export interface Cluster {
  readonly gateways: Running[];
  readonly services: Running[];
  readonly platform: Client;
  readonly tenant: TenantFixture;
  readonly database: Database;
  /** NATS, which a test may stop and start again on the same port. */
  bus: Process;
  readonly postgres: Server;
  readonly environment: Record<string, string>;
  readonly start: (name: string, pieces: readonly string[], own?: Record<string, string>) => Promise<Running>;
  readonly stop: () => Promise<void>;
}

export interface ClusterOptions { readonly gateways?: number; readonly natsConfig?: string; readonly environment?: Record<string, string> }

/** Nodes are few processes, each with several pieces, so that two cores carry them; every service runs twice. */
export async function startCluster({ gateways: count = 3, natsConfig, environment: extra = {} }: ClusterOptions = {}): Promise<Cluster> {
  const [postgres, bus, redis] = await Promise.all([startPostgres(), startNats(natsConfig ? { config: natsConfig } : {}), startRedis()]);
  const database = await createDatabase(postgres.url);
  const environment = {
    DATABASE_URL: database.url, NATS_URL: bus.url, REDIS_URL: redis.url, BASE_URL: baseUrl, LOG_LEVEL: 'warn', DB_POOL_SIZE: '4', SECRET_KEY: secretKey, ...extra,
  };
  execFileSync(process.execPath, ['strata.ts', '--migrate'], { cwd: root, env: { PATH: process.env.PATH, ...environment } });
  const all: Running[] = [];
  const start = async (name: string, pieces: readonly string[], own: Record<string, string> = {}): Promise<Running> => {
    const node = await startStrata({ ...environment, ...own, NODE_ID: name }, pieces);
    all.push(node);
    return node;
  };
  const cluster: Partial<Cluster> & { bus: Process } = { bus };
  const stop = async (): Promise<void> => {
    await Promise.all(all.map(async ({ pid, stop: end }) => {
      try { process.kill(pid, 'SIGCONT'); } catch { /* ended already */ }
      await end('SIGKILL');
    }));
    await Promise.all([cluster.bus.stop('SIGKILL'), redis.stop('SIGKILL')]);
    await postgres.stop();
  };
  try {
    const services = await Promise.all(['config-1', 'config-2'].map((name) => start(name, ['tenant-config', 'global-config']))
      .concat(['identity-1', 'identity-2'].map((name) => start(name, ['auth', 'audit', 'config-resolver']))));
    const gateways = await Promise.all(Array.from({ length: count }, (_each, index) => start(`gateway-${index + 1}`, ['gateway'])));
    const platform = await eventually(() => signIn(gateways[0]!.url, 'admin@example.com', adminPassword));
    const tenant = await eventually(() => createTenant(gateways[0]!.url, platform, `Cluster ${Date.now()}`));
    return Object.assign(cluster, { gateways, services, platform, tenant, database, postgres, environment, start, stop }) as Cluster;
  } catch (error) {
    await stop();
    throw error;
  }
}

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
