/** A page of what a directory has provisioned, and how many there are in all. */
import type { EntityManager } from 'typeorm';
import type { ScimFilter } from '../rules/scim.ts';

export interface ScimPage<Row> {
  readonly total: number;
  readonly rows: Row[];
}

/** What is read: `select` is a statement of the rows of tenant $1, and ends with its condition. */
export interface ScimRows<A extends string> {
  readonly select: string;
  /** By attribute, in lower case but for `externalId`, which is exact. */
  readonly columns: Readonly<Record<A, string>>;
  /** In the order in which they were provisioned. */
  readonly order: string;
}

export async function readScimPage<Row, A extends string>(
  manager: EntityManager,
  { select, columns, order }: ScimRows<A>,
  tenantId: string,
  filter: ScimFilter<A> | undefined,
  { offset, most }: { readonly offset: number; readonly most: number },
): Promise<ScimPage<Row>> {
  // As PostgreSQL makes what is stored: by its locale, which may know no more than ASCII.
  const sent = filter?.attribute === 'externalId' ? '$2::text' : 'lower($2::text)';
  const where = filter ? `${select} AND ${columns[filter.attribute]} = ${sent}` : select;
  const values = filter ? [tenantId, filter.value] : [tenantId];
  const [counted] = await manager.query<[{ total: number }]>(
    `SELECT count(*)::int AS total FROM (${where}) AS all_of_them`,
    values,
  );
  const rows = await manager.query<Row[]>(
    `${where} ORDER BY ${order} OFFSET ${offset} LIMIT ${most}`,
    values,
  );
  return { total: counted.total, rows };
}
