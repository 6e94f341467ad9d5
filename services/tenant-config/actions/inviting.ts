/**
 * Asking people to become members: `auth` mails the links, for every action that invites somebody.
 */
import type { Request } from '../../../shared/cluster/request.ts';
import { actorOf } from '../../../shared/commits/commit.ts';
import type { TenantRow } from '../schema.ts';

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
