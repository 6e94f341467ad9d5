/** Sends mail over SMTP, or keeps it as `.eml` files where no mail server is configured. */
import type { createTransport, SendMailOptions } from 'nodemailer';
import { accessSync, constants, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Turns } from '../concurrency/turns.ts';
import type { Settings } from '../settings/settings.ts';
import { writeEml } from './eml-files.ts';
import { control, isMailAddress } from './mail-address.ts';
import { MailError, mailError } from './mail-error.ts';

export interface Mail {
  /** Sender, instead of the setting from_email. */
  readonly from?: string;
  /** The tenant that has it sent, whose mails are only so many at a time; those to one address by default. */
  readonly tenantId?: string | null;
  /** A bare address: each person has a mail of their own. */
  readonly to: string;
  readonly subject: string;
  readonly text: string;
  readonly html: string;
  /**
   * Message-ID is made from it and the sender's domain. The same in every attempt at one mail, so
   * that a mailbox can tell a repeated mail.
   */
  readonly messageId?: string;
}

/** A mail that was accepted. */
export interface SentMail {
  /** As in the header, with angle brackets. */
  readonly messageId: string;
  /** Path of the mail, where no mail server is configured. */
  readonly file?: string;
}

export interface Mailer {
  /** Throws MailError. Ends within a minute of its turn. */
  readonly send: (mail: Mail) => Promise<SentMail>;
  /**
   * Ends idle connections. A mail on its way is still sent; one that waits for a connection fails
   * and may be retried.
   */
  readonly close: () => void;
}

interface Transport {
  readonly send: (message: SendMailOptions) => Promise<SentMail>;
  readonly close: () => void;
}

type CreateTransport = typeof createTransport;

const sendMs = 60_000;
const mostConnections = 16;
/**
 * Mails of one tenant that may have connections. A server may look for long at an address before it
 * takes a mail for it, which mails of others are not to wait for.
 */
const mostOfTenant = 3;
/** In milliseconds; each ends a session that makes no progress. */
const sessionLimits = {
  connectionTimeout: 10_000,
  dnsTimeout: 10_000,
  greetingTimeout: 10_000,
  socketTimeout: 30_000,
  socketCloseTimeout: 1000,
};

/**
 * Follows the settings: a reload that replaces them replaces the connections with the next mail.
 */
export function createMailer(
  settings: () => Settings,
  log: { warn: (message: string) => void },
): Mailer {
  let current: { readonly settings: Settings; readonly transport: Transport } | undefined;
  let warned = false;
  let closed = 0;
  const turns = new Turns(mostOfTenant);
  warnOfAuthority(settings(), log);

  function currentTransport(create: CreateTransport): Transport {
    const latest = settings();
    if (current?.settings === latest) return current.transport;
    const transport = openTransport(create, latest);
    current?.transport.close();
    current = { settings: latest, transport };
    warnOfFiles(latest);
    return transport;
  }

  /** Once for each time that the setting is taken away. */
  function warnOfFiles({ smtp_server: host, data_dir: dataDir }: Settings): void {
    const keepsFiles = host === null;
    if (keepsFiles && !warned)
      log.warn(`SMTP_SERVER is not set: mail is not sent, but written to ${mailFolder(dataDir)}.`);
    warned = keepsFiles;
  }

  return {
    async send(mail) {
      try {
        const message = compose(mail, settings().from_email);
        // With the first mail: most processes send none.
        const { createTransport: create } = await import('nodemailer');
        const closedBefore = closed;
        return await turns.take(mail.tenantId ?? mail.to, Infinity, () => {
          if (closed > closedBefore)
            throw new MailError('This node closed its connections to the mail server', true);
          return currentTransport(create).send(message);
        });
      } catch (error) {
        throw mailError(error);
      }
    },
    close() {
      closed += 1;
      current?.transport.close();
      current = undefined;
    },
  };
}

/** At the start, since the first mail may come long after it; that reads the file again. */
function warnOfAuthority(
  { smtp_server: host, smtp_tls_ca: file }: Settings,
  log: { warn: (message: string) => void },
): void {
  if (host === null || file === null) return;
  try {
    accessSync(file, constants.R_OK);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    log.warn(
      `SMTP_TLS_CA names ${file}, which cannot be read (${code}): this node sends no mail until it can.`,
    );
  }
}

const mailFolder = (dataDir: string): string => join(dataDir, 'mail');

const openTransport = (create: CreateTransport, settings: Settings): Transport =>
  settings.smtp_server === null
    ? fileTransport(create, mailFolder(settings.data_dir))
    : smtpTransport(create, settings, settings.smtp_server);

function smtpTransport(create: CreateTransport, settings: Settings, host: string): Transport {
  const login =
    settings.smtp_username === null
      ? undefined
      : { user: settings.smtp_username, pass: settings.smtp_password ?? '' };
  const pool = create({
    pool: true,
    maxConnections: mostConnections,
    host,
    port: settings.smtp_port,
    secure: settings.smtp_port === 465,
    requireTLS: settings.smtp_use_tls,
    ...(login ? { auth: login } : {}),
    ...(settings.smtp_tls_ca === null ? {} : { tls: { ca: readFileSync(settings.smtp_tls_ca) } }),
    ...sessionLimits,
    // One more try where the server has dropped an idle connection. All other waiting and retrying
    // is the caller's.
    maxRequeues: 1,
  });
  return {
    async send(message) {
      try {
        const signal = AbortSignal.timeout(sendMs);
        const { messageId } = await pool.sendMail({ ...message, signal });
        return { messageId };
      } catch (error) {
        throw mailError(error, login);
      }
    },
    close: () => pool.close(),
  };
}

function fileTransport(create: CreateTransport, folder: string): Transport {
  const composer = create({ streamTransport: true, buffer: true, newline: 'windows' });
  return {
    async send(message) {
      const { messageId, message: composed } = await composer.sendMail(message);
      // `buffer: true` asks for bytes; nodemailer's type also allows the stream that comes without
      // it.
      if (!Buffer.isBuffer(composed)) throw new Error('nodemailer gave a stream for a mail');
      const file = await writeEml(folder, composed);
      return { messageId, file };
    },
    close: () => composer.close(),
  };
}

const idOfMessage = /^[A-Za-z0-9._-]{1,100}$/;

/**
 * The message for nodemailer. Refuses, for good, whatever could become another header or another
 * recipient.
 */
function compose(mail: Mail, fromEmail: string): SendMailOptions {
  const { from = fromEmail, to, subject, text, html, messageId } = mail;
  const unfit = unfitPart(mail, from);
  if (unfit !== undefined) throw new MailError(`${unfit} is not fit for a mail`, false);

  const domain = from.slice(from.indexOf('@') + 1);
  return {
    // As objects, because a text would be read as a list of addresses.
    from: { name: '', address: from },
    to: { name: '', address: to },
    envelope: { from, to: [to] },
    subject,
    text,
    html,
    headers: { 'Auto-Submitted': 'auto-generated' },
    ...(messageId === undefined ? {} : { messageId: `<${messageId}@${domain}>` }),
  };
}

/** Names the first part that must not be sent. */
function unfitPart(mail: Mail, from: string): string | undefined {
  const { to, subject, messageId } = mail;
  if (!isMailAddress(from)) return 'the sender';
  if (!isMailAddress(to)) return 'the recipient';
  if (control.test(subject)) return 'the subject';
  return messageId === undefined || idOfMessage.test(messageId) ? undefined : 'the message id';
}
