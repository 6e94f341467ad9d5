/** A page of what a directory has provisioned, and how many there are in all. */
import type { EntityManager } from 'typeorm';
import type { ScimFilter } from '../rules/scim.ts';

export interface ScimPage<Row> {
  readonly total: number;
  readonly rows: Row[];
}

/** What is read of tenant $1. */
export interface ScimRows<A extends string> {
  readonly select: string;
  /** Ends with its condition. */
  readonly from: string;
  /** The column that tells them apart. */
  readonly id: string;
  /** By attribute, in lower case but for `externalId`, which is exact. */
  readonly columns: Readonly<Record<A, string>>;
  /** In the order in which they were provisioned. */
  readonly order: string;
}

export async function readScimPage<Row, A extends string>(
  manager: EntityManager,
  { select, from, id, columns, order }: ScimRows<A>,
  tenantId: string,
  filter: ScimFilter<A> | undefined,
  { offset, most }: { readonly offset: number; readonly most: number },
): Promise<ScimPage<Row>> {
  // As PostgreSQL makes what is stored: by its locale, which may know no more than ASCII.
  const sent = filter?.attribute === 'externalId' ? '$2::text' : 'lower($2::text)';
  const of = filter ? `${from} AND ${columns[filter.attribute]} = ${sent}` : from;
  const values = filter ? [tenantId, filter.value] : [tenantId];
  const [counted] = await manager.query<[{ total: number }]>(
    `SELECT count(*)::int AS total ${of}`,
    values,
  );
  // Ids alone are sorted, and whole rows are read of one page.
  const page = `SELECT ${id} ${of} ORDER BY ${order} OFFSET ${offset} LIMIT ${most}`;
  const rows = await manager.query<Row[]>(
    `${select} ${from} AND ${id} = ANY (ARRAY(${page})) ORDER BY ${order}`,
    values,
  );
  return { total: counted.total, rows };
}
