/** The mail that asks somebody to become a member of a tenant. */
import { mailOf } from '../../mail/paragraphs.ts';
import type { Mail } from '../../../../shared/mail/mailer.ts';
import { invitationDays } from '../rules/invitations.ts';

/** A tenant's name on one line: it is another's text, and must not look like more of the mail. */
const onOneLine = (name: string): string => name.replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ');

export function invitationMail(to: string, tenantName: string, link: string): Mail {
  const name = onOneLine(tenantName);
  return mailOf(to, 'You are invited', [
    [
      `You are invited to become a member of “${name}”. To accept, open within ${invitationDays} days:`,
    ],
    [{ link }],
    [
      'If you do not know why, do nothing: no one may act for you, and you become a member of nothing.',
    ],
  ]);
}
