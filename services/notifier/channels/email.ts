import { basename } from 'node:path';
import { performance } from 'node:perf_hooks';
import type { MailError } from '../../../shared/mail/mail-error.ts';
import type { Mailer } from '../../../shared/mail/mailer.ts';
import type { RenderedMail } from '../rules/mail-layout.ts';
import type { Outcome } from './outcome.ts';

/** Sends one notice to one recipient. `id` names it in every attempt. */
export async function sendEmail(
  mailer: Mailer,
  { id, to, from, mail }: { id: string; to: string; from: string; mail: RenderedMail },
): Promise<Outcome> {
  const began = performance.now();
  const attempted = () => ({ duration_ms: performance.now() - began, status: null });
  try {
    const sent = await mailer.send({ ...mail, to: [to], messageId: id, from });
    return {
      verdict: 'delivered',
      ...attempted(),
      answer:
        sent.file === undefined
          ? `accepted as ${sent.messageId}`
          : `written to ${basename(sent.file)}`,
      error: null,
    };
  } catch (error) {
    const { retry, message } = error as MailError;
    return { verdict: retry ? 'retry' : 'final', ...attempted(), answer: null, error: message };
  }
}
