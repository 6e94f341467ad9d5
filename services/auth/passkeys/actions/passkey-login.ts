/** Signing in with a passkey: options with a challenge, then the assertion that answers it. */
import type { AuthenticationResponseJSON } from '@simplewebauthn/server';
import type { EntityManager } from 'typeorm';
import type { Handlers, Request } from '../../../../shared/contract-runtime/request.ts';
import { lockRow } from '../../../../shared/database/locked-row.ts';
import { StrataError } from '../../../../shared/errors.ts';
import { addressOf } from '../../accounts/rules/accounts.ts';
import { validateCounter } from '../rules/passkey-counter.ts';
import { PasskeyEntity, type PasskeyRow, type UserRow } from '../../schema.ts';
import type { AuthParts } from '../../parts.ts';
import { anonymousEvent, identityEvent, recordEvent } from '../../stores/audit-events.ts';
import { findUser } from '../../accounts/stores/users.ts';
import { challengeSeconds, type Challenge } from '../webauthn/challenges.ts';
import type { VerifiedAssertion } from '../webauthn/relying-party.ts';
import { userIdOf } from '../webauthn/user-handle.ts';

/** Who has proved to be whom, with which passkey. */
interface PasskeyProof extends VerifiedAssertion {
  readonly user: UserRow;
  readonly passkey: PasskeyRow;
}

const refusal = 'auth_webauthn_verification_failed';

export function passkeyLoginActions({
  db,
  relyingParty,
  challenges,
  signIn,
  deferredEvents,
}: AuthParts) {
  /**
   * Null for every reason not to trust it, so that no answer tells an unknown passkey from a
   * disabled account.
   */
  async function prove(
    assertion: AuthenticationResponseJSON,
    { challenge, email }: Challenge,
    request: Request,
  ): Promise<PasskeyProof | null> {
    const passkey = await db.manager.findOneBy(PasskeyEntity, { credential_id: assertion.id });
    const user = passkey && (await findUser(db.manager, passkey.user_id));
    if (!user || user.status !== 'active' || userIdOf(assertion) !== user.id) return null;
    if (email !== undefined && email !== user.email) return null;
    const verified = await relyingParty.verifyLogin(assertion, challenge, passkey, request.log);
    return verified && { ...verified, user, passkey };
  }

  /**
   * Takes the counter over; false where it says that the passkey is a copy, or the passkey is gone
   * by now.
   */
  async function recordUse(
    manager: EntityManager,
    { user, passkey: { id }, counter, backedUp }: PasskeyProof,
    request: Request,
  ): Promise<boolean> {
    const passkey = await lockRow(manager, PasskeyEntity, { id });
    if (!passkey) return false;
    const verdict = validateCounter(passkey, counter);
    const isCloned = verdict === 'cloned';
    if (verdict !== 'fine') {
      const event = identityEvent('auth.passkey_counter_regressed', user.id, {
        passkey_id: id,
        stored: passkey.counter,
        presented: counter,
        refused: isCloned,
      });
      await recordEvent(manager, event, request);
    }
    if (isCloned) return false;
    const use = { counter, backed_up: backedUp, last_used_at: new Date() };
    await manager.update(PasskeyEntity, { id }, use);
    return true;
  }

  /** A passkey that nobody has costs no row: anyone can make up any number of them. */
  async function recordRefusal(
    assertion: AuthenticationResponseJSON,
    request: Request,
  ): Promise<void> {
    const passkey = await db.manager.findOneBy(PasskeyEntity, { credential_id: assertion.id });
    if (!passkey) return;
    const payload = { method: 'passkey', passkey_id: passkey.id };
    const event = anonymousEvent('auth.login_failed', passkey.user_id, payload);
    deferredEvents.record(event, request);
  }

  return {
    /**
     * The same whether or not the address has an account or passkeys: it is compared once a passkey
     * has proved whose it is.
     */
    async 'auth.webauthn.login.options'({ body: { email } }) {
      const publicKey = await relyingParty.loginOptions();
      const challengeId = await challenges.keep('login', {
        challenge: publicKey.challenge,
        ...(email === undefined ? {} : { email: addressOf(email) }),
      });
      return { challenge_id: challengeId, publicKey, expires_in: challengeSeconds };
    },

    async 'auth.webauthn.login.verify'(
      { body: { challenge_id: challengeId, credential, tenant_id: wantedTenant } },
      request,
    ) {
      const challenge = await challenges.take('login', challengeId);
      const proof = await prove(credential, challenge, request);
      if (!proof) {
        await recordRefusal(credential, request);
        throw new StrataError(refusal);
      }
      const { confined_to: confinedTo } = proof.passkey;
      const membership = await signIn.membershipFor(
        proof.user,
        wantedTenant ?? confinedTo ?? undefined,
        request.call,
      );
      const identity = {
        userId: proof.user.id,
        authentication: { method: 'passkey', confinedTo },
        membership,
        confirm: (manager: EntityManager) => recordUse(manager, proof, request),
        refusal,
      } as const;
      return signIn.complete(identity, request);
    },
  } satisfies Handlers;
}
