/**
 * docker-compose.yml as it is written: the same processes with the same environment, on servers of
 * this machine instead of containers.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { execFile, execFileSync } from 'node:child_process';
import { Redis } from 'ioredis';
import { connect } from 'nats';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { parse } from 'yaml';
import { pieces } from '../../services/pieces.ts';
import { eventually } from '../support/cluster.ts';
import { createDatabase, type Database } from '../support/postgres.ts';
import { freePort, startNats, startRedis, type Process } from '../support/servers.ts';
import { Client, signIn, startStrata, type Running } from '../support/strata.ts';

interface Container {
  image?: string;
  command?: string[];
  environment?: Record<string, string>;
  deploy?: { replicas: number };
  healthcheck?: { test: string[] };
}

const root = join(import.meta.dirname, '../..');
/** What whoever runs compose gives it. */
const operator: Record<string, string> = {
  POSTGRES_PASSWORD: 'compose',
  NATS_PASSWORD: 'nats-of-compose',
  REDIS_PASSWORD: 'redis-of-compose',
  SECRET_KEY: 'a-key-for-compose-of-at-least-thirty-two-bytes',
  PLATFORM_ADMIN_EMAILS: 'ops@example.com',
  PLATFORM_ADMIN_PASSWORD: 'a-long-first-password',
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
let [nats, redis]: Process[] = [];
interface ComposedNode {
  readonly piece: string;
  readonly running: Running;
  readonly metricsPort: number;
  /** The command of its health check. */
  readonly check: readonly string[];
}
const nodes: ComposedNode[] = [];
const nodesOf = (wanted: string): ComposedNode[] => nodes.filter(({ piece }) => piece === wanted);
async function metricsOf({ metricsPort }: ComposedNode): Promise<string> {
  const response = await fetch(`http://127.0.0.1:${metricsPort}/metrics`);
  return response.text();
}

/** Container names become addresses of this machine; everything else stays as it is written. */
function environmentOf(
  { environment = {} }: Container,
  metricsPort: number,
): Record<string, string> {
  const here: Record<string, string> = {
    'nats://nats:4222': nats!.url,
    'redis://:redis-of-compose@redis:6379': redis!.url.replace('//', '//:redis-of-compose@'),
    'postgres://strata:compose@postgres:5432/strata': database.url,
  };
  const mapped = Object.entries(environment).map(
    ([name, value]) => [name, here[value] ?? String(value)] as const,
  );
  return { ...image, ...Object.fromEntries(mapped), PORT: '0', METRICS_PORT: String(metricsPort) };
}

beforeAll(async () => {
  const [, ...redisArguments] = services.redis!.command!;
  [database, nats, redis] = await Promise.all([
    createDatabase(),
    startNats({ argv: services.nats!.command! }),
    startRedis({ argv: redisArguments }),
  ]);
  const migrate = services.migrate!;
  execFileSync(process.execPath, ['strata.ts', ...migrate.command!], {
    cwd: root,
    env: { PATH: process.env.PATH, ...environmentOf(migrate, 0) },
  });
  const replicas = ours
    .filter(([name]) => name !== 'migrate')
    .flatMap(([name, container]) =>
      Array.from({ length: container.deploy!.replicas }, () => [name, container] as const),
    );
  await Promise.all(
    replicas.map(async ([name, container]) => {
      const port = await freePort();
      const check = container.healthcheck!.test.map((word) =>
        word.replaceAll(String(container.environment!.METRICS_PORT), String(port)),
      );
      nodes.push({
        piece: name,
        running: await startStrata(environmentOf(container, port), container.command!),
        metricsPort: port,
        check,
      });
    }),
  );
}, 180_000);
afterAll(async () => {
  await Promise.all(nodes.map(({ running }) => running.stop('SIGKILL')));
  await Promise.all([nats?.stop('SIGKILL'), redis?.stop('SIGKILL')]);
  await database?.drop();
}, 60_000);

test('every piece runs twice, and nothing else is made of the image', () => {
  const twice = pieces.flatMap(({ name }) => [name, name]);
  expect(nodes.map(({ piece }) => piece).sort()).toEqual(twice.sort());
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

  const figures = await Promise.all(nodesOf('global-config').map(metricsOf));
  const acknowledged = figures.map((text) =>
    Number(/^strata_acknowledgement_seconds_count (\d+)$/m.exec(text)?.[1]),
  );
  expect(acknowledged.reduce((sum, count) => sum + count)).toBe(1);
  for (const text of figures) {
    expect(text).toMatch(/^strata_bus\{figure="connected"\} 1$/m);
    expect(text).toMatch(/^strata_outbox_events \d+$/m);
  }
});
