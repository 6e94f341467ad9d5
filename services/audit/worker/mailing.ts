/**
 * Has those concerned told by mail what was done, until auth has sent it. A mail may come twice where
 * a node dies between sending and noting that.
 */
import {
  startBackgroundLoop,
  type BackgroundLoop,
} from '../../../shared/concurrency/background-loop.ts';
import type { LoopOptions } from '../../../shared/contract-runtime/service.ts';
import { claimMails, hasPower, isOfChangeSet, removeMails } from '../stores/mail-notices.ts';

/** For what other nodes left: what is recorded here wakes the loop. */
const pollMs = 10_000;

/** How long a shutdown waits for mails on their way. */
const drainMs = 10_000;

async function untilDrained(work: Promise<unknown>, stopping: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  let timer: NodeJS.Timeout | undefined;
  const onStop = (): void => {
    timer = setTimeout(resolve, drainMs);
  };
  stopping.addEventListener('abort', onStop);
  try {
    await Promise.race([work, promise]);
  } finally {
    stopping.removeEventListener('abort', onStop);
    clearTimeout(timer);
  }
}

export const startMailing = ({ db, log, call }: LoopOptions): BackgroundLoop =>
  startBackgroundLoop({
    log,
    retryMs: pollMs,
    complaint: 'mails about powerful changes and change sets cannot be sent; it is tried again',
    async look(stopping) {
      const due = await claimMails(db);
      if (due.ids.length === 0) return pollMs;
      const powerful = due.events.filter(hasPower);
      const changeSets = due.events.filter(isOfChangeSet);
      const sending = Promise.all([
        powerful.length > 0 && call('auth.power-notices.send', { body: powerful }),
        changeSets.length > 0 && call('auth.change-set-notices.send', { body: changeSets }),
      ]).then(() => removeMails(db, due));
      await untilDrained(sending, stopping);
      return 0;
    },
  });
