/** Why a mail was not sent, and whether the same mail may go through later. */
import type { NodemailerError } from 'nodemailer';

/** A mail that nobody got. The message is one line without secrets. */
export class MailError extends Error {
  /** Whether the same mail may go through later. */
  readonly retry: boolean;
  constructor(message: string, retry: boolean) {
    super(message);
    this.name = 'MailError';
    this.retry = retry;
  }
}

export interface Login {
  readonly user: string;
  readonly pass: string;
}

const base64 = (plain: string): string => Buffer.from(plain).toString('base64');
const longestLine = 300;

/**
 * One short line that PostgreSQL takes, without the password in any form that a server may echo.
 */
function safeLine(text: string, login: Login | undefined): string {
  const secrets =
    login === undefined || login.pass === ''
      ? []
      : [login.pass, base64(login.pass), base64(`\0${login.user}\0${login.pass}`)];
  // Longest first: base64 of the password may be a part of the longer form.
  const withoutSecrets = secrets
    .sort((a, b) => b.length - a.length)
    .reduce((line, secret) => line.replaceAll(secret, '********'), text);
  const oneLine = withoutSecrets.replaceAll(/[\s\0]+/g, ' ').trim();
  return oneLine.slice(0, longestLine).toWellFormed();
}

/**
 * Whether a failure may pass. Final are a 5xx in answer to the mail itself, and a mail that
 * nodemailer cannot put on the wire. What befalls the session (connecting, TLS, signing in,
 * time-outs) says nothing about the mail, and a 4xx asks for another try.
 */
function mayPass({ code, permanent }: NodemailerError): boolean {
  const isAboutMail = code === 'EENVELOPE' || code === 'EMESSAGE';
  return !isAboutMail || permanent === false;
}

/**
 * A failed send as a MailError. The original is not kept as its cause, because it may hold what the
 * server echoed. Everything that nodemailer and Node throw here has the fields of NodemailerError,
 * all of which are optional beyond those of an Error.
 */
export function mailError(thrown: unknown, login?: Login): MailError {
  if (thrown instanceof MailError) return thrown;
  const error: NodemailerError = thrown instanceof Error ? thrown : new Error(String(thrown));
  return new MailError(safeLine(error.message, login), mayPass(error));
}
