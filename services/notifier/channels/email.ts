import type { MailError } from '../../../shared/mail/mail-error.ts';
import type { Mailer } from '../../../shared/mail/mailer.ts';
import type { RenderedMail } from '../rules/mail-layout.ts';

/** What became of one send: done, worth another try, or never to be tried again. */
export type EmailOutcome =
  | { readonly ok: true; readonly answer: string }
  | { readonly retry: true; readonly why: string }
  | { readonly final: true; readonly why: string };

/** Sends one notice to one recipient. `id` names it in every attempt. */
export async function sendEmail(
  mailer: Mailer, { id, to, from, mail }: { id: string; to: string; from?: string | undefined; mail: RenderedMail },
): Promise<EmailOutcome> {
  try {
    const sent = await mailer.send({ ...mail, to: [to], messageId: id, ...(from === undefined ? {} : { from }) });
    return { ok: true, answer: sent.file === undefined ? `accepted as ${sent.messageId}` : `written to ${sent.file}` };
  } catch (error) {
    const { retry, message: why } = error as MailError;
    return retry ? { retry, why } : { final: true, why };
  }
}
