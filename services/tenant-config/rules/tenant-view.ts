/** A tenant as it is answered. */
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { Tenant } from '../../../shared/contracts/tenants.ts';
import { viewBy } from '../../../shared/schema/view.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import type { TenantRow } from '../schema.ts';

/** The columns that an answer is made of. */
export const shownOfTenant = {
  id: true,
  name: true,
  status: true,
  sign_in_policy: true,
  created_at: true,
  updated_at: true,
  deletion_asked_at: true,
} as const;
export type ShownTenant = Pick<TenantRow, keyof typeof shownOfTenant>;

const dayMs = 86_400_000;

/**
 * When the tenant is due to be erased (RFC 3339); null unless its deletion was asked for. A reload
 * of the setting moves it.
 */
export const eraseTime = (
  { deletion_asked_at: askedAt }: Pick<TenantRow, 'deletion_asked_at'>,
  { tenant_erase_after_days: days }: Settings,
): string | null => askedAt && new Date(askedAt.getTime() + days * dayMs).toISOString();

export const viewOf = (
  row: ShownTenant,
  settings: Settings,
): ResultOf<'tenant-config.tenants.get'> => ({
  ...viewBy(Tenant, row),
  erase_at: eraseTime(row, settings),
});
