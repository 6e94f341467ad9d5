/**
 * Agent configurations: what a tenant sets for one type of agent, and the layer `agent` of the
 * effective configuration. Prose says "agent configuration"; the names that clients and the
 * database know are `agents` in actions and URLs, `agent_type` for its id, `agent_config` in the
 * history and in cache keys, `config.agent.…` in audit events, `agent_configurations` for its
 * table.
 */
import { Type, type Static } from 'typebox';
import { dryRun } from './contract.ts';
import { documentContracts, named } from './document-contracts.ts';
import { effectiveTrials } from './effective-trial.ts';
import {
  AgentType,
  described,
  FreeForm,
  InstanceCount,
  Optional,
  Text,
  TitledObject,
} from './fields.ts';
import { ofTenant, tenantListing, tenantPath, type TenantAddress } from './tenant-document.ts';
import { temporary } from './temporary-changes.ts';
import { BusinessHours } from './weekly-hours.ts';

const fields = {
  default_region: Type.Optional(Text('Default region', 'europe-west1')),
  default_zone: Type.Optional(Text('Default zone')),
  metrics_duration_minutes: Optional.Integer({
    minimum: 1,
    maximum: 525_600,
    description: 'Look-back window of metrics',
    examples: [30],
  }),
  validation_timeout_seconds: Optional.Integer({
    minimum: 1,
    maximum: 86_400,
    description: 'How long a change may take to be validated',
  }),
  default_memory: Optional.String({ minLength: 1, maxLength: 64, description: 'Such as 512Mi' }),
  default_cpu: Optional.String({ minLength: 1, maxLength: 64, description: 'Such as 500m' }),
  default_scaling: Type.Optional(
    TitledObject('Scaling', 'Between how many instances it scales', {
      min_instances: Type.Optional(InstanceCount),
      max_instances: Type.Optional(InstanceCount),
    }),
  ),
  monitoring_thresholds: Type.Optional(
    Type.Record(Type.String(), Type.Number(), {
      description: 'Name of a metric to its threshold',
      examples: [{ cpu_percent: 80 }],
    }),
  ),
  templates: Type.Optional(described(FreeForm, 'Templates, stored as they are')),
  tools: Optional.Array(Text('Name of a tool'), {
    maxItems: 200,
    description: 'Tools that the agent may use',
  }),
  business_hours: Type.Optional(BusinessHours),
  custom: Type.Optional(described(FreeForm, 'Further fields for the agent, stored as they are')),
};
export const AgentConfig = TitledObject(
  'AgentConfig',
  'What a tenant sets for one type of agent: the layer `agent`',
  { agent_type: AgentType, ...fields },
);
export type AgentConfig = Static<typeof AgentConfig>;

export interface AgentAddress extends TenantAddress {
  readonly agent_type: string;
}
export const agentKey = ({ tenant_id, agent_type }: AgentAddress): string =>
  `agent_config_${tenant_id}_${agent_type}`;

const agent = documentContracts({
  ...ofTenant,
  trial: { ...dryRun, ...effectiveTrials.agents, ...temporary },
  title: 'an agent configuration',
  url: '/tenants/{tenant_id}/config/agents/{agent_type}',
  path: { ...tenantPath, agent_type: AgentType },
  document: AgentConfig,
  body: TitledObject('AgentConfigBody', 'An agent configuration, as written', {
    agent_type: Type.Optional(AgentType),
    ...fields,
  }),
  key: agentKey,
});

export const agentContracts = {
  ...named('tenant-config.agents', agent),
  'tenant-config.agents.list': tenantListing(
    "the tenant's agent configurations",
    '/tenants/{tenant_id}/config/agents',
    AgentConfig,
  ),
} as const;
