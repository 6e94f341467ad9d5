/** What instances are to limits over time, of several tenants at once. */
import type { EntityManager } from 'typeorm';
import type { ParamsOf, ResultOf } from '../../../shared/contracts/index.ts';

type Asked = ParamsOf<'tenant-config.layers.places'>['body'];
type Places = ResultOf<'tenant-config.layers.places'>;

/** Those of tenants that are not being erased, and of instances that there are. */
export async function readPlaces(
  manager: EntityManager,
  { tenant_ids: tenants, services }: Asked,
): Promise<Places> {
  const names = await manager.query<{ id: string; name: string }[]>(
    'SELECT id, name FROM tenant_config.tenants WHERE id = ANY ($1::uuid[]) AND erasing_since IS NULL',
    [tenants],
  );
  const found = await manager.query<{ said: Places['services'][number] }[]>(
    `SELECT json_strip_nulls(json_build_object('tenant_id', s.tenant_id, 'service_id', s.id,
       'service_type', s.document ->> 'service_type', 'project_id', s.document ->> 'project_id',
       'environment', p.document ->> 'environment')) AS said
     FROM unnest($1::uuid[], $2::text[]) AS asked (tenant_id, id)
     JOIN tenant_config.service_configurations s ON s.tenant_id = asked.tenant_id AND s.id = asked.id
     LEFT JOIN tenant_config.cloud_projects p
       ON p.tenant_id = s.tenant_id AND p.id = s.document ->> 'project_id'`,
    [services.map((each) => each.tenant_id), services.map((each) => each.service_id)],
  );
  return {
    names: Object.fromEntries(names.map(({ id, name }) => [id, name])),
    services: found.map(({ said }) => said),
  };
}
