/**
 * Asking people to become members: `auth` mails the links, for every action that invites somebody.
 */
import type { DataSource, EntityManager } from 'typeorm';
import type { Caller } from '../../../shared/access.ts';
import type { Request } from '../../../shared/contract-runtime/request.ts';
import { actorOf } from '../../../shared/commits/commit.ts';
import { holderOf, shareOf, takeShares, tenantHolder } from '../../../shared/commits/shares.ts';
import { requireQuota } from '../../../shared/commits/usage.ts';
import { memberKey } from '../../../shared/contracts/members.ts';
import { StrataError } from '../../../shared/errors.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { together, type Rights } from '../rules/directory-groups.ts';
import { givenNow } from '../rules/given.ts';
import { memberEvent } from '../rules/member-events.ts';
import { MemberEntity, type MemberRow, type TenantRow } from '../schema.ts';
import { directoryRightsOf } from '../stores/directory-groups.ts';
import { giftOf } from '../stores/givers.ts';

/**
 * Each is a mail to an address that its owner has not asked for. Throws `rate_limited` where the
 * caller, or the tenant, has invited too many lately.
 */
export const takeInvitation = (
  db: DataSource,
  tenantId: string,
  caller: Caller,
  settings: Settings,
): Promise<void> =>
  takeShares(db, caller, [
    shareOf('invitation', holderOf(caller), settings, 'invitations_per_minute_per_caller'),
    shareOf('invitation', tenantHolder(tenantId), settings, 'invitations_per_hour_per_tenant'),
  ]);

/** Throws `conflict` where as many as may have not accepted yet. */
export async function requireRoomToInvite(
  manager: EntityManager,
  tenantId: string,
  { invited_members_per_tenant: most }: Settings,
): Promise<void> {
  const invited = { tenant_id: tenantId, status: 'invited' } as const;
  const count = await manager.countBy(MemberEntity, invited);
  if (count < most) return;
  throw new StrataError(
    'conflict',
    `${most} members of the tenant have not accepted their invitation (INVITED_MEMBERS_PER_TENANT). Remove some first.`,
  );
}

/** Somebody who becomes a member inside the caller's change. */
export interface Joining {
  readonly manager: EntityManager;
  readonly request: Request;
  readonly at: Date;
  readonly settings: Settings;
  readonly tenant_id: string;
  readonly user_id: string;
}

/**
 * Makes somebody a member who is none, with what groups of the directory give beside `byHand`: active
 * where they are admitted, else invited. Resolves to what the change answers, with the row.
 */
export async function insertMember(
  { manager, request, at, settings, tenant_id, user_id }: Joining,
  byHand: Rights,
  admitted: boolean,
) {
  if (!admitted) await requireRoomToInvite(manager, tenant_id, settings);
  await requireQuota(manager, tenant_id, 'members', settings);
  const rights = together(byHand, await directoryRightsOf(manager, tenant_id, user_id));
  const given = givenNow(rights, await giftOf(manager, tenant_id, request.caller, at));
  const status = admitted ? 'active' : 'invited';
  const row: MemberRow = { tenant_id, user_id, ...rights, status, added_at: at, given };
  await manager.insert(MemberEntity, row);
  const { roles, groups } = rights;
  const event = memberEvent(admitted ? 'added' : 'invited', tenant_id, user_id, { roles, groups });
  return { result: row, keys: [memberKey({ tenant_id, user_id })], events: [event] };
}

/** Sends the invited member a link; the one of an earlier mail ends. */
export async function invite(
  { id, name }: Pick<TenantRow, 'id' | 'name'>,
  userId: string,
  request: Request,
): Promise<void> {
  await request.call('auth.invitations.send', {
    body: { tenant_id: id, tenant_name: name, user_id: userId, actor: actorOf(request.caller) },
  });
}

/**
 * The same where the membership is committed already: a failure is logged, since the invitation can
 * be sent again.
 */
export async function tryToInvite(
  tenant: Pick<TenantRow, 'id' | 'name'>,
  userId: string,
  request: Request,
): Promise<void> {
  try {
    await invite(tenant, userId, request);
  } catch (error) {
    const about = { err: error, tenant_id: tenant.id, user_id: userId };
    request.log.error(about, 'an invitation was not sent: send it again');
  }
}
