/** The mail that carries a password reset link. */
import { html } from '../../../../shared/mail/html.ts';
import type { Mail } from '../../../../shared/mail/mailer.ts';

/** How long a link is good for. */
export const resetSeconds = 30 * 60;

export function resetMail(to: string, link: string): Mail {
  const minutes = resetSeconds / 60;
  return {
    to: [to],
    subject: 'Reset your password',
    text:
      `Someone asked to reset the password of this account. To choose a new one, open within ${minutes} minutes:\n\n${link}\n\n` +
      'It ends every session. If it was not you, do nothing: the password stays as it is.\n',
    html: String(html`<p>Someone asked to reset the password of this account. To choose a new one, open within ${minutes} minutes:</p>
<p><a href="${link}">${link}</a></p>
<p>It ends every session. If it was not you, do nothing: the password stays as it is.</p>
`),
  };
}
