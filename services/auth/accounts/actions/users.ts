/**
 * Accounts: made and looked up for other services, listed and disabled by platform administrators.
 */
import { randomUUID } from 'node:crypto';
import { Any, In, IsNull, Not, type DataSource, type EntityManager } from 'typeorm';
import { serviceCaller } from '../../../../shared/access.ts';
import type { Call, Handlers, Request } from '../../../../shared/contract-runtime/request.ts';
import {
  auditFacts,
  commitChange,
  recordEvents,
  type EventDraft,
} from '../../../../shared/commits/commit.ts';
import { dropAgain } from '../../../../shared/commits/removals.ts';
import { accountKey } from '../../../../shared/contracts/auth.ts';
import { nameForgottenKey } from '../../../../shared/contracts/feed.ts';
import type { MemberAddress } from '../../../../shared/contracts/members.ts';
import { authScope } from '../../../../shared/contracts/revision-scopes.ts';
import { decodeCursor, defaultLimit, pageOf } from '../../../../shared/documents/paging.ts';
import { StrataError } from '../../../../shared/errors.ts';
import { requireStrongPassword } from '../../../../shared/security/password-strength.ts';
import type { Settings } from '../../../../shared/settings/settings.ts';
import type { AuthParts } from '../../parts.ts';
import { accountOf, addressOf, platformRolesOf } from '../rules/accounts.ts';
import { keptOutBy } from '../rules/kept-out.ts';
import { networkOf } from '../../throttling/rules/throttle.ts';
import { ApiKeyEntity, PasskeyEntity, UserEntity, type UserRow } from '../../schema.ts';
import { cacheKeysOfApiKeys, endApiKeysIn } from '../../api-keys/stores/api-keys.ts';
import { recordEvent } from '../../stores/audit-events.ts';
import { commitByPlatformAdministrator } from '../../stores/by-administrators.ts';
import { beginErasure, endErasure, lockUnclaimed } from '../../stores/erasure.ts';
import { endCredentials } from '../stores/proof.ts';
import { accountsAt } from '../stores/status-history.ts';
import { endInvitationLinks } from '../../invitations/stores/invitations.ts';
import { endSessionsOf, openSessionsOf } from '../../sessions/stores/sessions.ts';
import { sessionView } from '../../sessions/rules/session-view.ts';
import { issuersKnowing } from '../../single-sign-on/stores/sso-identities.ts';
import { isDomainVerified } from '../../single-sign-on/stores/sso-providers.ts';
import {
  findUser,
  findUserByAddress,
  insertUser,
  keepUnclaimed,
  lockAccount,
  lockForChange,
  type NewUser,
} from '../stores/users.ts';

/** An event about an account that somebody else caused: the caller is its actor. */
const eventAbout = (action: string, userId: string, email: string): EventDraft => ({
  action,
  tenant_id: null,
  target: userId,
  payload: { email },
});

/** Throws 409 where nobody would be left who administers the platform. */
async function requireAnotherAdmin(
  manager: EntityManager,
  user: UserRow,
  settings: Settings,
): Promise<void> {
  if (user.status !== 'active' || platformRolesOf(user, settings).length === 0) return;
  const listed = settings.platform_admin_emails.map(addressOf);
  const others = await manager.existsBy(UserEntity, {
    id: Not(user.id),
    email: In(listed),
    email_verified: true,
    status: 'active',
  });
  if (others) return;
  throw new StrataError(
    'conflict',
    'This is the last account that administers the platform. Let another of PLATFORM_ADMIN_EMAILS sign in first.',
  );
}

/**
 * Memberships first: whoever is left without an account must not be a member. May be done again.
 */
export async function finishErasure(db: DataSource, call: Call, id: string): Promise<void> {
  await call('tenant-config.members.erase', { user_id: id });
  await db.transaction((manager) => endErasure(manager, id));
}

/**
 * What an invitation that expired long ago has left behind: the membership, and the account where
 * it is nobody's and nobody's member. May be done again.
 */
export async function releaseInvited(
  db: DataSource,
  call: Call,
  { tenant_id, user_id }: MemberAddress,
  days: number,
): Promise<void> {
  await call('tenant-config.members.lapse', { tenant_id, user_id });
  const memberships = await Promise.all([
    call('tenant-config.members.of', { user_id }),
    call('tenant-config.members.invitations', { user_id }),
  ]);
  if (memberships.flat().length > 0) return;
  const hasBegun = await db.transaction(async (manager) => {
    const isUnclaimed = await lockUnclaimed(manager, user_id, days);
    if (!isUnclaimed) return false;
    await beginErasure(manager, user_id);
    const payload = { because: 'invitation_expired' };
    const event = { action: 'auth.user_deleted', tenant_id: null, target: user_id, payload };
    const by = { caller: serviceCaller('auth'), requestId: randomUUID() };
    await recordEvents(manager, [auditFacts(event, by)]);
    return true;
  });
  if (hasBegun) await finishErasure(db, call, user_id);
}

const managedAccountOf = (user: UserRow, settings: Settings) => ({
  ...accountOf(user, settings),
  email_verified: user.email_verified,
  status: user.status,
  created_at: user.created_at.toISOString(),
});

/** True where this made the account. */
async function make(
  manager: EntityManager,
  account: Omit<NewUser, 'display_name'>,
  request: Request,
): Promise<boolean> {
  const id = await insertUser(manager, { ...account, display_name: null });
  if (id === null) {
    await keepUnclaimed(manager, account.email);
    return false;
  }
  const event = eventAbout('auth.user_created', id, account.email);
  await recordEvent(manager, event, request);
  return true;
}

/**
 * Before its domain's owner admits an account that nobody has proved: whoever entered it until
 * now was somebody else.
 */
async function clear(db: DataSource, id: string, request: Request): Promise<void> {
  await commitChange(db, request, authScope, async (manager) => {
    const user = await lockForChange(manager, id);
    if (!user || user.email_verified) return { result: undefined, keys: [], events: [] };
    const { keys } = await endCredentials(manager, user);
    return { result: undefined, keys, events: [] };
  });
}

export const userActions = (parts: AuthParts) => ({
  ...ensureAction(parts),
  ...findActions(parts),
  ...changeActions(parts),
});

const ensureAction = ({ db, hashing }: AuthParts) =>
  ({
    /**
     * A new account has no password and is nobody's until its address is proved; a password comes
     * from a platform administrator, whose word proves a new account. An account that exists stays
     * as it is, also its password.
     */
    async 'auth.users.ensure'({ body }, request) {
      const { email, password, tenant_id: tenantId, tenant_name: tenantName } = body;
      const address = addressOf(email);
      if (password !== undefined)
        requireStrongPassword(password, '/password', { address, tenantNames: [tenantName] });
      const isProved = password !== undefined;
      const hash = isProved ? await hashing.hash(password, networkOf(request.client.ip)) : null;
      const isNew = await db.transaction((manager) =>
        make(manager, { email: address, email_verified: isProved, password_hash: hash }, request),
      );
      const user = await db.manager.findOneByOrFail(UserEntity, { email: address });
      const isOwn =
        tenantId !== undefined && (await isDomainVerified(db.manager, address, tenantId));
      if (isOwn && !user.email_verified) await clear(db, user.id, request);
      if (tenantId !== undefined) await endEarlierKeys(db, user.id, tenantId, request);
      return { id: user.id, email: address, admitted: isOwn || (isNew && isProved) };
    },
  }) satisfies Handlers;

/**
 * Keys of an earlier membership, whose removal died before it came to them: they would work again
 * with the next one.
 */
async function endEarlierKeys(
  db: DataSource,
  userId: string,
  tenantId: string,
  request: Request,
): Promise<void> {
  const ofTenant = { user_id: userId, tenant_id: tenantId };
  if (!(await db.manager.existsBy(ApiKeyEntity, ofTenant))) return;
  const memberships = await request.call('tenant-config.members.of', { user_id: userId });
  if (memberships.some(({ tenant_id: id }) => id === tenantId)) return;
  await commitChange(db, request, authScope, (manager) => endApiKeysIn(manager, userId, tenantId));
}

/** Sessions of an account that are shown to whoever administers the platform. */
const mostShown = 50;

const findActions = ({ db, settings }: AuthParts) =>
  ({
    async 'auth.users.get'({ user_ids: ids }) {
      // As one parameter: PostgreSQL takes 65,535, and a tenant may have more approvers.
      const users = await db.manager.findBy(UserEntity, {
        id: Any(ids),
        erasing_since: IsNull(),
      });
      return users.map((user) => ({ ...accountOf(user, settings()), status: user.status }));
    },

    'auth.users.at': ({ user_ids: ids, at }) => accountsAt(db.manager, ids, new Date(at)),

    async 'auth.users.find'({ email }) {
      const user = await findUserByAddress(db.manager, addressOf(email));
      if (!user) return null;
      const { id, email_verified, status } = user;
      return { id, email_verified, status };
    },

    async 'auth.users.read'({ user_id: id }, { caller, call }) {
      const user = await findUser(db.manager, id);
      if (!user || user.erasing_since !== null) throw new StrataError('not_found');
      const [passkeys, providers, memberships, sessions] = await Promise.all([
        db.manager.countBy(PasskeyEntity, { user_id: id }),
        issuersKnowing(db.manager, id),
        call('tenant-config.members.of', { user_id: id }),
        openSessionsOf(db.manager, id, mostShown),
      ]);
      const signsInWith = {
        password: user.password_hash !== null,
        passkeys,
        providers,
      };
      return {
        ...managedAccountOf(user, settings()),
        kept_out_by: keptOutBy(managedAccountOf(user, settings()), signsInWith, memberships),
        signs_in_with: signsInWith,
        memberships: memberships.map(({ tenant_id, tenant_name: name, tenant_status, roles }) => ({
          tenant_id,
          name,
          status: tenant_status,
          roles,
        })),
        sessions: sessions.map((row) => sessionView(row, caller.session_id)),
      };
    },

    async 'auth.users.list'({ limit = defaultLimit, cursor, email, q }) {
      const after = decodeCursor(cursor, 'id');
      const query = db.manager
        .createQueryBuilder(UserEntity, 'u')
        .where('u.erasing_since IS NULL')
        .orderBy('u.id', 'ASC')
        .take(limit + 1);
      if (email !== undefined) query.andWhere('u.email = :email', { email: addressOf(email) });
      // No pattern: what is looked for may have the signs of one.
      if (q !== undefined)
        query.andWhere(
          `strpos(lower(u.email || ' ' || coalesce(u.display_name, '')), lower(:q)) > 0`,
          { q },
        );
      if (after !== undefined) query.andWhere('u.id > :after', { after });
      const rows = await query.getMany();
      return pageOf(
        rows,
        limit,
        ({ id }) => id,
        (row) => managedAccountOf(row, settings()),
      );
    },
  }) satisfies Handlers;

const changeActions = ({ db, settings, notices }: AuthParts) =>
  ({
    /**
     * Disabling ends the account's sessions on every node by the time it is answered, and its API
     * keys until it is enabled again.
     */
    async 'auth.users.patch'({ user_id: id, body: { status } }, request) {
      const disables = status === 'disabled';
      if (disables && id === request.caller.id)
        throw new StrataError('conflict', 'You cannot disable your own account.');
      const result = await commitByPlatformAdministrator(
        db,
        request,
        settings(),
        async (manager) => {
          const user = await lockAccount(manager, id);
          if (!user || user.erasing_since !== null)
            throw new StrataError('not_found', 'There is no such account.');
          // Two who disable each other at once would leave none.
          if (disables) await requireAnotherAdmin(manager, user, settings());
          await manager.update(UserEntity, { id }, { status });
          const sessionKeys = disables ? await endSessionsOf(manager, id) : [];
          const apiKeyKeys = await cacheKeysOfApiKeys(manager, id);
          const action = disables ? 'auth.user_disabled' : 'auth.user_enabled';
          const hasChanged = status !== user.status;
          const changed = { ...user, status };
          request.checkAnswer(managedAccountOf(changed, settings()));
          return {
            result: changed,
            keys: [accountKey({ user_id: id }), ...sessionKeys, ...apiKeyKeys],
            events: hasChanged ? [eventAbout(action, id, user.email)] : [],
          };
        },
      );
      return managedAccountOf(result, settings());
    },

    /**
     * By a password alone nobody changes the passkeys of an account that has one, so whoever has
     * lost theirs needs somebody else's word. With the address, which the account keeps, its person
     * sets a password and registers a passkey.
     */
    async 'auth.users.recover'({ user_id: id }, request) {
      const user = await commitByPlatformAdministrator(db, request, settings(), async (manager) => {
        const locked = await lockForChange(manager, id);
        if (!locked || locked.erasing_since !== null)
          throw new StrataError('not_found', 'There is no such account.');
        const { keys, counts } = await endCredentials(manager, locked);
        // Now that there is no password, they would set one for whoever has read the mailbox before.
        await endInvitationLinks(manager, id);
        const payload = { email: locked.email, ended: counts };
        const event = { action: 'auth.user_recovered', tenant_id: null, target: id, payload };
        return { result: locked, keys: [accountKey({ user_id: id }), ...keys], events: [event] };
      });
      // Also what an earlier request ended whose commit was lost to it: this one found it ended.
      await dropAgain(db, request, authScope, [accountKey({ user_id: id })]);
      notices.send(user.email, { kind: 'account_recovered' }, request);
      return null;
    },

    /**
     * Nobody enters the account any more, and nothing names it, by the time this fails or is
     * answered. What it could not finish the sweep does, or who asks again.
     */
    async 'auth.users.delete'({ user_id: id }, request) {
      if (id === request.caller.id)
        throw new StrataError('conflict', 'You cannot delete your own account.');
      await commitByPlatformAdministrator(db, request, settings(), async (manager) => {
        const user = await lockAccount(manager, id);
        if (!user) throw new StrataError('not_found', 'There is no such account.');
        const none = { result: undefined, keys: [], events: [] };
        if (user.erasing_since !== null) return none;
        await requireAnotherAdmin(manager, user, settings());
        const { keys } = await endCredentials(manager, user);
        await beginErasure(manager, id);
        const event = { action: 'auth.user_deleted', tenant_id: null, target: id, payload: {} };
        const dropped = [accountKey({ user_id: id }), nameForgottenKey, ...keys];
        return { ...none, keys: dropped, events: [event] };
      });
      await finishErasure(db, request.call, id);
      return null;
    },
  }) satisfies Handlers;
