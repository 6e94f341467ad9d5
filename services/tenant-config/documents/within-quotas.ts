/** How many documents a tenant may have, and how much it may change in an hour. */
import type { EntityManager } from 'typeorm';
import { requireQuota } from '../../../shared/commits/usage.ts';
import type { TenantAddress } from '../../../shared/contracts/tenant-document.ts';
import { run, type Statement } from '../../../shared/database/prepared-statements.ts';
import type { DocumentKind } from '../../../shared/documents/document-kind.ts';
import { StrataError } from '../../../shared/errors.ts';
import { quotaSettings } from '../../../shared/settings/quotas.ts';
import type { Settings } from '../../../shared/settings/settings.ts';

/**
 * The entry that is as many before the next one as there may be in an hour, if it is from the last
 * hour. Revisions have no gaps but where all of them were raised, after which the hour begins again.
 */
const tooRecent: Statement = {
  name: 'strata_history_too_recent',
  text: `SELECT ceil(extract(epoch FROM changed_at + interval '1 hour' - clock_timestamp()))::int AS wait
   FROM tenant_config.configuration_history
   WHERE tenant_id = $1 AND changed_at > clock_timestamp() - interval '1 hour' AND revision = $2 +
     (SELECT max(revision) FROM tenant_config.configuration_history WHERE tenant_id = $1)`,
};

/**
 * Limits of automation may still be changed where the quota is used up by other documents: an
 * emergency stop is such a change.
 */
const reserve = 2;

async function requireRoomInHistory(
  manager: EntityManager,
  tenantId: string,
  settings: Settings,
  isLimit: boolean,
): Promise<void> {
  const setting = quotaSettings.history_per_hour;
  const most = settings[setting] * (isLimit ? reserve : 1);
  const [recent] = await run<{ wait: number }>(manager, tooRecent, [tenantId, 1 - most]);
  if (!recent) return;
  throw new StrataError(
    'rate_limited',
    `The configuration of a tenant changes ${most} times an hour at most (${setting.toUpperCase()}). Try again in ${recent.wait} s.`,
    { headers: { 'retry-after': String(Math.max(1, recent.wait)) } },
  );
}

/**
 * The kind with the tenant's quotas, under the lock of its revisions: `documents`, of which there
 * may be many, `limits` of what automation may do, or other `settings`.
 */
export const withinQuotas = <Address extends TenantAddress, Document, Context>(
  kind: DocumentKind<Address, Document, Context>,
  settings: () => Settings,
  what: 'documents' | 'limits' | 'settings',
): DocumentKind<Address, Document, Context> => ({
  ...kind,
  async checkInTransaction(manager, address, next, current, context) {
    const { tenant_id: tenantId } = address;
    await requireRoomInHistory(manager, tenantId, settings(), what === 'limits');
    if (what === 'documents' && next !== null && current === null)
      await requireQuota(manager, tenantId, 'documents', settings());
    return (await kind.checkInTransaction?.(manager, address, next, current, context)) ?? [];
  },
});
