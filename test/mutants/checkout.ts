/**
 * Scratch copies of the checkout, in which mutants are applied: the working tree itself is never
 * changed.
 */
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));
const folders = new Set<string>();

/** Where Node keeps what it has compiled of a copy: beside it, and as short-lived. */
export const compiledOf = (folder: string): string => `${folder}-compiled`;

export class Checkout {
  readonly folder: string;
  private constructor(folder: string) {
    this.folder = folder;
  }

  /**
   * The working tree as it is now, uncommitted files included; installed packages are linked, not
   * copied.
   */
  static create(): Checkout {
    const folder = mkdtempSync(join(tmpdir(), 'strata-mutant-'));
    // The embedded PostgreSQL runs as another user where this is root, and runs programs of the
    // copy.
    chmodSync(folder, 0o755);
    folders.add(folder).add(compiledOf(folder));
    const listed = execFileSync('git', ['ls-files', '-z', '-co', '--exclude-standard'], {
      cwd: root,
      encoding: 'utf8',
    });
    for (const file of new Set(listed.split('\0'))) {
      // Git still lists a file that was deleted without telling it.
      if (file !== '' && existsSync(join(root, file))) cpSync(join(root, file), join(folder, file));
    }
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
    return new Checkout(folder);
  }

  /**
   * Rewrites a file; returns how to put it back. Throws what `change` throws, and then nothing is
   * changed.
   */
  change(file: string, change: (text: string) => string): () => void {
    const path = join(this.folder, file);
    const before = readFileSync(path, 'utf8');
    writeFileSync(path, change(before));
    return () => writeFileSync(path, before);
  }
}

export function removeCheckouts(): void {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
  folders.clear();
}
