/** The mail that carries a password reset link. */
import { mailOf } from '../../mail/paragraphs.ts';
import type { Mail } from '../../../../shared/mail/mailer.ts';

/** How long a link is good for. */
export const resetSeconds = 30 * 60;

export function resetMail(to: string, link: string): Mail {
  const minutes = resetSeconds / 60;
  return mailOf(to, 'Reset your password', [
    [
      `Someone asked to reset the password of this account. To choose a new one, open within ${minutes} minutes:`,
    ],
    [{ link }],
    ['It ends every session. If it was not you, do nothing: the password stays as it is.'],
  ]);
}
