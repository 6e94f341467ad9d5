/** What operators read about settings is what the table says. */
import { expect, test } from '@jest/globals';
import { parse } from 'dotenv';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadSettings, variableOf } from '../../shared/settings.ts';
import { settingsGroups, settingsTable } from '../../shared/settings-table.ts';
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

test('only settings.ts reads the environment', () => {
  const sources = globSync(['*.ts', '{shared,services,gateway}/**/*.ts'], { cwd: root });
  expect(sources.length).toBeGreaterThan(20);
  expect(
    sources.filter((file) => /\bprocess\.env\b/.test(readFileSync(join(root, file), 'utf8'))),
  ).toEqual([join('shared', 'settings.ts')]);
});
