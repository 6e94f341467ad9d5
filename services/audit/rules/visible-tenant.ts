/** Who sees whose events. */
import { isPlatformAdmin, type Caller } from '../../../shared/access.ts';
import { StrataError } from '../../../shared/errors.ts';

/**
 * The tenant whose events the caller sees; undefined for those of all tenants and the platform.
 * `asked` is the one the caller named: a platform administrator may name any, everyone else sees
 * their own.
 */
export function visibleTenant(caller: Caller, asked: string | undefined): string | undefined {
  if (isPlatformAdmin(caller)) return asked;
  if (caller.tenant_id === null) throw new StrataError('tenant_mismatch');
  return caller.tenant_id;
}
