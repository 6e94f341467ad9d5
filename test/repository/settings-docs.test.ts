/** What operators read about settings is what the table says. */
import { expect, test } from '@jest/globals';
import { parse } from 'dotenv';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse as parseYaml } from 'yaml';
import { roles } from '../../services/node-roles.ts';
import { loadSettings, variableOf } from '../../shared/settings/settings.ts';
import { settingsGroups, settingsTable } from '../../shared/settings/settings-table.ts';
import {
  notOfCompose,
  renderEnumerated,
  renderEnvExample,
  renderKnownValues,
  withEverySetting,
} from './derived-files.ts';

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

test('the client knows the values and states that the contracts name', () => {
  const known = readFileSync(join(root, 'client/source/known-values.ts'), 'utf8');
  expect(known).toBe(renderKnownValues());
});

test('the console offers the states, channels and levels that the contracts enumerate', () => {
  const known = readFileSync(join(root, 'console/known-values.ts'), 'utf8');
  expect(known).toBe(renderEnumerated());
});

test('a setting that docker-compose.yml lacks gets a line after the setting before it', () => {
  const compose = readFileSync(join(root, 'docker-compose.yml'), 'utf8');
  expect(withEverySetting(compose)).toBe(compose);
  const line = '  DB_POOL_SIZE: ${DB_POOL_SIZE:-}\n';
  const restored = withEverySetting(compose.replace(line, ''));
  expect(restored.split('\n').sort()).toEqual(compose.split('\n').sort());
});

test('docker-compose.yml passes every setting on under its name', () => {
  const text = readFileSync(join(root, 'docker-compose.yml'), 'utf8');
  const { services } = parseYaml(text, { merge: true }) as {
    services: Record<string, { image?: string; environment: Record<string, string | number> }>;
  };
  const ours = Object.values(services).filter(({ image }) => image === 'strata');
  expect(ours.length).toBeGreaterThan(roles.length);
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

test('docs/capacity.md counts the connections of PostgreSQL, which docker-compose.yml has', () => {
  const { default: ofNode } = settingsGroups['Bus, database and shared state'].db_pool_size;
  const withTables = roles.filter(({ hasTables }) => hasTables).length;
  const page = readFileSync(join(root, 'docs/capacity.md'), 'utf8').replaceAll(/ +/g, ' ');
  const forFeed = 3;
  const ofService = 10;
  const part = Math.min(ofService, Math.floor((ofNode - forFeed) / withTables));
  const together = forFeed + withTables * part;
  const alone = Math.min(ofNode, forFeed + ofService);
  const counted = [
    ['everything in one process', 1, together],
    ['two nodes of each role', 2 * withTables, alone],
    ['the same, while one more of each replaces them', 3 * withTables, alone],
  ] as const;
  expect(page).toContain(`(${ofNode}) of them at most`);
  for (const [what, nodes, each] of counted)
    expect(page).toContain(`| ${what} | ${nodes} | ${nodes * each} |`);
  const compose = readFileSync(join(root, 'docker-compose.yml'), 'utf8');
  const [, most] = /max_connections=(\d+)/.exec(compose)!;
  expect(Number(most)).toBeGreaterThan(3 * withTables * alone);
});

test('docker-compose.yml has no default within a default, which its version 1 does not fill in', () => {
  const text = readFileSync(join(root, 'docker-compose.yml'), 'utf8');
  expect(text.match(/\$\{[^}]*\$\{.*/g)).toBeNull();
});
