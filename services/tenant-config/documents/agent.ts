/** Agent configurations: one per agent type. */
import type { BoundSet } from '../../../shared/bounds/bounds-in-force.ts';
import { AgentConfig, type AgentAddress } from '../../../shared/contracts/agents.ts';
import type { DocumentKind } from '../../../shared/documents/document-kind.ts';
import { sameAsInPath, scalingOrder } from '../rules/checks.ts';
import { boundViolations, valuesOfAgent } from '../../../shared/bounds/placed-values.ts';
import { AgentEntity } from '../schema.ts';
import { boundsForValues } from '../stores/bounds.ts';
import { inTable } from './tenant-document.ts';

export const agentKind: DocumentKind<AgentAddress, AgentConfig, readonly BoundSet[]> = {
  ...inTable(AgentEntity, {
    auditName: 'agent',
    configType: 'agent_config',
    actions: 'tenant-config.agents',
    resourceId: ({ agent_type }: AgentAddress) => agent_type,
  }),
  schema: AgentConfig,
  prepare: ({ tenant_id }, request) => boundsForValues(tenant_id, request),
  complete: (draft, { agent_type }) => ({ agent_type, ...draft }),
  check({ next, address, current, context: sets }) {
    const { refused, warned } = boundViolations(valuesOfAgent, next, current, sets);
    return {
      refused: [
        ...sameAsInPath('agent_type', next, address),
        ...scalingOrder(next.default_scaling ?? {}, '/default_scaling'),
        ...refused,
      ],
      warned,
    };
  },
};
