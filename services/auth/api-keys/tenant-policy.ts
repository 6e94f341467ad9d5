/**
 * Whether a sign-in is good enough for API keys of a tenant. The session may be for another tenant,
 * whose policy is all that its own calls are checked by.
 */
import type { DataSource } from 'typeorm';
import { commitChange } from '../../../shared/commits/commit.ts';
import type { Call, Request } from '../../../shared/contract-runtime/request.ts';
import { apiKeyCacheKey } from '../../../shared/contracts/auth-api-keys.ts';
import { authScope } from '../../../shared/contracts/revision-scopes.ts';
import {
  needsStrongerSignIn,
  type SignInMethod,
} from '../../../shared/contracts/sign-in-policy.ts';
import { StrataError } from '../../../shared/errors.ts';
import { ApiKeyEntity, type ApiKeyRow } from '../schema.ts';
import { identityEvent } from '../stores/audit-events.ts';

/** Throws `auth_stronger_sign_in_required` where the tenant wants more of this member. */
export async function requireAccepted(
  method: SignInMethod,
  userId: string,
  tenantId: string | null,
  call: Call,
): Promise<void> {
  if (tenantId === null || !needsStrongerSignIn(method, ['passkey_or_sso'])) return;
  const memberships = await call('tenant-config.members.of', { user_id: userId });
  const membership = memberships.find(({ tenant_id: id }) => id === tenantId);
  if (!needsStrongerSignIn(method, [membership?.sign_in_policy])) return;
  throw new StrataError(
    'auth_stronger_sign_in_required',
    'The tenant of this key wants a passkey or an identity provider: sign in with that.',
  );
}

/**
 * After a key was made or rotated: a policy that came between the check of the session and the
 * commit has named and ended the keys of before, and not this one. Throws as `requireAccepted`.
 */
export async function endUnlessAccepted(
  db: DataSource,
  { id, tenant_id: tenantId, name }: Pick<ApiKeyRow, 'id' | 'tenant_id' | 'name'>,
  method: SignInMethod,
  request: Request,
): Promise<void> {
  const { id: userId } = request.caller;
  try {
    await requireAccepted(method, userId, tenantId, request.call);
  } catch (error) {
    await commitChange(db, request, authScope, async (manager) => {
      await manager.delete(ApiKeyEntity, { id });
      const payload = { key_id: id, name, because: 'sign_in_policy' };
      return {
        result: undefined,
        keys: [apiKeyCacheKey({ key_id: id })],
        events: [identityEvent('auth.api_key_ended', userId, payload)],
      };
    });
    throw error;
  }
}
