/** Changing one's password, and setting a new one through a mailed link. */
import { createHash, randomBytes } from 'node:crypto';
import type { Handlers, Request } from '../../../../shared/contract-runtime/request.ts';
import { commitChange } from '../../../../shared/commits/commit.ts';
import { dropAgain } from '../../../../shared/commits/removals.ts';
import { accountKey } from '../../../../shared/contracts/auth.ts';
import type { ParamsOf } from '../../../../shared/contracts/index.ts';
import { resetLink } from '../../../../shared/mail/console-links.ts';
import { authScope } from '../../../../shared/contracts/revision-scopes.ts';
import { codeOf, StrataError } from '../../../../shared/errors.ts';
import {
  requireStrongPassword,
  type PasswordOwner,
} from '../../../../shared/security/password-strength.ts';
import type { AuthParts } from '../../parts.ts';
import { resetMail, resetSeconds } from '../mail/reset-mail.ts';
import { addressOf } from '../../accounts/rules/accounts.ts';
import { networkOf, throttleKey } from '../../throttling/rules/throttle.ts';
import { UserEntity, type UserRow } from '../../schema.ts';
import { endApiKeysOf } from '../../api-keys/stores/api-keys.ts';
import { anonymousEvent, identityEvent } from '../../stores/audit-events.ts';
import { proveAddress } from '../../accounts/stores/proof.ts';
import { endSessionsOf } from '../../sessions/stores/sessions.ts';
import { findUser, findUserByAddress, lockForChange } from '../../accounts/stores/users.ts';

/**
 * What a reset link is for. A changed password makes it void, and with it every other link that is
 * on its way.
 */
interface ResetGrant {
  readonly user_id: string;
  /**
   * Digest of the password hash that the link replaces, of whether the address was proved, and of
   * when credentials ended last: the first proof and a recovery void links, too, also where there is
   * no password.
   */
  readonly from: string;
}

const digest = (text: string): string => createHash('sha256').update(text).digest('base64url');
function grantFor(user: UserRow): ResetGrant {
  const { id, email_verified: isProved, password_hash: hash, credentials_ended_at: ended } = user;
  // As links of nodes before it was kept have it.
  const since = ended === null ? '' : ` ${ended.toISOString()}`;
  return { user_id: id, from: digest(`${isProved} ${hash ?? ''}${since}`) };
}
/** Kept under the token's digest, so that Redis holds nothing that a link can be made of. */
const grantKey = (token: string): string => `password_reset:${digest(token)}`;

/**
 * Checks the current password, which may be the new one already: an earlier request changed it a
 * moment ago whose commit was lost to it. Nodes then drop what that one has ended.
 */
async function checkCurrent(
  { db, checkPassword }: AuthParts,
  user: UserRow,
  { current_password: current, new_password: wanted }: ParamsOf<'auth.password.change'>['body'],
  request: Request,
): Promise<void> {
  try {
    await checkPassword(user.email, current, request);
  } catch (error) {
    if (codeOf(error) !== 'auth_invalid_credentials') throw error;
    await dropAgain(db, request, authScope, [accountKey({ user_id: user.id })]);
    if (request.committed.length === 0) throw error;
    await checkPassword(user.email, wanted, request);
  }
}

async function changePassword(
  { db, hashing }: AuthParts,
  user: UserRow,
  newPassword: string,
  endsApiKeys: boolean,
  request: Request,
): Promise<void> {
  const hash = await hashing.hash(newPassword, networkOf(request.client.ip));
  await commitChange(db, request, authScope, async (manager) => {
    const locked = await lockForChange(manager, user.id);
    // Another change was faster: the password that was checked is no longer the current one.
    if (locked?.password_hash !== user.password_hash)
      throw new StrataError('auth_invalid_credentials');
    await manager.update(UserEntity, { id: user.id }, { password_hash: hash });
    const sessionKeys = await endSessionsOf(manager, user.id, request.caller.session_id);
    const apiKeyKeys = endsApiKeys ? await endApiKeysOf(manager, user.id) : [];
    const payload = {
      sessions_ended: sessionKeys.length,
      api_keys_ended: apiKeyKeys.length,
    };
    const event = identityEvent('auth.password_changed', user.id, payload);
    return {
      result: undefined,
      keys: [accountKey({ user_id: user.id }), ...sessionKeys, ...apiKeyKeys],
      events: [event],
    };
  });
}

export function passwordActions(parts: AuthParts) {
  const { db, settings, hashing, throttle, shortLived, deferredMail, deferredEvents, notices } =
    parts;
  /** What a password of this account must not contain. */
  async function ownerOf(user: UserRow, request: Request): Promise<PasswordOwner> {
    const memberships = await request.call('tenant-config.members.of', { user_id: user.id });
    const tenantNames = memberships.map(({ tenant_name: name }) => name);
    return { address: user.email, displayName: user.display_name, tenantNames };
  }

  return {
    async 'auth.password.change'({ body }, request) {
      const { new_password: newPassword, end_api_keys: endsApiKeys = false } = body;
      const { caller } = request;
      const user = await findUser(db.manager, caller.id);
      if (!user) throw new StrataError('not_found', 'There is no account for this caller.');
      requireStrongPassword(newPassword, '/new_password', await ownerOf(user, request));
      await checkCurrent(parts, user, body, request);
      await changePassword(parts, user, newPassword, endsApiKeys, request);
      notices.send(user.email, { kind: 'password_changed' }, request);
      return null;
    },

    /**
     * The same steps whether or not there is such an account, so that neither answer nor time
     * tells; mail and audit event go afterwards.
     */
    async 'auth.password.forgot'({ body: { email } }, request) {
      const address = addressOf(email);
      await throttle.count(throttleKey('forgot', address, request.client.ip), request.log);
      const user = await findUserByAddress(db.manager, address);
      const usable = user?.status === 'active' ? user : null;
      const token = randomBytes(32).toString('base64url');
      await shortLived.put(grantKey(token), usable && grantFor(usable), resetSeconds);
      // An unknown address costs no row: anyone can make up any number of them.
      if (user) {
        const payload = { email: address };
        const event = anonymousEvent('auth.password_reset_requested', user.id, payload);
        deferredEvents.record(event, request);
      }
      if (usable) {
        const link = resetLink(settings(), token);
        deferredMail.send(resetMail(address, link), request.log);
      }
      return { expires_in: resetSeconds };
    },

    /**
     * The link came by mail, so the address is proven to be the account's. Whoever knew the
     * password before may have signed in and made keys with it: both end.
     */
    async 'auth.password.reset'({ body: { token, new_password: newPassword } }, request) {
      // Looked up before anything is hashed, so that made-up tokens cost nothing; taken once
      // nothing but the database can fail.
      const known = await shortLived.peek<ResetGrant>(grantKey(token));
      if (!known) throw new StrataError('auth_password_reset_invalid');
      const owner = await findUser(db.manager, known.user_id);
      if (!owner) throw new StrataError('auth_password_reset_invalid');
      requireStrongPassword(newPassword, '/new_password', await ownerOf(owner, request));
      const hash = await hashing.hash(newPassword, networkOf(request.client.ip));
      const grant = await shortLived.take<ResetGrant>(grantKey(token));
      if (!grant) throw new StrataError('auth_password_reset_invalid');
      const user = await commitChange(db, request, authScope, async (manager) => {
        const locked = await lockForChange(manager, grant.user_id);
        if (!locked || grantFor(locked).from !== grant.from)
          throw new StrataError('auth_password_reset_invalid');
        const sessionKeys = await endSessionsOf(manager, locked.id);
        const apiKeyKeys = await endApiKeysOf(manager, locked.id);
        const proof = await proveAddress(manager, locked, 'password_reset');
        await manager.update(UserEntity, { id: locked.id }, { password_hash: hash });
        const payload = {
          sessions_ended: sessionKeys.length,
          api_keys_ended: apiKeyKeys.length,
        };
        const event = identityEvent('auth.password_reset', locked.id, payload);
        const keys = [...proof.keys, ...sessionKeys, ...apiKeyKeys];
        return { result: locked, keys, events: [...proof.events, event] };
      });
      notices.send(user.email, { kind: 'password_reset' }, request);
      await throttle.forgive(throttleKey('password', user.email, request.client.ip), request.log);
      return null;
    },
  } satisfies Handlers;
}
