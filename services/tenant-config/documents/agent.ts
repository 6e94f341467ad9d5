/** Agent configurations: one per agent type. */
import { AgentConfig, type AgentAddress } from '../../../shared/contracts/agents.ts';
import type { DocumentKind } from '../../../shared/documents/document-kind.ts';
import { sameAsInPath, scalingOrder } from '../rules/checks.ts';
import { AgentEntity } from '../schema.ts';
import { inTable, tenantDocument } from './tenant-document.ts';

const resourceId = ({ agent_type }: AgentAddress): string => agent_type;

export const agentKind: DocumentKind<AgentAddress, AgentConfig> = {
  ...tenantDocument({ auditName: 'agent', configType: 'agent_config', resourceId }),
  ...inTable(AgentEntity, resourceId),
  schema: AgentConfig,
  prepare: async () => undefined,
  complete: (draft, { agent_type }) => ({ agent_type, ...draft }),
  check: ({ next, address }) => [
    ...sameAsInPath('agent_type', next, address),
    ...scalingOrder(next.default_scaling ?? {}, '/default_scaling'),
  ],
};
