/** Which account somebody may enter whom an identity provider vouches for. */
import { domainToASCII } from 'node:url';
import type { ErrorCode } from '../../../../shared/contracts/error-codes.ts';
import type { SsoProviderRow, UserRow } from '../../schema.ts';
import { addressOf } from '../../accounts/rules/accounts.ts';

/** What an identity provider says of somebody. */
export interface SsoClaims {
  readonly issuer: string;
  /** Who they are at the issuer, whatever else changes. */
  readonly subject: string;
  readonly email: string | null;
  readonly email_verified: boolean;
  readonly name: string | null;
  /** When they signed in at the provider (`auth_time`); null where it does not say. */
  readonly authenticated_at: Date | null;
}
export type SsoRules = Pick<SsoProviderRow, 'tenant_id' | 'domains' | 'jit_enabled'>;

/** The accounts that may be meant. */
interface Candidates<User> {
  /** The account that issuer and subject are linked with. */
  readonly linked: User | null;
  /** The account that asked to be linked, signed in. */
  readonly linking: User | null;
  /** The account of the claimed e-mail address. */
  readonly addressed: User | null;
}

/**
 * `known`: linked before. `link`: this account, from now on. `provision`: make an account, then
 * judge again.
 */
export type SsoVerdict<User> =
  | { readonly kind: 'known' | 'link'; readonly user: User }
  | { readonly kind: 'provision' }
  | { readonly kind: 'refuse'; readonly code: ErrorCode };

/** The domain of an address, in lower case and ASCII. */
export const domainOf = (email: string): string =>
  domainToASCII(email.slice(email.lastIndexOf('@') + 1).toLowerCase());

/**
 * The claimed address is the person's: the provider is known to own its domain, and has verified
 * it.
 */
export function isAddressProven(
  claims: SsoClaims,
  { domains }: Pick<SsoRules, 'domains'>,
): boolean {
  if (claims.email === null || !claims.email_verified) return false;
  const claimedDomain = domainOf(claims.email);
  return domains.some(({ domain, verified }) => verified && domain === claimedDomain);
}

/** Whether this sign-in proves that the account's address is the person's. */
export const provesAddress = (
  claims: SsoClaims,
  rules: Pick<SsoRules, 'domains'>,
  { email }: Pick<UserRow, 'email'>,
): boolean =>
  claims.email !== null && addressOf(claims.email) === email && isAddressProven(claims, rules);

/**
 * Whose sign-in this is. An e-mail address identifies an account only where the provider is known
 * to own its domain and has verified it; otherwise whoever can claim an address at some provider
 * would take the account over. Where nobody had proved the account's address, this is the first
 * proof, which ends what was before it.
 */
export function validateSsoAccount<User extends Pick<UserRow, 'id' | 'status'>>(
  claims: SsoClaims,
  rules: SsoRules,
  { linked, linking, addressed }: Candidates<User>,
): SsoVerdict<User> {
  const refuse = (code: ErrorCode) => ({ kind: 'refuse', code }) as const;
  const enter = (kind: 'known' | 'link', user: User): SsoVerdict<User> =>
    user.status === 'active' ? { kind, user } : refuse('auth_sso_account_not_provisioned');

  if (linked && linking && linked.id !== linking.id) return refuse('conflict');
  if (linked) return enter('known', linked);

  const claimedDomain = claims.email === null ? null : domainOf(claims.email);
  const domain = rules.domains.find((each) => each.domain === claimedDomain);
  if (!domain) return refuse('auth_sso_domain_not_allowed');
  if (linking) return enter('link', linking);

  const addressIsProven = isAddressProven(claims, rules);
  if (addressed)
    return addressIsProven ? enter('link', addressed) : refuse('auth_sso_link_required');
  const mayProvision = rules.jit_enabled && rules.tenant_id !== null;
  return mayProvision && addressIsProven
    ? { kind: 'provision' }
    : refuse('auth_sso_account_not_provisioned');
}
