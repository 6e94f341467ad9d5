/** What must hold for every contract and every error code, whichever room they belong to. */
import { describe, expect, test } from '@jest/globals';
import { EventEmitter } from 'node:events';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ServiceBroker } from 'moleculer';
import { Registry } from 'prom-client';
import type { DataSource } from 'typeorm';
import { resources } from '../../cli/commands/config-commands.ts';
import { roles, type Parts } from '../../services/node-roles.ts';
import { clusterService, type ClusterServiceOptions } from '../../shared/node/cluster-service.ts';
import { errorTable } from '../../shared/contracts/error-codes.ts';
import { contracts, type ActionName } from '../../shared/contracts/index.ts';
import { isPower, scopeOfPower } from '../../shared/contracts/consequences.ts';
import { isRead, type Contract } from '../../shared/contracts/contract.ts';
import { keyScopes } from '../../shared/contracts/roles.ts';
import { createShortLivedState } from '../../shared/concurrency/short-lived-state.ts';

const root = join(import.meta.dirname, '../..');
const all: readonly [string, Contract][] = Object.entries(contracts);
const serviceNameOf = (action: string): string => action.split('.')[0]!;

/**
 * The services as they are composed, with stand-ins for all that they are given: they are only
 * asked which actions they answer, and nothing is opened or started.
 */
async function composedServices() {
  const parts = {
    settings: () => ({}),
    shortLived: createShortLivedState(),
    metrics: new Registry(),
    onceServing: () => undefined,
    onStopping: () => undefined,
  } as unknown as Parts;
  const db = {} as DataSource;
  const code = await Promise.all(roles.map(({ load }) => load?.()));
  const ofRoles = code.flatMap((each) => each?.service(parts, db) ?? []);
  const ofEveryNode = clusterService({
    broker: { localBus: new EventEmitter() } as unknown as ServiceBroker,
    coherence: { caches: {}, onChange: () => () => false },
    settings: { current: { node_id: 'a-node' } },
    health: async () => ({}),
  } as unknown as ClusterServiceOptions);
  return [ofEveryNode, ...ofRoles];
}

describe('contracts', () => {
  test('each action is answered by its service, and a service answers nothing else', async () => {
    const services = await composedServices();
    for (const { name, actions } of services) {
      const answered = Object.keys(actions!).map((action) => `${name}.${action}`);
      const declared = Object.keys(contracts).filter((action) => serviceNameOf(action) === name);
      expect(answered.sort()).toEqual(declared.sort());
    }
    const composed = new Set(services.map(({ name }) => name));
    const others = Object.keys(contracts)
      .map(serviceNameOf)
      .filter((name) => !composed.has(name));
    // The feed is a service of nodes with a database, and the gateway answers its own.
    expect([...new Set(others)].sort()).toEqual(['feed', 'gateway']);
  });

  test('each has a summary, and no two have one route', () => {
    for (const [name, { summary }] of all)
      expect([name, summary]).toEqual([name, expect.stringMatching(/./)]);
    const routes = all.flatMap(([, { rest }]) => (rest ? `${rest.method} ${rest.path}` : []));
    expect(routes.toSorted()).toEqual([...new Set(routes)].sort());
  });

  test('each route that needs a caller says which scope an API key needs, or that none will do', () => {
    const undecided = all
      .filter(([, { rest, access }]) => rest && access.level !== 'public')
      .filter(
        ([, { keyScope }]) => keyScope !== null && !keyScopes.some((each) => each === keyScope),
      )
      .map(([name]) => name);
    expect(undecided).toEqual([]);
  });

  test('each action that writes says what it can lead to', () => {
    const unclassified = all
      .filter(([, contract]) => !isRead(contract) && contract.access.level !== 'internal')
      .filter(([, { response, leadsTo }]) => response !== 'stream' && leadsTo === undefined)
      .map(([name]) => name);
    expect(unclassified).toEqual([]);
  });

  test('a powerful action is open to API keys by the scope of its power alone, or to none', () => {
    for (const [name, { leadsTo, keyScope, access }] of all) {
      if (typeof leadsTo !== 'string' || !isPower(leadsTo)) continue;
      expect([name, keyScope === null || keyScope === scopeOfPower(leadsTo)]).toEqual([name, true]);
      expect([name, access.level === 'public']).toEqual([name, false]);
    }
  });

  test('docs/operations/trust.md says of each scope of an API key what it opens', () => {
    const text = readFileSync(join(root, 'docs/operations/trust.md'), 'utf8');
    const [, section] = /^## Scopes of API keys$([^]*?)^## /m.exec(text)!;
    const described = [...section!.matchAll(/^\| `([a-z]+:[a-z_]+)` +\| \S/gm)].map(
      ([, name]) => name,
    );
    expect(described).toEqual([...keyScopes]);
    // Handlers ask for it: whom a gateway asks for is in the body.
    for (const scope of keyScopes.filter((each) => each !== 'decide:on_behalf'))
      expect([scope, all.some(([, { keyScope }]) => keyScope === scope)]).toEqual([scope, true]);
  });

  test('each placeholder of a path is a parameter', () => {
    for (const [, { rest }] of all) {
      if (!rest) continue;
      const placeholders = [...rest.path.matchAll(/\{([a-z_]+)\}/g)].map(([, name]) => name);
      expect(rest.pathParams).toEqual(expect.arrayContaining(placeholders));
    }
  });

  test('every object in parameters refuses unknown fields, or is a map on purpose', () => {
    const undecided = (schema: object, path: string): string[] => {
      const { type, properties } = schema as { type?: unknown; properties?: unknown };
      const isOpen = type === 'object' && properties && !('additionalProperties' in schema);
      const inside = Object.entries(schema).flatMap(([key, value]) =>
        typeof value === 'object' && value !== null ? undecided(value, `${path}/${key}`) : [],
      );
      return isOpen ? [path, ...inside] : inside;
    };
    expect(all.flatMap(([name, { params }]) => undecided(params, name))).toEqual([]);
  });

  test('the key of a cached read names every parameter that its answer depends on', () => {
    // An answer from before the wanted revision is not given, so it needs no key of its own.
    const notInKeys = new Set(['min_revision']);
    for (const [name, { params, cache }] of all) {
      if (!cache) continue;
      const names = Object.keys(params.properties).filter((each) => !notInKeys.has(each));
      const given = Object.fromEntries(names.map((each) => [each, `some ${each}`]));
      for (const left of names) {
        const { [left]: _left, ...others } = given;
        expect([name, left, cache.key(given)]).not.toEqual([name, left, cache.key(others)]);
      }
    }
  });

  test('what may be sent is bounded: each text in length, each list in number', () => {
    /** A pattern that is anchored at both ends and repeats nothing without end. */
    const isBoundedPattern = (pattern: string): boolean =>
      /^\^.*\$$/.test(pattern) && !/[*+]|\{\d+,\}/.test(pattern.replaceAll(/\[[^\]]*\]/g, 'x'));
    const unbounded = (schema: object, path: string): string[] => {
      const { type, maxLength, pattern, maxItems } = schema as {
        type?: unknown;
        maxLength?: number;
        pattern?: string;
        maxItems?: number;
      };
      const isBounded =
        type === 'string'
          ? maxLength !== undefined || 'const' in schema || isBoundedPattern(pattern ?? '')
          : type !== 'array' || maxItems !== undefined;
      const inside = Object.entries(schema).flatMap(([key, value]) =>
        typeof value === 'object' && value !== null ? unbounded(value, `${path}/${key}`) : [],
      );
      return isBounded ? inside : [path, ...inside];
    };
    const routed = all.filter(([, { rest }]) => rest);
    expect(routed.flatMap(([name, { params }]) => unbounded(params, name))).toEqual([]);
  });

  test('writes of configuration name the keys that they drop', () => {
    const silent = all
      .filter(([, { response, drops }]) => response === 'write' && !drops)
      .map(([name]) => name);
    // Its keys are those of the document that the history names.
    const expected: ActionName[] = ['tenant-config.rollback', 'global-config.rollback'];
    expect(silent).toEqual(expected);
  });
});

test('the console has a name for every document that is read and patched', () => {
  const patched = all.filter(
    ([name, { response }]) => response === 'write' && name.endsWith('.patch'),
  );
  const documents = patched.map(([name]) => name.slice(0, -'.patch'.length));
  expect(Object.values(resources).sort()).toEqual(documents.sort());
});

describe('error codes', () => {
  test('each has the status of an error and a message that is a sentence', () => {
    for (const [code, { status, message }] of Object.entries(errorTable)) {
      expect(code).toMatch(/^[a-z0-9_]+$/);
      expect(status).toBeGreaterThanOrEqual(400);
      expect(message).toMatch(/\.$/);
    }
  });

  test('those that monitoring alerts on are there: 503 for the database, 500 for the rest', () => {
    const alerted = [
      'auth_login_db_error',
      'auth_login_internal_error',
      'auth_refresh_db_error',
      'auth_webauthn_db_error',
      'auth_webauthn_internal_error',
      'auth_sso_db_error',
      'auth_sso_internal_error',
      'auth_api_key_internal_error',
    ] as const;
    for (const code of alerted)
      expect(errorTable[code].status).toBe(code.endsWith('_db_error') ? 503 : 500);
  });

  test('every code in the source is in the table', () => {
    const sources = globSync(['*.ts', '{shared,services,gateway}/**/*.ts'], { cwd: root });
    const used = sources.flatMap((file) => {
      const text = readFileSync(join(root, file), 'utf8');
      return [...text.matchAll(/new StrataError\(\s*'([a-z_0-9]+)'/g)].map(([, code]) => code);
    });
    expect(used.length).toBeGreaterThan(20);
    expect(Object.keys(errorTable)).toEqual(expect.arrayContaining(used));
  });
});
