/**
 * In whose hands a change of who decides is: the caller's, those of the maker of their key, and of
 * whoever gave either of them their rights within 24 hours. It is kept with what they change, so
 * that it holds also when a member or a service account is removed after it.
 */
import type { EntityManager } from 'typeorm';
import type { Caller } from '../../../shared/access.ts';
import { isUuid } from '../../../shared/schema/uuid.ts';
import {
  distrustedBefore,
  giversOf,
  recentGivers,
  unknownGiver,
  type Gift,
  type Given,
} from '../rules/given.ts';
import { wereNewAdministrators } from './membership-history.ts';

export async function giftOf(
  manager: EntityManager,
  tenantId: string,
  caller: Caller,
  at: Date,
  /** Who else stands behind it. */
  others: readonly string[] = [],
): Promise<Gift> {
  const own = [...giversOf(caller), ...others];
  const ids = own.map((principal) => principal.slice(principal.indexOf(' ') + 1));
  const rows = await manager.query<{ given: Given | null }[]>(
    `SELECT given FROM tenant_config.members WHERE tenant_id = $1 AND user_id::text = ANY($2)
     UNION ALL
     SELECT given FROM tenant_config.service_accounts WHERE tenant_id = $1 AND id::text = ANY($2)`,
    [tenantId, ids],
  );
  const givers = recentGivers(
    rows.map(({ given }) => given),
    at,
  );
  const when = at.toISOString();
  const people = ids.filter(isUuid);
  const isUnknown = await wereNewAdministrators(manager, tenantId, people, distrustedBefore(when));
  const by = [...own, ...givers, ...(isUnknown ? [unknownGiver] : [])];
  return { at: when, by: [...new Set(by)] };
}
