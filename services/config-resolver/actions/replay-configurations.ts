/** The configurations that decisions of a replay were made by, and would be. */
import { LRUCache } from 'lru-cache';
import type { Call } from '../../../shared/contract-runtime/request.ts';
import type { ProposedDocument, Replayable } from '../../../shared/contracts/decisions.ts';
import { addressOf } from '../../../shared/contracts/effective-config.ts';
import type { ParamsOf, ResultOf } from '../../../shared/contracts/index.ts';
import { decidingLimits, limitNames } from '../../../shared/contracts/risk.ts';
import { defaultConfiguration } from '../../../shared/contracts/service-types.ts';
import type { ServiceInstance } from '../../../shared/contracts/service-instances.ts';
import { businessHoursKey } from '../../../shared/contracts/weekly-hours.ts';
import { codeOf } from '../../../shared/errors.ts';
import { explainValues, placesOf } from '../rules/explain.ts';
import type { AuthorAt, Sources } from '../rules/layers.ts';
import { overTimeOf } from '../rules/over-time.ts';
import type { Then } from '../rules/replay.ts';
import { candidateName } from '../rules/rollouts.ts';
import { unknownNames } from '../rules/unknown.ts';
import { authorsAt, placeName } from './authors.ts';
import { unknownPast } from './digests.ts';
import { namesOf, sourcesOf, type ContextAddress } from './sources.ts';

type TenantThen = ResultOf<'tenant-config.layers.then'>;
type PlatformThen = ResultOf<'global-config.layers'>;
type AuthorsOfPlatform = 'global-config.layers.authors';
type PlatformAuthors = ResultOf<AuthorsOfPlatform>;
/** The revisions that a configuration is of. */
export type Pair = Pick<Replayable, 'tenant' | 'platform'>;

/** What the rules look at. There may be many others, above all of the platform's. */
const keysThatDecide: ReadonlySet<string> = new Set([
  ...limitNames,
  ...decidingLimits,
  'maintenance_windows',
  businessHoursKey,
]);

interface Options {
  readonly environment: Sources['environment'];
  readonly call: Call;
}
/** Layers of one moment; or why they are not known. */
type Layers = { readonly tenant: TenantThen; readonly platform: PlatformThen } | string;

/** What one configuration is merged from; or why that is not known. */
type Found = Sources | string;

/** So many merged configurations are kept, each of a few KiB. */
const mostKept = 5000;

export class Configurations {
  readonly #tenantId: string;
  readonly #options: Options;
  /** Written over the documents of every moment. */
  readonly #documents: readonly ProposedDocument[];
  /** The moment whose configuration is proposed as a whole. */
  readonly #pair: Pair | undefined;
  readonly #known = new LRUCache<string, readonly [Then, Then]>({ max: mostKept });
  #layers = new Map<string, Layers>();
  readonly #platforms = new LRUCache<string, PlatformThen>({ max: 50 });
  readonly #authors = new LRUCache<string, Promise<PlatformAuthors>>({ max: 50 });

  constructor(
    tenantId: string,
    options: Options,
    documents: readonly ProposedDocument[],
    pair?: Pair,
  ) {
    this.#tenantId = tenantId;
    this.#options = options;
    this.#documents = documents;
    this.#pair = pair;
  }

  /** By what it was made, and would be. It is among those that were loaded. */
  of(decision: Replayable): readonly [Then, Then] {
    return this.#known.get(keyOf(decision)) ?? ['not_found', 'not_found'];
  }

  /** Merges what these decisions want, of each revision and context once. */
  async load(decisions: readonly Replayable[]): Promise<void> {
    const missing = new Map(
      decisions.flatMap((each) => {
        const key = keyOf(each);
        return this.#known.has(key) ? [] : [[key, each] as const];
      }),
    );
    this.#layers = new Map();
    const questions = [...missing.values()].map((each) => this.#questionOf(each));
    const pairs = new Map(
      [...missing.values()].map(({ tenant, platform }) => {
        const pair = { tenant, platform };
        return [pairKey(pair), pair] as const;
      }),
    );
    await someAtOnce([...pairs.values()], (pair) => this.#layersOf(pair, questions));
    const sources = new Map<string, Found>();
    for (const [key, decision] of missing) {
      const layers = await this.#layersOf(decision, questions);
      sources.set(key, this.#sourcesOf(this.#questionOf(decision), layers, []));
    }
    const authors = await this.#authorsOf(missing, sources);
    for (const [key, decision] of missing) {
      const question = this.#questionOf(decision);
      const before = this.#thenOf(question, sources.get(key)!, authors.get(pairKey(decision)));
      const layers = await this.#layersOf(this.#pair ?? decision, questions);
      const proposed = this.#sourcesOf(question, layers, this.#documents);
      this.#known.set(key, [before, this.#thenOf(question, proposed)]);
    }
  }

  /** Who set what at each pair of revisions, of all contexts together. */
  async #authorsOf(
    missing: ReadonlyMap<string, Replayable>,
    sources: ReadonlyMap<string, Found>,
  ): Promise<Map<string, AuthorAt>> {
    const together = Map.groupBy(missing, ([, decision]) => pairKey(decision));
    const authors = new Map<string, AuthorAt>();
    await someAtOnce([...together], async ([pair, decisions]) => {
      const all = decisions.flatMap(([key]) => {
        const found = sources.get(key)!;
        return typeof found === 'string' ? [] : [found];
      });
      if (all.length === 0) return;
      const places = all.flatMap((each) => placesOf(each, (key) => keysThatDecide.has(key)));
      const distinct = [...new Map(places.map((place) => [placeName(place), place])).values()];
      const { call } = this.#options;
      authors.set(pair, await authorsAt(all[0]!, distinct, call, this.#platformAuthors));
    });
    return authors;
  }

  /** Most pairs are of few revisions of the platform. */
  readonly #platformAuthors = (asked: ParamsOf<AuthorsOfPlatform>): Promise<PlatformAuthors> => {
    const key = JSON.stringify(asked);
    const known =
      this.#authors.get(key) ?? this.#options.call('global-config.layers.authors', asked);
    this.#authors.set(key, known);
    return known;
  };

  #questionOf({ intent }: Replayable): ContextAddress {
    return { tenant_id: this.#tenantId, ...addressOf(intent) };
  }

  /** Throws what is no answer about the past. */
  async #layersOf(pair: Pair, questions: readonly ContextAddress[]): Promise<Layers> {
    const key = pairKey(pair);
    const known = this.#layers.get(key);
    if (known !== undefined) return known;
    const layers = await this.#readLayers(pair, questions).catch((error: unknown) => {
      if (unknownPast.has(codeOf(error))) return codeOf(error);
      throw error;
    });
    this.#layers.set(key, layers);
    return layers;
  }

  async #readLayers(
    { tenant, platform }: Pair,
    questions: readonly ContextAddress[],
  ): Promise<Layers> {
    const { call } = this.#options;
    const instances = this.#documents
      .filter(({ config_type: type, document }) => type === 'service_config' && document !== null)
      .map(({ document }) => document as ServiceInstance);
    const ofTenant = await call('tenant-config.layers.then', {
      tenant_id: this.#tenantId,
      as_of: tenant,
      ...namesOf(questions),
      project_ids: instances.flatMap(({ project_id: id }) => id ?? []),
    });
    if (ofTenant.risk === null) return 'before_history';
    const types = new Set([
      ...instances.map(({ service_type: type }) => type),
      ...questions.flatMap(({ service_type: type }) => type ?? []),
      ...ofTenant.services.map(({ document }) => document.service_type),
    ]);
    const ofPlatform = await this.#platformAt(platform, [...types].toSorted());
    if (ofPlatform.withheld === true) return 'withheld';
    return { tenant: ofTenant, platform: ofPlatform };
  }

  async #platformAt(revision: number, types: string[]): Promise<PlatformThen> {
    const key = `${revision} ${types.join(' ')}`;
    const known = this.#platforms.get(key);
    if (known) return known;
    const layers = await this.#options.call('global-config.layers', {
      service_types: types,
      as_of: revision,
    });
    const entries = layers.entries.filter(({ document }) =>
      keysThatDecide.has(document.config_key),
    );
    const own = { ...layers, entries };
    this.#platforms.set(key, own);
    return own;
  }

  #sourcesOf(
    question: ContextAddress,
    layers: Layers,
    documents: readonly ProposedDocument[],
  ): Found {
    if (typeof layers === 'string') return layers;
    try {
      const tenant = withDocuments(layers.tenant, documents);
      const platform = withPlatformDocuments(layers.platform, documents);
      // Its revision at that moment is nobody's question here.
      const together = { platform, tenant: { ...tenant, platform_revision: 0 } };
      const sources = sourcesOf(question, together, this.#options.environment);
      return unknownNames(question, sources).length > 0 ? 'unknown_name' : sources;
    } catch (error) {
      // The instance is of another type by then than the decision names.
      if (codeOf(error) === 'validation_failed') return 'unknown_name';
      throw error;
    }
  }

  /** Without authors, limits have the revisions of their documents. */
  #thenOf(question: ContextAddress, sources: Found, authorAt?: AuthorAt): Then {
    if (typeof sources === 'string') return sources;
    const { serviceType, tenant, platform } = sources;
    const { values, explain } = explainValues(sources, authorAt);
    return {
      tenant_id: this.#tenantId,
      service_type: serviceType,
      revision: { tenant: tenant.revision, platform: platform.revision },
      values: deciding(values),
      explain: deciding(explain),
      ...overTimeOf(sources, question),
    };
  }
}

/** A replay leaves most of a service's connections to the database to others. */
const readsAtOnce = 4;

async function someAtOnce<Item>(
  items: readonly Item[],
  read: (item: Item) => Promise<unknown>,
): Promise<void> {
  for (let start = 0; start < items.length; start += readsAtOnce)
    await Promise.all(items.slice(start, start + readsAtOnce).map(read));
}

/** The keys that the rules look at. */
const deciding = <Value>(all: Readonly<Record<string, Value>>): Record<string, Value> =>
  Object.fromEntries(Object.entries(all).filter(([key]) => keysThatDecide.has(key)));

const pairKey = ({ tenant, platform }: Pair): string => `${tenant}.${platform}`;

function keyOf({ intent, ...pair }: Replayable): string {
  const { agent_type: agent = '', service_id: service = '', service_type: type = '' } = intent;
  return `${pairKey(pair)} ${agent} ${service} ${type}`;
}

/** With these documents in the place of those at that time. */
const withDocuments = (then: TenantThen, documents: readonly ProposedDocument[]): TenantThen =>
  documents.filter(({ owner }) => owner === 'tenant').reduce(withDocument, then);

/** Its own rules checked a proposal. Who wrote it is nobody's question. */
const nobodys = { revision: 0, updated_by: '', updated_at: '' };

/** Where the layers have documents that there is one of. */
const singles = new Map<string, 'bounds' | 'budgets' | 'freezes'>([
  ['bounds_config', 'bounds'],
  ['budgets_config', 'budgets'],
  ['freezes_config', 'freezes'],
]);
/** Where they have the tenant's others, and what names each of them. */
const lists = new Map<string, readonly ['agents' | 'services' | 'projects', name: string]>([
  ['agent_config', ['agents', 'agent_type']],
  ['service_config', ['services', 'service_id']],
  ['project_config', ['projects', 'project_id']],
]);

function withDocument(
  then: TenantThen,
  { config_type: type, resource_id: id, document }: ProposedDocument,
): TenantThen {
  const stored = document === null ? null : { document, ...nobodys };
  const single = type === 'tenant_risk_config' ? 'risk' : singles.get(type);
  if (single) return { ...then, [single]: stored };
  const list = lists.get(type);
  if (!list) return then;
  const [field, name] = list;
  const others = (then[field] as readonly Named[]).filter((each) => each.document[name] !== id);
  return { ...then, [field]: stored ? [...others, stored] : others };
}

function withPlatformDocuments(
  then: PlatformThen,
  documents: readonly ProposedDocument[],
): PlatformThen {
  const own = documents.filter(({ owner }) => owner === 'platform');
  const names = new Set(own.map((each) => candidateName(each.config_type, each.resource_id)));
  // A candidate of that time would stand before the proposal, which holds at every moment.
  const rollouts = then.rollouts?.map((rollout) => ({
    ...rollout,
    items: rollout.items.filter(
      (item) => !names.has(candidateName(item.config_type, item.resource_id)),
    ),
  }));
  return own.reduce(withPlatformDocument, { ...then, ...(rollouts && { rollouts }) });
}

function withPlatformDocument(
  then: PlatformThen,
  { config_type: type, resource_id: id, document }: ProposedDocument,
): PlatformThen {
  const stored = document === null ? null : { document, ...nobodys };
  const single = singles.get(type);
  if (single) return { ...then, [single]: stored };
  switch (type) {
    case 'global_config': {
      const others = then.entries.filter((each) => each.document.config_key !== id);
      const entry = stored as PlatformThen['entries'][number] | null;
      const isThere = entry?.document.is_public === true && keysThatDecide.has(id);
      return { ...then, entries: isThere ? [...others, entry] : others };
    }
    case 'service_type_config': {
      const [name = '', configuration] = id.split('/');
      if (configuration !== defaultConfiguration) return then;
      const { [name]: _before, ...others } = then.service_types;
      const own = stored as PlatformThen['service_types'][string] | null;
      const isThere = own?.document.is_active === true;
      return { ...then, service_types: isThere ? { ...others, [name]: own } : others };
    }
    default:
      return then;
  }
}

interface Named {
  readonly document: { readonly [name: string]: unknown };
}
