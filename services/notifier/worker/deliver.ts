import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { DataSource } from 'typeorm';
import { WakeableWait } from '../../../shared/wakeable-wait.ts';
import type { Outcome } from '../channels/outcome.ts';
import type { Frozen } from '../rules/notice.ts';
import {
  claim,
  release,
  renew,
  settle,
  type Claimed,
  type EndpointNews,
  type Settled,
} from '../stores/claims.ts';

/** Sends on their way from one process. More endpoints than this divided by their share would have to hang to delay a healthy one. */
const slots = 1024;
const pollMs = 1000;
const renewMs = 3000;
const drainMs = 10_000;

export interface Delivering {
  readonly db: DataSource;
  readonly log: Logger;
  readonly open: (sealed: string, tenantId: string) => Frozen;
  readonly send: (claimed: Claimed, frozen: Frozen) => Promise<Outcome>;
  /** Retries and waits, which only webhooks choose. */
  readonly waits: (
    claimed: Claimed,
    frozen: Frozen,
  ) => { readonly retries: number; readonly waitMs: (round: number) => number };
}
/** `unwell`: the endpoint may come right by itself, so this counts against it. */
interface Done {
  readonly claimed: Claimed;
  readonly settled: Settled;
  readonly unwell: boolean;
  readonly gone: number | null;
}

/**
 * Takes due deliveries, sends them and records how it went. Rows are the queue: a lease keeps two workers off one row, and a worker
 * that dies loses nothing but the lease. Delivery is at least once; receivers know repeats by their webhook-id.
 */
export function startDelivering({ db, log, open, send, waits }: Delivering) {
  const worker = randomUUID();
  /** Key of a send → its delivery. */
  const busy = new Map<string, { readonly id: string; readonly ended: Promise<void> }>();
  const done: Done[] = [];
  const figures = { delivered: 0, retried: 0, failed: 0 };
  const state = { stopped: false, drainUntil: Infinity };
  const nextLook = new WakeableWait();
  const wake = (): void => nextLook.wake();
  let recording: Promise<void> | undefined;

  async function attempt(claimed: Claimed): Promise<Done> {
    const began = performance.now();
    const ours = (error: string, verdict: 'retry' | 'final'): Outcome => ({
      verdict,
      duration_ms: performance.now() - began,
      status: null,
      answer: null,
      error,
    });
    let frozen: Frozen | undefined;
    let outcome: Outcome;
    try {
      frozen = open(claimed.frozen, claimed.tenant_id);
      outcome = await send(claimed, frozen);
    } catch (error) {
      log.error(
        { err: error, delivery_id: claimed.id },
        'a notice could not be sent for a reason of ours',
      );
      outcome = frozen
        ? ours('It could not be sent for a reason of ours; see the log.', 'retry')
        : ours(
            'The configuration it was made with does not open: SECRET_KEY has changed.',
            'final',
          );
    }
    const { retries, waitMs } = frozen ? waits(claimed, frozen) : { retries: 0, waitMs: () => 0 };
    const again = outcome.verdict === 'retry' && claimed.round < retries;
    return {
      claimed,
      unwell: outcome.verdict === 'retry',
      gone: outcome.verdict === 'final' && outcome.gone ? frozen!.revision : null,
      settled: {
        id: claimed.id,
        round: claimed.round,
        verdict: outcome.verdict === 'delivered' ? 'delivered' : again ? 'retry' : 'failed',
        wait_ms:
          outcome.verdict === 'retry' && again
            ? Math.max(waitMs(claimed.round), outcome.retry_after_ms ?? 0)
            : 0,
        duration_ms: Math.round(outcome.duration_ms),
        status: outcome.status,
        answer: outcome.answer,
        error: outcome.error,
      },
    };
  }

  async function deliver(claimed: Claimed): Promise<void> {
    done.push(await attempt(claimed));
    await (recording ??= record());
  }

  /** What ends while one transaction runs goes into the next. */
  async function record(): Promise<void> {
    try {
      while (done.length > 0) {
        const batch = done.splice(0, 200);
        await write(batch).catch(async (error: unknown) => {
          log.warn(
            { err: error },
            'deliveries cannot be recorded; they are sent again unless the database answers within their lease',
          );
          done.unshift(...batch);
          await delay(200);
        });
        if (state.stopped && done.length > 0 && Date.now() > state.drainUntil) return;
      }
    } finally {
      recording = undefined;
    }
  }

  async function write(batch: readonly Done[]): Promise<void> {
    await settle(
      db,
      worker,
      batch.map(({ settled }) => settled),
      newsOf(batch),
    );
    for (const {
      claimed,
      settled: { verdict, wait_ms: wait },
    } of batch) {
      busy.delete(keyOf(claimed));
      figures[verdict === 'retry' ? 'retried' : verdict] += 1;
      if (verdict === 'retry') setTimeout(wake, wait).unref();
    }
    wake();
  }

  async function take(): Promise<number> {
    if (busy.size >= slots) return 0;
    const claims = await claim(db, worker, slots - busy.size);
    for (const claimed of claims) {
      // Here once more when the lease ran out while the database stalled: the send that is on its way still counts.
      if (!busy.has(keyOf(claimed)))
        busy.set(keyOf(claimed), { id: claimed.id, ended: deliver(claimed) });
    }
    return claims.length;
  }

  async function loop(): Promise<void> {
    let failing = false;
    while (!state.stopped) {
      const taken = await take().then(
        (count) => {
          failing = false;
          return count;
        },
        (error: unknown) => {
          if (!failing && !state.stopped)
            log.warn(
              { err: error },
              'the queue of notices cannot be read; it is tried again every second',
            );
          failing = true;
          return 0;
        },
      );
      if (taken === 0 && !state.stopped) await nextLook.wait(pollMs);
    }
  }

  const renewing = setInterval(() => {
    if (busy.size > 0)
      renew(
        db,
        worker,
        [...busy.values()].map(({ id }) => id),
      ).catch((error: unknown) => log.warn({ err: error }, 'leases of notices cannot be renewed'));
  }, renewMs).unref();
  const looping = loop();

  return {
    wake,
    figures: () => ({ ...figures, in_flight: busy.size }),
    /** Lets sends end, some seconds at most, and frees the rest for others. */
    async stop(): Promise<void> {
      state.stopped = true;
      state.drainUntil = Date.now() + drainMs;
      wake();
      await looping;
      await Promise.race([
        Promise.all([...busy.values()].map(({ ended }) => ended)),
        delay(drainMs, undefined, { ref: false }),
      ]);
      clearInterval(renewing);
      await release(db, worker).catch((error: unknown) =>
        log.debug({ err: error }, 'leases run out by themselves'),
      );
    },
  };
}

const keyOf = ({ id, round }: Claimed): string => `${id} ${round}`;

function newsOf(batch: readonly Done[]): EndpointNews[] {
  return [...Map.groupBy(batch, ({ claimed }) => claimed.endpoint_key)]
    .map(([key, all]) => ({
      key,
      delivered: all.some(({ settled }) => settled.verdict === 'delivered'),
      failures: all.filter(({ unwell }) => unwell).length,
      gone: all.find(({ gone }) => gone !== null)?.gone ?? null,
      known: Math.max(...all.map(({ claimed }) => claimed.failures)),
    }))
    .filter(
      ({ delivered, failures, gone, known }) =>
        failures > 0 || gone !== null || (delivered && known > 0),
    );
}
