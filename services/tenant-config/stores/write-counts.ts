/**
 * How many writes of each tenant's documents there were, and how many of them rules refused, for
 * gates of rollouts. Counted in memory and stored every few seconds: a node that is killed loses
 * those, of both sides alike.
 */
import type { DataSource } from 'typeorm';
import type { CountsOfTenant } from '../../../shared/rollouts/beside.ts';

/** Only whole ones count, so it is no longer than the time between two looks at gates. */
const bucketSeconds = 15;
const keptDays = 1;

export class WriteCounts {
  #counted = new Map<string, { all: number; bad: number }>();

  count(tenantId: string, isRefused = false): void {
    const known = this.#counted.get(tenantId) ?? { all: 0, bad: 0 };
    known.all += 1;
    if (isRefused) known.bad += 1;
    this.#counted.set(tenantId, known);
  }

  /** Stores what was counted; what cannot be stored is lost. Removes what is old of those tenants. */
  async store(db: DataSource): Promise<void> {
    const counted = this.#counted;
    if (counted.size === 0) return;
    this.#counted = new Map();
    const rows = [...counted].map(([tenant_id, counts]) => ({ tenant_id, ...counts }));
    await db.query(
      `WITH added AS (
         SELECT tenant_id, to_timestamp(floor(extract(epoch FROM now()) / ${bucketSeconds}) * ${bucketSeconds}) AS bucket, "all", bad
         FROM json_to_recordset($1) AS n (tenant_id uuid, "all" int4, bad int4)
       ),
       old AS (
         DELETE FROM tenant_config.write_figures f USING added
         WHERE f.tenant_id = added.tenant_id AND f.bucket < now() - interval '${keptDays} day'
       )
       INSERT INTO tenant_config.write_figures AS f (tenant_id, bucket, "all", bad)
       SELECT tenant_id, bucket, "all", bad FROM added ORDER BY tenant_id
       ON CONFLICT (tenant_id, bucket) DO UPDATE SET "all" = f."all" + excluded."all", bad = f.bad + excluded.bad`,
      [JSON.stringify(rows)],
    );
  }
}

export const writesSince = (db: DataSource, since: Date): Promise<CountsOfTenant[]> =>
  db.query<CountsOfTenant[]>(
    `SELECT tenant_id, sum("all")::int AS all, sum(bad)::int AS bad
     FROM tenant_config.write_figures WHERE bucket >= $1 GROUP BY tenant_id`,
    [since],
  );
