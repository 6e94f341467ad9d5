/** Who calls, and the one check of whether they may. It runs on every node in front of every action and fails closed. */
import type { Access, Contract, KeyScope, TenantRole } from './contracts/contract.ts';
import { StrataError } from './errors.ts';

export interface Caller {
  /** `service` is a neighbour on the bus, `operator` the REPL, `system` Strata itself. REST makes only users, also by API key. */
  readonly type: 'user' | 'service' | 'operator' | 'system';
  readonly id: string;
  readonly tenant_id: string | null;
  readonly roles: readonly TenantRole[];
  readonly platform_roles: readonly string[];
  readonly session_id?: string;
  /** When the session's sign-in was. */
  readonly authenticated_at?: string;
  /** Given only for an API key: what it may do, whatever its owner's roles are. */
  readonly scopes?: readonly KeyScope[];
}

export const serviceCaller = (id: string): Caller => ({
  type: 'service',
  id,
  tenant_id: null,
  roles: [],
  platform_roles: [],
});
export const isPlatformAdmin = (caller: Caller): boolean =>
  caller.type !== 'user' || caller.platform_roles.includes('platform_admin');

/** Nobody needs to be signed in for this call. */
export const isPublic = (access: Access, params: Readonly<Record<string, unknown>>): boolean =>
  access.level === 'public' ||
  ('publicWith' in access &&
    access.publicWith !== undefined &&
    params[access.publicWith] !== undefined);

const recentMs = 10 * 60_000;
const isRecent = ({ authenticated_at: at }: Caller): boolean =>
  at !== undefined && Date.now() - Date.parse(at) <= recentMs;

/** Throws 401, or 403 with the first reason that applies: tenant, then role, then scope, then how long ago the sign-in was. */
export function checkAccess(
  contract: Pick<Contract, 'access' | 'keyScope'>,
  caller: Caller | undefined,
  params: Readonly<Record<string, unknown>>,
): void {
  const { access } = contract;
  if (isPublic(access, params)) return;
  if (!caller?.type) throw new StrataError('auth_token_missing');
  if (caller.type === 'system' || (caller.type === 'service' && trusts(access))) return;
  if (access.level === 'internal' || caller.type === 'service')
    throw new StrataError('insufficient_role');
  if (caller.type !== 'operator') checkUser(access, caller, params);
  if (caller.scopes && !(contract.keyScope && caller.scopes.includes(contract.keyScope))) {
    throw new StrataError(
      'insufficient_scope',
      contract.keyScope
        ? `The API key lacks the scope ${contract.keyScope}.`
        : 'API keys may not do this.',
    );
  }
  if ('recent' in access && access.recent && !isRecent(caller))
    throw new StrataError('auth_reauth_required');
}

const trusts = (access: Access): boolean =>
  access.level === 'internal' || ('services' in access && access.services === true);

function checkUser(
  access: Access,
  caller: Caller,
  params: Readonly<Record<string, unknown>>,
): void {
  if (access.level === 'platform_admin' && !isPlatformAdmin(caller)) {
    throw new StrataError('insufficient_role', 'This needs the role platform_admin.');
  }
  if (access.level === 'tenant_or_platform' && isPlatformAdmin(caller)) return;
  if (access.level !== 'tenant' && access.level !== 'tenant_or_platform') return;
  if (
    caller.tenant_id === null ||
    ('tenant_id' in params &&
      params.tenant_id !== undefined &&
      params.tenant_id !== caller.tenant_id)
  ) {
    throw new StrataError('tenant_mismatch');
  }
  if (!access.roles.some((role) => caller.roles.includes(role))) {
    throw new StrataError(
      'insufficient_role',
      `This needs one of the roles ${access.roles.join(', ')}.`,
    );
  }
}
