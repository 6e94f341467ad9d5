/**
 * Invitations: what becomes of them, between here and `tenant-config`, whose the memberships are.
 * Each step is committed by itself, so that a crash between two is repaired by sending the
 * invitation again or by accepting it once more, signed in:
 *
 * | Step | Where | After a crash behind it |
 * |---|---|---|
 * | the account is made, without a password | `auth.users.ensure` | an account that nobody can enter |
 * | the membership is written, `invited` | `tenant-config.members.add` | the invitation is sent again |
 * | the link is stored and mailed | `auth.invitations.send` | the same |
 * | the link is used, the address proved, the password set | `auth.invitations.accept` | the person signs in and accepts once more |
 * | the membership becomes `active` | `tenant-config.members.accept` | a row that gives no right any more |
 * | the invitation is removed | `removeInvitation` | |
 */
import { Not, type DataSource, type EntityManager } from 'typeorm';
import type { Handlers, Request } from '../../../../shared/contract-runtime/request.ts';
import { commitChange } from '../../../../shared/commits/commit.ts';
import { invitationLink } from '../../../../shared/mail/console-links.ts';
import type { ResultOf } from '../../../../shared/contracts/index.ts';
import { authScope } from '../../../../shared/contracts/revision-scopes.ts';
import { decodeCursor, defaultLimit, pageOf } from '../../../../shared/documents/paging.ts';
import { codeOf, StrataError } from '../../../../shared/errors.ts';
import { requireStrongPassword } from '../../../../shared/security/password-strength.ts';
import type { AuthParts } from '../../parts.ts';
import { invitationMail } from '../mail/invitation-mail.ts';
import { newInvitationToken, requireFittingPassword, type WaysIn } from '../rules/invitations.ts';
import type { Membership } from '../../accounts/rules/memberships.ts';
import { networkOf, throttleKey } from '../../throttling/rules/throttle.ts';
import {
  ApiKeyEntity,
  InvitationEntity,
  PasskeyEntity,
  UserEntity,
  type InvitationRow,
  type UserRow,
} from '../../schema.ts';
import type { PasswordHashing } from '../../passwords/password-hashing.ts';
import { endApiKeysIn } from '../../api-keys/stores/api-keys.ts';
import { recordEvent } from '../../stores/audit-events.ts';
import { hasPassed } from '../../stores/clock.ts';
import { findUnusedInvitation, putInvitation, useInvitation } from '../stores/invitations.ts';
import { proveAddress } from '../../accounts/stores/proof.ts';
import { requireGoodFor } from '../../sessions/stores/sessions.ts';
import { issuersKnowing } from '../../single-sign-on/stores/sso-identities.ts';
import { isDomainVerified } from '../../single-sign-on/stores/sso-providers.ts';
import { findUser, lockForChange } from '../../accounts/stores/users.ts';

/** An invitation with the membership that it is for. */
interface PendingInvitation {
  readonly invitation: InvitationRow;
  readonly membership: Membership;
}

const tenantOf = ({ tenant_id: id, tenant_name: name, roles }: Membership) => ({ id, name, roles });

const viewOf = ({
  invitation,
  membership,
}: PendingInvitation): ResultOf<'auth.invitations.list'>['items'][number] => ({
  id: invitation.id,
  tenant: { id: membership.tenant_id, name: membership.tenant_name },
  roles: membership.roles,
  created_at: invitation.created_at.toISOString(),
  expires_at: invitation.expires_at.toISOString(),
});

/**
 * How the person can enter the account once its address is proved; what was there before an
 * unproved one's is not theirs.
 */
async function waysInto(manager: EntityManager, user: UserRow): Promise<WaysIn> {
  const isVouchedFor = await isDomainVerified(manager, user.email);
  if (!user.email_verified) return { hasPassword: false, hasStronger: false, isVouchedFor };
  const hasPasskey = await manager.existsBy(PasskeyEntity, { user_id: user.id });
  const hasLink = (await issuersKnowing(manager, user.id)).length > 0;
  const hasPassword = user.password_hash !== null;
  return { hasPassword, hasStronger: hasPasskey || hasLink, isVouchedFor };
}

const membershipsAskedFor = (userId: string, request: Request): Promise<Membership[]> =>
  request.call('tenant-config.members.invitations', { user_id: userId });

/** The invitations that the person may accept now, signed in. */
async function pendingOf(
  { manager }: DataSource,
  userId: string,
  request: Request,
): Promise<PendingInvitation[]> {
  const memberships = await membershipsAskedFor(userId, request);
  const byTenant = new Map(memberships.map((each) => [each.tenant_id, each]));
  const rows = await manager.find(InvitationEntity, {
    where: { user_id: userId, expires_at: Not(hasPassed()) },
    order: { id: 'ASC' },
  });
  return rows.flatMap((invitation) => {
    const membership = byTenant.get(invitation.tenant_id);
    return membership?.tenant_status === 'active' ? [{ invitation, membership }] : [];
  });
}

/**
 * Throws `not_found` for an invitation of another, of an earlier day, or of a tenant that took it
 * back.
 */
async function ownInvitation(
  db: DataSource,
  id: string,
  request: Request,
): Promise<PendingInvitation> {
  const pending = await pendingOf(db, request.caller.id, request);
  const found = pending.find(({ invitation }) => invitation.id === id);
  if (!found) throw new StrataError('not_found', 'You have no such invitation.');
  return found;
}

/**
 * Whoever signed in to an account whose address nobody has proved may not be the person who is
 * invited: the account may have been made by somebody else.
 */
async function isProved(db: DataSource, userId: string): Promise<boolean> {
  const user = await findUser(db.manager, userId);
  return user?.email_verified === true;
}

async function requireProved(db: DataSource, userId: string): Promise<void> {
  const proved = await isProved(db, userId);
  if (!proved) throw new StrataError('auth_address_unproved');
}

/**
 * The invitation of a mailed link, and whose it is; looked up before anything costly is done for
 * whoever sent the token.
 */
async function invited(
  db: DataSource,
  token: string,
  request: Request,
): Promise<PendingInvitation & { readonly user: UserRow }> {
  const invitation = await findUnusedInvitation(db.manager, token);
  const user = invitation && (await findUser(db.manager, invitation.user_id));
  if (user?.status !== 'active') throw new StrataError('auth_invitation_invalid');
  const memberships = await membershipsAskedFor(user.id, request);
  const membership = memberships.find(({ tenant_id: id }) => id === invitation!.tenant_id);
  if (!membership) throw new StrataError('auth_invitation_invalid');
  if (membership.tenant_status === 'disabled') throw new StrataError('auth_tenant_disabled');
  return { invitation: invitation!, membership, user };
}

/**
 * Uses the link up, which proves the address, and sets the password where there is one to set.
 */
async function takeInvitation(
  db: DataSource,
  hashing: PasswordHashing,
  { invitation, user }: { readonly invitation: InvitationRow; readonly user: UserRow },
  password: string | undefined,
  request: Request,
): Promise<string | null> {
  const hash =
    password === undefined ? null : await hashing.hash(password, networkOf(request.client.ip));
  await commitChange(db, request, authScope, async (manager) => {
    const locked = await lockForChange(manager, user.id);
    const isTaken = locked !== null && (await useInvitation(manager, invitation));
    if (!isTaken) throw new StrataError('auth_invitation_invalid');
    requireFittingPassword(password, await waysInto(manager, locked));
    const proof = await proveAddress(manager, locked, 'invitation');
    if (hash !== null) await manager.update(UserEntity, { id: user.id }, { password_hash: hash });
    return { result: undefined, ...proof };
  });
  return hash;
}

async function becomeMember(
  db: DataSource,
  invitation: InvitationRow,
  request: Request,
  refusal: 'auth_invitation_invalid' | 'not_found',
): Promise<Membership> {
  const { id, tenant_id: tenantId, user_id: userId } = invitation;
  const member = { tenant_id: tenantId, user_id: userId };
  try {
    const membership = await request.call('tenant-config.members.accept', member);
    await db.manager.delete(InvitationEntity, { id });
    return membership;
  } catch (error) {
    if (codeOf(error) === 'not_found') throw new StrataError(refusal);
    throw error;
  }
}

export function invitationActions({
  db,
  settings,
  hashing,
  throttle,
  deferredMail,
  signIn,
}: AuthParts) {
  return {
    /**
     * The link came by mail, so the address is proven. It signs in only whoever sets the password
     * with it: a link of a week ago is no way around the password, passkey or provider of an
     * account that has one.
     */
    async 'auth.invitations.accept'({ body: { token, password } }, request) {
      const { invitation, user, membership: offered } = await invited(db, token, request);
      requireFittingPassword(password, await waysInto(db.manager, user));
      if (password !== undefined)
        requireStrongPassword(password, '/password', {
          address: user.email,
          displayName: user.display_name,
          tenantNames: [offered.tenant_name],
        });
      const hash = await takeInvitation(db, hashing, { invitation, user }, password, request);
      const membership = await becomeMember(db, invitation, request, 'auth_invitation_invalid');
      if (hash === null)
        return { sign_in_required: true as const, email: user.email, tenant: tenantOf(offered) };
      return signIn.complete(
        {
          userId: user.id,
          authentication: { method: 'password', confinedTo: null },
          membership,
          confirm: async (_manager, current) => current.password_hash === hash,
          refusal: 'auth_invitation_invalid',
        },
        request,
      );
    },

    async 'auth.invitations.list'({ limit = defaultLimit, cursor }, request) {
      const after = decodeCursor(cursor, 'id') ?? '';
      const userId = request.caller.id;
      const { confined_to: confinedTo } = request.caller;
      const pending = (await isProved(db, userId)) ? await pendingOf(db, userId, request) : [];
      const rest = pending.filter(
        ({ invitation: { id, tenant_id: tenantId } }) =>
          id > after && (confinedTo === undefined || tenantId === confinedTo),
      );
      return pageOf(rest.slice(0, limit + 1), limit, ({ invitation }) => invitation.id, viewOf);
    },

    async 'auth.invitations.join'({ invitation_id: id }, request) {
      await requireProved(db, request.caller.id);
      const { invitation } = await ownInvitation(db, id, request);
      requireGoodFor(request.caller.confined_to, invitation.tenant_id);
      return tenantOf(await becomeMember(db, invitation, request, 'not_found'));
    },

    async 'auth.invitations.decline'({ invitation_id: id }, request) {
      await requireProved(db, request.caller.id);
      const { invitation } = await ownInvitation(db, id, request);
      const { tenant_id, user_id } = invitation;
      requireGoodFor(request.caller.confined_to, tenant_id);
      await request.call('tenant-config.members.decline', { tenant_id, user_id });
      await db.manager.delete(InvitationEntity, { id });
      return null;
    },

    async 'auth.invitations.send'({ body: { actor, ...body } }, request) {
      const user = await findUser(db.manager, body.user_id);
      if (!user) throw new StrataError('not_found', 'There is no such account.');
      const key = throttleKey('invite', `${body.tenant_id} ${user.id}`, undefined);
      await throttle.count(key, request.log);
      const token = newInvitationToken();
      await db.transaction(async (manager) => {
        await putInvitation(manager, { ...body, invited_by: actor.id }, token);
        const event = {
          action: 'tenant.invitation_sent',
          tenant_id: body.tenant_id,
          target: user.id,
          payload: {},
          actor,
        };
        await recordEvent(manager, event, request);
      });
      const link = invitationLink(settings(), token);
      const mail = invitationMail(user.email, body.tenant_name, link);
      deferredMail.send({ ...mail, tenantId: body.tenant_id }, request.log);
      return null;
    },

    /**
     * The row stays until its time is up, when the account goes with it that it was made for. Keys
     * go, since they would work again for whoever is made a member again.
     */
    async 'auth.invitations.end'({ tenant_id, user_id }, request) {
      await db.manager.query(
        `UPDATE auth.invitations SET expires_at = LEAST(expires_at, now())
         WHERE tenant_id = $1 AND user_id = $2`,
        [tenant_id, user_id],
      );
      if (await db.manager.existsBy(ApiKeyEntity, { tenant_id, user_id }))
        await commitChange(db, request, authScope, (manager) =>
          endApiKeysIn(manager, user_id, tenant_id),
        );
      return null;
    },
  } satisfies Handlers;
}
