/**
 * `npm ci` installs from the lock file alone, so the lock file has to be whole, also for systems
 * other than this one.
 */
import { expect, test } from '@jest/globals';
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';

interface LockedPackage {
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly resolved?: string;
  readonly link?: boolean;
}

const lockFile = new URL('../../package-lock.json', import.meta.url);
const { packages } = JSON.parse(readFileSync(lockFile, 'utf8')) as {
  packages: Readonly<Record<string, LockedPackage>>;
};

/** Whether Node would find the dependency from the package's folder, going up. */
function isLocked(folder: string, dependency: string): boolean {
  const inside = folder === '' ? '' : `${folder}/`;
  if (packages[`${inside}node_modules/${dependency}`]) return true;
  if (folder === '') return false;
  const parent = folder.slice(0, Math.max(0, folder.lastIndexOf('/node_modules/')));
  return isLocked(parent, dependency);
}

test('every dependency of every package is in the lock file, those for other systems too', () => {
  const missing = Object.entries(packages).flatMap(
    ([folder, { dependencies, optionalDependencies }]) =>
      Object.keys({ ...dependencies, ...optionalDependencies })
        .filter((dependency) => !isLocked(folder, dependency))
        .map((dependency) => `${dependency} of ${folder}`),
  );
  expect(missing).toEqual([]);
});

test('the lock file names no registry', () => {
  const named = Object.entries(packages).filter(([, { resolved, link }]) => resolved && !link);
  expect(named.map(([folder]) => folder)).toEqual([]);
});

test('npm installs from it with nothing to warn of, whichever Node the machine has', () => {
  const folder = mkdtempSync(join(tmpdir(), 'strata-install-'));
  try {
    for (const name of ['package.json', 'package-lock.json', '.npmrc'])
      copyFileSync(join(import.meta.dirname, '../..', name), join(folder, name));
    // `npm test` puts the Node of node_modules first, which is not the one that somebody installs
    // with.
    const path = process.env
      .PATH!.split(delimiter)
      .filter((each) => !each.includes('node_modules'));
    const { stdout, stderr } = spawnSync('npm', ['install', '--dry-run', '--offline'], {
      cwd: folder,
      encoding: 'utf8',
      env: { PATH: path.join(delimiter), HOME: folder },
    });
    expect(stdout).toMatch(/^added \d+ packages/m);
    expect(stderr).toBe('');
  } finally {
    rmSync(folder, { recursive: true });
  }
});
