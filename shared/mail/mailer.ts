/** Sends mail over SMTP, or keeps it as `.eml` files where there is no mail server. */
import { createTransport, type SendMailOptions } from 'nodemailer';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Settings } from '../settings.ts';
import { writeEml } from './eml-files.ts';
import { MailError, mailError, refusals, type Refusal } from './mail-error.ts';

export interface Mail {
  /** Sender, instead of the setting from_email. */
  readonly from?: string;
  /** Bare addresses; each sees the others. */
  readonly to: readonly string[];
  readonly subject: string;
  readonly text: string;
  readonly html: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Message-ID is made of it and the sender's domain. The same over all attempts at one mail, so that a mailbox can tell a repetition. */
  readonly messageId?: string;
}

/** At least one recipient was accepted; `refused` names those that were not. */
export interface Sent {
  /** As in the header, with angle brackets. */
  readonly messageId: string;
  readonly accepted: readonly string[];
  readonly refused: readonly Refusal[];
  /** Where the mail lies, if there is no mail server. */
  readonly file?: string;
}

export interface Mailer {
  /** Throws MailError. Ends within a minute. */
  readonly send: (mail: Mail) => Promise<Sent>;
  /** Ends idle connections; a mail on its way is still sent, one that waits for a connection fails and may be retried. */
  readonly close: () => void;
}

interface Transport {
  readonly send: (message: SendMailOptions) => Promise<Sent>;
  readonly close: () => void;
}

const sendMs = 60_000;
const limits = {
  connectionTimeout: 10_000,
  dnsTimeout: 10_000,
  greetingTimeout: 10_000,
  socketTimeout: 30_000,
  socketCloseTimeout: 1000,
};

export function createMailer(
  settings: () => Settings,
  log: { warn: (message: string) => void },
): Mailer {
  let known: Settings | undefined;
  let transport: Transport | undefined;
  let told = false;

  const current = (): Transport => {
    const now = settings();
    if (transport && known === now) return transport;
    const next =
      now.smtp_server === null ? files(join(now.data_dir, 'mail')) : smtp(now, now.smtp_server);
    transport?.close();
    [known, transport] = [now, next];
    const kept = now.smtp_server === null;
    if (kept && !told)
      log.warn(
        `SMTP_SERVER is not set: mail is not sent, but written to ${join(now.data_dir, 'mail')}.`,
      );
    told = kept;
    return next;
  };

  return {
    async send(mail) {
      try {
        const message = compose(mail, settings().from_email);
        return await current().send(message);
      } catch (error) {
        throw mailError(error);
      }
    },
    close() {
      transport?.close();
      known = transport = undefined;
    },
  };
}

function smtp(settings: Settings, host: string): Transport {
  const login =
    settings.smtp_username === null
      ? undefined
      : { user: settings.smtp_username, pass: settings.smtp_password ?? '' };
  const pool = createTransport({
    pool: true,
    host,
    port: settings.smtp_port,
    secure: settings.smtp_port === 465,
    requireTLS: settings.smtp_use_tls,
    ...(login ? { auth: login } : {}),
    ...(settings.smtp_tls_ca === null ? {} : { tls: { ca: readFileSync(settings.smtp_tls_ca) } }),
    ...limits,
    // One more try where the server has dropped an idle connection; all other waiting and retrying is the caller's.
    maxRequeues: 1,
  });
  return {
    async send(message) {
      try {
        const { messageId, accepted, rejectedErrors } = await pool.sendMail({
          ...message,
          signal: AbortSignal.timeout(sendMs),
        });
        return { messageId, accepted, refused: refusals(rejectedErrors, login) };
      } catch (error) {
        throw mailError(error, login);
      }
    },
    close: () => pool.close(),
  };
}

function files(folder: string): Transport {
  const composer = createTransport({ streamTransport: true, buffer: true, newline: 'windows' });
  return {
    async send(message) {
      const { messageId, envelope, message: bytes } = await composer.sendMail(message);
      return {
        messageId,
        accepted: [...envelope.to],
        refused: [],
        file: await writeEml(folder, bytes as Buffer),
      };
    },
    close: () => composer.close(),
  };
}

const control = /\p{Cc}/u;
const address = /^[^\s<>()",;\\@]{1,64}@[^\s<>()",;\\@]{1,255}$/;
const headerName = /^[\x21-\x39\x3b-\x7e]{1,100}$/;

/** Refuses whatever could become another header or another recipient. */
function compose(
  { from: sender, to, subject, text, html, headers = {}, messageId }: Mail,
  fromEmail: string,
): SendMailOptions {
  const from = sender ?? fromEmail;
  const refuse = (what: string): never => {
    throw new MailError(`${what} is not fit for a mail`, false);
  };
  if (to.length === 0) refuse('an empty list of recipients');
  if (!address.test(from) || control.test(from)) refuse('the sender');
  for (const recipient of to)
    if (!address.test(recipient) || control.test(recipient)) refuse('a recipient');
  if (control.test(subject)) refuse('the subject');
  if (messageId !== undefined && !/^[A-Za-z0-9._-]{1,100}$/.test(messageId))
    refuse('the message id');
  for (const [name, value] of Object.entries(headers))
    if (!headerName.test(name) || control.test(value)) refuse('a header');
  return {
    // Given as objects, because a text would be read as a list of addresses.
    from: { name: '', address: from },
    to: to.map((recipient) => ({ name: '', address: recipient })),
    envelope: { from, to: [...to] },
    subject,
    text,
    html,
    headers: { ...headers, 'Auto-Submitted': 'auto-generated' },
    ...(messageId === undefined
      ? {}
      : { messageId: `<${messageId}@${from.slice(from.indexOf('@') + 1)}>` }),
  };
}
