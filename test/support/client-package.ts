/**
 * `@strata/client` as somebody gets it: packed, and installed without a network in a folder that
 * has nothing else.
 */
import { execFile, execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';

const root = join(import.meta.dirname, '../..');
const run = promisify(execFile);

export interface InstalledClient {
  readonly folder: string;
  /** Where the package is. */
  readonly path: string;
  /** Runs a program of plain JavaScript, and answers what it has printed. */
  readonly run: (node: string, program: string, args?: readonly string[]) => Promise<string>;
  /** Compiles a program as strictly as TypeScript can, and answers it in plain JavaScript. */
  readonly compile: (program: string) => Promise<string>;
  readonly remove: () => void;
}

export async function installClient(): Promise<InstalledClient> {
  const folder = mkdtempSync(join(tmpdir(), 'strata-client-'));
  const npm = async (args: readonly string[], cwd: string): Promise<string> => {
    const { stdout } = await run('npm', args, { cwd, env: { ...process.env, ...quiet } });
    return stdout;
  };
  const packed = await npm(['pack', '--json', '--pack-destination', folder], join(root, 'client'));
  const [{ filename }] = JSON.parse(packed.slice(packed.indexOf('['))) as [{ filename: string }];
  writeFileSync(join(folder, 'package.json'), '{"private":true,"type":"module"}');
  await npm(['install', '--offline', join(folder, filename)], folder);
  return {
    folder,
    path: join(folder, 'node_modules/@strata/client'),
    async run(node, program, args = []) {
      writeFileSync(join(folder, 'program.js'), program);
      const { stdout } = await run(node, [join(folder, 'program.js'), ...args], {
        cwd: folder,
        timeout: 300_000,
      });
      return stdout;
    },
    async compile(program) {
      writeFileSync(join(folder, 'program.ts'), program);
      const strict =
        '--strict --noUncheckedIndexedAccess --exactOptionalPropertyTypes --module nodenext --target es2023';
      const tsc = join(root, 'node_modules/typescript/bin/tsc');
      const args = [tsc, ...strict.split(' '), '--types', '', 'program.ts'];
      await run(process.execPath, args, { cwd: folder }).catch(({ stdout }: { stdout: string }) => {
        throw new Error(stdout);
      });
      return readFileSync(join(folder, 'program.js'), 'utf8');
    },
    remove: () => rmSync(folder, { recursive: true }),
  };
}
const quiet = { npm_config_audit: 'false', npm_config_fund: 'false', npm_config_loglevel: 'error' };

/** The Node of these tests, and the machine's own where it is another that the package supports. */
export function nodes(): string[] {
  const own = (process.env.PATH ?? '')
    .split(delimiter)
    .concat('/usr/bin')
    .filter((folder) => !folder.includes('node_modules'))
    .map((folder) => join(folder, 'node'))
    .find((path) => existsSync(path));
  const version = own && execFileSync(own, ['--version'], { encoding: 'utf8' });
  const major = Number(/^v(\d+)/.exec(version ?? '')?.[1] ?? 0);
  return own !== undefined && major >= 20 ? [process.execPath, own] : [process.execPath];
}

/** What an import loads at once, and what it may load later, such as what keeps files. */
const imports = {
  atOnce: /\b(?:from|import)"(\.[^"]+)"/g,
  ever: /\b(?:from|import\(?)"(\.[^"]+)"/g,
};

/**
 * The files of the package that an import of the entry loads, itself included. The package is
 * minified.
 */
export function loadedBy(entry: string, when: keyof typeof imports): string[] {
  const loaded = new Set<string>();
  const visit = (file: string): void => {
    if (loaded.has(file)) return;
    loaded.add(file);
    for (const [, target] of readFileSync(file, 'utf8').matchAll(imports[when]))
      visit(join(dirname(file), target!));
  };
  visit(entry);
  return [...loaded];
}

/** Of each file by itself, as servers and browsers have it. */
export const gzippedLength = (files: readonly string[]): number =>
  files.map((file) => gzipSync(readFileSync(file)).length).reduce((sum, length) => sum + length, 0);
