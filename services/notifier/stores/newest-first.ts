/** Lists of a tenant's approvals and automations: the newest first, of one state or of all. */
import type { DataSource, EntitySchema, SelectQueryBuilder } from 'typeorm';
import { newestFirst } from '../../../shared/documents/paging.ts';

interface Listed {
  readonly id: string;
  readonly tenant_id: string;
  readonly state: string;
  readonly created_at: Date;
}

interface ListParams {
  readonly tenant_id: string;
  readonly state?: string;
  readonly limit?: number;
  readonly cursor?: string;
}

export const newestOfTenant = <Row extends Listed, Item>(
  db: DataSource,
  entity: EntitySchema<Row>,
  { tenant_id: tenantId, state, ...page }: ListParams,
  itemOf: (row: Row) => Item,
  narrow: (query: SelectQueryBuilder<Row>) => unknown = () => undefined,
) =>
  newestFirst(
    page,
    () => {
      const query = db.manager
        .createQueryBuilder(entity, 'a')
        .where('a.tenant_id = :tenantId', { tenantId });
      if (state !== undefined) query.andWhere('a.state = :state', { state });
      narrow(query);
      return query;
    },
    itemOf,
  );
