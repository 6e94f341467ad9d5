/** Which node receives the clicks in which tenant's Slack. A lease that is not renewed ends by itself. */
import type { DataSource } from 'typeorm';

const leaseSeconds = 30;
/** Renewed when less than this is left, which is a few looks. */
const renewedSeconds = 20;

/** The tenants of these that the holder has now: its own, and those that nobody else has. */
export async function claimSlack(
  db: DataSource,
  holder: string,
  tenantIds: readonly string[],
): Promise<string[]> {
  if (tenantIds.length === 0) return [];
  // Asked for before, since ON CONFLICT locks a row also where its WHERE leaves it, which is a write.
  await db.query(
    `INSERT INTO notifier.slack_leases AS l (tenant_id, holder, held_until)
     SELECT id, $1, now() + make_interval(secs => ${leaseSeconds}) FROM unnest($2::uuid[]) AS id
     WHERE NOT EXISTS (
       SELECT FROM notifier.slack_leases WHERE tenant_id = id
         AND held_until >= now() + make_interval(secs => CASE WHEN holder = $1 THEN ${renewedSeconds} ELSE 0 END)
     ) ORDER BY id
     ON CONFLICT (tenant_id) DO UPDATE SET holder = excluded.holder, held_until = excluded.held_until
       WHERE l.held_until < now()
         OR l.holder = excluded.holder AND l.held_until < now() + make_interval(secs => ${renewedSeconds})`,
    [holder, tenantIds],
  );
  const rows = await db.query<{ tenant_id: string }[]>(
    'SELECT tenant_id FROM notifier.slack_leases WHERE holder = $1 AND tenant_id = ANY($2)',
    [holder, tenantIds],
  );
  return rows.map(({ tenant_id: id }) => id);
}

export const releaseSlack = (db: DataSource, holder: string): Promise<unknown> =>
  db.query('DELETE FROM notifier.slack_leases WHERE holder = $1', [holder]);
