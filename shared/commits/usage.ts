/**
 * How many rows of a kind each tenant has, and may have. Triggers count in the transaction that
 * inserts or removes, so that asking costs one row however many there are.
 *
 * Whoever inserts holds the counter of the scope that orders these writes (`lockAndCount`) when they
 * ask, so that several at the limit never pass it together.
 */
import type { EntityManager } from 'typeorm';
import type { ParamsOf } from '../contracts/index.ts';
import {
  countedUsages,
  type CountedUsage,
  type NearLimit,
  type UsageName,
} from '../contracts/usage.ts';
import { StrataError } from '../errors.ts';
import { leastOf, limitOf, quotaSettings } from '../settings/quotas.ts';
import type { Settings } from '../settings/settings.ts';

/** For the migration of a table with a tenant_id: from then on its rows are counted. */
export const countedBy = (what: CountedUsage, table: string): string[] => {
  const name = table.replace('.', '_');
  return [
    `CREATE TRIGGER ${name}_inserted AFTER INSERT ON ${table} REFERENCING NEW TABLE AS changed_rows
     FOR EACH STATEMENT EXECUTE FUNCTION strata.count_usage('${what}')`,
    `CREATE TRIGGER ${name}_deleted AFTER DELETE ON ${table} REFERENCING OLD TABLE AS changed_rows
     FOR EACH STATEMENT EXECUTE FUNCTION strata.count_usage('${what}')`,
    `INSERT INTO strata.usage AS u (tenant_id, what, used)
     SELECT tenant_id, '${what}', count(*) FROM ${table} WHERE tenant_id IS NOT NULL GROUP BY tenant_id
     ON CONFLICT (what, tenant_id) DO UPDATE SET used = u.used + excluded.used`,
  ];
};

/** Throws `quota_exceeded` where the tenant has as many as it may. Under the lock on its scope. */
export async function requireQuota(
  manager: EntityManager,
  tenantId: string,
  what: CountedUsage,
  settings: Settings,
): Promise<void> {
  const most = limitOf(what, settings);
  const [row] = await manager.query<{ used: number }[]>(
    'SELECT used FROM strata.usage WHERE what = $1 AND tenant_id = $2',
    [what, tenantId],
  );
  if ((row?.used ?? 0) < most) return;
  throw new StrataError(
    'quota_exceeded',
    `The tenant has ${row!.used} ${what.replaceAll('_', ' ')}, and may have ${most} (${quotaSettings[what].toUpperCase()}). Remove some first.`,
  );
}

/** What is counted of a tenant. */
export async function usageOf(
  manager: EntityManager,
  tenantId: string,
): Promise<ReadonlyMap<string, number>> {
  const rows = await manager.query<{ what: string; used: number }[]>(
    'SELECT what, used FROM strata.usage WHERE what = ANY($2) AND tenant_id = $1',
    [tenantId, countedUsages],
  );
  return new Map(rows.map(({ what, used }) => [what, used]));
}
interface NearUsage<What> {
  readonly tenant_id: string;
  readonly what: What;
  readonly used: number;
}

/** Tenants that have at least so many, by kind and tenant, after one of them. */
export type FindNear<What extends UsageName> = (
  manager: EntityManager,
  least: Readonly<Record<What, number>>,
  after: { readonly what: string; readonly tenant_id: string } | undefined,
  count: number,
) => Promise<NearUsage<What>[]>;

/** Tenants that have at least a part of what they may have of these. */
export async function tenantsNear<What extends UsageName>(
  manager: EntityManager,
  find: FindNear<What>,
  whats: readonly What[],
  { percent, after_what, after_tenant, limit }: ParamsOf<'notifier.usage.near'>,
  settings: Settings,
): Promise<NearLimit[]> {
  const least = Object.fromEntries(whats.map((what) => [what, leastOf(what, percent, settings)]));
  const after =
    after_what === undefined ? undefined : { what: after_what, tenant_id: after_tenant! };
  const rows = await find(manager, least as Record<What, number>, after, limit);
  return rows.map((row) => ({ ...row, limit: limitOf(row.what, settings) }));
}

export const usageFrom: FindNear<CountedUsage> = (manager, least, after, count) =>
  manager.query(
    `SELECT u.tenant_id, u.what, u.used
     FROM json_each_text($1) AS least (what, used) JOIN strata.usage u ON u.what = least.what AND u.used >= least.used::int8
     WHERE $2::text IS NULL OR (u.what COLLATE "C", u.tenant_id) > ($2, $3::uuid)
     ORDER BY u.what COLLATE "C", u.tenant_id LIMIT $4`,
    [JSON.stringify(least), after?.what ?? null, after?.tenant_id ?? null, count],
  );
