import { MoreThan, type DataSource, type EntitySchema } from 'typeorm';
import { decodeCursor, defaultLimit, pageOf } from '../../../shared/documents/paging.ts';
import type { DocumentRow } from '../schema.ts';

interface Params {
  readonly tenant_id: string;
  readonly limit?: number;
  readonly cursor?: string;
}

/** A tenant's documents of one kind, by id. */
export const listing =
  (db: DataSource, entity: EntitySchema<DocumentRow>) =>
  async ({ tenant_id: tenantId, limit = defaultLimit, cursor }: Params) => {
    const after = decodeCursor(cursor);
    const rows = await db.manager.find(entity, {
      where: { tenant_id: tenantId, ...(after === undefined ? {} : { id: MoreThan(after) }) },
      order: { id: 'ASC' },
      take: limit + 1,
    });
    return pageOf(
      rows,
      limit,
      (row) => row.id,
      (row) => row.document,
    );
  };
