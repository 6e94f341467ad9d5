/**
 * A cluster of real processes over a real bus: gateways, and two of each service, several to a
 * process by default.
 */
import { once } from 'node:events';
import { roles } from '../../services/node-roles.ts';
import { eventually } from './eventually.ts';
import {
  createDatabase,
  migrate,
  startPostgres,
  strataDatabase,
  type Database,
  type Server,
} from './postgres.ts';
import { startProxy, type Proxy } from './proxy.ts';
import { startNats, startPgBouncer, startRedis, type Process } from './servers.ts';
import {
  adminPassword,
  createTenant,
  secretKey,
  signIn,
  startProgram,
  startStrata,
  type Client,
  type Running,
  type TenantFixture,
} from './strata.ts';

export { eventually };

export const baseUrl = 'http://strata.test';

/** Starts a node of the cluster; `own` are settings of this node alone. */
export type StartNode = (
  name: string,
  roles: readonly string[],
  own?: Record<string, string>,
) => Promise<Running>;

export interface Cluster {
  readonly gateways: Running[];
  /**
   * config-1, config-2, identity-1, identity-2; of services that are apart, two of each in the
   * order of `roles`.
   */
  readonly services: Running[];
  /** Platform services that read from their own memory, by platform-service.ts. */
  readonly platformServices: Running[];
  readonly platform: Client;
  readonly tenant: TenantFixture;
  readonly database: Database;
  /** NATS. A test may stop it and put another one in its place, on the same port. */
  bus: Process;
  /** The same for Redis. */
  redis: Process;
  readonly postgres: Server;
  /** By name of the node that reaches the bus through it. */
  readonly proxies: Readonly<Record<string, Proxy>>;
  /**
   * Nodes whose processes are stopped where they are. As a balancer would, clients send them no
   * more writes.
   */
  readonly suspended: Set<Running>;
  /** Settings that all nodes share. */
  readonly environment: Record<string, string>;
  readonly start: StartNode;
  /** Starts a node that has ended again, under its name and in its place. */
  readonly revive: (node: Running) => Promise<Running>;
  readonly stop: () => Promise<void>;
}

export interface ClusterOptions {
  readonly gateways?: number;
  /** One platform service, by the name `platform-service`. */
  readonly platformService?: boolean;
  /** One node of each service, where it is not the point that there are two. */
  readonly once?: boolean;
  /** Each service has processes of its own, the notifier too: auth-1, auth-2, and so on. */
  readonly apart?: boolean;
  /**
   * Starts a PostgreSQL of its own, for tests that do something to the server. Others share that of
   * the run.
   */
  readonly postgres?: () => Promise<Server>;
  /** The address of the database that nodes are given, of its own. */
  readonly reachedBy?: (url: string) => string;
  /** A file of further settings of NATS. */
  readonly natsConfig?: string;
  readonly environment?: Record<string, string>;
  /** Nodes whose connection to the bus can be cut. */
  readonly cuttable?: readonly string[];
  /**
   * The folder of the release that a node runs, by its name, asked at each start; this checkout
   * by default.
   */
  readonly folderOf?: (name: string) => string | undefined;
}

/**
 * Few processes with several roles each, so that two cores carry them; every service runs twice.
 */
const serviceRoles: Readonly<Record<string, readonly string[]>> = {
  'config-1': ['tenant-config', 'global-config'],
  'config-2': ['tenant-config', 'global-config'],
  'identity-1': ['auth', 'audit', 'config-resolver'],
  'identity-2': ['auth', 'audit', 'config-resolver'],
};

/** The names of all services, and two nodes of each, which host nothing else. */
export const serviceNames = roles.map(({ name }) => name).filter((name) => name !== 'gateway');
const servicesApart: Readonly<Record<string, readonly string[]>> = Object.fromEntries(
  serviceNames.flatMap((name) => [1, 2].map((number) => [`${name}-${number}`, [name]])),
);

interface Prepared {
  readonly postgres: Server;
  /** With Strata's tables. */
  readonly database: Database;
  readonly stopPostgres: () => Promise<void>;
}

async function ownDatabase(startServer: () => Promise<Server>): Promise<Prepared> {
  const postgres = await startServer();
  const database = await createDatabase(postgres.url);
  await migrate(database.url);
  return { postgres, database, stopPostgres: postgres.stop };
}

/** A program that is no test, such as the soak, has no server to share. */
async function sharedDatabase(): Promise<Prepared> {
  const url = process.env.TEST_DATABASE_URL;
  if (url === undefined) return ownDatabase(startPostgres);
  const database = await strataDatabase();
  const refuse = (): never => {
    throw new Error('other tests use this server: start one for this cluster with `postgres`');
  };
  const postgres: Server = {
    url,
    restart: refuse,
    freeze: refuse,
    setClock: refuse,
    stop: refuse,
  };
  return { postgres, database, stopPostgres: database.drop };
}

/**
 * Starts the servers, the nodes and a tenant with members; stops them all if one does not start.
 */
export async function startCluster({
  gateways: gatewayCount = 3,
  platformService = false,
  once = false,
  apart = false,
  postgres: startServer,
  reachedBy = (url) => url,
  natsConfig,
  environment: extra = {},
  cuttable = [],
  folderOf = () => undefined,
}: ClusterOptions = {}): Promise<Cluster> {
  const [{ postgres, database, stopPostgres }, bus, redis] = await Promise.all([
    startServer ? ownDatabase(startServer) : sharedDatabase(),
    startNats(natsConfig ? { config: natsConfig } : {}),
    startRedis(),
  ]);
  const proxies = Object.fromEntries(
    await Promise.all(cuttable.map(async (name) => [name, await startProxy(bus.port)] as const)),
  );
  // `npm run test:soak -- --pooler`, and any test of a cluster in the same way.
  const pooler =
    process.env.TEST_POOLER === 'true' ? await startPooler(postgres, database, extra) : undefined;
  const address = pooler ? through(pooler, database.url) : reachedBy(database.url);
  const environment = {
    DATABASE_URL: address,
    ...(pooler && { DB_POOLER: 'true' }),
    NATS_URL: bus.url,
    REDIS_URL: redis.url,
    BASE_URL: baseUrl,
    LOG_LEVEL: 'warn',
    DB_POOL_SIZE: '8',
    // However long the tests of a file take.
    ACCESS_TOKEN_TTL_SECONDS: '86400',
    SECRET_KEY: secretKey,
    ...extra,
  };
  /** Every node that was started and not replaced, with what it was started with. */
  const nodes = new Map<Running, Parameters<StartNode>>();
  const gateways: Running[] = [];
  const services: Running[] = [];
  const platformServices: Running[] = [];
  /** What a test may replace; `stop` ends whatever is there then. */
  const servers = { bus, redis };

  const environmentOf = (name: string): Record<string, string> => {
    const proxy = proxies[name];
    const throughProxy = proxy ? { NATS_URL: `nats://127.0.0.1:${proxy.port}` } : {};
    return { ...environment, NODE_ID: name, ...throughProxy };
  };
  const start: StartNode = async (name, roles, own = {}) => {
    const folder = folderOf(name);
    const startedBy = folder === undefined ? {} : { folder };
    const node = await startStrata({ ...environmentOf(name), ...own }, roles, startedBy);
    nodes.set(node, [name, roles, own]);
    return node;
  };
  const revive = async (node: Running): Promise<Running> => {
    const again = await start(...nodes.get(node)!);
    nodes.delete(node);
    for (const list of [services, gateways]) {
      const place = list.indexOf(node);
      if (place !== -1) list[place] = again;
    }
    return again;
  };
  const stop = async (): Promise<void> => {
    await Promise.all([...nodes.keys(), ...platformServices].map(endNode));
    await Promise.all([
      servers.bus.stop('SIGKILL'),
      servers.redis.stop('SIGKILL'),
      ...Object.values(proxies).map((proxy) => proxy.stop()),
    ]);
    await pooler?.stop();
    await stopPostgres();
  };

  /**
   * As whoever runs it would: a node ends whose database or bus does not answer in time, as on a
   * busy machine.
   */
  const startInTheEnd: StartNode = (...node) => eventually(() => start(...node), 120_000);

  try {
    const startServices = Object.entries(apart ? servicesApart : serviceRoles)
      .filter(([name]) => !once || name.endsWith('-1'))
      .map(([name, hosted]) => startInTheEnd(name, hosted));
    services.push(...(await Promise.all(startServices)));
    const startGateways = Array.from({ length: gatewayCount }, (_each, index) =>
      startInTheEnd(`gateway-${index + 1}`, ['gateway']),
    );
    gateways.push(...(await Promise.all(startGateways)));
    if (platformService) {
      const own = environmentOf('platform-service');
      platformServices.push(await startProgram('test/support/platform-service.ts', own));
    }
    const { url } = gateways[0]!;
    const platform = await eventually(() => signIn(url, 'admin@example.com', adminPassword));
    const tenant = await eventually(() => createTenant(url, platform, `Cluster ${Date.now()}`));
    return Object.assign(servers, {
      gateways,
      services,
      platformServices,
      platform,
      tenant,
      database,
      postgres,
      proxies,
      suspended: new Set<Running>(),
      environment,
      start,
      revive,
      stop,
    });
  } catch (error) {
    await stop();
    throw error;
  }
}

/**
 * PgBouncer in transaction mode before a server, whose role has the time-outs that nodes want: those
 * of a database are gone where it is restored as another one.
 */
async function startPooler(
  { url }: Server,
  database: Database,
  { REQUEST_TIMEOUT_MS: timeoutMs }: Record<string, string>,
): Promise<Process> {
  // Only here: nearly every test loads this file, and the settings load Moleculer.
  const [{ serverTimeouts }, { loadSettings }] = await Promise.all([
    import('../../shared/database/pooler.ts'),
    import('../../shared/settings/settings.ts'),
  ]);
  const timeouts = serverTimeouts(Number(timeoutMs ?? loadSettings({}).request_timeout_ms));
  for (const [timeout, ms] of Object.entries(timeouts))
    await database.query(`ALTER ROLE CURRENT_USER SET ${timeout} = ${ms}`);
  return startPgBouncer(url);
}

const through = (pooler: Process, url: string): string =>
  url.replace(new URL(url).host, new URL(pooler.url).host);

/** Also where its process is stopped by a signal, or has ended already. */
async function endNode({ pid, stop }: Running): Promise<void> {
  try {
    process.kill(pid, 'SIGCONT');
  } catch {
    // It has ended already.
  }
  await stop('SIGKILL');
}

export const isAlive = ({ process: { exitCode, signalCode } }: Running): boolean =>
  exitCode === null && signalCode === null;

/** A metric of the node that the client, an operator's, asks. */
export async function metricOf(client: Client, name: string): Promise<number> {
  const { text } = await client.get('/metrics');
  return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)![1]);
}

/**
 * Until the node that the client asks has been answered a poll of the feed that began after this.
 */
export async function polledAgain(client: Client): Promise<void> {
  const polls = () => metricOf(client, 'strata_coherence_polls_total');
  // The first of two may have begun before.
  const enough = (await polls()) + 2;
  await eventually(async () => {
    const now = await polls();
    if (now < enough) throw new Error(`${now} of ${enough} polls have been answered`);
  });
}

/**
 * Kills the node and waits until its process is gone. Throws with what it said if it has ended by
 * itself.
 */
export async function killed(node: Running): Promise<void> {
  if (!isAlive(node)) throw new Error(`A node has ended by itself:\n${node.output().slice(-5000)}`);
  const ended = once(node.process, 'exit');
  process.kill(node.pid, 'SIGKILL');
  await ended;
}
