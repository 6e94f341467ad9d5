import { MoreThan, type DataSource, type EntitySchema } from 'typeorm';
import { decodeCursor, defaultLimit, pageOf } from '../../../shared/documents/paging.ts';
import { storedFrom, type DocumentRow } from '../schema.ts';

interface Params {
  readonly tenant_id: string;
  readonly limit?: number;
  readonly cursor?: string;
}

/** The handler of a list of a tenant's documents of one kind, in the order of their ids. */
export const listing =
  <Document>(db: DataSource, entity: EntitySchema<DocumentRow>) =>
  async ({ tenant_id, limit = defaultLimit, cursor }: Params) => {
    const after = decodeCursor(cursor);
    const rows = await db.manager.find(entity, {
      where: { tenant_id, ...(after !== undefined && { id: MoreThan(after) }) },
      order: { id: 'ASC' },
      take: limit + 1,
    });
    return pageOf(
      rows,
      limit,
      (row) => row.id,
      (row) => storedFrom<Document>(row).document,
    );
  };
