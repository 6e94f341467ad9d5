/**
 * What each layer holds, as a table; and their merge within bounds, with its explanation. Which
 * layer decides first is said by `layerNames` alone. The README has the same table for readers.
 */
import { hash } from 'node:crypto';
import type { Static } from 'typebox';
import {
  scalingBounds,
  type BoundInForce,
  type BoundSet,
} from '../../../shared/bounds/bounds-in-force.ts';
import { environmentKeys } from '../../../shared/bounds/known-keys.ts';
import { agentKey } from '../../../shared/contracts/agents.ts';
import { type Bounds } from '../../../shared/contracts/bounds.ts';
import {
  layerNames,
  type Explanation,
  type LayerName,
} from '../../../shared/contracts/effective-config.ts';
import { globalEntryKey } from '../../../shared/contracts/global-entries.ts';
import type { ConfigType, PlatformConfigType } from '../../../shared/contracts/history.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { riskDefaults, riskKey } from '../../../shared/contracts/risk.ts';
import { instanceValues, serviceInstanceKey } from '../../../shared/contracts/service-instances.ts';
import {
  defaultConfiguration,
  serviceTypeKey,
  type ServiceType,
} from '../../../shared/contracts/service-types.ts';
import { platformName } from '../../../shared/commits/actor-names.ts';
import { businessHoursKey } from '../../../shared/contracts/weekly-hours.ts';
import { pointerTo } from '../../../shared/schema/json-pointer.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { applyBounds, type Bounded, type BoundedValue } from './apply-bounds.ts';

/** What one effective configuration is merged from. */
export interface Sources extends LayeredValues {
  readonly tenantId: string;
  readonly tenant: Omit<ResultOf<'tenant-config.layers'>, 'at' | 'newest'>;
  readonly platform: Omit<ResultOf<'global-config.layers'>, 'newest' | 'tenant_revision'> & {
    /** By `candidateName`: the rollout whose candidate a document is, and not its own. */
    readonly candidateOf?: ReadonlyMap<string, string>;
  };
}

type Values = Readonly<Record<string, unknown>>;
type Part<Document> = { readonly document: Document } | null;
interface BoundsPart {
  readonly document: Bounds;
  readonly revision: number;
}

/**
 * The part of it that the values come from, where nobody asks who wrote them. Documents may be cut
 * down to some of their keys.
 */
export interface LayeredValues {
  readonly serviceType: string | null;
  readonly tenant: {
    readonly risk: Part<{
      readonly global_settings: Values;
      readonly service_overrides: Readonly<Record<string, Values>>;
    }>;
    readonly agent: Part<Values>;
    readonly service: Part<Values>;
    readonly bounds: BoundsPart | null;
  };
  readonly platform: {
    readonly entries: readonly {
      readonly document: { readonly config_key: string; readonly config_value: unknown };
    }[];
    readonly service_types: Readonly<Record<string, ServiceTypePart>>;
    readonly bounds: BoundsPart | null;
  };
  /** As `environmentDefaults` makes it. */
  readonly environment: Values;
}
interface ServiceTypePart {
  readonly document: Pick<
    ServiceType,
    'default_settings' | 'scaling_limits' | 'monitoring_defaults'
  >;
  readonly revision: number;
}

/**
 * Where a value was set: the cache key of the document that holds it, and who wrote that document.
 * Null for the environment.
 */
export type Origin = Pick<
  Static<typeof Explanation>,
  'source' | 'revision' | 'updated_by' | 'updated_by_name' | 'updated_at' | 'rollout'
>;
export type Place = Origin & Pick<Static<typeof Explanation>, 'layer' | 'path'>;

/** A document as the history of its owner names it. */
interface DocumentName {
  readonly owner: 'tenant' | 'platform';
  readonly config_type: ConfigType | PlatformConfigType;
  readonly resource_id: string;
}
/** Where a value stands. */
export interface PlaceName extends DocumentName {
  readonly path: string;
}
/** Who set a value and when; whose history does not say, undefined. */
export type AuthorAt = (
  place: PlaceName,
) => Pick<Origin, 'revision' | 'updated_by' | 'updated_by_name' | 'updated_at'> | undefined;

/** Values of a layer that stand in one place of its documents. */
interface PartOfLayer {
  readonly values: Readonly<Record<string, unknown>>;
  /** The JSON Pointer of a key's value in the document that holds it. */
  readonly pathOf: (key: string) => string;
}

interface LayerDefinition {
  /**
   * The places that hold its values, the one that decides first at the front; none where nothing is
   * stored.
   */
  readonly parts: (from: LayeredValues) => readonly PartOfLayer[];
  /**
   * The document that set `key`, and who wrote it last. Only the global layer looks at the key: it
   * holds one document per key, the others one for all.
   */
  readonly origin: (from: Sources, key: string) => Origin;
  /** That document by its name; undefined where nobody writes it. */
  readonly document: (from: Sources, key: string) => DocumentName | undefined;
}

const under =
  (...path: readonly string[]) =>
  (key: string): string =>
    pointerTo([...path, key]);

export const originOf = (
  source: string,
  stored: Omit<Origin, 'source'> | null | undefined,
): Origin => ({
  source,
  revision: stored?.revision ?? null,
  updated_by: stored?.updated_by ?? null,
  updated_by_name: stored?.updated_by_name ?? null,
  updated_at: stored?.updated_at ?? null,
});

/** A tenant reads that the platform wrote it, and not who. */
export const originOfPlatform = (
  source: string,
  stored: Parameters<typeof originOf>[1],
): Origin => ({
  ...originOf(source, stored),
  updated_by_name: stored ? platformName : null,
});

/**
 * The stored service type that is a layer here. `serviceType` comes from clients, so `constructor`
 * must find nothing.
 */
const serviceTypeOf = <Type>({
  platform,
  serviceType,
}: {
  readonly platform: { readonly service_types: Readonly<Record<string, Type>> };
  readonly serviceType: string | null;
}): Type | undefined =>
  serviceType !== null && Object.hasOwn(platform.service_types, serviceType)
    ? platform.service_types[serviceType]
    : undefined;

export const definitions: Readonly<Record<LayerName, LayerDefinition>> = {
  service_instance: {
    parts({ tenant }) {
      if (!tenant.service) return [];
      return [{ values: instanceValues(tenant.service.document), pathOf: under() }];
    },
    origin: ({ tenant, tenantId }) =>
      originOf(
        serviceInstanceKey({
          tenant_id: tenantId,
          service_id: tenant.service!.document.service_id,
        }),
        tenant.service,
      ),
    document: ({ tenant }) => ({
      owner: 'tenant',
      config_type: 'service_config',
      resource_id: tenant.service!.document.service_id,
    }),
  },
  agent: {
    parts({ tenant }) {
      if (!tenant.agent) return [];
      const { agent_type: _type, ...values } = tenant.agent.document;
      return [{ values, pathOf: under() }];
    },
    origin: ({ tenant, tenantId }) =>
      originOf(
        agentKey({ tenant_id: tenantId, agent_type: tenant.agent!.document.agent_type }),
        tenant.agent,
      ),
    document: ({ tenant }) => ({
      owner: 'tenant',
      config_type: 'agent_config',
      resource_id: tenant.agent!.document.agent_type,
    }),
  },
  tenant_risk: {
    parts({ tenant, serviceType }) {
      if (!tenant.risk) return [];
      const { global_settings: limits, service_overrides: overrides } = tenant.risk.document;
      const ofTenant = { values: limits, pathOf: under('global_settings') };
      if (serviceType === null || !Object.hasOwn(overrides, serviceType)) return [ofTenant];
      const ofType = overrides[serviceType]!;
      return [{ values: ofType, pathOf: under('service_overrides', serviceType) }, ofTenant];
    },
    origin: ({ tenant, tenantId }) => originOf(riskKey({ tenant_id: tenantId }), tenant.risk),
    document: ({ tenantId }) => ({
      owner: 'tenant',
      config_type: 'tenant_risk_config',
      resource_id: tenantId,
    }),
  },
  service_type: {
    parts(from) {
      const stored = serviceTypeOf(from);
      if (!stored) return [];
      const { default_settings, scaling_limits, monitoring_defaults } = stored.document;
      return [
        { values: { scaling_limits, monitoring_defaults }, pathOf: under() },
        { values: default_settings, pathOf: under('default_settings') },
      ];
    },
    origin: (from) =>
      originOfPlatform(
        serviceTypeKey({
          service_type: from.serviceType!,
          configuration_name: defaultConfiguration,
        }),
        serviceTypeOf(from),
      ),
    document: ({ serviceType }) => ({
      owner: 'platform',
      config_type: 'service_type_config',
      resource_id: `${serviceType!}/${defaultConfiguration}`,
    }),
  },
  global: {
    parts({ platform }) {
      const values = Object.fromEntries(
        platform.entries.map(({ document }) => [document.config_key, document.config_value]),
      );
      return [{ values, pathOf: () => '/config_value' }];
    },
    origin: ({ platform }, key) =>
      originOfPlatform(
        globalEntryKey({ key }),
        platform.entries.find(({ document }) => document.config_key === key),
      ),
    document: (_from, key) => ({
      owner: 'platform',
      config_type: 'global_config',
      resource_id: key,
    }),
  },
  env: {
    parts: ({ environment }) => [{ values: environment, pathOf: under() }],
    origin: () => originOf('env', null),
    document: () => undefined,
  },
};

/** Of these nobody knows what they were: a reload replaces settings without a trace. */
export const layersWithoutHistory: readonly LayerName[] = ['env'];

/** The one that decides first at the front. */
const layers = layerNames.map((name) => ({ name, ...definitions[name] }));

/**
 * What the environment contributes: risk defaults by field name, webhook defaults and HTTP
 * time-outs. Never a secret.
 */
export const environmentDefaults = (settings: Settings): Record<string, unknown> => ({
  ...riskDefaults(settings),
  [businessHoursKey]: JSON.parse(settings.default_business_hours),
  ...Object.fromEntries(environmentKeys.map((key) => [key, settings[key]])),
});

/** Names what the environment contributes: the same text only where that is the same. */
export const environmentFingerprint = (environment: Values): string =>
  hash('sha256', JSON.stringify(environment), 'base64url').slice(0, 16);

/** Every place that holds values, with its layer, the one that decides first at the front. */
export const layerPartsOf = (from: LayeredValues) =>
  layers.flatMap((layer) => layer.parts(from).map((part) => ({ layer, ...part })));
export type LayerPart = ReturnType<typeof layerPartsOf>[number];

/** The bounds that hold here, by authority. */
export function boundSets(from: LayeredValues): BoundSet[] {
  const { tenant, platform } = from;
  const ofType = serviceTypeOf(from);
  return [
    ...(platform.bounds ? [setOf('platform', platform.bounds)] : []),
    ...(ofType && tenant.service
      ? [scalingBounds(tenant.service.document, ofType.document.scaling_limits, ofType.revision)]
      : []),
    ...(tenant.bounds ? [setOf('tenant', tenant.bounds)] : []),
  ];
}

const setOf = (by: 'platform' | 'tenant', stored: BoundsPart): BoundSet => ({
  by,
  bounds: stored.document,
  revision: stored.revision,
});

export interface Effective {
  readonly values: Record<string, unknown>;
  /** The keys whose value a bound changed, or removed. */
  readonly enforced: string[];
}

/** `applyBounds` and `layeredMerge` want the layer that decides last. */
export const applied = (parts: readonly LayerPart[], from: LayeredValues): Bounded =>
  applyBounds(parts.map(({ values }) => values).toReversed(), boundSets(from), from.serviceType);

export const enforcedKeys = ({ bounded }: Bounded): string[] =>
  [...bounded].flatMap(([key, { enforced }]) => (enforced ? [key] : [])).toSorted();

/** The merged values, within bounds. */
export function effectiveValues(from: Sources): Effective {
  const bounded = applied(layerPartsOf(from), from);
  return { values: bounded.values, enforced: enforcedKeys(bounded) };
}

/** What one key becomes, and by what. */
export interface DecidedValue {
  readonly isPresent: boolean;
  readonly value: unknown;
  /** As explanations name it; null where nothing says anything of the key. */
  readonly layer: Place['layer'] | null;
  /** Whether a bound changed the value, or removed it. */
  readonly isEnforced: boolean;
}

/** Of these keys, what `explainValues` says of values and layers. */
export function decidedValues(from: LayeredValues, keys: readonly string[]): DecidedValue[] {
  const parts = layerPartsOf(from);
  const { values, bounded } = applied(parts, from);
  return keys.map((key) => {
    const result = bounded.get(key);
    const isPresent = Object.hasOwn(values, key);
    return {
      isPresent,
      value: isPresent ? values[key] : undefined,
      layer: decidingPart(key, parts, result)?.layer.name ?? layerOfBound(result?.enforced),
      isEnforced: result?.enforced !== undefined,
    };
  });
}

/**
 * The place whose value holds; undefined where it is a bound's own, or there is none. Where the key
 * is removed, the first asked.
 */
export function decidingPart(
  key: string,
  parts: readonly LayerPart[],
  result: BoundedValue | undefined,
): LayerPart | undefined {
  const held = result?.held ?? null;
  if (held === null) return parts.find(({ values }) => Object.hasOwn(values, key));
  return held.layer === null ? undefined : parts[parts.length - 1 - held.layer];
}

/** What explanations call the layer of a value that no layer holds. */
function layerOfBound(bound: BoundInForce | undefined): Place['layer'] | null {
  if (bound === undefined) return null;
  return bound.by === 'service_type' ? 'service_type' : 'bounds';
}
