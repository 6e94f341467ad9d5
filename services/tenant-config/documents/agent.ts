import type { Static } from 'typebox';
import { AgentDocument } from '../../../shared/contracts/tenant-config.ts';
import type { DocumentKind } from '../../../shared/documents/document.ts';
import { samePath, scalingOrder } from '../rules/checks.ts';
import { AgentEntity } from '../schema.ts';
import { tenantDocument, type TenantParams } from './tenant-document.ts';

export type Agent = Static<typeof AgentDocument>;
type Params = TenantParams & { readonly agent_type: string };

export const agentKind: DocumentKind<Params, Agent> = {
  ...tenantDocument<Params, Agent>({
    resource: 'agent',
    configType: 'agent_config',
    entity: AgentEntity,
    target: ({ agent_type }) => agent_type,
  }),
  schema: AgentDocument,
  prepare: async () => undefined,
  settle: (draft, { agent_type }) => ({ agent_type, ...draft }),
  check: (next, { agent_type }) => [
    ...samePath('agent_type', next.agent_type, agent_type),
    ...scalingOrder(next.default_scaling ?? {}, '/default_scaling'),
  ],
};
