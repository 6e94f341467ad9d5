/** Lists of a tenant's approvals and automations: the newest first, of one state or of all. */
import type { DataSource, EntitySchema, SelectQueryBuilder } from 'typeorm';
import {
  decodeCursor,
  defaultLimit,
  readPage,
  timeAndId,
} from '../../../shared/documents/paging.ts';

interface Listed {
  readonly id: string;
  readonly state: string;
  readonly created_at: Date;
}

interface ListParams {
  readonly tenant_id: string;
  readonly state?: string;
  readonly limit?: number;
  readonly cursor?: string;
}

export function newestFirst<Row extends Listed, Item>(
  db: DataSource,
  entity: EntitySchema<Row>,
  { tenant_id: tenantId, state, limit = defaultLimit, cursor }: ListParams,
  itemOf: (row: Row) => Item,
  narrow: (query: SelectQueryBuilder<Row>) => void = () => undefined,
) {
  const rowsAfter = (key: string | undefined): SelectQueryBuilder<Row> => {
    const query = db.manager
      .createQueryBuilder(entity, 'a')
      .where('a.tenant_id = :tenantId', { tenantId });
    if (state !== undefined) query.andWhere('a.state = :state', { state });
    narrow(query);
    if (key !== undefined) query.andWhere('(a.created_at, a.id) < (:time, :id)', timeAndId(key));
    return query.orderBy({ 'a.created_at': 'DESC', 'a.id': 'DESC' });
  };
  return readPage({
    limit,
    after: decodeCursor(cursor, 'time'),
    rowsAfter,
    keyOf: (row) => `${row.created_at.toISOString()} ${row.id}`,
    itemOf,
  });
}
