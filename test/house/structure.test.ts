/** The house's rules, walked: imports point down, every piece of knowledge is held equal where it is shown twice. */
import { describe, expect, test } from '@jest/globals';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { DataSource } from 'typeorm';
import { pieces, type Parts } from '../../services/pieces.ts';
import { clusterService } from '../../shared/cluster/cluster-service.ts';
import { contracts } from '../../shared/contracts/index.ts';
import { errorTable } from '../../shared/contracts/error-codes.ts';
import { createShortLivedState } from '../../shared/short-lived-state.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const sources = [
  'strata.ts',
  'moleculer.config.ts',
  ...['shared', 'services', 'gateway'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts'))
      .map((file) => join(folder, file).split(sep).join('/')),
  ),
];
const textOf = (file: string): string => readFileSync(join(root, file), 'utf8');

/** The levels of the README's map, by path. A file imports from its own level or from those below. */
const levels: readonly [RegExp, number][] = [
  [/^shared\/contracts\//, 0],
  [
    /^shared\/(settings|settings-table|live-settings|errors|access|short-lived-state|wakeable-wait)\.ts$/,
    1,
  ],
  [/^shared\/(schema|security|outgoing|mail)\//, 1],
  [/^shared\/(documents|cluster|commits|database)\//, 2],
  [/^services\/pieces\.ts$/, 5],
  [/^services\//, 3],
  [/^gateway\//, 4],
  [/^(strata|moleculer\.config)\.ts$/, 5],
];
const levelOf = (file: string): number => {
  const found = levels.find(([pattern]) => pattern.test(file));
  if (!found) throw new Error(`${file} is on no level of the map`);
  return found[1];
};

/** Every file that `text` refers to: imports and re-exports, for values and for types only, also written as `import('…')`. */
const importsOf = (file: string, text: string): string[] =>
  [...text.matchAll(/(?:\bfrom|\bimport)\s*\(?\s*'(\.[^']+)'/g)].map(([, target]) =>
    normalize(join(dirname(file), target!))
      .split(sep)
      .join('/'),
  );
const imports = new Map(sources.map((file) => [file, importsOf(file, textOf(file))]));

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
  test.each(sources)('%s imports nothing from above, nor from inside another service', (file) => {
    const objections = imports.get(file)!.flatMap((target) => objectionTo(file, target) ?? []);
    expect(objections).toEqual([]);
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
    expect(importsOf('shared/cluster/x.ts', text)).toEqual([
      'shared/cluster/a.ts',
      'shared/commits/b.ts',
      'shared/cluster/c.ts',
      'gateway/d.ts',
      'shared/cluster/e.ts',
    ]);
    expect(objectionTo('shared/cluster/x.ts', 'gateway/d.ts')).toMatch(/level 4/);
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
    for (const file of sources)
      if (/process\.env/.test(textOf(file))) expect(file).toBe('shared/settings.ts');
  });

  test('nothing is called utils', () => {
    for (const file of sources) expect(file).not.toMatch(/utils?|helpers?|common/i);
  });
});

describe('contracts', () => {
  const all = Object.entries(contracts);

  test('each action is answered by its service, and a service answers nothing else', () => {
    // A service is only asked which actions it answers: nothing is opened or started.
    const parts = { settings: () => ({}), shortLived: createShortLivedState() } as unknown as Parts;
    const db = {} as DataSource;
    const cluster = clusterService({
      broker: {} as never,
      coherence: { caches: {} } as never,
      settings: { current: { node_id: 'a-node' } } as never,
      health: async () => ({}),
    });
    const services = [cluster, ...pieces.flatMap(({ service }) => service?.(parts, db) ?? [])];
    for (const { name, actions } of services) {
      const answered = Object.keys(actions!).map((action) => `${name}.${action}`);
      const declared = all
        .map(([action]) => action)
        .filter((action) => action.startsWith(`${name}.`));
      expect(answered.sort()).toEqual(declared.sort());
    }
    const elsewhere = new Set(
      all
        .map(([action]) => action.split('.')[0]!)
        .filter((service) => !services.some(({ name }) => name === service)),
    );
    expect([...elsewhere].sort()).toEqual(['feed', 'gateway']);
  });

  test('each says what it is, and every route is unique', () => {
    const routes = new Set<string>();
    for (const [name, { summary, rest }] of all) {
      if (!summary) throw new Error(`${name} has no summary`);
      if (!rest) continue;
      const route = `${rest.method} ${rest.path}`;
      if (routes.has(route)) throw new Error(`${route} is served twice`);
      routes.add(route);
      for (const [, placeholder] of rest.path.matchAll(/\{([a-z_]+)\}/g))
        expect(rest.pathParams).toContain(placeholder);
    }
  });

  test('every object in parameters refuses unknown fields, or is a map on purpose', () => {
    const walk = (schema: Record<string, unknown>, path: string): void => {
      if (schema.type === 'object' && schema.properties && !('additionalProperties' in schema))
        throw new Error(`${path} does not say what happens to unknown fields`);
      for (const [key, value] of Object.entries(schema))
        if (typeof value === 'object' && value !== null)
          walk(value as Record<string, unknown>, `${path}/${key}`);
    };
    for (const [name, { params }] of all) walk(params as unknown as Record<string, unknown>, name);
  });

  test('writes of tenant configuration name the keys they drop', () => {
    for (const [name, contract] of all) {
      if (contract.response === 'write' && name !== 'tenant-config.rollback' && !contract.drops)
        throw new Error(`${name} drops no key`);
    }
  });
});

test('errors: the statuses of the table are those of HTTP, and what the specification names is there', () => {
  for (const [code, [status, message]] of Object.entries(errorTable)) {
    expect(code).toMatch(/^[a-z0-9_]+$/);
    expect(status).toBeGreaterThanOrEqual(400);
    expect(message).toMatch(/\.$/);
  }
  const specified = [
    'auth_login_db_error',
    'auth_login_internal_error',
    'auth_refresh_db_error',
    'auth_webauthn_db_error',
    'auth_webauthn_internal_error',
    'auth_sso_db_error',
    'auth_sso_internal_error',
    'auth_api_key_internal_error',
  ] as const;
  for (const code of specified)
    expect(errorTable[code][0]).toBe(code.endsWith('_db_error') ? 503 : 500);
});

test('every code in the source is in the table', () => {
  for (const file of sources) {
    for (const [, code] of textOf(file).matchAll(/new StrataError\(\s*'([a-z_0-9]+)'/g))
      expect(Object.keys(errorTable)).toContain(code);
  }
});

test('the lock file names no registry', () => {
  expect(readFileSync(join(root, 'package-lock.json'), 'utf8')).not.toMatch(/"resolved": "http/);
});
