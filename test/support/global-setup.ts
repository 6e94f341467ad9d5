import { chmodSync, existsSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startPostgres, strataDatabase } from './postgres.ts';
import { binary, chromium } from './servers.ts';
import { offerStrata } from './shared-strata.ts';
import { startStrata } from './strata.ts';

/**
 * One PostgreSQL for the run, or the one that TEST_DATABASE_URL names, one place for what Node has
 * compiled, one folder for temporary files, and where each worker gets the Strata that its files
 * share. Workers inherit the addresses and the places.
 */
export default async function setup(): Promise<void> {
  ownTemporaryFolder();
  // Before any test, since an install takes longer than a test may, and two at once would wait for
  // each other.
  for (const program of ['nats-server', 'redis-server', 'openssl', 'nginx']) binary(program);
  chromium();
  for (const [program, debianPackage] of [['faketime'], ['promtool', 'prometheus']] as const)
    installWherePossible(program, debianPackage);
  process.env.NODE_COMPILE_CACHE ??= join(
    import.meta.dirname,
    '../../node_modules/.cache/compiled',
  );
  if (!process.env.TEST_DATABASE_URL) {
    const server = await startPostgres();
    process.env.TEST_DATABASE_URL = server.url;
    (globalThis as { testPostgres?: typeof server }).testPostgres = server;
  }
  if (!existsSync(process.env.NODE_COMPILE_CACHE)) await compile();
  const offered = await offerStrata();
  process.env.TEST_STRATA = offered.url;
  (globalThis as { testStrata?: typeof offered }).testStrata = offered;
}

/**
 * The teardown removes it with what tests leave in it: jest runs no `exit` listener that a test file
 * has added.
 */
function ownTemporaryFolder(): void {
  const folder = mkdtempSync(join(tmpdir(), 'strata-run-'));
  // PostgreSQL, which does not run as root, has its data below.
  chmodSync(folder, 0o755);
  process.env.TMPDIR = folder;
  (globalThis as { testFolder?: string }).testFolder = folder;
}

/** Few tests need it, and say so where it is missing. */
function installWherePossible(program: string, debianPackage = program): void {
  try {
    binary(program, debianPackage);
  } catch {
    // Told by the tests that need it.
  }
}

/**
 * Node keeps what it has compiled when a process ends in order, which those of most tests do not.
 */
async function compile(): Promise<void> {
  const database = await strataDatabase();
  const strata = await startStrata({ DATABASE_URL: database.url });
  await strata.stop();
  await database.drop();
}
