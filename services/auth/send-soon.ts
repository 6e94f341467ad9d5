import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { MailError } from '../../shared/mail/mail-error.ts';
import type { Mail, Mailer } from '../../shared/mail/mailer.ts';

export type SendSoon = (mail: Mail, log: Logger) => void;

const waitsMs = [2000, 10_000];

/** Sends after the answer, so that its time tells nothing. A mail that is lost with the process is asked for again by who waits for it. */
export function createSendSoon(mailer: Mailer): {
  readonly sendSoon: SendSoon;
  readonly stop: () => Promise<void>;
} {
  const stopping = new AbortController();
  const running = new Set<Promise<void>>();

  async function send(mail: Mail, log: Logger): Promise<void> {
    for (let attempt = 0; ; attempt += 1) {
      try {
        await mailer.send(mail);
        return;
      } catch (error) {
        const wait = waitsMs[attempt];
        if (
          wait === undefined ||
          !(error instanceof MailError && error.retry) ||
          stopping.signal.aborted
        ) {
          log.error({ err: error, subject: mail.subject }, 'a mail was not sent');
          return;
        }
        await delay(wait, undefined, { signal: stopping.signal }).catch(() => undefined);
      }
    }
  }

  return {
    sendSoon(mail, log) {
      const work = new Promise<void>((resolve) => {
        setImmediate(resolve);
      })
        .then(() => send(mail, log))
        .finally(() => running.delete(work));
      running.add(work);
    },
    async stop() {
      stopping.abort();
      await Promise.all(running);
    },
  };
}
