/**
 * The code generators, installed from the lock file in generators/ when they are first needed,
 * apart from the checkout's packages.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const files = join(import.meta.dirname, 'generators');
const cache = join(import.meta.dirname, '../../node_modules/.cache');

/** A folder with their packages, one for each state of the lock file. */
export async function installedGenerators(): Promise<string> {
  const lockFile = readFileSync(join(files, 'package-lock.json'));
  const digest = createHash('sha256').update(lockFile).digest('hex').slice(0, 12);
  const folder = join(cache, `generators-${digest}`);
  if (existsSync(folder)) return folder;
  const unfinished = join(cache, `generators-${process.pid}`);
  rmSync(unfinished, { recursive: true, force: true });
  mkdirSync(unfinished, { recursive: true });
  for (const file of ['package.json', 'package-lock.json', '.npmrc'])
    cpSync(join(files, file), join(unfinished, file));
  const patient = { ...process.env, npm_config_fetch_retries: '6' };
  await run('npm', ['ci', '--ignore-scripts'], { cwd: unfinished, env: patient });
  renameSync(unfinished, folder);
  return folder;
}
