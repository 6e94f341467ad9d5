/**
 * Migrations and entities describe the same columns and primary keys: what the mapper would still
 * change of them is nothing. Indexes and constraints are the migrations' alone, so that it would
 * drop them: a list has them. What grows in the tables is said.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { roles } from '../../services/node-roles.ts';
import { migrate, openDatabase, type DatabaseOptions } from '../../shared/database/open.ts';
import { commitSchema } from '../../shared/commits/schema.ts';
import { createDatabase, type Database } from '../support/postgres.ts';

const code = await Promise.all(roles.map(({ load }) => load?.()));
const schemas = [commitSchema, ...code.flatMap((each) => each?.schema ?? [])];
let database: Database;
let options: DatabaseOptions;
beforeAll(async () => {
  database = await createDatabase();
  options = { url: database.url, poolSize: 2, timeoutMs: 10_000, ssl: false };
  await migrate(options, schemas);
});
afterAll(() => database?.drop());

test.each(schemas.filter(({ entities }) => entities.length > 0))('$schema', async (schema) => {
  const source = await openDatabase(options, schema);
  try {
    const { upQueries } = await source.driver.createSchemaBuilder().log();
    const changes = upQueries
      .map(({ query }) => query)
      .filter((query) => !/^DROP INDEX |^ALTER TABLE \S+ DROP CONSTRAINT /.test(query));
    expect(changes).toEqual([]);
  } finally {
    await source.destroy();
  }
});

// Where one is meant to come or to go, Jest writes the list with `-u`.
test('indexes, constraints, statistics and triggers are those of the list', async () => {
  const found = await database.query<{ definition: string }>(
    `SELECT definition FROM (
       SELECT relnamespace AS schema, relname AS of, pg_get_indexdef(indexrelid) AS definition
       FROM pg_index JOIN pg_class ON pg_class.oid = indrelid
       UNION ALL
       SELECT connamespace, relname, relname || ': ' || pg_get_constraintdef(c.oid)
       FROM pg_constraint c JOIN pg_class ON pg_class.oid = conrelid WHERE contype IN ('c', 'f', 'x')
       UNION ALL
       SELECT stxnamespace, relname, pg_get_statisticsobjdef(s.oid)
       FROM pg_statistic_ext s JOIN pg_class ON pg_class.oid = stxrelid
       UNION ALL
       SELECT relnamespace, relname, pg_get_triggerdef(t.oid)
       FROM pg_trigger t JOIN pg_class ON pg_class.oid = tgrelid WHERE NOT tgisinternal
     ) AS found
     WHERE schema::regnamespace::text = ANY ($1) AND of <> 'migrations'
     ORDER BY schema::regnamespace::text, of COLLATE "C", definition COLLATE "C"`,
    [schemas.map(({ schema }) => schema)],
  );
  expect(found.map(({ definition }) => definition).join('\n')).toMatchSnapshot();
});

test('migrating again changes nothing, also from two processes at once', async () => {
  expect(await migrate(options, schemas)).toEqual([]);
  const second = await createDatabase();
  try {
    const applied = await Promise.all(
      [1, 2].map(() => migrate({ ...options, url: second.url }, schemas)),
    );
    expect(applied.map(({ length }) => length).sort()).toEqual([
      0,
      schemas.flatMap(({ migrations }) => migrations).length,
    ]);
  } finally {
    await second.drop();
  }
});

test('docs/operations/retention.md says of every table who removes its rows', async () => {
  const page = readFileSync(
    join(import.meta.dirname, '../../docs/operations/retention.md'),
    'utf8',
  );
  const [, section = ''] = /^## What grows$([^]*?)^## /m.exec(page) ?? [];
  const tables = await database.query<{ name: string }>(
    `SELECT table_schema || '.' || table_name AS name FROM information_schema.tables
     WHERE table_schema = ANY ($1) AND table_name <> 'migrations' ORDER BY name`,
    [schemas.map(({ schema }) => schema)],
  );
  expect(tables.length).toBeGreaterThan(20);
  expect(tables.map(({ name }) => name).filter((name) => !section.includes(`\`${name}\``))).toEqual(
    [],
  );
});

test('audit events can be neither changed nor removed', async () => {
  for (const statement of [
    "UPDATE audit.events SET action = 'x'",
    'DELETE FROM audit.events',
    'TRUNCATE audit.events',
  ]) {
    await expect(database.query(statement)).rejects.toThrow('append-only');
  }
});
