/**
 * Who calls, and the one check of whether they may. It runs on every node in front of every action
 * and fails closed.
 */
import { isRead, type Access, type Contract } from './contracts/contract.ts';
import type { KeyScope, TenantRole } from './contracts/roles.ts';
import type { SignInMethod } from './contracts/sign-in-policy.ts';
import { powerOf, scopeOfPower, type PowerName } from './contracts/consequences.ts';
import type { NarrowedTo } from './contracts/narrow-keys.ts';
import { StrataError } from './errors.ts';
import { requireWithin } from './narrow-keys.ts';
import { synchronizedNow } from './process/synchronized-clock.ts';

export interface Caller {
  /**
   * - `user`: a person who is signed in over REST, or called with an API key of theirs.
   * - `service_account`: a principal of a tenant that is no person, called with an API key of its
   *   own, or a token that a workload got. REST makes no other.
   * - `service`: another service of Strata, on the bus.
   * - `operator`: the operator's console.
   * - `system`: Strata itself.
   */
  readonly type: 'user' | 'service_account' | 'service' | 'operator' | 'system';
  readonly id: string;
  readonly tenant_id: string | null;
  readonly roles: readonly TenantRole[];
  readonly platform_roles: readonly string[];
  readonly session_id?: string;
  /** The tenant is disabled; there are no roles then. */
  readonly tenant_disabled?: boolean;
  /**
   * A policy wants a passkey or an identity provider, and the session was signed in with a
   * password.
   */
  readonly stronger_sign_in_required?: boolean;
  /**
   * The session looks into its tenant for the platform: its roles are what it reads there, and it
   * has none of the platform's while it does.
   */
  readonly visit?: { readonly id: string; readonly until: string };
  /** The tenant that the session is good for and no other: its own provider signed it in. */
  readonly confined_to?: string;
  /** How the session was signed in. */
  readonly signed_in_with?: SignInMethod;
  /** When the session was signed in (RFC 3339). */
  readonly authenticated_at?: string;
  /** Only for an API key or a workload: its rights, which bound it within its owner's roles. */
  readonly scopes?: readonly KeyScope[];
  /** Only for an API key or a workload: what it is for, and nothing else. */
  readonly narrowed_to?: NarrowedTo;
  /**
   * Only for an API key: which, and who made it; null for a service account's key from before that
   * was kept. For a workload the rule that trusts it, whose maker acts through it as through a key.
   */
  readonly api_key?: {
    readonly id: string;
    readonly name: string;
    readonly made_by: string | null;
  };
}

export const serviceCaller = (id: string): Caller => ({
  type: 'service',
  id,
  tenant_id: null,
  roles: [],
  platform_roles: [],
});

/**
 * Whether a caller may do what their roles say, as people and service accounts, and not whatever
 * their action admits.
 */
export const actsByRoles = ({ type }: Caller): boolean =>
  type === 'user' || type === 'service_account';

/**
 * Whether no person is at work, whoever the credential belongs to: an API key acts without anybody
 * looking.
 */
export const isMachine = ({ type, scopes }: Caller): boolean =>
  type === 'service_account' || scopes !== undefined;

/**
 * Who administers the platform beside the users with that role: services, operators and Strata
 * itself.
 */
const platformTypes: readonly Caller['type'][] = ['service', 'operator', 'system'];

export const isPlatformAdmin = (caller: Caller): boolean =>
  platformTypes.includes(caller.type) ||
  (caller.type === 'user' && caller.platform_roles.includes('platform_admin'));

/**
 * Whether the caller sees what is the platform's alone, such as private global entries. Wider than
 * one route, so it is asked apart from the route's own scope: of a platform administrator's API
 * keys only those with `platform:read` do.
 */
export const seesPlatform = (caller: Caller): boolean =>
  isPlatformAdmin(caller) &&
  (caller.scopes === undefined || caller.scopes.includes('platform:read'));

type Params = Readonly<Record<string, unknown>>;

/** Whether nobody needs to be signed in for this call. */
export const isPublic = (access: Access, params: Params): boolean =>
  access.level === 'public' ||
  ('publicWith' in access &&
    access.publicWith !== undefined &&
    params[access.publicWith] !== undefined);

/**
 * Throws 401 without a caller, otherwise 403 with the first reason that applies: that it is
 * internal, then that the caller's tenant is disabled, that a policy does not accept the sign-in,
 * tenant, role, the API key's right and what it is narrowed to, and how long ago the sign-in was.
 */
export function checkAccess(
  contract: Pick<
    Contract,
    'access' | 'keyScope' | 'leadsTo' | 'narrow' | 'rest' | 'params' | 'cache' | 'changesNothing'
  >,
  caller: Caller | undefined,
  params: Params,
): void {
  const { access } = contract;
  if (isPublic(access, params)) return;
  if (!caller?.type) throw new StrataError('auth_token_missing');
  if (caller.type === 'system') return;
  if (caller.type === 'service' && admitsServices(access)) return;
  if (access.level === 'internal' || caller.type === 'service')
    throw new StrataError('insufficient_role');
  if (caller.visit !== undefined) checkVisit(contract);
  // Also a type that does not exist: whatever is no operator is checked as a user.
  if (caller.type !== 'operator') checkUser(access, caller, params);
  const power = powerOf(contract.leadsTo, params);
  if (caller.scopes !== undefined) requireScope(caller.scopes, admittedScopes(contract, power));
  if (caller.narrowed_to !== undefined) requireWithin(contract, caller.narrowed_to, params);
  if (power !== undefined) requireRecentPerson(caller);
  if (wantsRecentSignIn(access, caller, params) && !isRecent(caller))
    throw new StrataError('auth_reauth_required');
}

/**
 * Whether a visit is open to a session: to the one that began it and no other, until it ends. The
 * database ends it by its clock; this one holds also where nothing of the database arrives any more.
 */
export const isOpenTo = (
  sessionId: string | undefined,
  visit: { readonly session_id: string; readonly until: string },
): boolean => visit.session_id === sessionId && Date.parse(visit.until) > synchronizedNow();

/** A visit reads, by GET, and is left. Services read on behalf of it by what has no route. */
function checkVisit(contract: Parameters<typeof checkAccess>[0]): void {
  const { access, rest } = contract;
  if (isLeaving(access)) return;
  const reads = rest === undefined ? isRead(contract) : rest.method === 'GET';
  if (!reads) throw new StrataError('visit_reads_only');
}

const isLeaving = (access: Access): boolean => 'whileVisiting' in access;

/** Whether a call would be let through, for answers that show some callers more than others. */
export function mayCall(
  contract: Parameters<typeof checkAccess>[0],
  caller: Caller,
  params: Params,
): boolean {
  try {
    checkAccess(contract, caller, params);
    return true;
  } catch {
    return false;
  }
}

/**
 * For handlers that alone can know that a call takes this power, such as a rollback: throws where
 * `checkAccess` would.
 */
export function requirePower(caller: Caller, power: PowerName): void {
  const scope = scopeOfPower(power);
  if (caller.scopes !== undefined) requireScope(caller.scopes, scope === null ? [] : [scope]);
  requireRecentPerson(caller);
}

/** Likewise: throws where a call turns out to be one for people and accounts of these roles alone. */
export function requireRole(caller: Caller, roles: readonly TenantRole[]): void {
  const hasOne = roles.some((role) => caller.roles.includes(role));
  if (actsByRoles(caller) && !hasOne) throw needsOneOf(roles);
}

/** A key was given its scope by somebody who had signed in recently. */
function requireRecentPerson(caller: Caller): void {
  if (caller.type === 'user' && caller.scopes === undefined && !isRecent(caller))
    throw new StrataError('auth_reauth_required');
}

const wantsRecentSignIn = (access: Access, caller: Caller, params: Params): boolean =>
  'recent' in access && access.recent?.includes(params, caller) === true;

const admitsDisabledTenant = (access: Access): boolean =>
  access.level === 'authenticated' && access.inDisabledTenant === true;

const admitsAnySignIn = (access: Access): boolean =>
  access.level === 'authenticated' && access.withAnySignIn === true;

const admitsServices = (access: Access): boolean =>
  access.level === 'internal' || ('services' in access && access.services === true);

function checkUser(access: Access, caller: Caller, params: Params): void {
  if (caller.tenant_disabled && !admitsDisabledTenant(access))
    throw new StrataError('auth_tenant_disabled');
  if (caller.stronger_sign_in_required && !admitsAnySignIn(access))
    throw new StrataError('auth_stronger_sign_in_required');
  if (access.level === 'platform_admin' && !isPlatformAdmin(caller))
    throw new StrataError('insufficient_role', 'This needs the role platform_admin.');
  if (access.level === 'tenant_or_platform' && isPlatformAdmin(caller)) return;
  if (access.level === 'tenant' || access.level === 'tenant_or_platform')
    checkMember(access, caller, params);
}

/** The tenant is the one that the parameters name or, where they name none, the caller's own. */
function checkMember(
  access: Access & { readonly roles: readonly TenantRole[] },
  caller: Caller,
  params: Params,
): void {
  const { roles } = access;
  const { tenant_id: named = caller.tenant_id } = params;
  if (caller.tenant_id === null || named !== caller.tenant_id)
    throw new StrataError('tenant_mismatch');
  if (roles.some((role) => caller.roles.includes(role))) return;
  if (caller.visit !== undefined && isLeaving(access)) return;
  throw needsOneOf(roles);
}

const needsOneOf = (roles: readonly TenantRole[]): StrataError =>
  new StrataError('insufficient_role', `This needs one of the roles ${roles.join(', ')}.`);

/**
 * The scopes of which any opens a call to API keys; none where no key may. What is powerful for
 * some calls only admits the scope of that power for the others, too, since it is the greater.
 */
export function admittedScopes(
  { keyScope, leadsTo }: Pick<Contract, 'keyScope' | 'leadsTo'>,
  power: PowerName | undefined,
): readonly KeyScope[] {
  if (keyScope === undefined || keyScope === null) return [];
  if (typeof leadsTo !== 'object') return [keyScope];
  const greater = scopeOfPower(leadsTo.power);
  const admitted = power === undefined ? [keyScope, greater] : [greater];
  return admitted.filter((scope) => scope !== null);
}

function requireScope(scopes: readonly KeyScope[], admitted: readonly KeyScope[]): void {
  const [first] = admitted;
  if (first === undefined) throw new StrataError('insufficient_scope', 'API keys may not do this.');
  if (!admitted.some((each) => scopes.includes(each)))
    throw new StrataError('insufficient_scope', `The API key lacks the scope ${first}.`);
}

/** For actions that somebody who found an open session must not do. */
const recentMs = 10 * 60_000;
export const isRecent = ({ authenticated_at: at }: Caller): boolean =>
  at !== undefined && synchronizedNow() - Date.parse(at) <= recentMs;
