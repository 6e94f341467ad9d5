/**
 * The provider of `@strata/client/openfeature` in the official scenarios of OpenFeature (open-feature/spec 6fd4d54a,
 * `specification/assets/gherkin`, Apache-2.0), beside a real Strata whose public entries are the flags.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  OpenFeature,
  ProviderEvents,
  type EvaluationContextValue,
  type EvaluationDetails,
  type FlagValue,
  type Hook,
  type JsonValue,
} from '@openfeature/server-sdk';
import { readFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { StrataProvider } from '../../client/source/openfeature.ts';
import { eventually } from '../support/cluster.ts';
import { scenariosOf, type Step } from '../support/gherkin.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import { startProxy, type Proxy } from '../support/proxy.ts';
import { freePort } from '../support/servers.ts';
import {
  adminPassword,
  createTenant,
  signIn,
  startStrata,
  type Client,
  type Running,
  type TenantFixture,
} from '../support/strata.ts';

const assets = new URL('../support/openfeature/', import.meta.url);
const textOf = (file: string): string => readFileSync(new URL(file, assets), 'utf8');
interface Flag {
  readonly variants: Record<string, unknown>;
  readonly defaultVariant?: string | null;
  readonly disabled?: boolean;
  readonly contextEvaluator?: string;
}
const flags = JSON.parse(textOf('test-flags.json')) as Record<string, Flag>;

/** Scenarios that a configuration of limits can't be in, and why. */
const inexpressible: Record<string, string> = {
  'Resolves zero value with targeting': 'a value has no rules over an e-mail address',
  'Resolves zero value with targeting using default': 'a value has no rules over an e-mail address',
  'Empty evaluation context': 'a value has no rules, so its reason is STATIC and not DEFAULT',
  'Null context values': 'a value has no rules, so its reason is STATIC and not DEFAULT',
  'Multiple context attributes targeting': 'a value has no rules over attributes',
  'Complete evaluation details structure':
    'a variant is the layer that decided, not a name of its own',
  'Variant field population': 'a variant is the layer that decided, not a name of its own',
  'Flag metadata in evaluation details': 'metadata says where a value is from, and nothing else',
  'Returns metadata': 'metadata says where a value is from, and nothing else',
  'Returns no metadata': 'every value says where it is from',
  'CACHED reason': 'each value is from memory, so that says nothing; elsewhere STATIC is expected',
  'DISABLED reason': 'a value is there or is not',
};
const all = ['evaluation_v2.feature', 'metadata.feature'].flatMap((file) =>
  scenariosOf(textOf(file)),
);

let database: Database;
let strata: Running;
let platform: Client;
let tenant: TenantFixture;
let proxy: Proxy;
const silent = createServer();

beforeAll(async () => {
  OpenFeature.setLogger({ error() {}, warn() {}, info() {}, debug() {} });
  database = await strataDatabase();
  strata = await startStrata({ DATABASE_URL: database.url });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, 'Flags');
  for (const [key, { variants, defaultVariant, disabled, contextEvaluator }] of Object.entries(
    flags,
  )) {
    if (typeof defaultVariant !== 'string' || disabled || contextEvaluator) continue;
    const body = { config_value: variants[defaultVariant], is_public: true };
    const { status, text } = await platform.put(`/config/global/${key}`, body);
    if (status !== 201) throw new Error(`${key}: ${status} ${text}`);
  }
  await new Promise<void>((done) => {
    silent.listen(0, '127.0.0.1', done);
  });
  proxy = await startProxy(Number(new URL(strata.url).port));
  await OpenFeature.setProviderAndWait('stable', provider());
}, 60_000);
afterAll(async () => {
  await OpenFeature.close();
  silent.close();
  await proxy?.stop();
  await strata?.stop();
  await database?.drop();
});

const provider = (options: object = {}): StrataProvider =>
  new StrataProvider({
    url: strata.url,
    tenant: tenant.id,
    token: tenant.viewer.token!,
    warn: () => {},
    ...options,
  });

/** Providers in each state, under a name of their own. */
const providers: Record<string, () => Promise<unknown>> = {
  stable: async () => {},
  'not ready': async () => {
    const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
    OpenFeature.setProvider('not ready', provider({ url }));
  },
  error: async () => {
    const url = `http://127.0.0.1:${await freePort()}`;
    const starting = provider({ url, startup: { timeoutMs: 100 } });
    await OpenFeature.setProviderAndWait('error', starting).catch(() => {});
  },
  fatal: async () => {
    const foreign = provider({ tenant: '00000000-0000-4000-8000-000000000000' });
    await OpenFeature.setProviderAndWait('fatal', foreign).catch(() => {});
  },
  stale: async () => {
    const url = `http://127.0.0.1:${proxy.port}`;
    await OpenFeature.setProviderAndWait('stale', provider({ url, maxStalenessMs: 300 }));
    proxy.cut();
    const client = OpenFeature.getClient('stale');
    await eventually(async () => expect(client.providerStatus).toBe('STALE'));
  },
};

/** What one scenario has said so far. */
interface World {
  domain: string;
  type: string;
  key: string;
  fallback: string;
  readonly context: Record<string, EvaluationContextValue>;
  contextBefore: string;
  readonly called: string[];
  hooks: Hook[];
  details: EvaluationDetails<FlagValue> | undefined;
}

const plain = (text: string): string => text.replaceAll('\\"', '"');
function valueOf(type: string, text: string): FlagValue {
  if (type === 'String') return text;
  return JSON.parse(plain(text)) as FlagValue;
}

async function evaluate(world: World): Promise<void> {
  const { domain, type, key, fallback, context, hooks } = world;
  const client = OpenFeature.getClient(domain);
  const value = valueOf(type, fallback);
  const options = { hooks };
  switch (type) {
    case 'Boolean':
      world.details = await client.getBooleanDetails(key, value as boolean, context, options);
      return;
    case 'String':
      world.details = await client.getStringDetails(key, value as string, context, options);
      return;
    case 'Object':
      world.details = await client.getObjectDetails(key, value as JsonValue, context, options);
      return;
    default:
      world.details = await client.getNumberDetails(key, value as number, context, options);
  }
}

const details = ({ details: known }: World): EvaluationDetails<FlagValue> => known!;
type Do = (world: World, ...words: string[]) => unknown;
const steps: readonly [RegExp, Do][] = [
  [
    /^an? (stable|not ready|fatal|error|stale) provider$/,
    async (world, status) => {
      world.domain = status!;
      await providers[status!]!();
    },
  ],
  [
    /^a (\w+)-flag with key "(.*)" and a fallback value "(.*)"$/,
    (world, type, key, fallback) =>
      Object.assign(world, { type: type!, key: key!, fallback: fallback! }),
  ],
  [
    /^the flag was evaluated with details(?: asynchronously| using the evaluation options)?$/,
    evaluate,
  ],
  [
    /^the resolved details value should be "(.*)"$/,
    (world, text) => expect(details(world).value).toEqual(valueOf(world.type, text!)),
  ],
  [/^the reason should be "(.*)"$/, (world, text) => expect(details(world).reason).toBe(text)],
  [
    /^the error-code should be "(.*)"$/,
    (world, text) => expect(details(world).errorCode).toBe(text),
  ],
  [
    /^the provider status should be "(.*)"$/,
    (world, text) => expect(OpenFeature.getClient(world.domain).providerStatus).toBe(text),
  ],
  [
    /^evaluation options containing specific hooks$/,
    (world) => {
      world.hooks = ['a', 'b'].map((name) => ({
        before: () => void world.called.push(`before ${name}`),
        after: () => void world.called.push(`after ${name}`),
        finally: () => void world.called.push(`finally ${name}`),
      }));
    },
  ],
  [
    /^the specified hooks should execute during evaluation$/,
    (world) => expect(world.called).toHaveLength(6),
  ],
  [
    /^the hook order should be maintained$/,
    (world) =>
      expect(world.called).toEqual([
        'before a',
        'before b',
        'after b',
        'after a',
        'finally b',
        'finally a',
      ]),
  ],
  [
    /^an evaluation context with modifiable data$/,
    (world) => {
      world.context.list = ['a', { b: 1 }];
      world.contextBefore = JSON.stringify(world.context);
    },
  ],
  [
    /^the original evaluation context should remain unmodified$/,
    (world) => expect(JSON.stringify(world.context)).toBe(world.contextBefore),
  ],
  [
    /^the evaluation details should be immutable$/,
    (world) => expect(Object.isFrozen(details(world).flagMetadata)).toBe(true),
  ],
  [
    /^the evaluation should complete without blocking$/,
    (world) => expect(details(world)).toBeDefined(),
  ],
];

async function perform(world: World, { text }: Step): Promise<void> {
  const found = steps.find(([pattern]) => pattern.test(text));
  if (!found) throw new Error(`No such step: ${text}`);
  const [pattern, perform] = found;
  await perform(world, ...pattern.exec(text)!.slice(1));
}

describe('official scenarios', () => {
  test('are all here, and those left out are there', () => {
    const names = new Set(all.map(({ name }) => name));
    expect(names.size).toBe(23);
    for (const name of Object.keys(inexpressible)) expect(names).toContain(name);
  });

  const expressible = all.filter(({ name }) => inexpressible[name] === undefined);
  test.each(expressible.map((each) => [each.name, each.example, each] as const))(
    '%s: %s',
    async (_name, _example, scenario) => {
      const world: World = {
        domain: '',
        type: '',
        key: '',
        fallback: '',
        context: {},
        contextBefore: '',
        called: [],
        hooks: [],
        details: undefined,
      };
      for (const step of scenario.steps) await perform(world, step);
    },
  );
});

describe('a configuration as flags', () => {
  test('has the layer as variant, and where it is from as metadata', async () => {
    await tenant.admin.put(`/tenants/${tenant.id}/services/web`, {
      service_type: 'cloud_run',
      max_instances: 2,
    });
    const client = OpenFeature.getClient('stable');
    expect(await client.getNumberDetails('integer-flag', 1)).toMatchObject({
      value: 10,
      variant: 'global',
      flagMetadata: { source: 'global_integer-flag', updated_by: expect.any(String) },
    });
    const web = { targetingKey: 'web' };
    expect(await client.getNumberDetails('max_instances', 1, web)).toMatchObject({
      value: 2,
      variant: 'service_instance',
      reason: 'TARGETING_MATCH',
    });
  });

  test('tells which flags changed', async () => {
    const client = OpenFeature.getClient('stable');
    const told = new Promise((done) => {
      client.addHandler(ProviderEvents.ConfigurationChanged, (event) => done(event?.flagsChanged));
    });
    await platform.put('/config/global/string-flag', { config_value: 'hey', is_public: true });
    expect(await told).toEqual(['string-flag']);
    expect(await client.getStringValue('string-flag', '')).toBe('hey');
  });
});
