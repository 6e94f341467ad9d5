import type { DataSource, EntitySchema } from 'typeorm';
import { storedFrom } from '../../../shared/documents/document-kind.ts';
import { decodeCursor, defaultLimit, readPage } from '../../../shared/documents/paging.ts';
import type { DocumentRow } from '../schema.ts';

interface Params {
  readonly tenant_id: string;
  readonly limit?: number;
  readonly cursor?: string;
}

/** The handler of a list of a tenant's documents of one kind, in the order of their ids. */
export const listing =
  <Document>(db: DataSource, entity: EntitySchema<DocumentRow>) =>
  ({ tenant_id, limit = defaultLimit, cursor }: Params) => {
    const rowsAfter = (key: string | undefined) => {
      const query = db.manager
        .createQueryBuilder(entity, 'd')
        .where('d.tenant_id = :tenant_id', { tenant_id });
      if (key !== undefined) query.andWhere('d.id > :key', { key });
      return query.orderBy('d.id', 'ASC');
    };
    return readPage({
      limit,
      after: decodeCursor(cursor),
      rowsAfter,
      keyOf: (row) => row.id,
      itemOf: (row) => storedFrom<Document>(row).document,
    });
  };
