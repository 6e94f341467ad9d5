import type { Database } from './postgres.ts';

/**
 * As if a tenant's members, service accounts and notification_config had been as they are for more
 * than a day: what whoever asks for an approval gave others within that does not count.
 */
export async function grown(database: Pick<Database, 'query'>, tenantId: string): Promise<void> {
  for (const table of ['members', 'service_accounts'])
    await database.query(`UPDATE tenant_config.${table} SET given = NULL WHERE tenant_id = $1`, [
      tenantId,
    ]);
  await database.query(
    `UPDATE tenant_config.configuration_history SET changed_at = changed_at - interval '25 hours'
     WHERE tenant_id = $1`,
    [tenantId],
  );
}
