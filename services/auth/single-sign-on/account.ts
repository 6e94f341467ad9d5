/** Which account somebody enters whom a provider vouches for, and which tenant. */
import type { DataSource } from 'typeorm';
import { commitChange } from '../../../shared/commits/commit.ts';
import type { Request } from '../../../shared/contract-runtime/request.ts';
import { authScope } from '../../../shared/contracts/revision-scopes.ts';
import { StrataError } from '../../../shared/errors.ts';
import { addressOf } from '../accounts/rules/accounts.ts';
import type { Membership } from '../accounts/rules/memberships.ts';
import { proveAddress } from '../accounts/stores/proof.ts';
import {
  findUser,
  findUserByAddress,
  insertUser,
  lockForChange,
} from '../accounts/stores/users.ts';
import { SsoIdentityEntity, type SsoProviderRow, type UserRow } from '../schema.ts';
import type { SignIn } from '../sessions/sign-in.ts';
import { identityEvent, recordEvent } from '../stores/audit-events.ts';
import {
  isAddressProven,
  validateSsoAccount,
  provesAddress,
  type SsoClaims,
  type SsoVerdict,
} from './rules/sso-account.ts';

/**
 * The account that a person may enter; `link` where this is the first time through this provider.
 */
export type Admitted = Extract<SsoVerdict<UserRow>, { kind: 'known' | 'link' }>;

async function classify(
  db: DataSource,
  claims: SsoClaims,
  provider: SsoProviderRow,
  linkingUserId: string | null,
): Promise<SsoVerdict<UserRow>> {
  const { issuer, subject, email } = claims;
  const identity = await db.manager.findOneBy(SsoIdentityEntity, { issuer, subject });
  return validateSsoAccount(claims, provider, {
    linked: identity && (await findUser(db.manager, identity.user_id)),
    linking: linkingUserId === null ? null : await findUser(db.manager, linkingUserId),
    addressed: email === null ? null : await findUserByAddress(db.manager, addressOf(email)),
  });
}

/** Makes the account that the provider vouches for; does nothing where one appeared meanwhile. */
async function provision(
  db: DataSource,
  email: string,
  name: string | null,
  provider: SsoProviderRow,
  request: Request,
): Promise<void> {
  const address = addressOf(email);
  await db.transaction(async (manager) => {
    const id = await insertUser(manager, {
      email: address,
      email_verified: true,
      display_name: name,
      password_hash: null,
    });
    if (id === null) return;
    const payload = { email: address, provider_id: provider.id };
    const event = identityEvent('auth.user_provisioned', id, payload);
    await recordEvent(manager, event, request);
  });
}

async function requireActiveTenant(tenantId: string, request: Request): Promise<void> {
  const tenant = await request.call('tenant-config.tenants.get', { tenant_id: tenantId });
  if (tenant.status === 'disabled') throw new StrataError('auth_tenant_disabled');
}

export async function accountFor(
  db: DataSource,
  claims: SsoClaims,
  provider: SsoProviderRow,
  linkingUserId: string | null,
  request: Request,
): Promise<Admitted> {
  const first = await classify(db, claims, provider, linkingUserId);
  if (first.kind === 'refuse') throw new StrataError(first.code);
  if (first.kind !== 'provision') return first;

  if (provider.tenant_id !== null) await requireActiveTenant(provider.tenant_id, request);
  if (claims.email !== null) await provision(db, claims.email, claims.name, provider, request);
  // Still to be provisioned where the provider tells no address. Judged again otherwise, since
  // the account of this address may be one that appeared meanwhile, by other means and
  // unverified.
  const second = await classify(db, claims, provider, linkingUserId);
  if (second.kind === 'refuse') throw new StrataError(second.code);
  if (second.kind === 'provision') throw new StrataError('auth_sso_account_not_provisioned');
  return second;
}

/**
 * Notes the first proof of the account's address, where this sign-in is one; true where it was.
 */
export async function prove(
  db: DataSource,
  claims: SsoClaims,
  provider: SsoProviderRow,
  account: UserRow,
  request: Request,
): Promise<boolean> {
  if (account.email_verified || !provesAddress(claims, provider, account)) return false;
  await commitChange(db, request, authScope, async (manager) => {
    const user = await lockForChange(manager, account.id);
    if (!user) throw new StrataError('auth_sso_account_not_provisioned');
    return { result: undefined, ...(await proveAddress(manager, user, 'sso')) };
  });
  return true;
}

/** Somebody whose address the tenant's own provider vouches for needs no mail to accept. */
async function acceptInvitation(tenantId: string, userId: string, request: Request): Promise<void> {
  const invitations = await request.call('tenant-config.members.invitations', {
    user_id: userId,
  });
  if (!invitations.some((invitation) => invitation.tenant_id === tenantId)) return;
  await request.call('tenant-config.members.accept', { tenant_id: tenantId, user_id: userId });
}

/**
 * Membership is given with the first sign-in only, and to whom the tenant has not removed: a member
 * who is removed stays removed. An address that nobody has verified may be linked, and gives none:
 * at many providers anybody claims any.
 */
export async function membershipFor(
  signIn: SignIn,
  { kind, user }: Admitted,
  claims: SsoClaims,
  provider: SsoProviderRow,
  request: Request,
): Promise<Membership | null> {
  const { tenant_id: tenantId, jit_enabled: provisions, default_roles: roles } = provider;
  const isFirstTime = kind === 'link';
  if (tenantId !== null && provesAddress(claims, provider, user))
    await acceptInvitation(tenantId, user.id, request);
  // Whoever is a member already, or is still invited, stays as they are.
  if (tenantId !== null && isFirstTime && provisions && isAddressProven(claims, provider))
    await request.call('tenant-config.members.provision', {
      tenant_id: tenantId,
      user_id: user.id,
      body: { roles },
    });
  return signIn.membershipFor(user, tenantId ?? undefined, request.call);
}
