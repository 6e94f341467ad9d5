/** Rows that somebody waits for, read together and only where they are other than what is known. */
import type { DataSource } from 'typeorm';

/** A row, by the version that is known of it; null where none is. */
export interface Wanted {
  readonly tenant_id: string;
  readonly id: string;
  readonly version: string | null;
}

/** A row with its version: the transaction that wrote it last. */
export interface Versioned<Row> {
  readonly row: Row;
  readonly version: string;
}

/** One statement. Rows that are as they were known, and rows that are not there, are left out. */
export type ReadChanged<Row> = (wanted: readonly Wanted[]) => Promise<readonly Versioned<Row>[]>;

export const readChangedIn =
  <Row extends { readonly id: string }>(
    db: DataSource,
    table: 'approvals' | 'automations',
    columns: readonly string[] = ['*'],
  ): ReadChanged<Row> =>
  async (wanted) => {
    const rows = await db.query<(Row & { row_version: string })[]>(
      `SELECT ${columns.map((column) => `t.${column}`).join(', ')}, t.xmin::text AS row_version
       FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS w (tenant_id, id, version)
       JOIN notifier.${table} t ON t.id = w.id AND t.tenant_id = w.tenant_id
       WHERE t.xmin::text IS DISTINCT FROM w.version`,
      [
        wanted.map(({ tenant_id }) => tenant_id),
        wanted.map(({ id }) => id),
        wanted.map(({ version }) => version),
      ],
    );
    return rows.map((row) => ({ row, version: row.row_version }));
  };
