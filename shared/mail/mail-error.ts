import type { NodemailerError } from 'nodemailer';

/** A recipient that the mail server did not take, whether it may later, and why. */
export interface Refusal {
  readonly address: string;
  readonly retry: boolean;
  readonly why: string;
}

/** A mail that nobody got. `retry`: the same mail may go through later. `refused` names recipients where the server judged each. */
export class MailError extends Error {
  readonly retry: boolean;
  readonly refused: readonly Refusal[];
  constructor(why: string, retry: boolean, refused: readonly Refusal[] = []) {
    super(why);
    this.name = 'MailError';
    this.retry = retry;
    this.refused = refused;
  }
  get why(): string {
    return this.message;
  }
}

/** One line that PostgreSQL can keep, short, without the password in any form that a server may echo. */
function reason(text: string, login: { user: string; pass: string } | undefined): string {
  const base64 = (plain: string): string => Buffer.from(plain).toString('base64');
  const secrets =
    login && login.pass !== ''
      ? [login.pass, base64(login.pass), base64(`\0${login.user}\0${login.pass}`)]
      : [];
  // Longest first: base64 of the password may be a part of the longer form.
  const safe = secrets
    .sort((a, b) => b.length - a.length)
    .reduce((line, secret) => line.replaceAll(secret, '********'), text);
  return safe
    .replaceAll(/[\s\0]+/g, ' ')
    .trim()
    .slice(0, 300)
    .toWellFormed();
}

/**
 * A 5xx in answer to the mail itself is final, as is a mail that nodemailer can't put on the wire. Whatever befalls the session
 * (connecting, TLS, signing in, time-outs) says nothing about the mail, so it is retried, as is every 4xx.
 */
const mayRetry = ({ code, permanent }: NodemailerError): boolean =>
  !(code === 'EENVELOPE' || code === 'EMESSAGE') || permanent === false;

export const refusals = (
  errors: readonly NodemailerError[] = [],
  login?: { user: string; pass: string },
): Refusal[] =>
  errors.map((error) => ({
    address: error.recipient ?? '',
    retry: mayRetry(error),
    why: reason(error.response ?? error.message, login),
  }));

/** What a failed send means. The error it came from is not kept as a cause, because it may hold what the server echoed. */
export function mailError(error: unknown, login?: { user: string; pass: string }): MailError {
  if (error instanceof MailError) return error;
  const known = error as NodemailerError;
  return new MailError(
    reason(known.message, login),
    mayRetry(known),
    refusals(known.rejectedErrors, login),
  );
}
