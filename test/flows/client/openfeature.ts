/**
 * The providers of `@strata/client/openfeature` and `-web` in the official scenarios of OpenFeature
 * (open-feature/spec 6fd4d54a, `specification/assets/gherkin`, Apache-2.0), in Node and in
 * Chromium, beside a real Strata whose public entries are the flags.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import type { ConnectOptions } from '../../../client/source/types.ts';
import { eventually } from '../../support/cluster.ts';
import { scenariosOf, type Step } from '../../support/gherkin.ts';
import { openPage, type PageHost } from '../../support/openfeature/browser.ts';
import type { Evaluated, Host } from '../../support/openfeature/evaluation.ts';
import { closeServer, server } from '../../support/openfeature/server.ts';
import { startProxy, type Proxy } from '../../support/proxy.ts';
import { freePort } from '../../support/servers.ts';
import { createTenant, type TenantFixture } from '../../support/strata.ts';
import { platform, strata } from './strata.ts';

const assets = new URL('../../support/openfeature/', import.meta.url);
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

let tenant: TenantFixture;
let proxy: Proxy;
let page: PageHost;
const silent = createServer();
const places = ['Node', 'Chromium'] as const;
type Place = (typeof places)[number];
const hostIn = (place: Place): Host => (place === 'Node' ? server : page);

beforeAll(async () => {
  const opening = openPage();
  opening.catch(() => {});
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
  page = await opening;
  for (const place of places) await hostIn(place).provide('stable', options(), true);
});
afterAll(async () => {
  await closeServer();
  await page?.stop();
  silent.close();
  await proxy?.stop();
});

const options = (other: Partial<ConnectOptions> = {}): ConnectOptions => ({
  url: strata.url,
  tenant: tenant.id,
  token: tenant.viewer.token!,
  ...other,
});
const portOf = (port: number): string => `http://127.0.0.1:${port}`;

/** Providers in each state, under a name of their own. */
const providers: Record<string, (host: Host) => Promise<unknown>> = {
  stable: async () => {},
  'not ready'(host) {
    const url = portOf((silent.address() as AddressInfo).port);
    return host.provide('not ready', options({ url }), false);
  },
  async error(host) {
    const url = portOf(await freePort());
    return host.provide('error', options({ url, startup: { timeoutMs: 100 } }), true);
  },
  fatal: (host) =>
    host.provide('fatal', options({ tenant: '00000000-0000-4000-8000-000000000000' }), true),
  async stale(host) {
    proxy.mend();
    const url = portOf(proxy.port);
    await host.provide('stale', options({ url, maxStalenessMs: 300 }), true);
    proxy.cut();
    await eventually(async () => expect(await host.status('stale')).toBe('STALE'));
  },
};

/** What one scenario has said so far. */
interface World {
  readonly host: Host;
  domain: string;
  type: string;
  key: string;
  fallback: string;
  context: Record<string, string>;
  hasHooks: boolean;
  details: Evaluated | undefined;
}

const plain = (text: string): string => text.replaceAll('\\"', '"');
function valueOf(type: string, text: string): unknown {
  if (type === 'String') return text;
  return JSON.parse(plain(text)) as unknown;
}

async function evaluate(world: World): Promise<void> {
  const { host, domain, type, key, fallback, context, hasHooks } = world;
  const question = { domain, type, key, fallback: valueOf(type, fallback), context, hasHooks };
  world.details = await host.evaluate(question);
}

const details = ({ details: known }: World): Evaluated => known!;
type Do = (world: World, ...words: string[]) => unknown;
const steps: readonly [RegExp, Do][] = [
  [
    /^an? (stable|not ready|fatal|error|stale) provider$/,
    async (world, status) => {
      world.domain = status!;
      await providers[status!]!(world.host);
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
    async (world, text) => expect(await world.host.status(world.domain)).toBe(text),
  ],
  [
    /^evaluation options containing specific hooks$/,
    (world) => {
      world.hasHooks = true;
    },
  ],
  [
    /^the specified hooks should execute during evaluation$/,
    (world) => expect(details(world).called).toHaveLength(6),
  ],
  [
    /^the hook order should be maintained$/,
    (world) =>
      expect(details(world).called).toEqual([
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
      world.context = { attribute: 'a' };
    },
  ],
  [
    /^the original evaluation context should remain unmodified$/,
    (world) => expect(details(world).isContextKept).toBe(true),
  ],
  [
    /^the evaluation details should be immutable$/,
    (world) => expect(details(world).isFrozen).toBe(true),
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

test('the official scenarios are all here, and those left out are there', () => {
  const names = new Set(all.map(({ name }) => name));
  expect(names.size).toBe(23);
  for (const name of Object.keys(inexpressible)) expect(names).toContain(name);
});

describe.each(places)('in %s', (place) => {
  const expressible = all.filter(({ name }) => inexpressible[name] === undefined);
  test.each(expressible.map((each) => [each.name, each.example, each] as const))(
    '%s: %s',
    async (_name, _example, scenario) => {
      const world: World = {
        host: hostIn(place),
        domain: '',
        type: '',
        key: '',
        fallback: '',
        context: {},
        hasHooks: false,
        details: undefined,
      };
      for (const step of scenario.steps) await perform(world, step);
    },
  );

  const numberOf = (key: string, context: Record<string, string> = {}): Promise<Evaluated> =>
    hostIn(place).evaluate({
      domain: 'stable',
      type: 'Integer',
      key,
      fallback: 1,
      context,
      hasHooks: false,
    });

  const putInstance = () =>
    tenant.admin.put(`/tenants/${tenant.id}/services/web`, {
      service_type: 'cloud_run',
      max_instances: 2,
    });

  test('a flag has the layer as variant, and where it is from as metadata', async () => {
    await putInstance();
    expect(await numberOf('integer-flag')).toMatchObject({
      value: 10,
      variant: 'global',
      flagMetadata: { source: 'global_integer-flag', updated_by: expect.any(String) },
    });
    expect(await numberOf('max_instances', { targetingKey: 'web' })).toMatchObject({
      value: 2,
      variant: 'service_instance',
      reason: 'TARGETING_MATCH',
    });
    expect((await numberOf('max_instances')).variant).not.toBe('service_instance');
  });

  test('a context that there cannot be has no values of another', async () => {
    await putInstance();
    expect((await numberOf('max_instances', { targetingKey: 'web' })).value).toBe(2);
    const said = await numberOf('max_instances', { targetingKey: 'web', serviceType: 'cloud_sql' });
    expect(said).toMatchObject({ value: 1, reason: 'ERROR', errorCode: expect.any(String) });
    expect((await numberOf('integer-flag')).value).toBe(10);
  });

  test('values that are too old when it starts are stale', async () => {
    proxy.mend();
    proxy.slow(20);
    const url = portOf(proxy.port);
    await hostIn(place).provide('stale at once', options({ url, maxStalenessMs: 1 }), true);
    proxy.cut();
    await eventually(async () => expect(await hostIn(place).status('stale at once')).toBe('STALE'));
  });

  test('it is told which flags changed', async () => {
    const key = `told-in-${place}`;
    const received = hostIn(place).nextChange('stable');
    // Until the handler is there, nobody would hear of it.
    await hostIn(place).status('stable');
    await platform.put(`/config/global/${key}`, { config_value: 7, is_public: true });
    expect(await received).toEqual([key]);
    expect((await numberOf(key)).value).toBe(7);
  });
});
