/** The names by which effective configurations of a tenant are asked for. */
import type { DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import { mostContexts } from '../../../shared/contracts/contexts.ts';

interface ServiceNames {
  readonly service_id: string;
  readonly service_name: string | null;
  readonly service_type: string;
}

export const contextActions = (db: DataSource) =>
  ({
    /** One more of each is read than is shown, which tells whether that is all. */
    async 'tenant-config.contexts'({ tenant_id: tenantId }, { call }) {
      const most = [tenantId, mostContexts + 1];
      const [agents, services, types] = await Promise.all([
        db.query<{ id: string }[]>(
          'SELECT id FROM tenant_config.agent_configurations WHERE tenant_id = $1 ORDER BY id LIMIT $2',
          most,
        ),
        db.query<ServiceNames[]>(
          `SELECT id AS service_id, document->>'service_name' AS service_name, document->>'service_type' AS service_type
           FROM tenant_config.service_configurations WHERE tenant_id = $1 ORDER BY id LIMIT $2`,
          most,
        ),
        call('global-config.service-types.active', {}),
      ]);
      return {
        agent_types: agents.slice(0, mostContexts).map(({ id }) => id),
        services: services.slice(0, mostContexts),
        service_types: types.items.map(({ service_type: type }) => type),
        complete: agents.length <= mostContexts && services.length <= mostContexts,
      };
    },
  }) satisfies Handlers;
