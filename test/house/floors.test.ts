/** The house's rules, walked: imports point down, every piece of knowledge is held equal where it is shown twice. */
import { describe, expect, test } from '@jest/globals';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { auditService } from '../../services/audit/audit.service.ts';
import { authService } from '../../services/auth/auth.service.ts';
import { configResolverService } from '../../services/config-resolver/config-resolver.service.ts';
import { globalConfigService } from '../../services/global-config/global-config.service.ts';
import { notifierService } from '../../services/notifier/notifier.service.ts';
import { tenantConfigService } from '../../services/tenant-config/tenant-config.service.ts';
import { contracts } from '../../shared/contracts/index.ts';
import { errorTable } from '../../shared/errors.ts';
import { createShortLived } from '../../shared/short-lived.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const sources = ['shared', 'services', 'gateway', 'repl'].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .map((file) => join(folder, file)),
);
const textOf = (file: string): string => readFileSync(join(root, file), 'utf8');

const floors: readonly [RegExp, number][] = [
  [/^shared\/contracts\//, 0],
  [
    /^shared\/(settings|settings-table|errors|access|access-tokens|api-keys|secrets|short-lived)\.ts$/,
    1,
  ],
  [/^shared\/(schema|outgoing|mail)\//, 1],
  [/^shared\/(service|broker|database|outbox|coherence)\//, 2],
  [/^services\//, 3],
  [/^(gateway|repl)\//, 4],
];
const floorOf = (file: string): number => {
  const found = floors.find(([pattern]) => pattern.test(file.split(sep).join('/')));
  if (!found) throw new Error(`${file} is on no floor`);
  return found[1];
};
const importsOf = (file: string): { target: string; typeOnly: boolean }[] =>
  [...textOf(file).matchAll(/^(?:import|export) (type )?[^;]*?from '(\.[^']+)';/gms)].map(
    ([, type, target]) => ({
      target: relative(root, normalize(join(root, dirname(file), target!))),
      typeOnly: type !== undefined,
    }),
  );

describe('imports point down', () => {
  test.each(sources)('%s', (file) => {
    const floor = floorOf(file);
    for (const { target } of importsOf(file)) {
      if (floorOf(target) > floor)
        throw new Error(`${file} (floor ${floor}) imports ${target} (floor ${floorOf(target)})`);
      const [, service] = /^services\/([^/]+)\//.exec(target) ?? [];
      if (service && file.startsWith('services/') && !file.startsWith(`services/${service}/`))
        throw new Error(`${file} imports another service: ${target}`);
      if (service && floor === 4) throw new Error(`${file} imports a service's inside: ${target}`);
    }
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
    const db = {} as never;
    const settings = () => ({}) as never;
    const services = [
      configResolverService({ settings }),
      tenantConfigService({ db, settings }),
      globalConfigService({ db }),
      authService({
        db,
        settings,
        shortLived: createShortLived(),
        mailer: {} as never,
        onFirstAdmin: () => {},
      }),
      auditService({ db }),
      notifierService({
        db,
        settings,
        http: {} as never,
        mailer: {} as never,
        log: {} as never,
        metrics: {} as never,
      }),
    ];
    for (const { name, actions } of services) {
      const answered = Object.keys(actions!).map((action) => `${name}.${action}`);
      const declared = all
        .map(([action]) => action)
        .filter(
          (action) => action.startsWith(`${name}.`) && action !== 'config-resolver.invalidate',
        );
      expect(answered.sort()).toEqual(declared.sort());
    }
    const elsewhere = new Set(
      all
        .map(([action]) => action.split('.')[0]!)
        .filter((service) => !services.some(({ name }) => name === service)),
    );
    expect([...elsewhere].sort()).toEqual(['feed', 'gateway', 'node']);
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
      if (contract.answer === 'write' && name !== 'tenant-config.rollback' && !contract.drops)
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
