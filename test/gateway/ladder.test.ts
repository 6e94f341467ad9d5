/**
 * What the ladder of the console shows is what Strata has: of many stacks of layers, made by
 * writes of every kind, each rung with its value, who set it and by which revision; and of a
 * sample of overrides what a trial says of clearing them is what clearing them does.
 * LADDER_STACKS makes it longer, such as the 2,000 of `npm run test:soak`.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { isDeepStrictEqual } from 'node:util';
import { removalAt } from '../../console/format.ts';
import { ladderOf, titleOf, type Explanations } from '../../console/screens/ladder.ts';
import { trialAddress } from '../../console/screens/trial.ts';
import { pointerTo } from '../../shared/schema/json-pointer.ts';
import fc from '../support/properties.ts';
import { sharedStrata, type SharedStrata } from '../support/shared-strata.ts';
import {
  adminPassword,
  createTenantWith,
  signIn,
  type Client,
  type TenantWith,
} from '../support/strata.ts';

const stacks = Number(process.env.LADDER_STACKS ?? 60);

let strata: SharedStrata;
let platform: Client;
let tenant: TenantWith<'operator'>;
let settingsBefore: Record<string, unknown>;

const entry = '/config/global/note';
const ofType = '/config/service-types/cloud_run/default';

beforeAll(async () => {
  strata = await sharedStrata();
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenantWith(strata.url, platform, 'Ladders', ['operator']);
  ({ default_settings: settingsBefore } = (await platform.get(ofType)).body);
});
// Other files use this platform after it.
afterAll(async () => {
  await platform.delete(entry);
  const { default_settings: now } = (await platform.get(ofType)).body;
  const without = Object.fromEntries(Object.keys(now).map((key) => [key, null]));
  await platform.patch(ofType, { default_settings: { ...without, ...settingsBefore } });
});

type Json = Record<string, unknown>;
interface Author {
  readonly revision: number;
  readonly by: string;
}

/** What the test knows of one document: its keys by their pointers, and who set each. */
class Known {
  #values = new Map<string, unknown>();
  readonly #authors = new Map<string, Author>();

  written(document: Json | null, author: Author): void {
    const next = new Map(document === null ? [] : keysOf(document));
    for (const [path, value] of next)
      if (!this.#values.has(path) || !isDeepStrictEqual(this.#values.get(path), value))
        this.#authors.set(path, author);
    this.#values = next;
  }

  at(path: string) {
    if (!this.#values.has(path)) return undefined;
    return { value: this.#values.get(path), ...this.#authors.get(path)! };
  }
}

/** Every object's members too: only those that are keys of layers are asked for. */
function keysOf(document: Json, above: readonly string[] = []): [string, unknown][] {
  return Object.entries(document).flatMap(([name, value]): [string, unknown][] => {
    const path = [...above, name];
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    const inner = isObject && path.length < 3 ? keysOf(value as Json, path) : [];
    return [[pointerTo(path), value], ...inner];
  });
}

const keys = [
  'max_cost_impact_auto',
  'automation_enabled',
  'default_memory',
  'min_instances',
  'note',
];
const someValue = {
  max_cost_impact_auto: fc.constantFrom(1, 2, 8, 15),
  automation_enabled: fc.boolean(),
  default_memory: fc.constantFrom('256Mi', '512Mi', '1Gi'),
  min_instances: fc.constantFrom(0, 1, 2),
  note: fc.oneof(
    fc.constantFrom('a', 'b'),
    fc.constant({ x: 1, y: [2] }),
    fc.constant({ y: [2], x: 1 }),
  ),
} as const;
const only = (...names: (keyof typeof someValue)[]) =>
  fc.record(Object.fromEntries(names.map((name) => [name, someValue[name]])), { requiredKeys: [] });
const types = ['cloud_run', 'cloud_sql'] as const;

const write = fc.oneof(
  fc.record({
    kind: fc.constant('risk' as const),
    method: fc.constantFrom('put' as const, 'patch' as const),
    body: fc.record(
      {
        global_settings: only('max_cost_impact_auto', 'automation_enabled'),
        service_overrides: fc.dictionary(
          fc.constantFrom(...types),
          only(
            'max_cost_impact_auto',
            'automation_enabled',
            'default_memory',
            'min_instances',
            'note',
          ),
          { noNullPrototype: true },
        ),
      },
      { requiredKeys: [] },
    ),
  }),
  fc.record({
    kind: fc.constant('agent' as const),
    method: fc.constantFrom('put' as const, 'patch' as const, 'delete' as const),
    body: only('default_memory'),
  }),
  fc.record({
    kind: fc.constant('service' as const),
    method: fc.constantFrom('put' as const, 'patch' as const, 'delete' as const),
    body: only('min_instances', 'automation_enabled'),
  }),
  fc.record({
    kind: fc.constant('type' as const),
    method: fc.constant('patch' as const),
    body: fc.record({ default_settings: only('max_cost_impact_auto', 'default_memory', 'note') }),
  }),
  fc.record({
    kind: fc.constant('entry' as const),
    method: fc.constantFrom('put' as const, 'delete' as const),
    body: fc.record({
      config_value: someValue.note,
      is_public: fc.constant(true),
      requires_restart: fc.boolean(),
    }),
  }),
  fc.record({
    kind: fc.constant('bounds' as const),
    method: fc.constantFrom('put' as const, 'delete' as const),
    body: fc.constantFrom<Json>(
      {},
      { max_cost_impact_auto: { maximum: 2 } },
      { automation_enabled: { const: true } },
      { default_memory: { enum: ['512Mi'] } },
    ),
  }),
  fc.record({
    kind: fc.constant('undo' as const),
    method: fc.constant('post' as const),
    body: fc.constant({}),
  }),
);
type Write = typeof write extends fc.Arbitrary<infer Each> ? Each : never;

test(`${stacks} stacks are shown as they are, and what clearing leads to as it comes`, async () => {
  const { id, admin, operator } = tenant;
  const addresses = {
    risk: `/tenants/${id}/config/risk`,
    agent: `/tenants/${id}/config/agents/scaler`,
    service: `/tenants/${id}/services/web`,
    bounds: `/tenants/${id}/config/bounds`,
    type: ofType,
    entry,
  } as const;
  type Kind = keyof typeof addresses;
  const known = Object.fromEntries(
    Object.keys(addresses).map((kind) => [kind, new Known()]),
  ) as Record<Kind, Known>;
  const isPlatform = (kind: Kind): boolean => kind === 'type' || kind === 'entry';
  const reader = (kind: Kind): Client => (isPlatform(kind) ? platform : admin);

  /** What the document is now, and whose write that was. */
  async function learn(kind: Kind, author: Author): Promise<void> {
    const { status, body } = await reader(kind).get(addresses[kind]);
    known[kind].written(status === 404 || body === null ? null : body, author);
  }
  const authorIn = ({ headers }: { readonly headers: Headers }): Author => ({
    revision: Number(headers.get('x-config-revision')),
    by: headers.get('x-updated-by')!,
  });
  for (const kind of Object.keys(addresses) as Kind[]) {
    const answer = await reader(kind).get(addresses[kind]);
    if (answer.status === 200) await learn(kind, authorIn(answer));
  }

  /** The newest of the tenant's history, where no header names it. */
  async function newest(kind: Kind): Promise<Author> {
    const path = isPlatform(kind)
      ? '/config/history?limit=1'
      : `/tenants/${id}/config/history?limit=1`;
    const { body } = await reader(kind).get(path);
    return { revision: body.items[0].revision, by: body.items[0].changed_by };
  }
  const kinds: Readonly<Record<string, Kind>> = {
    tenant_risk_config: 'risk',
    agent_config: 'agent',
    service_config: 'service',
    bounds_config: 'bounds',
  };

  async function perform({ kind, method, body }: Write, index: number): Promise<boolean> {
    if (kind === 'undo') {
      const { body: history } = await admin.get(`/tenants/${id}/config/history?limit=10`);
      const entry = history.items[index % history.items.length];
      const target = kinds[entry.config_type]!;
      const undone = await admin.post(`/tenants/${id}/config/rollback`, {
        revision: entry.revision,
      });
      if (undone.status >= 400) return false;
      await learn(target, await newest(target));
      return true;
    }
    const by = isPlatform(kind)
      ? platform
      : kind === 'service' && index % 3 === 0
        ? operator
        : admin;
    const sent =
      kind === 'service' && method === 'put' ? { service_type: 'cloud_run', ...body } : body;
    const answer =
      method === 'delete'
        ? await by.delete(addresses[kind])
        : await by[method](addresses[kind], sent);
    if (answer.status >= 400) return false;
    await learn(kind, await newest(kind));
    return true;
  }

  const places = (key: string) =>
    [
      ['service_instance', 'service', [key]],
      ['agent', 'agent', [key]],
      ['tenant_risk', 'risk', ['service_overrides', 'cloud_run', key]],
      ['tenant_risk', 'risk', ['global_settings', key]],
      ['service_type', 'type', ['default_settings', key]],
      ['global', 'entry', key === 'note' ? ['config_value'] : undefined],
    ] as const;
  const expectedOf = (key: string, hasService: boolean) =>
    places(key).flatMap(([layer, kind, path]) => {
      if (path === undefined || (layer === 'service_instance' && !hasService)) return [];
      const held = known[kind].at(pointerTo([...path]));
      return held ? [[layer, held.value, held.by, held.revision]] : [];
    });

  let seen = 0;
  let cleared = 0;
  let refused = 0;
  const writes = fc.sample(write, { numRuns: stacks * 2, seed: 20_261_123 });
  for (const [index, each] of writes.entries()) {
    if (seen >= stacks) break;
    if (!(await perform(each, index))) {
      refused += 1;
      continue;
    }
    seen += 1;
    const hasService = known.service.at('/service_type') !== undefined;
    const context = {
      agent_type: 'scaler',
      ...(hasService ? { service_id: 'web' } : { service_type: 'cloud_run' }),
    };
    const question = `/tenants/${id}/config/effective?${new URLSearchParams({ ...context, explain: 'true' })}`;
    const { body } = await admin.get(question);
    const explain = body.explain as Explanations;
    for (const key of keys) {
      const rungs = explain[key] ? ladderOf(explain[key]) : [];
      const shown = rungs
        .filter(({ layer, state }) => state !== 'unset' && layer !== 'env')
        .map(({ layer, value, updatedBy, revision }) => [layer, value, updatedBy, revision]);
      expect({ index, each, key, shown }).toEqual({
        index,
        each,
        key,
        shown: expectedOf(key, hasService),
      });
    }

    if (index % 6 !== 0) continue;
    const clearable = keys.flatMap((key) =>
      explain[key]
        ? ladderOf(explain[key])
            .filter(({ isClearable }) => isClearable)
            .map((rung) => ({ key, rung }))
        : [],
    );
    const chosen = clearable[index % Math.max(1, clearable.length)];
    if (!chosen) continue;
    const { key, rung } = chosen;
    const kind = ({ service_instance: 'service', agent: 'agent', tenant_risk: 'risk' } as const)[
      rung.layer as 'agent'
    ] as Kind;
    const removal = removalAt(rung.path!);
    const trial = await admin.patch(trialAddress(addresses[kind], { context }), removal);
    expect({ title: titleOf(rung), status: trial.status }).toMatchObject({ status: 200 });
    const change = trial.body.effective.find((one: { readonly key: string }) => one.key === key);
    const done = await admin.patch(addresses[kind], removal);
    expect(done.status).toBe(200);
    await learn(kind, await newest(kind));
    const { body: after } = await admin.get(question);
    const becomes = after.explain[key];
    expect({ key, after: change.after, layer: change.decided_by, path: change.path }).toEqual({
      key,
      after: after.values[key],
      layer: becomes && 'value' in becomes ? becomes.layer : null,
      path: becomes && 'value' in becomes ? becomes.path : null,
    });
    cleared += 1;
  }
  expect(seen).toBe(stacks);
  expect(cleared).toBeGreaterThan(stacks / 20);
  expect(refused).toBeLessThan(stacks);
});
