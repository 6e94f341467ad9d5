/** The console as browsers get it: bundled by esbuild out of `console/`, each file named by a digest. */
import { build, stop } from 'esbuild';
import { basename, extname, join } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';

/** A text in the encodings that browsers take. */
export interface Encoded {
  readonly type: string;
  readonly plain: Buffer;
  readonly gzip: Buffer;
  readonly brotli: Buffer;
}

export interface ConsoleBundle {
  /** Of every path of the console: the page finds out itself what its address shows. */
  readonly page: Encoded;
  /** By their names below `/console/a/`. */
  readonly files: ReadonlyMap<string, Encoded>;
}

/** No inline script, no source outside of itself, and no text that becomes markup or code. */
export const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "form-action 'none'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ');

const root = join(import.meta.dirname, '../..');

/** `prefix` is the path of a proxy in front, which takes it off; '' without one. */
export async function bundleConsole(prefix: string): Promise<ConsoleBundle> {
  const { outputFiles } = await build({
    absWorkingDir: root,
    entryPoints: {
      main: 'console/main.tsx',
      style: 'console/console.css',
      icon: 'console/icon.svg',
    },
    outdir: '/',
    entryNames: '[name]-[hash]',
    chunkNames: '[name]-[hash]',
    bundle: true,
    // What a screen imports once it is needed stays out of the first load.
    splitting: true,
    minify: true,
    write: false,
    format: 'esm',
    target: 'es2022',
    loader: { '.svg': 'copy' },
  });
  // Its process would stay for as long as ours.
  await stop();
  const texts = outputFiles.flatMap(({ path, text }) => withIconsApart(basename(path), text));
  const nameOf = (entry: string): string =>
    `${prefix}/console/a/${texts.find(([name]) => name.startsWith(`${entry}-`))![0]}`;
  const files = texts.map(async ([name, text]) => [name, await encoded(name, text)] as const);
  return {
    page: await encoded('page.html', pageOf(nameOf)),
    files: new Map(await Promise.all(files)),
  };
}

type Text = readonly [name: string, text: string];

/** Pico has its icons inside, as `data:` addresses, which the policy forbids. */
function withIconsApart(name: string, text: string): Text[] {
  const icons: Text[] = [];
  const apart = text.replaceAll(
    // Colours in an icon have brackets too.
    /url\((["']?)data:image\/svg\+xml,(.*?)\1\)/g,
    (_all, _quote, svg: string) => {
      const icon = `${icons.length}-${name}.svg`;
      icons.push([icon, decodeURIComponent(svg)]);
      return `url("${icon}")`;
    },
  );
  return [[name, apart], ...icons];
}

const pageOf = (nameOf: (entry: string) => string): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Strata</title>
<link rel="icon" href="${nameOf('icon')}" type="image/svg+xml">
<link rel="stylesheet" href="${nameOf('style')}">
<script type="module" src="${nameOf('main')}"></script>
</head>
<body>
<div id="app"></div>
<noscript><p>The console of Strata needs JavaScript.</p></noscript>
</body>
</html>
`;

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};

async function encoded(name: string, text: string): Promise<Encoded> {
  const plain = Buffer.from(text);
  const [zipped, brotli] = await Promise.all([
    promisify(gzip)(plain),
    // The greatest quality, which is the default, takes ten times as long.
    promisify(brotliCompress)(plain, { params: { [constants.BROTLI_PARAM_QUALITY]: 6 } }),
  ]);
  return { type: types[extname(name)]!, plain, gzip: zipped, brotli };
}
