/** What operators read about settings is what the table says. */
import { expect, test } from '@jest/globals';
import { parse } from 'dotenv';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse as parseYaml } from 'yaml';
import { pieces } from '../../services/pieces.ts';
import { loadSettings, variableOf } from '../../shared/settings/settings.ts';
import { settingsGroups, settingsTable } from '../../shared/settings/settings-table.ts';
import { renderEnvExample } from './env-example.ts';

const root = join(import.meta.dirname, '../..');
const example = readFileSync(join(root, '.env.example'), 'utf8');

test('.env.example is what `npm run settings` writes from the table', () => {
  expect(example).toBe(renderEnvExample());
});

test('.env.example lists every variable once and, taken as it is, changes nothing', () => {
  const listed = [...example.matchAll(/^#?([A-Z_]+)=/gm)].map(([, variable]) => variable);
  expect(listed).toEqual(Object.keys(settingsTable).map(variableOf));
  expect(loadSettings(parse(example))).toEqual(loadSettings({}));
});

test('no field stands in two groups', () => {
  expect(Object.values(settingsGroups).flatMap((group) => Object.keys(group))).toHaveLength(
    Object.keys(settingsTable).length,
  );
});

/** What docker-compose.yml does not pass on, each with the reason. */
const notOfCompose: Readonly<Record<string, string>> = {
  ENV_FILE: 'a file, which the container would have to have',
  HOST: 'the image listens on every address of its container',
  DATA_DIR: 'of embedded mode',
  NODE_ID: 'each container has its own, of its host name',
  STRATA_OPERATOR: 'of the console',
  STRATA_API_KEY: 'of neighbours',
  NATS_TOKEN: 'NATS is of compose, with a user and a password',
  NATS_TLS_CA: 'the same',
  DATABASE_URL: 'PostgreSQL is of compose, and DB_* take any password',
  DB_PORT: 'that of the image',
  DB_NAME: 'the default, which the image is told',
  DB_USER: 'the same',
  DB_SSL: 'PostgreSQL is of compose',
};

test('docker-compose.yml passes every setting on under its name', () => {
  const text = readFileSync(join(root, 'docker-compose.yml'), 'utf8');
  const { services } = parseYaml(text, { merge: true }) as {
    services: Record<string, { image?: string; environment: Record<string, string | number> }>;
  };
  const ours = Object.values(services).filter(({ image }) => image === 'strata');
  expect(ours.length).toBeGreaterThan(pieces.length);
  const environment = Object.assign({}, ...ours.map((each) => each.environment));
  expect([...Object.keys(environment), ...Object.keys(notOfCompose)].sort()).toEqual(
    Object.keys(settingsTable).map(variableOf).sort(),
  );
  const renamed = Object.entries(environment).filter(([name, value]) => {
    const [, filledIn = name] = /^\$\{([A-Z_]+)/.exec(String(value)) ?? [];
    return filledIn !== name;
  });
  expect(renamed).toEqual([['DB_PASSWORD', '${POSTGRES_PASSWORD:?give POSTGRES_PASSWORD}']]);
});

test('docker-compose.yml has no default within a default, which its version 1 does not fill in', () => {
  const text = readFileSync(join(root, 'docker-compose.yml'), 'utf8');
  expect(text.match(/\$\{[^}]*\$\{.*/g)).toBeNull();
});
