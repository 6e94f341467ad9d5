/** Whose address may stand as the sender of a tenant's mails. */
import { domainToASCII } from 'node:url';
import type { Settings } from '../settings/settings.ts';

/**
 * Whether one of the domains, which are in lower case and in ASCII, is that of the address. A
 * subdomain is another domain: it may be somebody else's.
 */
export function isVouchedFor(address: string, domains: readonly string[]): boolean {
  const domain = domainToASCII(address.slice(address.lastIndexOf('@') + 1));
  return domain !== '' && domains.includes(domain);
}

/**
 * The sender that a tenant wants, or FROM_EMAIL where nobody vouches for its domain now.
 * `verifiedDomains` are those of the tenant's sign-in providers; they are asked for only where
 * MAIL_ALLOWED_DOMAINS does not have the domain.
 */
export async function senderInUse(
  wanted: string,
  settings: Pick<Settings, 'from_email' | 'mail_allowed_domains'>,
  verifiedDomains: () => Promise<readonly string[]>,
): Promise<string> {
  const { from_email: fallback, mail_allowed_domains: allowed } = settings;
  if (wanted === fallback || isVouchedFor(wanted, allowed)) return wanted;
  const isVerified = isVouchedFor(wanted, await verifiedDomains());
  return isVerified ? wanted : fallback;
}
