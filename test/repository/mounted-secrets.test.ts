/**
 * Each container that we ship has the secrets that its role reads, and no other: what breaks into
 * a gateway finds neither the database's password nor that of mail. Who reads what is taken from
 * the sources.
 */
import { expect, test } from '@jest/globals';
import { globSync, readFileSync } from 'node:fs';
import { join, sep } from 'node:path';
import { parse, parseAllDocuments } from 'yaml';
import { roles, type NodeRole } from '../../services/node-roles.ts';
import { settingsTable, type Row } from '../../shared/settings/settings-table.ts';
import { variableOf } from '../../shared/settings/settings.ts';

const root = join(import.meta.dirname, '../..');
const textOf = (path: string): string => readFileSync(join(root, path), 'utf8');
const migrate = 'migrate';
const nodes = roles.map(({ name }) => name);
const needing = (need: NodeRole['needs'][number]): string[] =>
  roles.filter(({ needs }) => needs.includes(need)).map(({ name }) => name);

/** The roles whose code takes a part that a process hands to its services. */
const taking = (part: string): string[] =>
  nodes.filter((name) =>
    globSync(`services/${name}/**/*.ts`, { cwd: root }).some((path) =>
      new RegExp(`\\b${part}\\b`).test(textOf(path)),
    ),
  );

/** Whoever runs the code of a file that several roles share. No one: it keeps secrets, or hides them. */
const runBy: Readonly<Record<string, readonly string[]>> = {
  'shared/settings/settings.ts': [],
  'shared/settings/settings-table.ts': [],
  'shared/settings/live-settings.ts': [],
  'shared/telemetry/log.ts': [],
  'shared/security/secret-key-file.ts': [],
  'shared/bus/neighbour.ts': [],
  'shared/bus/bus.ts': nodes,
  'shared/security/derived-keys.ts': nodes,
  'shared/security/api-keys.ts': ['auth', 'gateway'],
  'shared/concurrency/redis.ts': needing('redis_url'),
  'shared/database/node-database.ts': needing('database_url'),
  'shared/mail/mailer.ts': taking('mailer'),
  'services/node-roles.ts': [],
};
/** What start.ts hands on: to migrations, and to the roles that need it. */
const handedOn: Readonly<Record<string, readonly string[]>> = {
  database_url: [migrate],
  redis_url: needing('redis_url'),
  redis_password: needing('redis_url'),
};
/** Read where settings.ts makes the address of DB_* up. */
const partOf: Readonly<Record<string, string>> = { db_password: 'database_url' };
/** No settings are valid with a database and without it. */
const asked: Readonly<Record<string, readonly string[]>> = { secret_key: [migrate] };

const sources = globSync(['{shared,services,gateway}/**/*.ts', 'start.ts'], { cwd: root })
  // The operator's shell, which no container runs.
  .filter((path) => !path.startsWith(join('gateway', 'repl')))
  .map((path) => ({ path: path.split(sep).join('/'), text: textOf(path) }));

function readersOf(field: string): Set<string> {
  const word = new RegExp(`\\b${partOf[field] ?? field}\\b`);
  const found = sources.filter(({ text }) => word.test(text));
  const readers = found.flatMap(({ path }) => {
    if (path === 'start.ts') return handedOn[partOf[field] ?? field] ?? [];
    if (runBy[path]) return runBy[path];
    const [folder, name = ''] = path.split('/');
    if (folder === 'gateway') return ['gateway'];
    if (folder === 'services' && nodes.includes(name)) return [name];
    throw new Error(`${path} reads ${field}: say in this test which pieces run it`);
  });
  return new Set([...readers, ...(asked[field] ?? [])]);
}

/** What is an address, and has its secret beside it. */
const addresses = ['nats_url', 'redis_url'];
const secretFields = Object.entries<Row>(settingsTable)
  .filter(([field, { secret }]) => secret && !addresses.includes(field))
  .map(([field]) => field);

/** The secrets of each container, in the order of the table, without those that none of them has. */
function compare(given: ReadonlyMap<string, readonly string[]>): void {
  const everywhere = new Set([...given.values()].flat());
  const shipped = secretFields.filter((field) => everywhere.has(variableOf(field)));
  const wanted = [...given.keys()].map((name) => [
    name,
    shipped.filter((field) => readersOf(field).has(name)).map(variableOf),
  ]);
  const has = [...given].map(([name, names]) => [
    name,
    secretFields.map(variableOf).filter((each) => names.includes(each)),
  ]);
  expect([...given.keys()].sort()).toEqual([...nodes, migrate].sort());
  expect(Object.fromEntries(has)).toEqual(Object.fromEntries(wanted));
}

/** Of one secret two settings are ways to give it. */
const unused: Readonly<Record<string, readonly string[]>> = {
  compose: [
    'database_url',
    'nats_nkey_seed',
    'nats_token',
    'redis_sentinel_password',
    'strata_api_key',
  ],
  kubernetes: ['db_password', 'nats_token', 'strata_api_key'],
};

test('the containers of docker-compose.yml have the secrets that their pieces read, and no other', () => {
  const { services } = parse(textOf('docker-compose.yml'), { merge: true }) as {
    services: Record<string, { image?: string; environment: Record<string, string> }>;
  };
  const ours = Object.entries(services).filter(([, { image }]) => image === 'strata');
  const given = ours.map(([name, each]) => [name, Object.keys(each.environment)] as const);
  compare(new Map(given));
  const absent = secretFields.filter((field) =>
    given.every(([, names]) => !names.includes(variableOf(field))),
  );
  expect(absent.sort()).toEqual(unused.compose);
});

test('the pods of deploy/kubernetes have the secrets that their pieces read, and no other', () => {
  const given = globSync('deploy/kubernetes/base/*.yaml', { cwd: root }).flatMap((path) =>
    parseAllDocuments(textOf(path))
      .map((document) => document.toJS())
      .filter(({ kind }) => kind === 'Deployment' || kind === 'Job')
      .map(({ metadata, spec }): [string, string[]] => [
        metadata.name,
        spec.template.spec.containers.flatMap(
          ({ env }: { env: { name: string; valueFrom: { secretKeyRef?: object } }[] }) =>
            env.filter(({ valueFrom }) => valueFrom.secretKeyRef).map(({ name }) => name),
        ),
      ]),
  );
  compare(new Map(given));
  const absent = secretFields.filter((field) =>
    given.every(([, names]) => !names.includes(variableOf(field))),
  );
  expect(absent.sort()).toEqual(unused.kubernetes);
});
