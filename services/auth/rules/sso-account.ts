import { domainToASCII } from 'node:url';
import type { ErrorCode } from '../../../shared/contracts/error-codes.ts';
import type { SsoProviderRow, UserRow } from '../schema.ts';

/** What an identity provider says of somebody. */
export interface SsoClaims {
  readonly issuer: string;
  readonly subject: string;
  readonly email: string | null;
  readonly email_verified: boolean;
  readonly name: string | null;
}
export type SsoRules = Pick<SsoProviderRow, 'tenant_id' | 'domains' | 'jit_enabled'>;

/** `known`: linked before. `link`: this account, from now on. `provision`: make an account, then judge again. */
export type SsoJudgement<U> =
  | { readonly kind: 'known' | 'link'; readonly user: U }
  | { readonly kind: 'provision' }
  | { readonly kind: 'refuse'; readonly code: ErrorCode };

export const domainOf = (email: string): string =>
  domainToASCII(email.slice(email.lastIndexOf('@') + 1).toLowerCase());

interface Accounts<U> {
  /** The account that (issuer, sub) is linked with. */
  readonly linked: U | null;
  /** The account that asked to be linked, signed in. */
  readonly asking: U | null;
  /** The account of the claimed e-mail address. */
  readonly addressed: U | null;
}

/**
 * Whose sign-in this is. An e-mail address identifies an account only where the provider is known to own its domain and both sides
 * have verified it; otherwise whoever can claim an address at some provider would take the account over.
 */
export function judgeSsoAccount<U extends Pick<UserRow, 'id' | 'status' | 'email_verified'>>(
  claims: SsoClaims,
  { tenant_id: tenant, domains, jit_enabled: jit }: SsoRules,
  { linked, asking, addressed }: Accounts<U>,
): SsoJudgement<U> {
  const refuse = (code: ErrorCode) => ({ kind: 'refuse', code }) as const;
  const usable = (kind: 'known' | 'link', user: U): SsoJudgement<U> =>
    user.status === 'active' ? { kind, user } : refuse('auth_sso_account_not_provisioned');

  if (linked && asking && linked.id !== asking.id) return refuse('conflict');
  if (linked) return usable('known', linked);
  const domain =
    claims.email === null
      ? undefined
      : domains.find((each) => each.domain === domainOf(claims.email!));
  if (!domain) return refuse('auth_sso_domain_not_allowed');
  if (asking) return usable('link', asking);
  const proven = domain.verified && claims.email_verified;
  if (addressed)
    return proven && addressed.email_verified
      ? usable('link', addressed)
      : refuse('auth_sso_link_required');
  return jit && tenant !== null && proven
    ? { kind: 'provision' }
    : refuse('auth_sso_account_not_provisioned');
}
