/** The six layers as a table, highest precedence first, as the specification numbers them; and the merge with its explanation. */
import type { Static } from 'typebox';
import type { Explanation } from '../../../shared/contracts/effective-config.ts';
import { layerNames } from '../../../shared/contracts/effective-config.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import type { Settings } from '../../../shared/settings.ts';
import { layeredMerge, type Layer } from './layered-merge.ts';

export type LayerName = (typeof layerNames)[number];
/** Where a layer's values come from: the cache key of the document, and who wrote it. Of one key, where a layer has many documents. */
export interface Source {
  readonly source: string;
  readonly revision: number | null;
  readonly updated_by: string | null;
  readonly updated_at: string | null;
}

export interface Sources {
  readonly tenantId: string;
  readonly serviceType: string | null;
  readonly tenant: ResultOf<'tenant-config.layers'>;
  readonly platform: ResultOf<'global-config.layers'>;
  readonly settings: Settings;
}

interface Row {
  readonly name: LayerName;
  readonly values: (from: Sources) => Layer;
  readonly source: (from: Sources, key: string) => Source;
}

const written = (
  source: string,
  row: { revision: number; updated_by: string; updated_at: string } | null | undefined,
): Source => ({
  source,
  revision: row?.revision ?? null,
  updated_by: row?.updated_by ?? null,
  updated_at: row?.updated_at ?? null,
});
const serviceTypeRow = ({ platform, serviceType }: Sources) =>
  serviceType !== null && Object.hasOwn(platform.service_types, serviceType)
    ? platform.service_types[serviceType]
    : undefined;

const layers: readonly Row[] = [
  {
    name: 'service_instance',
    values: ({ tenant }) => {
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
    source: ({ tenant, tenantId }) =>
      written(
        `service_instance_${tenantId}_${tenant.service?.document.service_id}`,
        tenant.service,
      ),
  },
  {
    name: 'agent',
    values: ({ tenant }) => {
      if (!tenant.agent) return null;
      const { agent_type: _type, ...values } = tenant.agent.document;
      return values;
    },
    source: ({ tenant, tenantId }) =>
      written(`agent_config_${tenantId}_${tenant.agent?.document.agent_type}`, tenant.agent),
  },
  {
    name: 'tenant_risk',
    values: ({ tenant, serviceType }) => {
      if (!tenant.risk) return null;
      const { global_settings: limits, service_overrides: overrides } = tenant.risk.document;
      return {
        ...limits,
        ...(serviceType !== null && Object.hasOwn(overrides, serviceType)
          ? overrides[serviceType]
          : {}),
      };
    },
    source: ({ tenant, tenantId }) => written(`risk_config_${tenantId}`, tenant.risk),
  },
  {
    name: 'service_type',
    values: (from) => {
      const row = serviceTypeRow(from);
      if (!row) return null;
      const { default_settings: settings, scaling_limits, monitoring_defaults } = row.document;
      return { ...settings, scaling_limits, monitoring_defaults };
    },
    source: (from) => written(`service_type_${from.serviceType}_default`, serviceTypeRow(from)),
  },
  {
    name: 'global',
    values: ({ platform }) =>
      Object.fromEntries(
        platform.entries.map(({ document }) => [document.config_key, document.config_value]),
      ),
    source: ({ platform }, key) =>
      written(
        `global_${key}`,
        platform.entries.find(({ document }) => document.config_key === key),
      ),
  },
  {
    name: 'env',
    values: ({ settings }) => environmentDefaults(settings),
    source: () => written('env', null),
  },
];

/** What the environment contributes: risk defaults by field name, webhook defaults and HTTP time-outs. Never a secret. */
export const environmentDefaults = (settings: Settings): Record<string, unknown> => ({
  max_cost_impact_auto: settings.default_max_cost_impact_auto,
  max_cost_impact_approval: settings.default_max_cost_impact_approval,
  max_resource_scaling: settings.default_max_resource_scaling,
  approval_timeout_minutes: settings.default_approval_timeout_minutes,
  require_approval_for_high_risk: settings.default_require_approval_for_high_risk,
  auto_approve_rollbacks: settings.default_auto_approve_rollbacks,
  automation_enabled: settings.default_automation_enabled,
  business_hours_only: settings.default_business_hours_only,
  max_concurrent_automations: settings.default_max_concurrent_automations,
  approval_webhook_timeout_seconds: settings.approval_webhook_timeout_seconds,
  approval_webhook_retry_attempts: settings.approval_webhook_retry_attempts,
  approval_webhook_backoff_initial_seconds: settings.approval_webhook_backoff_initial_seconds,
  approval_webhook_backoff_factor: settings.approval_webhook_backoff_factor,
  approval_webhook_backoff_max_seconds: settings.approval_webhook_backoff_max_seconds,
  http_client_timeout_seconds: settings.http_client_timeout_seconds,
  http_client_connect_timeout_seconds: settings.http_client_connect_timeout_seconds,
});

export const effectiveValues = (from: Sources): Record<string, unknown> =>
  layeredMerge(layers.map((layer) => layer.values(from)).toReversed());

/** For every key: the deciding layer with its source, and what it shadows, highest first. */
export function explainValues(from: Sources): Record<string, Static<typeof Explanation>> {
  const found = layers.map((layer) => ({ layer, values: layer.values(from) ?? {} }));
  return Object.fromEntries(
    Object.keys(effectiveValues(from)).map((key) => {
      const [winner, ...shadowed] = found.filter(({ values }) => Object.hasOwn(values, key));
      return [
        key,
        {
          layer: winner!.layer.name,
          ...winner!.layer.source(from, key),
          shadowed: shadowed.map(({ layer, values }) => ({
            layer: layer.name,
            value: values[key],
          })),
        },
      ];
    }),
  );
}
