/**
 * The README's map holds: imports point down, no service reaches into another, and there is no
 * circle.
 */
import { describe, expect, test } from '@jest/globals';
import { readdirSync, readFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { dirname, join, normalize, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { roles } from '../../services/node-roles.ts';
import { rooms, testsOf } from '../tests-of.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const sources = [
  'strata.mjs',
  'strata.ts',
  'start.ts',
  'backup.ts',
  'moleculer.config.ts',
  ...['shared', 'services', 'gateway', 'cli'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts'))
      .map((file) => join(folder, file).split(sep).join('/')),
  ),
];
const texts = new Map<string, string>();
const textOf = (file: string): string => {
  const text = texts.get(file) ?? readFileSync(join(root, file), 'utf8');
  texts.set(file, text);
  return text;
};

/** The levels of the README's map, by path; the first pattern that fits counts. */
const levels: readonly [RegExp, number][] = [
  [/^shared\/contracts\//, 0],
  [/^shared\/[^/]+\.ts$/, 1],
  [/^shared\/(settings|process|concurrency|schema|security|outgoing|mail|bounds|budgets)\//, 1],
  [/^shared\/(bus|contract-runtime|coherence|node|telemetry)\//, 2],
  [/^shared\/(change-sets|rollouts|documents|commits|database)\//, 2],
  [/^services\/(node-roles|derived-reads)\.ts$/, 5],
  [/^services\//, 3],
  [/^(gateway|cli)\//, 4],
  [/^(strata|start|backup|moleculer\.config)\.m?[jt]s$/, 5],
];
const levelOf = (file: string): number => {
  const found = levels.find(([pattern]) => pattern.test(file));
  if (!found) throw new Error(`${file} is on no level of the map`);
  return found[1];
};

/**
 * Every file that `text` refers to: imports and re-exports, for values and for types only, also
 * written as `import('…')`.
 */
const importsOf = (file: string, text: string): string[] =>
  [...text.matchAll(/(?:\bfrom|\bimport)\s*\(?\s*'(\.[^']+)'/g)].map(([, target]) =>
    normalize(join(dirname(file), target!))
      .split(sep)
      .join('/'),
  );
const imports = new Map(sources.map((file) => [file, importsOf(file, textOf(file))]));

/** Packages whose code is loaded: by `import type` it is not. */
const packagesIn = (text: string): string[] =>
  [
    ...text.matchAll(/^(?:import|export)(?!\s+type\b)[\w\s{},*]*'([^.'][^']*)'/gm),
    ...text.matchAll(/\bawait import\('([^.'][^']*)'\)/g),
  ]
    .map(([, name]) => name!)
    .filter((name) => !isBuiltin(name))
    .map((name) => /^(?:@[^/]+\/)?[^/]+/.exec(name)![0]);
const { dependencies, optionalDependencies } = JSON.parse(textOf('package.json')) as Record<
  'dependencies' | 'optionalDependencies',
  Readonly<Record<string, string>> | undefined
>;
const installed = { ...dependencies, ...optionalDependencies };

/** What the map forbids about one import; undefined where it is allowed. */
function objectionTo(file: string, target: string): string | undefined {
  if (levelOf(target) > levelOf(file))
    return `${file} (level ${levelOf(file)}) imports ${target} (level ${levelOf(target)})`;
  const [, service] = /^services\/([^/]+)\//.exec(target) ?? [];
  if (service === undefined || levelOf(file) === 5) return undefined;
  return file.startsWith(`services/${service}/`)
    ? undefined
    : `${file} imports the inside of a service: ${target}`;
}

/** One circle of imports as a path that ends where it begins; undefined where there is none. */
function circleIn(graph: ReadonlyMap<string, readonly string[]>): string[] | undefined {
  const cleared = new Set<string>();
  const visit = (file: string, path: readonly string[]): string[] | undefined => {
    if (path.includes(file)) return [...path.slice(path.indexOf(file)), file];
    if (cleared.has(file)) return undefined;
    for (const target of graph.get(file) ?? []) {
      const circle = visit(target, [...path, file]);
      if (circle) return circle;
    }
    cleared.add(file);
    return undefined;
  };
  for (const file of graph.keys()) {
    const circle = visit(file, []);
    if (circle) return circle;
  }
  return undefined;
}

describe('imports', () => {
  test('come from no level above, nor from inside another service', () => {
    const objections = sources.flatMap((file) =>
      imports.get(file)!.flatMap((target) => objectionTo(file, target) ?? []),
    );
    expect(objections).toEqual([]);
  });

  test('load no package that an installation without development lacks', () => {
    // The command line is bundled into its package.
    const lacking = sources
      .filter((each) => !each.startsWith('cli/https/'))
      .flatMap((file) => packagesIn(textOf(file)).map((name) => [file, name] as const))
      .filter(([, name]) => !(name in installed));
    expect(lacking).toEqual([]);
  });

  test('form no circle, those for types only included', () => {
    expect(circleIn(imports)?.join(' → ')).toBeUndefined();
  });

  test('each form of import is seen, and what is forbidden is found', () => {
    const text = [
      "import { a } from './a.ts';",
      "import type {\n  B,\n} from '../commits/b.ts';",
      "export * from './c.ts';",
      "type D = import('../../gateway/d.ts').D;",
      "import './e.ts';",
    ].join('\n');
    expect(importsOf('shared/node/x.ts', text)).toEqual([
      'shared/node/a.ts',
      'shared/commits/b.ts',
      'shared/node/c.ts',
      'gateway/d.ts',
      'shared/node/e.ts',
    ]);
    const loading = [
      "import a, {\n  b,\n} from 'pkg';",
      "import type { C } from 'typebox';",
      "import '@scope/d/e.js';",
      "export { f } from 'f/g';",
      "const { g } = await import('g');",
      "import { h } from 'node:fs';",
    ].join('\n');
    expect(packagesIn(loading)).toEqual(['pkg', '@scope/d', 'f', 'g']);
    expect(objectionTo('shared/node/x.ts', 'gateway/d.ts')).toMatch(/level 4/);
    expect(objectionTo('services/auth/x.ts', 'services/audit/y.ts')).toMatch(/inside of a service/);
    expect(objectionTo('gateway/x.ts', 'services/audit/y.ts')).toMatch(/inside of a service/);
    const circle = new Map([
      ['a', ['b']],
      ['b', ['c']],
      ['c', ['a']],
    ]);
    expect(circleIn(circle)).toEqual(['a', 'b', 'c', 'a']);
    expect(circleIn(new Map([...circle, ['c', []]]))).toBeUndefined();
  });

  test('only the settings read the environment', () => {
    const readers = sources.filter((file) => /process\.env/.test(textOf(file)));
    expect(readers).toEqual(['shared/settings/settings.ts', 'cli/https/strata.ts']);
  });

  test('nothing is called utils', () => {
    expect(sources.filter((file) => /utils?|helpers?|common/i.test(file))).toEqual([]);
  });
});

describe('client/', () => {
  const folder = join(root, 'client/source');
  const files = readdirSync(folder).map((file) => `client/source/${file}`);
  const named = (file: string): string[] =>
    [...textOf(file).matchAll(/(?:\bfrom|\bimport)\s*\(?\s*'([^']+)'/g)].map(([, name]) => name!);

  test('stands alone: others install it, and have nothing else of this repository', () => {
    for (const file of files)
      for (const target of importsOf(file, textOf(file)))
        expect([file, target]).toEqual([file, expect.stringMatching(/^client\/source\//)]);
    const users = sources.filter((file) =>
      imports.get(file)!.some((target) => target.startsWith('client/')),
    );
    expect(users).toEqual([]);
  });

  test('needs Node for files alone, which nothing imports before one is asked for', () => {
    const withNode = files.filter((file) => named(file).some((name) => name.startsWith('node:')));
    expect(withNode).toEqual(['client/source/file-storage.ts']);
    for (const file of files)
      expect([file, /from '\.\/file-storage\.ts'/.test(textOf(file))]).toEqual([file, false]);
  });

  test('has no circle of imports', () => {
    const graph = new Map(files.map((file) => [file, importsOf(file, textOf(file))]));
    expect(circleIn(graph)?.join(' → ')).toBeUndefined();
  });
});

describe('the console', () => {
  const files = readdirSync(join(root, 'console'), { recursive: true, encoding: 'utf8' })
    .filter((file) => /\.tsx?$/.test(file))
    .map((file) => join('console', file).split(sep).join('/'));

  /** What people see at work before it is written or sent: it loads nothing that browsers lack. */
  const ofBrowsers =
    /^shared\/(budgets\/(calendar|matching|windows)|schema\/(csv|diff|exact-json|json-pointer|merge-patch|readable-json))\.ts$/;

  test.each(files)(
    '%s imports its own modules, libraries that are installed, and types',
    (file) => {
      const text = textOf(file);
      const objections = [...text.matchAll(/^(import|export)\b([^;]*?)\bfrom '([^']+)'/gm)].filter(
        ([, , what, target]) => {
          if (/^\s+type\b/.test(what!)) return false;
          if (!target!.startsWith('.'))
            return packagesIn(`import x from '${target}'`).some((each) => !(each in installed));
          const path = normalize(join(dirname(file), target!))
            .split(sep)
            .join('/');
          return !path.startsWith('console/') && !ofBrowsers.test(path);
        },
      );
      expect(objections.map(([statement]) => statement)).toEqual([]);
      // Only what few pages need is loaded later; code from texts the policy refuses.
      const later = [...text.matchAll(/\bimport\('([^']+)'\)/g)].map(([, target]) => target!);
      const others = later.filter(
        (target) =>
          !ofBrowsers.test(join(dirname(file), target).split(sep).join('/')) &&
          target !== 'temporal-polyfill',
      );
      expect(others).toEqual([]);
      expect(text).not.toMatch(/\bimport\((?!')|\beval\(|new Function|innerHTML|dangerouslySet/);
    },
  );
});

test('the lock file names no registry', () => {
  expect(readFileSync(join(root, 'package-lock.json'), 'utf8')).not.toMatch(/"resolved": "http/);
});

describe('what a start loads', () => {
  /**
   * Files and packages that a file needs before its first line runs: not what is imported for its
   * types, or once it is wanted.
   */
  const loadedBy = (file: string): string[] =>
    [
      ...textOf(file).matchAll(/^(?:import|export)\s+(?!type\b)(?:[^'"`;]*\sfrom\s+)?'([^']+)'/gm),
    ].map(([, target]) =>
      target!.startsWith('.')
        ? normalize(join(dirname(file), target!))
            .split(sep)
            .join('/')
        : target!,
    );
  const reached = (...entries: readonly string[]): Set<string> => {
    const all = new Set(entries);
    for (const file of all) {
      if (file.endsWith('.ts')) for (const target of loadedBy(file)) all.add(target);
    }
    return all;
  };

  // Whatever else a node does not need would be most of the time of its start, and of its memory.
  const ofSome = [
    'typeorm',
    'pg',
    'ioredis',
    'got',
    'nodemailer',
    'openid-client',
    '@node-rs/argon2',
    '@simplewebauthn/server',
    '@scalar/fastify-api-reference',
  ];

  test('a gateway loads nothing that only services need, nor what is made for people who may never ask', () => {
    const loaded = reached('start.ts', 'gateway/gateway.ts');
    expect(loaded).toContain('moleculer');
    expect(loaded).toContain('fastify');
    expect(ofSome.filter((each) => loaded.has(each))).toEqual([]);
  });

  test('the operator loads neither gateway nor services', () => {
    const loaded = reached('cli/bus/operator.ts');
    expect(loaded).toContain('moleculer');
    expect([...ofSome, 'fastify'].filter((each) => loaded.has(each))).toEqual([]);
  });
});

describe('pieces', () => {
  const services = roles.filter(({ name }) => name !== 'gateway');

  test.each(services)('$name names the pieces that it calls', ({ name, calls }) => {
    const own = sources.filter((file) => file.startsWith(`services/${name}/`));
    const called = own.flatMap((file) => [
      ...textOf(file).matchAll(/\bcall(?:As)?\(\s*(?:broker,\s*)?'([a-z-]+)\./g),
    ]);
    const others = new Set(called.map(([, other]) => other!));
    expect([...others].filter((other) => other !== name).sort()).toEqual([...calls].sort());
  });

  test('the gateway calls every service, and no piece needs what it does not call', () => {
    const gateway = roles.find(({ name }) => name === 'gateway');
    const names = services.map(({ name }) => name).sort();
    expect([...gateway!.calls].sort()).toEqual(names);
    for (const { calls, vital } of roles) expect(calls).toEqual(expect.arrayContaining([...vital]));
  });
});

describe('the table of tests by room', () => {
  test('shows each source by tests', () => {
    expect(sources.filter((file) => testsOf(file).length === 0)).toEqual([]);
  });

  test('names nothing that is not there', () => {
    const files = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' });
    const all = files.map((file) => file.split(sep).join('/'));
    const missing = rooms.flatMap(([source, shown]) =>
      all.some((file) => shown.test(file)) ? [] : `${source} → ${shown}`,
    );
    expect(missing).toEqual([]);
  });
});
