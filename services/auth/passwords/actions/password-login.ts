/** Signing in with an e-mail address and a password. */
import type { Handlers } from '../../../../shared/contract-runtime/request.ts';
import { networkOf } from '../../throttling/rules/throttle.ts';
import { UserEntity, type UserRow } from '../../schema.ts';
import type { AuthParts } from '../../parts.ts';
import { needsRehash } from '../password-hashing.ts';

export function passwordLoginActions({ db, hashing, checkPassword, signIn }: AuthParts) {
  /**
   * The password may have been changed while it was being verified. Another sign-in may also have
   * hashed the same one again.
   */
  const isStillPassword = async (
    password: string,
    checked: UserRow,
    current: UserRow,
    network: string,
  ): Promise<boolean> =>
    current.password_hash === checked.password_hash ||
    hashing.verify(current.password_hash, password, network);

  /**
   * A sign-in is the only moment at which the password is known, and so can be hashed with the
   * parameters of now.
   */
  async function renewHash(user: UserRow, password: string, network: string): Promise<void> {
    const outdated = user.password_hash;
    if (outdated === null || !needsRehash(outdated)) return;
    const renewed = await hashing.hash(password, network);
    const unchanged = { id: user.id, password_hash: outdated };
    await db.manager.update(UserEntity, unchanged, { password_hash: renewed });
  }

  return {
    async 'auth.login'({ body: { email, password, tenant_id: wantedTenant } }, request) {
      const network = networkOf(request.client.ip);
      const user = await checkPassword(email, password, request);
      const membership = await signIn.membershipFor(user, wantedTenant, request.call);
      const response = await signIn.complete(
        {
          userId: user.id,
          authentication: { method: 'password', confinedTo: null },
          membership,
          confirm: (_manager, current) => isStillPassword(password, user, current, network),
          refusal: 'auth_invalid_credentials',
        },
        request,
      );
      await renewHash(user, password, network);
      return response;
    },
  } satisfies Handlers;
}
