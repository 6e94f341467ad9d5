/**
 * docker-compose.yml as it is written: the same processes with the same environment, on servers of
 * this machine instead of containers.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { execFile, execFileSync } from 'node:child_process';
import { Redis } from 'ioredis';
import { connect } from 'nats';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { parse } from 'yaml';
import { roles } from '../../services/node-roles.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import { eventually } from '../support/cluster.ts';
import { createDatabase, type Database } from '../support/postgres.ts';
import { startNameServer } from '../support/name-server.ts';
import {
  freePort,
  inherited,
  startNats,
  startNginx,
  startRedis,
  type Process,
} from '../support/servers.ts';
import { Client, signIn, startStrata, type Running } from '../support/strata.ts';

interface Container {
  image?: string;
  command?: string[];
  environment?: Record<string, string>;
  deploy?: { replicas: number };
  volumes?: string[];
  healthcheck?: { test: string[] };
}

const root = join(import.meta.dirname, '../..');
/** What whoever runs compose gives it. */
const operator: Record<string, string> = {
  // With what addresses would have to escape.
  POSTGRES_PASSWORD: 'p@ss:w/rd?#%41',
  NATS_PASSWORD: 'nats@of/compose',
  REDIS_PASSWORD: 'redis@of/compose?#%41',
  SECRET_KEY: 'a-key-for-compose-of-at-least-thirty-two-bytes',
  PLATFORM_ADMIN_EMAILS: 'ops@example.com',
  PLATFORM_ADMIN_PASSWORD: 'a-long-first-password',
  PORT: '9000',
};
/** `${NAME:-default}` and `${NAME:?message}`, as compose fills them in. */
function filledIn(_key: unknown, value: unknown): unknown {
  if (typeof value !== 'string') return value;
  const variable = /\$\{([A-Z_]+):([-?])([^}]*)\}/g;
  return value.replaceAll(variable, (_all, name: string, sign: string, rest: string) => {
    if (sign === '?' && !operator[name]) throw new Error(`docker-compose.yml wants ${name}`);
    return operator[name] ?? rest;
  });
}
const { services } = parse(readFileSync(join(root, 'docker-compose.yml'), 'utf8'), filledIn, {
  merge: true,
}) as { services: Record<string, Container> };
const ours = Object.entries(services).filter(([, { image }]) => image === 'strata');
/** The environment that the image brings. */
const image = Object.fromEntries(
  [...readFileSync(join(root, 'Dockerfile'), 'utf8').matchAll(/^ENV (.+)$/gm)].flatMap(([, line]) =>
    line!.split(' ').map((pair) => pair.split('=')),
  ),
);

let database: Database;
/** A user of the database with the password of compose. */
const role = `compose_${process.pid}`;
let [nats, redis]: Process[] = [];
interface ComposedNode {
  readonly role: string;
  readonly running: Running;
  readonly metricsPort: number;
  /** The command of its health check. */
  readonly check: readonly string[];
}
const nodes: ComposedNode[] = [];
/** Those whose second node a test asks for something. */
const twoStarted = ['gateway', 'global-config'];
const nodesOf = (wanted: string): ComposedNode[] => nodes.filter(({ role }) => role === wanted);
async function metricsOf({ metricsPort }: ComposedNode): Promise<string> {
  const response = await fetch(`http://127.0.0.1:${metricsPort}/metrics`);
  return response.text();
}

/** As a node that is given this takes it, with the environment of its image. */
const baseUrlOf = (environment: Readonly<Record<string, unknown>>): string => {
  const { BASE_URL, PORT } = environment;
  return loadSettings({ ...image, BASE_URL: String(BASE_URL), PORT: String(PORT) }).base_url;
};

/** The front of compose, asking this name server, with the gateways on this port. */
async function startFront(nameServerPort: number, gatewayPort: string): Promise<Process> {
  const port = await freePort();
  const { environment, volumes } = services.front!;
  expect(environment).toEqual({ PORT: operator.PORT });
  const [file] = volumes![0]!.split(':');
  const server = readFileSync(join(root, file!), 'utf8')
    .replace('127.0.0.11', `127.0.0.1:${nameServerPort}`)
    .replace('listen 80;', `listen 127.0.0.1:${port};`)
    .replaceAll('${PORT}', gatewayPort);
  return startNginx(port, server);
}

/** Container names become addresses of this machine; everything else stays as it is written. */
function environmentOf(
  { environment = {} }: Container,
  metricsPort: number,
): Record<string, string> {
  const here: Record<string, string> = {
    'nats://nats:4222': nats!.url,
    'redis://redis:6379': redis!.url,
  };
  const mapped = Object.entries(environment).map(
    ([name, value]) => [name, here[value] ?? String(value)] as const,
  );
  const { hostname, port, pathname } = new URL(database.url);
  const server = { DB_HOST: hostname, DB_PORT: port, DB_NAME: pathname.slice(1), DB_USER: role };
  return {
    ...image,
    ...Object.fromEntries(mapped),
    ...server,
    // That of the port in front; here each gateway listens on a port of its own.
    BASE_URL: baseUrlOf(environment),
    PORT: '0',
    METRICS_PORT: String(metricsPort),
  };
}

beforeAll(async () => {
  const [, ...redisArguments] = services.redis!.command!;
  [database, nats, redis] = await Promise.all([
    createDatabase(),
    startNats({ argv: services.nats!.command! }),
    startRedis({ argv: redisArguments }),
  ]);
  await database.query(`CREATE ROLE ${role} LOGIN PASSWORD '${operator.POSTGRES_PASSWORD}'`);
  const name = new URL(database.url).pathname.slice(1);
  await database.query(`ALTER DATABASE ${name} OWNER TO ${role}`);
  const migrate = services.migrate!;
  execFileSync(process.execPath, ['strata.ts', ...migrate.command!], {
    cwd: root,
    env: { ...inherited(), ...environmentOf(migrate, 0) },
  });
  // Of most roles one, since both are made of the same lines.
  const replicas = ours
    .filter(([name]) => name !== 'migrate')
    .flatMap(([name, container]) =>
      Array.from({ length: twoStarted.includes(name) ? 2 : 1 }, () => [name, container] as const),
    );
  await Promise.all(
    replicas.map(async ([name, container]) => {
      const port = await freePort();
      const check = container.healthcheck!.test.map((word) =>
        word.replaceAll(String(container.environment!.METRICS_PORT), String(port)),
      );
      nodes.push({
        role: name,
        running: await startStrata(environmentOf(container, port), container.command!),
        metricsPort: port,
        check,
      });
    }),
  );
});
afterAll(async () => {
  await Promise.all(nodes.map(({ running }) => running.stop('SIGKILL')));
  await Promise.all([nats?.stop('SIGKILL'), redis?.stop('SIGKILL')]);
  await database?.drop();
  const other = await createDatabase();
  await other.query(`DROP ROLE IF EXISTS ${role}`);
  await other.drop();
});

test('every piece runs twice, and nothing else is made of the image', () => {
  const replicas = ours
    .filter(([name]) => name !== 'migrate')
    .map(([name, { deploy }]) => [name, deploy?.replicas] as const);
  const twice = roles.map(({ name }) => [name, 2] as const);
  expect(Object.fromEntries(replicas)).toEqual(Object.fromEntries(twice));
  for (const [name, { command }] of ours)
    expect(command).toEqual([name === 'migrate' ? '--migrate' : name]);
});

test('NATS and Redis ask for the passwords, and Redis does so for its own health check', async () => {
  await expect(connect({ servers: nats!.url })).rejects.toThrow(/authorization/i);
  const stranger = new Redis(redis!.url, { lazyConnect: true, retryStrategy: null });
  stranger.on('error', () => {});
  await expect(stranger.ping()).rejects.toThrow('NOAUTH');
  stranger.disconnect();
  expect(services.redis!.environment).toEqual({ REDISCLI_AUTH: operator.REDIS_PASSWORD });
});

test('the health check of every container passes', async () => {
  for (const {
    check: [kind, program, ...argv],
  } of nodes) {
    expect([kind, program]).toEqual(['CMD', 'node']);
    await eventually(() => promisify(execFile)(process.execPath, argv));
  }
});

test('every container reaches what it needs, with the passwords: none is degraded', async () => {
  for (const { role, metricsPort } of nodes) {
    const status = new Client(`http://127.0.0.1:${metricsPort}`);
    await eventually(async () =>
      expect([role, (await status.get('/readyz')).body]).toMatchObject([role, { status: 'ready' }]),
    );
  }
});

test('the address that clients use follows the port, on every node', async () => {
  for (const [, { environment = {} }] of ours)
    expect(baseUrlOf(environment)).toBe('http://localhost:9000');
  expect(baseUrlOf({ BASE_URL: 'https://strata.example', PORT: '9000' })).toBe(
    'https://strata.example',
  );
  const [gateway] = nodesOf('gateway');
  const described = await new Client(gateway!.running.url.replace('0.0.0.0', '127.0.0.1')).get(
    '/openapi.json',
  );
  expect(described.body.servers).toEqual([{ url: 'http://localhost:9000' }]);
});

/** Of a path that is sent as it is written: fetch would tidy it. */
async function bareStatus(url: string, path: string): Promise<number | undefined> {
  const { hostname, port } = new URL(url);
  const request = http.get({ hostname, port, path, agent: false });
  const [response] = (await once(request, 'response')) as [http.IncomingMessage];
  response.resume();
  return response.statusCode;
}

test('nginx in front starts before gateways have addresses, and finds them again when they change', async () => {
  const [gateway] = nodesOf('gateway');
  const names = await startNameServer();
  const front = await startFront(names.port, new URL(gateway!.running.url).port);
  const health = async (): Promise<number> => (await new Client(front.url).get('/healthz')).status;
  try {
    expect(await health()).toBe(502);
    // Nothing listens at the first.
    names.answer(['127.0.0.2', '127.0.0.1']);
    await eventually(async () => expect(await health()).toBe(200));
    names.answer([]);
    await eventually(async () => expect(await health()).toBe(502));
    names.answer(['127.0.0.1']);
    await eventually(async () => expect(await health()).toBe(200));
    for (const path of ['/metrics', '/metrics/', '/%6detrics', '//metrics', '/x/../readyz?a=1'])
      expect([path, await bareStatus(front.url, path)]).toEqual([path, 404]);
  } finally {
    await front.stop('SIGKILL');
    names.stop();
  }
});

test('what is written through one gateway is read through the other, and a service tells its figures', async () => {
  const [one, other] = nodesOf('gateway').map(({ running }) =>
    running.url.replace('0.0.0.0', '127.0.0.1'),
  );
  const platform = await eventually(() =>
    signIn(one!, operator.PLATFORM_ADMIN_EMAILS!, operator.PLATFORM_ADMIN_PASSWORD!),
  );
  const entry = { config_value: 'hello', is_public: true };
  const written = await platform.put('/config/global/greeting', entry);
  expect(written.status).toBe(201);
  const read = await new Client(other!, platform.token).get('/config/global/greeting');
  expect(read.body.config_value).toBe('hello');

  const measured = await Promise.all(nodesOf('global-config').map(metricsOf));
  const acknowledged = measured.map((text) =>
    Number(/^strata_acknowledgement_seconds_count (\d+)$/m.exec(text)?.[1]),
  );
  expect(acknowledged.reduce((sum, count) => sum + count)).toBe(1);
  for (const text of measured) {
    expect(text).toMatch(/^strata_bus_connected 1$/m);
    expect(text).toMatch(/^strata_outbox_events \d+$/m);
  }
});
