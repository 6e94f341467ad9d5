/**
 * What effective configurations of a tenant can be asked for, by name, for people who pick from
 * lists.
 */
import { Type } from 'typebox';
import { action } from './contract.ts';
import { valueReaders } from './roles.ts';
import {
  AgentType,
  Nullable,
  ServiceId,
  ServiceTypeName,
  StrictObject,
  TitledObject,
} from './fields.ts';
import { tenantPath } from './tenant-document.ts';

/** Of agent types, and of services, in one answer. */
export const mostContexts = 2000;

export const contextContracts = {
  'tenant-config.contexts': action({
    summary: 'List agent types, services and service types to read effective configurations of',
    rest: 'GET /tenants/{tenant_id}/contexts',
    access: { level: 'tenant', roles: valueReaders },
    keyScope: 'config:read',
    path: tenantPath,
    result: TitledObject('Contexts', 'What can be asked for by name', {
      agent_types: Type.Array(AgentType, { description: 'Agent types that have a configuration' }),
      services: Type.Array(
        StrictObject({
          service_id: ServiceId,
          service_name: Nullable(Type.String({ description: 'Display name' })),
          service_type: ServiceTypeName,
        }),
        { description: "The tenant's service instances" },
      ),
      service_types: Type.Array(ServiceTypeName, { description: 'Those that are active' }),
      complete: Type.Boolean({
        description: `False where there are more than ${mostContexts} agent types or services`,
      }),
    }),
  }),
} as const;
