/** Rows on their way into TypeORM. */
import type { ObjectLiteral } from 'typeorm';
import type { QueryDeepPartialEntity } from 'typeorm/query-builder/QueryPartialEntity.js';

/**
 * A row as TypeORM's insert, update and upsert take it. Their type looks into every column and
 * knows no column of type `unknown`, which ours of type `json` are; the row itself is checked by
 * its own interface.
 */
export const columnsOf = <Row extends ObjectLiteral>(row: Row): QueryDeepPartialEntity<Row> =>
  row as QueryDeepPartialEntity<Row>;
