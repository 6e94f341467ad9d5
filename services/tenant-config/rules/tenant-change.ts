/** Who changes what of a tenant itself. */
import { isPlatformAdmin, type Caller } from '../../../shared/access.ts';
import type { ParamsOf } from '../../../shared/contracts/index.ts';
import { needsStrongerSignIn } from '../../../shared/contracts/sign-in-policy.ts';
import { StrataError } from '../../../shared/errors.ts';

type TenantChange = ParamsOf<'tenant-config.tenants.patch'>['body'];

/**
 * Throws 403 where a tenant's own administrator changes more than how its members sign in, or asks
 * for that with an API key; and where a member who would be kept out by the policy themselves asks
 * for it, who may have no other way to sign in.
 */
export function checkTenantChange(caller: Caller, tenantId: string, change: TenantChange): void {
  const { sign_in_policy: policy, end_password_keys: endsKeys, ...ofPlatform } = change;
  if (!isPlatformAdmin(caller)) {
    if (Object.keys(ofPlatform).length > 0)
      throw new StrataError('insufficient_role', 'This needs the role platform_admin.');
    if (caller.scopes !== undefined)
      throw new StrataError('insufficient_scope', 'API keys may not do this.');
  }
  if (endsKeys === true && policy !== 'passkey_or_sso')
    throw new StrataError('validation_failed', undefined, {
      errors: [
        { path: '/end_password_keys', message: 'goes with sign_in_policy passkey_or_sso only' },
      ],
    });
  const { tenant_id: ownTenant, signed_in_with: method } = caller;
  const isBound = ownTenant === tenantId && method !== undefined;
  if (isBound && needsStrongerSignIn(method, [policy]))
    throw new StrataError(
      'auth_stronger_sign_in_required',
      'You would lock yourself out. Register a passkey, sign in with it, and set the policy then.',
    );
}
