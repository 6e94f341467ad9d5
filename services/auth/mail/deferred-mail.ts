/**
 * Mail that is sent after the request is answered, so that the time of an answer does not tell
 * whether a mail was sent. A mail that is lost with the process is asked for again by whoever waits
 * for it.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { MailError } from '../../../shared/mail/mail-error.ts';
import type { Mail, Mailer } from '../../../shared/mail/mailer.ts';
import { createDeferredWork } from '../stores/deferred-work.ts';

export type DeferredMail = ReturnType<typeof createDeferredMail>;

/** Waits before the second and the third try. */
const retryWaitsMs = [2000, 10_000];

export function createDeferredMail(mailer: Mailer) {
  const stopping = new AbortController();
  const deferred = createDeferredWork();

  /** Sleeps before the next try; false where there is to be none. */
  async function waitForRetry(failure: unknown, attempt: number): Promise<boolean> {
    const waitMs = retryWaitsMs[attempt];
    const isRetryable = failure instanceof MailError && failure.retry;
    if (waitMs === undefined || !isRetryable || stopping.signal.aborted) return false;
    // A stop cuts the wait short: the mail is then tried once more at once.
    await delay(waitMs, undefined, { signal: stopping.signal }).catch(() => undefined);
    return true;
  }

  /** Resolves to false where the same mail may be sent later. */
  async function sendWithRetries(mail: Mail, log: Logger): Promise<boolean> {
    for (let attempt = 0; ; attempt += 1) {
      try {
        await mailer.send(mail);
        return true;
      } catch (error) {
        const tryAgain = await waitForRetry(error, attempt);
        if (tryAgain) continue;
        log.error({ err: error, subject: mail.subject }, 'a mail was not sent');
        return !(error instanceof MailError && error.retry);
      }
    }
  }

  async function sent(mail: Mail, log: Logger): Promise<boolean> {
    let isSettled = false;
    const work = deferred.begin(async () => {
      isSettled = await sendWithRetries(mail, log);
    });
    if (!work) log.error({ subject: mail.subject }, 'a mail was not sent: too many wait');
    await work;
    return isSettled;
  }

  return {
    /** Returns at once; a mail that could not be sent is logged. */
    send: (mail: Mail, log: Logger) => void sent(mail, log),
    /** The same; resolves, once it was sent or could not be, to false where it may be sent later. */
    sent,
    /** Ends the waits between retries, and resolves once nothing is being sent any more. */
    async stop(): Promise<void> {
      stopping.abort();
      await deferred.ended();
    },
  };
}
