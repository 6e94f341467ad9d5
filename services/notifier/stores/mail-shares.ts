/**
 * The share of a tenant in mails that go to addresses its configuration names: anybody may be named
 * there, so these are mails that nobody has asked for. Members of a group have accepted to be one.
 */
import type { DataSource } from 'typeorm';
import type { Caller } from '../../../shared/access.ts';
import { shareOf, takeShares, tenantHolder } from '../../../shared/commits/shares.ts';
import type { Settings } from '../../../shared/settings/settings.ts';

/** Throws `rate_limited` where the tenant has had too many sent lately. */
export type TakeMails = (tenantId: string, caller: Caller, count: number) => Promise<void>;

export const mailShares =
  (db: DataSource, settings: () => Settings): TakeMails =>
  async (tenantId, caller, count) => {
    if (count === 0) return;
    const holder = tenantHolder(tenantId);
    const share = shareOf(
      'approval mail',
      holder,
      settings(),
      'approval_mails_per_hour_per_tenant',
    );
    await takeShares(db, caller, [share], count);
  };
