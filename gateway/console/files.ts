/**
 * The console as it is sent to browsers: types are stripped from its modules, libraries are taken
 * from node_modules, all of it is compressed, and named by the digest of the whole, so that
 * browsers keep it for good.
 */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { extname, join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';

/** A text in the encodings that browsers take. */
export interface Encoded {
  readonly type: string;
  readonly plain: Buffer;
  readonly gzip: Buffer;
  readonly brotli: Buffer;
}

export interface ConsoleFiles {
  /** Of every path of the console: the page finds out itself what its address shows. */
  readonly page: Encoded;
  /** Content-Security-Policy of the page. */
  readonly policy: string;
  /** Path of the console's entry, in front of which a proxy may have a prefix. */
  readonly entry: string;
  /** The digest in the addresses of `files`. */
  readonly version: string;
  /** By their names behind the version. */
  readonly files: ReadonlyMap<string, Encoded>;
}

const folder = fileURLToPath(new URL('../../console', import.meta.url));

/** What modules import by name. The digest in their addresses changes with their versions. */
export const libraries: readonly string[] = [
  'preact',
  'preact/hooks',
  'htm',
  '@preact/signals',
  '@preact/signals-core',
];
const stylesheet = '@picocss/pico/css/pico.classless.min.css';

const types: Readonly<Record<string, string>> = {
  '.ts': 'text/javascript; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};

/**
 * `baseUrl` is how browsers reach the gateway: a path in it is that of a proxy, which takes it off.
 */
export function createConsoleFiles(baseUrl: string): ConsoleFiles {
  const texts = new Map([...ownTexts(), ...libraryTexts(), ...styleTexts()]);
  const version = digestOf([...texts].flat().join('\0'));
  const prefix = new URL(baseUrl).pathname.replace(/\/$/, '');
  const base = `${prefix}/console/a/${version}/`;
  const importMap = JSON.stringify({
    imports: Object.fromEntries(libraries.map((name) => [name, `${base}${libraryFile(name)}`])),
  });
  const hash = createHash('sha256').update(importMap).digest('base64');
  return {
    page: encoded('text/html; charset=utf-8', pageOf(base, importMap, [...texts.keys()])),
    policy: policyWith(hash),
    entry: `${prefix}/console`,
    version,
    files: new Map(
      [...texts].map(([name, text]) => [name, encoded(types[extname(name)]!, text)] as const),
    ),
  };
}

/**
 * No inline script but the import map, no source outside of itself, and no text that becomes markup
 * or code.
 */
const policyWith = (importMapHash: string): string =>
  [
    "default-src 'none'",
    `script-src 'self' 'sha256-${importMapHash}'`,
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "form-action 'none'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; ');

type Text = readonly [name: string, text: string];

function ownTexts(): Text[] {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => name.split(sep).join('/'))
    .filter((name) => types[extname(name)] !== undefined)
    .toSorted();
  return names.map((name) => {
    const text = readFileSync(join(folder, name), 'utf8');
    return [name, extname(name) === '.ts' ? withoutTypes(text) : text];
  });
}

/**
 * Node calls the function experimental whenever a process first uses it; it is what runs all of
 * Strata.
 */
function withoutTypes(text: string): string {
  const { emitWarning } = process;
  process.emitWarning = () => undefined;
  try {
    return stripTypeScriptTypes(text);
  } finally {
    process.emitWarning = emitWarning;
  }
}

const libraryFile = (name: string): string => `lib/${name.replaceAll(/[@/]/g, '-')}.js`;

const textOf = (specifier: string): string =>
  readFileSync(fileURLToPath(import.meta.resolve(specifier)), 'utf8').replace(
    /\n\/[/*][#@] sourceMappingURL=.*\s*$/,
    '\n',
  );

const libraryTexts = (): Text[] => libraries.map((name) => [libraryFile(name), textOf(name)]);

/**
 * Pico has its icons inside, as `data:` addresses, which the policy forbids: they become files
 * beside it.
 */
function styleTexts(): Text[] {
  const icons: Text[] = [];
  const text = textOf(stylesheet).replaceAll(
    /url\("data:image\/svg\+xml,([^"]*)"\)/g,
    (_all, svg: string) => {
      const name = `icon-${icons.length}.svg`;
      icons.push([`lib/${name}`, decodeURIComponent(svg)]);
      return `url("${name}")`;
    },
  );
  return [['lib/pico.css', text], ...icons];
}

function pageOf(base: string, importMap: string, names: readonly string[]): string {
  const modules = names.filter((name) => /\.(ts|js)$/.test(name));
  const preloads = modules.map((name) => `<link rel="modulepreload" href="${base}${name}">`);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Strata</title>
<link rel="icon" href="${base}icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="${base}lib/pico.css">
<link rel="stylesheet" href="${base}console.css">
<script type="importmap">${importMap}</script>
${preloads.join('\n')}
<script type="module" src="${base}main.ts"></script>
</head>
<body>
<div id="app"></div>
<noscript><p>The console of Strata needs JavaScript.</p></noscript>
</body>
</html>
`;
}

/** Hexadecimal, short enough to read and long enough that no two releases share it. */
const digestOf = (text: string): string =>
  createHash('sha256').update(text).digest('hex').slice(0, 16);

function encoded(type: string, text: string): Encoded {
  const plain = Buffer.from(text);
  const quality = { [constants.BROTLI_PARAM_QUALITY]: 6 };
  return {
    type,
    plain,
    gzip: gzipSync(plain),
    brotli: brotliCompressSync(plain, { params: quality }),
  };
}
