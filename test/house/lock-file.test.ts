/** `npm ci` installs from the lock file alone, so the lock file has to be whole, also for systems other than this one. */
import { expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';

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
