/** From whose address a tenant has Strata send mail. */
import type { NotificationConfig } from '../../../shared/contracts/notification-config.ts';
import type { Problem } from '../../../shared/errors.ts';
import { isVouchedFor } from '../../../shared/mail/sender.ts';

/**
 * A new sender must be of a vouched domain. One that is stored already stands in nobody's way:
 * while nobody vouches for it, mail is sent from FROM_EMAIL (services/notifier/channels/email.ts).
 */
export function senderProblems(
  next: NotificationConfig | null,
  current: NotificationConfig | null,
  vouchedDomains: readonly string[],
): Problem[] {
  const sender = next?.email?.from_email;
  const isUnchanged = sender === current?.email?.from_email;
  if (sender === undefined || isUnchanged || isVouchedFor(sender, vouchedDomains)) return [];
  const message =
    "is of a domain that no one has verified: ask a platform admin to verify the domain at the tenant's sign-in provider " +
    'or to list it in MAIL_ALLOWED_DOMAINS, or leave the field out';
  return [{ path: '/email/from_email', message }];
}

/**
 * Whether what was sent, in whatever shape, may bring a sender. A rollback sends nothing and may.
 */
export function maySetSender(body: unknown): boolean {
  if (body === undefined) return true;
  const { email } = (body ?? {}) as { readonly email?: unknown };
  return typeof email === 'object' && email !== null && Object.hasOwn(email, 'from_email');
}
