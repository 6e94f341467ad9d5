/**
 * Has those concerned told by mail what was done, until auth has sent it. A mail may come twice where
 * a node dies between sending and noting that. Mails of each tenant are sent by themselves: those to
 * addresses that a mail server is slow to take a mail for, or refuses for now, hold up no other's.
 */
import { setTimeout as delay } from 'node:timers/promises';
import {
  startBackgroundLoop,
  type BackgroundLoop,
} from '../../../shared/concurrency/background-loop.ts';
import type { LoopOptions } from '../../../shared/contract-runtime/service.ts';
import {
  claimMails,
  hasPower,
  isOfChangeSet,
  removeMails,
  renewMails,
  type DueMails,
} from '../stores/mail-notices.ts';

/** For what other nodes left: what is recorded here wakes the loop. */
const pollMs = 10_000;

/** Of which mails are on their way; more of others wait. */
const mostTenants = 50;

/** Often enough that a claim, which lasts 120 s, survives two failed renewals. */
const renewMs = 30_000;

/** How long a shutdown waits for mails on their way. */
const drainMs = 10_000;

export function startMailing({ db, log, call }: LoopOptions): BackgroundLoop {
  const sending = new Map<DueMails['tenantId'], Promise<void>>();

  async function renew(ids: DueMails['ids']): Promise<void> {
    try {
      await renewMails(db, ids);
    } catch (error) {
      log.warn({ err: error }, 'claims of mails cannot be renewed');
    }
  }

  async function send({ tenantId, ids, events }: DueMails): Promise<void> {
    const powerful = events.filter(hasPower);
    const changeSets = events.filter(isOfChangeSet);
    const renewing = setInterval(() => void renew(ids), renewMs).unref();
    try {
      await Promise.all([
        powerful.length > 0 && call('auth.power-notices.send', { body: powerful }),
        changeSets.length > 0 && call('auth.change-set-notices.send', { body: changeSets }),
      ]);
      await removeMails(db, ids);
    } catch (error) {
      log.warn(
        { err: error, tenant_id: tenantId },
        'mails about powerful changes and change sets are not sent; it is tried again in two minutes',
      );
    }
    clearInterval(renewing);
    sending.delete(tenantId);
    loop.wake();
  }

  const loop = startBackgroundLoop({
    log,
    retryMs: pollMs,
    complaint: 'mails about powerful changes and change sets cannot be read; it is tried again',
    async look() {
      if (sending.size >= mostTenants) return pollMs;
      const due = await claimMails(db, [...sending.keys()]);
      for (const mails of due) sending.set(mails.tenantId, send(mails));
      return due.length > 0 ? 0 : pollMs;
    },
  });
  return {
    wake: loop.wake,
    async stop() {
      await loop.stop();
      const sent = Promise.all(sending.values());
      await Promise.race([sent, delay(drainMs, undefined, { ref: false })]);
    },
  };
}
