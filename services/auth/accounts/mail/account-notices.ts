/**
 * Mail that tells somebody what was changed in how they sign in, so that they notice what was not
 * them.
 *
 * It is sent after the answer, like a reset link, and lost with the process: `GET /auth/activity`
 * still shows the change. It holds nothing that whoever made the change could have written, such as
 * the name of a key: a mail of ours would carry it to its victim.
 */
import type { Request } from '../../../../shared/contract-runtime/request.ts';
import type { Mail } from '../../../../shared/mail/mailer.ts';
import { mailOf } from '../../mail/paragraphs.ts';
import { minuteOf } from '../../../../shared/schema/moment.ts';
import { networkIn } from '../../../../shared/security/networks.ts';
import type { Settings } from '../../../../shared/settings/settings.ts';
import type { DeferredMail } from '../../mail/deferred-mail.ts';

/** Subject and first sentence of each notice. */
const notices = {
  password_changed: 'Your password was changed',
  password_reset: 'Your password was reset',
  api_key_made: 'An API key was made for your account',
  api_key_rotated: 'An API key of your account has a new secret',
  api_keys_ended:
    'An administrator of a tenant now asks for stronger sign-ins, and ended API keys that were made after signing in with a password',
  passkey_added: 'A passkey was added to your account',
  passkey_removed: 'A passkey was removed from your account',
  provider_linked: 'A sign-in provider was linked with your account',
  sessions_ended: 'Other sessions of your account were ended',
  account_recovered:
    'An administrator has revoked your password, passkeys, providers, sessions and API keys. To start again, reset your password',
} as const;

export interface AccountNotice {
  readonly kind: keyof typeof notices;
  /** Which one, in words of ours. */
  readonly which?: string;
}

/**
 * The network of an address, such as `192.0.2.0/24`: enough to know one's own by, and no more than
 * that.
 */
export const shownNetworkOf = (ip: string | undefined): string =>
  networkIn(ip, { ipv4: 24, ipv6: 48 }) ?? 'unknown';

export function accountNoticeMail(
  to: string,
  { kind, which }: AccountNotice,
  { at, ip, frontendOrigin }: { at: Date; ip: string | undefined; frontendOrigin: string },
): Mail {
  const subject = notices[kind];
  const what = which === undefined ? `${subject}.` : `${subject}: ${which}.`;
  const when = `When: ${minuteOf(at.toISOString())}`;
  const where = `From the network: ${shownNetworkOf(ip)}`;
  const advice =
    'If it was you, there is nothing to do. If not, reset your password, look through your sessions, passkeys and API keys, and tell your administrator:';
  return mailOf(to, subject, [[what], [when, where], [advice], [{ link: frontendOrigin }]]);
}

export const createAccountNotices = (settings: () => Settings, deferredMail: DeferredMail) => ({
  /** Returns at once; call it after the commit. */
  send(to: string, notice: AccountNotice, { client, log }: Request): void {
    const { frontend_origin: frontendOrigin } = settings();
    const mail = accountNoticeMail(to, notice, {
      at: new Date(),
      ip: client.ip,
      frontendOrigin,
    });
    deferredMail.send(mail, log);
  },
});
