/**
 * What other layers of the platform, or other bounds, make of every effective configuration of a
 * tenant.
 *
 * Only keys of which they say something else can change, and those held in order with one. So both
 * sides are merged for these keys alone, by the same table of layers as any effective
 * configuration; and once for all contexts whose documents say the same of them, of whichever
 * tenant.
 */
import { isDeepStrictEqual } from 'node:util';
import { LRUCache } from 'lru-cache';
import { contradicted, describe, yieldingPairs } from '../../../shared/bounds/bounds-document.ts';
import {
  isEnforced,
  type BoundInForce,
  type BoundSet,
} from '../../../shared/bounds/bounds-in-force.ts';
import {
  valuesOfAgent,
  valuesOfInstance,
  valuesOfRisk,
  violationsOf,
  type PlacedValue,
} from '../../../shared/bounds/placed-values.ts';
import {
  differingKeys,
  layersOfKeys,
  typesOf,
  valuesOfEntries,
  valuesOfType,
  withPairs,
} from '../../../shared/bounds/platform-layers.ts';
import type { Bounds } from '../../../shared/contracts/bounds.ts';
import type { ImpactContext, ImpactCounts, ImpactItem } from '../../../shared/contracts/impact.ts';
import type { PlatformLayers, TenantSaid } from '../../../shared/contracts/layers.ts';
import { boundSets, decidedValues, type DecidedValue, type LayeredValues } from './layers.ts';
import { cutPlatformOf, sidesOf } from './rollouts.ts';

type Values = Readonly<Record<string, unknown>>;

export interface Compared {
  /** The keys that change in layers or bounds. */
  readonly keys: readonly string[];
  readonly before: PlatformLayers;
  readonly after: PlatformLayers;
  /** The environment's layer. */
  readonly environment: Values;
  /** Where it is a tenant's bounds that change, not the platform's. */
  readonly tenantBounds?: { readonly before: Bounds | null; readonly after: Bounds | null };
}

/** A context of a tenant: what it is asked for by, and what its documents say. */
interface TenantContext {
  readonly context: ImpactContext;
  readonly serviceType: string | null;
  readonly agent: Values | null;
  readonly service: Values | null;
}

type Item = Omit<ImpactItem, 'tenant_id' | 'tenant_name'>;

/** What a context's values are by both sides, in the order of the keys. */
interface Sides {
  readonly before: readonly DecidedValue[];
  readonly after: readonly DecidedValue[];
  /** The indexes of the keys that differ. */
  readonly changed: readonly number[];
  /**
   * What would newly be refused of the context's own document, an agent configuration or an
   * instance.
   */
  readonly problems: readonly ProblemOfValue[];
}

interface ProblemOfValue {
  readonly key: string;
  readonly message: string;
}
interface ProblemOfPlaced extends ProblemOfValue {
  readonly placed: PlacedValue;
}
/** Of the documents of a tenant that stand for no agent and no instance. */
interface ProblemsOfTenant {
  readonly risk: readonly ProblemOfPlaced[];
  readonly bounds: readonly ProblemOfValue[];
}

/** How many values are remembered for contexts that say the same. */
const maxRemembered = 200_000;
/** Characters of what a context says, above which it is not remembered. */
const maxSaid = 4000;

/** Numbers of tenants and documents, added up over tenants. */
export const emptyCounts = (keys: readonly string[]): ImpactCounts => ({
  tenants: { total: 0, changed: 0, shielded: 0, invalid: 0, clamped: 0 },
  by_key: Object.fromEntries(keys.map((key) => [key, { changed: 0, shielded_by: {} }])),
});

/** Those of a key, which are made where there are none; also of one named `__proto__`. */
function countsOfKey(byKey: ImpactCounts['by_key'], key: string): ImpactCounts['by_key'][string] {
  if (Object.hasOwn(byKey, key)) return byKey[key]!;
  const counts = { changed: 0, shielded_by: {} };
  const property = { value: counts, enumerable: true, writable: true, configurable: true };
  Object.defineProperty(byKey, key, property);
  return counts;
}

export class Impacts {
  /** The keys that may change. */
  readonly keys: readonly string[];
  readonly #compared: Compared;
  readonly #types: readonly string[];
  /**
   * Of each service type, and of none: the indexes of the keys of which the platform's layers say
   * something else.
   */
  readonly #layered: ReadonlyMap<string | null, ReadonlySet<number>>;
  /** Whether bounds or limits change, and not layers alone. */
  readonly #hasOtherRules: boolean;
  readonly #remembered = new Map<string, Sides>();

  constructor(compared: Compared) {
    const keys = withPairs(compared.keys);
    const before = layersOfKeys(compared.before, keys);
    const after = layersOfKeys(compared.after, keys);
    this.keys = keys;
    const wanted = new Set(keys);
    const environment = Object.fromEntries(
      Object.entries(compared.environment).filter(([key]) => wanted.has(key)),
    );
    this.#compared = { ...compared, before, after, environment };
    this.#types = typesOf(before, after);
    this.#hasOtherRules =
      compared.tenantBounds !== undefined ||
      !isDeepStrictEqual(rulesOf(before, this.#types), rulesOf(after, this.#types));
    const inEntries = differingKeys(valuesOfEntries(before), valuesOfEntries(after));
    const indexes = (differing: readonly string[]): ReadonlySet<number> =>
      new Set(differing.map((key) => keys.indexOf(key)).filter((index) => index >= 0));
    this.#layered = new Map([
      [null, indexes(inEntries)],
      ...this.#types.map((type) => {
        const inType = differingKeys(valuesOfType(before, type), valuesOfType(after, type));
        return [type, indexes([...inEntries, ...inType])] as const;
      }),
    ]);
  }

  /**
   * The contexts of a tenant in which something changes, and its counts when all have been looked
   * at. A generator, so that a tenant with very many of them can be looked at in between other
   * work.
   */
  *ofTenant(said: TenantSaid, counts: ImpactCounts): Generator<readonly ImpactItem[], void> {
    const { tenant_id, tenant_name } = said;
    const changed = new Set<number>();
    const shields = new Map<number, string>();
    const problems = { risk: this.#problemsOfRisk(said), bounds: this.#problemsOfBounds(said) };
    let isClamped = false;
    let invalid = [problems.risk, problems.bounds].filter(({ length }) => length > 0).length;
    for (const place of this.#contextsOf(said)) {
      const sides = this.#sidesOf(said, place);
      for (const index of sides.changed) {
        changed.add(index);
        isClamped ||= sides.after[index]!.isEnforced;
      }
      this.#collectShields(place, sides, shields);
      const found = this.#foundIn(place, sides, problems);
      invalid += found.invalid;
      yield found.items.map((item) => ({ tenant_id, tenant_name, ...item }));
    }
    const ofInactive = this.#problemsOfInactive(problems);
    yield ofInactive.map((item) => ({ tenant_id, tenant_name, ...item }));

    const { tenants, by_key: byKey } = counts;
    tenants.total += 1;
    tenants.invalid += invalid;
    if (isClamped) tenants.clamped += 1;
    if (changed.size > 0) tenants.changed += 1;
    else if (shields.size > 0) tenants.shielded += 1;
    for (const [index, key] of this.keys.entries()) {
      const layer = shields.get(index);
      if (!changed.has(index) && layer === undefined) continue;
      const ofKey = countsOfKey(byKey, key);
      if (changed.has(index)) ofKey.changed += 1;
      else if (layer !== undefined) ofKey.shielded_by[layer] = (ofKey.shielded_by[layer] ?? 0) + 1;
    }
  }

  /** None first, then each agent type, each instance and each active service type. */
  *#contextsOf({ agents, services }: TenantSaid): Generator<TenantContext> {
    const none = { serviceType: null, agent: null, service: null };
    yield { ...none, context: {} };
    for (const { agent_type, values } of agents)
      yield { ...none, context: { agent_type }, agent: values ?? {} };
    for (const { service_id, service_type: serviceType, values } of services)
      yield { ...none, context: { service_id }, serviceType, service: values ?? {} };
    for (const service_type of this.#types)
      yield { ...none, context: { service_type }, serviceType: service_type };
  }

  #sidesOf(said: TenantSaid, place: TenantContext): Sides {
    const { serviceType, agent, service } = place;
    const { global_settings: limits, service_overrides: overrides, bounds } = said;
    const override =
      serviceType !== null && Object.hasOwn(overrides, serviceType) ? overrides[serviceType] : null;
    const text = JSON.stringify([serviceType, agent, service, limits, override, bounds]);
    const known = this.#remembered.get(text);
    if (known) return known;
    const before = decidedValues(this.#layersOf(said, place, 'before'), this.keys);
    const after = decidedValues(this.#layersOf(said, place, 'after'), this.keys);
    const changed = this.keys.flatMap((_key, index) =>
      isSame(before[index]!, after[index]!) ? [] : [index],
    );
    const sides = { before, after, changed, problems: this.#problemsOfDocument(said, place) };
    if (this.#remembered.size * this.keys.length > maxRemembered) this.#remembered.clear();
    if (text.length <= maxSaid) this.#remembered.set(text, sides);
    return sides;
  }

  #layersOf(
    said: TenantSaid,
    { serviceType, agent, service }: Pick<TenantContext, 'serviceType' | 'agent' | 'service'>,
    side: 'before' | 'after',
  ): LayeredValues {
    const { tenantBounds, environment } = this.#compared;
    const bounds = tenantBounds ? tenantBounds[side] : said.bounds;
    const risk = riskOf(said);
    return {
      serviceType,
      environment,
      platform: this.#compared[side],
      tenant: {
        risk: { document: risk },
        agent: agent && { document: agent },
        service: service && { document: service },
        bounds: bounds && { document: bounds, revision: 0 },
      },
    };
  }

  /**
   * Which layer decides instead, in the widest context in which a layer of the platform changes.
   */
  #collectShields(
    { agent, service, serviceType }: TenantContext,
    { after }: Sides,
    shields: Map<number, string>,
  ): void {
    if (agent !== null || service !== null) return;
    for (const index of this.#layered.get(serviceType) ?? []) {
      const { layer } = after[index]!;
      if (layer !== null && !shields.has(index)) shields.set(index, layer);
    }
  }

  #foundIn(
    { context, agent, service, serviceType }: TenantContext,
    { before, after, changed, problems: ofDocument }: Sides,
    ofTenant: ProblemsOfTenant,
  ) {
    const hasDocument = agent !== null || service !== null;
    const problems = hasDocument ? ofDocument : problemsFor(serviceType, ofTenant);
    // Where this context is that of a stored document.
    const invalid = ofDocument.length > 0 ? 1 : 0;
    if (changed.length === 0 && problems.length === 0) return { items: [], invalid };
    const messages = new Map<string, string>();
    for (const { key, message } of problems)
      messages.set(key, messages.has(key) ? `${messages.get(key)}; ${message}` : message);
    const shown = new Set(changed);
    for (const key of messages.keys()) shown.add(this.keys.indexOf(key));
    const items = [...shown].map((index) => {
      const key = this.keys[index]!;
      const was = before[index]!;
      const becomes = after[index]!;
      const problem = messages.get(key);
      return {
        context,
        key,
        ...(was.isPresent && { before: was.value }),
        ...(becomes.isPresent && { after: becomes.value }),
        decided_by: becomes.layer,
        ...(problem !== undefined && { problem }),
      };
    });
    return { items, invalid };
  }

  #problemsOfDocument(said: TenantSaid, place: TenantContext): ProblemOfValue[] {
    const { agent, service, serviceType } = place;
    if (agent !== null) return this.#newProblems(said, place, valuesOfAgent(agent));
    if (service === null) return [];
    const instance = { ...service, service_type: serviceType! };
    return this.#newProblems(said, place, valuesOfInstance(instance));
  }

  /** Overrides for service types that are not active have no context of their own. */
  #problemsOfInactive({ risk }: ProblemsOfTenant): Item[] {
    return risk
      .filter(({ placed: { serviceType: type } }) => type !== null && !this.#types.includes(type))
      .map(({ key, message, placed }) => ({
        context: { service_type: placed.serviceType! },
        key,
        before: placed.value,
        after: placed.value,
        decided_by: 'tenant_risk',
        problem: message,
      }));
  }

  #problemsOfRisk(said: TenantSaid): ProblemOfPlaced[] {
    const place = { serviceType: null, agent: null, service: null };
    return this.#newProblems(said, place, valuesOfRisk(riskOf(said)));
  }

  /** A tenant's own bounds that newly contradict the platform's, and so yield to them. */
  #problemsOfBounds({ bounds }: TenantSaid): ProblemOfValue[] {
    if (bounds === null || !this.#hasOtherRules || this.#compared.tenantBounds) return [];
    const yieldsBefore = yielding(bounds, this.#compared.before);
    return [...yielding(bounds, this.#compared.after)].flatMap(([key, higher]) => {
      if (yieldsBefore.has(key)) return [];
      const message = `the tenant's bound would yield to that of the platform: ${describe(higher.rule)}`;
      return [{ key, message }];
    });
  }

  #newProblems(
    said: TenantSaid,
    place: Pick<TenantContext, 'serviceType' | 'agent' | 'service'>,
    values: readonly PlacedValue[],
  ): ProblemOfPlaced[] {
    if (!this.#hasOtherRules || values.length === 0) return [];
    const before = boundSets(this.#layersOf(said, place, 'before'));
    const after = boundSets(this.#layersOf(said, place, 'after'));
    if (after.length === 0) return [];
    return values.flatMap((placed) => {
      const bound = refusing(placed, after);
      if (bound === undefined || refusing(placed, before)) return [];
      const what = JSON.stringify(placed.value).slice(0, 100);
      const message = `${placed.path} is ${what}; the guardrail of the ${bound.by} would be ${describe(bound.rule)}`;
      return [{ key: placed.key, message, placed }];
    });
  }
}

/**
 * The keys of a tenant's bounds that yield to the platform's, alone or because they leave a pair no
 * order; each with what it yields to.
 */
function yielding(bounds: Bounds, { bounds: stored }: PlatformLayers): Map<string, BoundInForce> {
  if (stored === null) return new Map();
  const above: BoundSet[] = [
    { by: 'platform', bounds: stored.document, revision: stored.revision },
  ];
  const own: BoundSet = { by: 'tenant', bounds, revision: null };
  const ofPairs = yieldingPairs(own, above).map(({ key, to }) => [key, to] as const);
  const alone = Object.entries(bounds).flatMap(([key, rule]) => {
    const higher = contradicted(key, rule, above);
    return higher ? [[key, higher] as const] : [];
  });
  return new Map([...ofPairs, ...alone]);
}

/** Of the tenant's risk limits and bounds, those that are for this service type, or for none. */
function problemsFor(
  serviceType: string | null,
  { risk, bounds }: ProblemsOfTenant,
): ProblemOfValue[] {
  const ofRisk = risk.filter(({ placed }) => placed.serviceType === serviceType);
  return serviceType === null ? [...ofRisk, ...bounds] : ofRisk;
}

const refusing = (placed: PlacedValue, sets: readonly BoundSet[]): BoundInForce | undefined =>
  violationsOf([placed], sets).find(({ bound }) => isEnforced(bound.rule))?.bound;

/** What refuses values: bounds, and the limits of service types. */
const rulesOf = ({ bounds, service_types: byName }: PlatformLayers, types: readonly string[]) => [
  bounds?.document ?? {},
  types.map((type) =>
    Object.hasOwn(byName, type) ? byName[type]!.document.scaling_limits : undefined,
  ),
];

const riskOf = ({ global_settings: limits, service_overrides: overrides }: TenantSaid) => ({
  global_settings: limits ?? {},
  service_overrides: overrides,
});

const isSame = (one: DecidedValue, other: DecidedValue): boolean =>
  one.isPresent === other.isPresent &&
  (one.value === other.value || isDeepStrictEqual(one.value, other.value));

/**
 * Impacts for tenants on different sides of the rollouts that are under way. Of the keys that the
 * change is about, a tenant has what its side says, before and after.
 */
export class ImpactsBySide {
  readonly keys: readonly string[];
  readonly #compared: Compared;
  readonly #bySides: LRUCache<string, Impacts>;

  constructor(compared: Compared, mostSides = 32) {
    // Ten rollouts make a thousand sides, each with the impacts of all of its contexts.
    this.#bySides = new LRUCache({ max: mostSides });
    this.#compared = compared;
    this.keys = withPairs(compared.keys);
  }

  of(tenantId: string): Impacts {
    const { before, after } = this.#compared;
    const sides = [before, after].flatMap(({ rollouts }) => sidesOf(rollouts, tenantId));
    const name = sides.map(({ id, side }) => `${id} ${side}`).join();
    const known = this.#bySides.get(name);
    if (known) return known;
    const made = new Impacts({
      ...this.#compared,
      before: cutPlatformOf(before, tenantId),
      after: cutPlatformOf(after, tenantId),
    });
    this.#bySides.set(name, made);
    return made;
  }
}
