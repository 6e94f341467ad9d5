/**
 * One's own passkeys: adding one (options with a challenge, then the credential that answers it),
 * listing and removing them.
 */
import { randomUUID } from 'node:crypto';
import type { Handlers, Request } from '../../../../shared/contract-runtime/request.ts';
import { Passkey } from '../../../../shared/contracts/auth-passkeys.ts';
import { isUniqueViolation } from '../../../../shared/database/failures.ts';
import { pageById } from '../../../../shared/documents/paging.ts';
import { StrataError } from '../../../../shared/errors.ts';
import { viewBy } from '../../../../shared/schema/view.ts';
import type { AuthParts } from '../../parts.ts';
import { ownSessionOf } from '../../sessions/rules/own-session.ts';
import { PasskeyEntity, type PasskeyRow, type UserRow } from '../../schema.ts';
import { identityEvent, recordEvent } from '../../stores/audit-events.ts';
import { requireRoom } from '../../stores/room.ts';
import {
  requireGoodFor,
  requireOpenSession,
  requireStrongest,
} from '../../sessions/stores/sessions.ts';
import { lockForChange } from '../../accounts/stores/users.ts';
import { challengeSeconds, type Ceremony } from '../webauthn/challenges.ts';

/** Each account has ceremonies of its own, so that nobody answers another's challenge. */
const registrationOf = (userId: string): Ceremony => `register:${userId}`;

const roomForPasskeys = {
  setting: 'passkeys_per_person',
  what: 'passkeys',
  advice: 'Remove one first.',
} as const;

export function passkeyActions({ db, settings, relyingParty, challenges, notices }: AuthParts) {
  /**
   * Throws `conflict` where the passkey is registered already, with whatever account, and where
   * there is no room for another.
   */
  async function insert(row: Omit<PasskeyRow, 'confined_to'>, request: Request): Promise<UserRow> {
    const event = identityEvent('auth.passkey_registered', row.user_id, {
      passkey_id: row.id,
      name: row.name,
      aaguid: row.aaguid,
      backup_eligible: row.backup_eligible,
    });
    try {
      return await db.transaction(async (manager) => {
        const { user, session } = await requireOpenSession(
          manager,
          ownSessionOf(request.caller),
          lockForChange,
        );
        await requireStrongest(manager, session);
        await requireRoom(manager, row.user_id, settings(), roomForPasskeys, () =>
          manager.countBy(PasskeyEntity, { user_id: row.user_id }),
        );
        await manager.insert(PasskeyEntity, { ...row, confined_to: session.confined_to });
        await recordEvent(manager, event, request);
        return user;
      });
    } catch (error) {
      if (!isUniqueViolation(error)) throw error;
      throw new StrataError('conflict', 'This passkey is registered already.');
    }
  }

  return {
    async 'auth.webauthn.register.options'(_params, { caller }) {
      const user = await db.transaction(async (manager) => {
        const own = await requireOpenSession(manager, ownSessionOf(caller), lockForChange);
        await requireStrongest(manager, own.session);
        return own.user;
      });
      const known = await db.manager.findBy(PasskeyEntity, { user_id: user.id });
      const publicKey = await relyingParty.registrationOptions(user, known);
      const { challenge } = publicKey;
      const challengeId = await challenges.keep(registrationOf(user.id), { challenge });
      return { challenge_id: challengeId, publicKey, expires_in: challengeSeconds };
    },

    async 'auth.webauthn.register.verify'(
      { body: { challenge_id: challengeId, credential, name = null } },
      request,
    ) {
      const userId = request.caller.id;
      const { challenge } = await challenges.take(registrationOf(userId), challengeId);
      const verified = await relyingParty.verifyRegistration(credential, challenge, request.log);
      if (!verified) throw new StrataError('auth_webauthn_verification_failed');
      const row = {
        id: randomUUID(),
        user_id: userId,
        name,
        ...verified,
        created_at: new Date(),
        last_used_at: null,
      };
      const owner = await insert(row, request);
      notices.send(owner.email, { kind: 'passkey_added' }, request);
      return viewBy(Passkey, row);
    },

    async 'auth.webauthn.credentials.list'(page, { caller: { id, confined_to } }) {
      const own = { user_id: id, ...(confined_to !== undefined && { confined_to }) };
      return pageById(db.manager, PasskeyEntity, own, page, (row) => viewBy(Passkey, row));
    },

    async 'auth.webauthn.credentials.remove'({ id }, request) {
      const { caller } = request;
      const event = identityEvent('auth.passkey_removed', caller.id, {
        passkey_id: id,
      });
      const owner = await db.transaction(async (manager) => {
        const { user, session } = await requireOpenSession(
          manager,
          ownSessionOf(caller),
          lockForChange,
        );
        const passkey = await manager.findOneBy(PasskeyEntity, { id, user_id: caller.id });
        if (!passkey) throw new StrataError('not_found', 'You have no such passkey.');
        await requireStrongest(manager, session);
        requireGoodFor(session.confined_to, passkey.confined_to);
        await manager.delete(PasskeyEntity, { id });
        await recordEvent(manager, event, request);
        return user;
      });
      notices.send(owner.email, { kind: 'passkey_removed' }, request);
      return null;
    },
  } satisfies Handlers;
}
