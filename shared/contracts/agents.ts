/**
 * Agent configurations: what a tenant sets for one type of agent, and the layer `agent` of the effective configuration. Prose says
 * "agent configuration"; the names that clients and the database know are `agents` in actions and URLs, `agent_type` for its id,
 * `agent_config` in the history and in cache keys, `config.agent.…` in audit events, `agent_configurations` for its table.
 */
import { Type, type Static } from 'typebox';
import { documentContracts } from './document-contracts.ts';
import { FreeForm, InstanceCount, Slug, strict, Text } from './fields.ts';
import { ofTenant, tenantListing, tenantPath, type TenantAddress } from './tenant-document.ts';
import { BusinessHours } from './weekly-hours.ts';

const fields = {
  default_region: Type.Optional(Text),
  default_zone: Type.Optional(Text),
  metrics_duration_minutes: Type.Optional(Type.Integer({ minimum: 1, maximum: 525_600 })),
  validation_timeout_seconds: Type.Optional(Type.Integer({ minimum: 1, maximum: 86_400 })),
  default_memory: Type.Optional(
    Type.String({ minLength: 1, maxLength: 64, description: 'Such as 512Mi' }),
  ),
  default_cpu: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })),
  default_scaling: Type.Optional(
    Type.Object(
      {
        min_instances: Type.Optional(InstanceCount),
        max_instances: Type.Optional(InstanceCount),
      },
      strict,
    ),
  ),
  monitoring_thresholds: Type.Optional(Type.Record(Type.String(), Type.Number())),
  templates: Type.Optional(FreeForm),
  tools: Type.Optional(Type.Array(Text, { maxItems: 200 })),
  business_hours: Type.Optional(BusinessHours),
  custom: Type.Optional(FreeForm),
};
export const AgentConfig = Type.Object({ agent_type: Slug, ...fields }, strict);
export type AgentConfig = Static<typeof AgentConfig>;

export interface AgentAddress extends TenantAddress {
  readonly agent_type: string;
}
export const agentKey = ({ tenant_id, agent_type }: AgentAddress): string =>
  `agent_config_${tenant_id}_${agent_type}`;

const agent = documentContracts({
  ...ofTenant,
  title: 'an agent configuration',
  url: '/tenants/{tenant_id}/config/agents/{agent_type}',
  path: { ...tenantPath, agent_type: Slug },
  document: AgentConfig,
  body: Type.Object({ agent_type: Type.Optional(Slug), ...fields }, strict),
  key: agentKey,
});

export const agentContracts = {
  'tenant-config.agents.get': agent.get,
  'tenant-config.agents.put': agent.put,
  'tenant-config.agents.patch': agent.patch,
  /** Lets the lower layers show through again. */
  'tenant-config.agents.delete': agent.delete,
  'tenant-config.agents.list': tenantListing(
    "the tenant's agent configurations",
    '/tenants/{tenant_id}/config/agents',
    AgentConfig,
  ),
} as const;
