import { AgentConfig, type AgentAddress } from '../../../shared/contracts/agents.ts';
import type { DocumentKind } from '../../../shared/documents/document.ts';
import { samePath, scalingOrder } from '../rules/checks.ts';
import { AgentEntity } from '../schema.ts';
import { tenantDocument } from './tenant-document.ts';

export const agentKind: DocumentKind<AgentAddress, AgentConfig> = {
  ...tenantDocument<AgentAddress, AgentConfig>({
    resource: 'agent',
    configType: 'agent_config',
    entity: AgentEntity,
    target: ({ agent_type }) => agent_type,
  }),
  schema: AgentConfig,
  prepare: async () => undefined,
  settle: (draft, { agent_type }) => ({ agent_type, ...draft }),
  check: (next, { agent_type }) => [
    ...samePath('agent_type', next.agent_type, agent_type),
    ...scalingOrder(next.default_scaling ?? {}, '/default_scaling'),
  ],
};
