/**
 * What each layer holds, as a table; and their merge, with its explanation. Which layer decides first is said by `layerNames` alone.
 * The README has the same table for readers.
 */
import type { Static } from 'typebox';
import { agentKey } from '../../../shared/contracts/agents.ts';
import {
  layerNames,
  type Explanation,
  type LayerName,
} from '../../../shared/contracts/effective-config.ts';
import { globalEntryKey } from '../../../shared/contracts/global-entries.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { riskDefaults, riskKey } from '../../../shared/contracts/risk.ts';
import { serviceInstanceKey } from '../../../shared/contracts/service-instances.ts';
import { defaultConfiguration, serviceTypeKey } from '../../../shared/contracts/service-types.ts';
import { businessHoursKey } from '../../../shared/contracts/weekly-hours.ts';
import type { Settings } from '../../../shared/settings.ts';
import { layeredMerge, type Layer } from './layered-merge.ts';

/** What one effective configuration is merged from. */
export interface Sources {
  readonly tenantId: string;
  readonly serviceType: string | null;
  readonly tenant: ResultOf<'tenant-config.layers'>;
  readonly platform: ResultOf<'global-config.layers'>;
  readonly settings: Settings;
}

/** Where a value was set: the cache key of the document that holds it, and who wrote that document. Null for the environment. */
type Origin = Pick<Static<typeof Explanation>, 'source' | 'revision' | 'updated_by' | 'updated_at'>;

interface LayerDefinition {
  readonly values: (from: Sources) => Layer;
  /** The document that set `key`. Only the global layer looks at it: it holds one document per key, the others one for all. */
  readonly origin: (from: Sources, key: string) => Origin;
}

const originOf = (source: string, stored: Omit<Origin, 'source'> | null | undefined): Origin => ({
  source,
  revision: stored?.revision ?? null,
  updated_by: stored?.updated_by ?? null,
  updated_at: stored?.updated_at ?? null,
});

/** The stored service type that is a layer here. `serviceType` comes from clients, so `constructor` must find nothing. */
const serviceTypeOf = ({ platform, serviceType }: Sources) =>
  serviceType !== null && Object.hasOwn(platform.service_types, serviceType)
    ? platform.service_types[serviceType]
    : undefined;

const definitions: Readonly<Record<LayerName, LayerDefinition>> = {
  service_instance: {
    values({ tenant }) {
      if (!tenant.service) return null;
      const {
        service_id: _id,
        service_name: _name,
        service_type: _type,
        project_id: _project,
        ...values
      } = tenant.service.document;
      return values;
    },
    origin: ({ tenant, tenantId }) =>
      originOf(
        serviceInstanceKey({
          tenant_id: tenantId,
          service_id: tenant.service!.document.service_id,
        }),
        tenant.service,
      ),
  },
  agent: {
    values({ tenant }) {
      if (!tenant.agent) return null;
      const { agent_type: _type, ...values } = tenant.agent.document;
      return values;
    },
    origin: ({ tenant, tenantId }) =>
      originOf(
        agentKey({ tenant_id: tenantId, agent_type: tenant.agent!.document.agent_type }),
        tenant.agent,
      ),
  },
  tenant_risk: {
    values({ tenant, serviceType }) {
      if (!tenant.risk) return null;
      const { global_settings: limits, service_overrides: overrides } = tenant.risk.document;
      const isOverridden = serviceType !== null && Object.hasOwn(overrides, serviceType);
      return { ...limits, ...(isOverridden && overrides[serviceType]) };
    },
    origin: ({ tenant, tenantId }) => originOf(riskKey({ tenant_id: tenantId }), tenant.risk),
  },
  service_type: {
    values(from) {
      const stored = serviceTypeOf(from);
      if (!stored) return null;
      const { default_settings, scaling_limits, monitoring_defaults } = stored.document;
      return { ...default_settings, scaling_limits, monitoring_defaults };
    },
    origin: (from) =>
      originOf(
        serviceTypeKey({
          service_type: from.serviceType!,
          configuration_name: defaultConfiguration,
        }),
        serviceTypeOf(from),
      ),
  },
  global: {
    values: ({ platform }) =>
      Object.fromEntries(
        platform.entries.map(({ document }) => [document.config_key, document.config_value]),
      ),
    origin: ({ platform }, key) =>
      originOf(
        globalEntryKey({ key }),
        platform.entries.find(({ document }) => document.config_key === key),
      ),
  },
  env: {
    values: ({ settings }) => environmentDefaults(settings),
    origin: () => originOf('env', null),
  },
};

/** The one that decides first at the front. */
const layers = layerNames.map((name) => ({ name, ...definitions[name] }));

/** What the environment contributes: risk defaults by field name, webhook defaults and HTTP time-outs. Never a secret. */
export const environmentDefaults = (settings: Settings): Record<string, unknown> => ({
  ...riskDefaults(settings),
  [businessHoursKey]: JSON.parse(settings.default_business_hours),
  approval_webhook_timeout_seconds: settings.approval_webhook_timeout_seconds,
  approval_webhook_retry_attempts: settings.approval_webhook_retry_attempts,
  approval_webhook_backoff_initial_seconds: settings.approval_webhook_backoff_initial_seconds,
  approval_webhook_backoff_factor: settings.approval_webhook_backoff_factor,
  approval_webhook_backoff_max_seconds: settings.approval_webhook_backoff_max_seconds,
  http_client_timeout_seconds: settings.http_client_timeout_seconds,
  http_client_connect_timeout_seconds: settings.http_client_connect_timeout_seconds,
});

/** The merged values. `layeredMerge` wants the layer that decides last. */
export const effectiveValues = (from: Sources): Record<string, unknown> =>
  layeredMerge(layers.map((layer) => layer.values(from)).toReversed());

/** For every key: the layer that decides, where it was set, and what it shadows, highest layer first. */
export function explainValues(from: Sources): Record<string, Static<typeof Explanation>> {
  const valuesByLayer = layers.map((layer) => ({ layer, values: layer.values(from) ?? {} }));
  const explain = (key: string): Static<typeof Explanation> => {
    const [deciding, ...shadowed] = valuesByLayer.filter(({ values }) =>
      Object.hasOwn(values, key),
    );
    const { layer } = deciding!;
    return {
      layer: layer.name,
      ...layer.origin(from, key),
      shadowed: shadowed.map(({ layer, values }) => ({ layer: layer.name, value: values[key] })),
    };
  };
  const keys = Object.keys(effectiveValues(from));
  return Object.fromEntries(keys.map((key) => [key, explain(key)]));
}
