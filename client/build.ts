/**
 * Builds `dist/`: the library's entries, minified, with their types beside them, and the command
 * line as one file. Run by `npm pack`.
 *
 * What an import of the package loads is `index.js` alone. The entries that build upon it import
 * that file too, so that a process has one client, however many entries it uses.
 */
import { execFileSync } from 'node:child_process';
import { chmodSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build, type BuildOptions, type Plugin } from 'esbuild';

const folder = import.meta.dirname;
const dist = join(folder, 'dist');
const installed = join(folder, '../node_modules');

/** Imports of these modules stay imports, of the files that are built of them. */
const apart = (...names: string[]): Plugin => ({
  name: 'apart',
  setup({ onResolve }) {
    onResolve({ filter: new RegExp(`^\\./(${names.join('|')})\\.ts$`) }, ({ path, kind }) =>
      kind === 'entry-point' ? undefined : { path: path.replace(/ts$/, 'js'), external: true },
    );
  },
});

const library: BuildOptions = {
  absWorkingDir: folder,
  outdir: dist,
  bundle: true,
  minify: true,
  format: 'esm',
  platform: 'neutral',
  target: 'es2022',
  external: ['node:*', '@openfeature/*'],
};

rmSync(dist, { recursive: true, force: true });
execFileSync(
  process.execPath,
  [join(installed, 'typescript/bin/tsc'), '-p', folder, '--emitDeclarationOnly'],
  {
    stdio: 'inherit',
  },
);
await build({
  ...library,
  entryPoints: ['source/index.ts', 'source/file-storage.ts', 'source/bus.ts'],
  plugins: [apart('file-storage')],
});
await build({
  ...library,
  entryPoints: ['source/openfeature.ts', 'source/openfeature-web.ts'],
  splitting: true,
  plugins: [apart('index')],
});
const program = join(dist, 'strata.cjs');
await build({
  absWorkingDir: folder,
  entryPoints: ['../cli/https/strata.ts'],
  outfile: program,
  bundle: true,
  minify: true,
  format: 'cjs',
  platform: 'node',
  target: 'node20',
  banner: { js: '#!/usr/bin/env node' },
});
chmodSync(program, 0o755);
const licenses = [
  'canonicalize/LICENSE',
  'ical.js/LICENSE',
  'temporal-polyfill/LICENSE',
  'typebox/license',
  'yaml/LICENSE',
].map((path) => readFileSync(join(installed, path), 'utf8'));
writeFileSync(join(dist, 'strata.licenses.txt'), licenses.join(''));
