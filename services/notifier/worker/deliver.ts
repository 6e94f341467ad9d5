/**
 * The loop that delivers notices: claims what is due, sends it, records how it went. The rows are
 * the queue (stores/claims.ts), so any number of nodes may run it. Delivery is at least once;
 * receivers know a repeat by its webhook-id.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { DataSource } from 'typeorm';
import { channels } from '../../../shared/contracts/notifier.ts';
import { startBackgroundLoop } from '../../../shared/concurrency/background-loop.ts';
import {
  claimDue,
  releaseClaims,
  renewClaims,
  sendsPerTenant,
  type Claim,
} from '../stores/claims.ts';
import type { FrozenConfig } from '../rules/frozen-config.ts';
import { unknownChannels } from '../stores/queue.ts';
import { attemptDelivery, type AttemptOptions, type EndedAttempt } from './attempt.ts';
import { OpenedConfigs, type OpenSentBy } from './opened-configs.ts';
import { createRecorder } from './record.ts';

/**
 * Sends on their way from one process. What hangs takes all but the last of them, with the 16 sends that
 * each endpoint may have on its way and the `sendsPerTenant` of a tenant.
 */
const slots = 1024;
/**
 * These are for tenants of which nothing is on its way, one each, to endpoints that have not failed
 * last, and for mail: so an outage of what many tenants post to delays no other's notices.
 */
const reserved = 128;
/** Mails have at most these: while the mail server hangs, those of all tenants wait for it together. */
const slotsOfMail = 512;
/** Where fewer are left of these, a claim takes no mail rather than so few notices. */
const leastOfMail = 64;
/** How late a wake-up that was missed makes a notice. */
const pollMs = 1000;
/** Often enough that a claim, which lasts 10 s, survives two failed renewals. */
const renewMs = 3000;
/** How often it is logged which notices wait for a release that knows their channel. */
const reportMs = 60_000;
/** How long a shutdown waits for sends on their way. */
const drainMs = 10_000;

export interface DeliveryOptions extends AttemptOptions {
  readonly db: DataSource;
  /** Opens ApprovalRow.frozen; throws where its key is not known any more. */
  readonly open: (sealed: string, tenantId: string) => FrozenConfig;
}
export interface DeliveryWorker {
  /** Looks for due deliveries now instead of at the next poll. */
  readonly wake: () => void;
  /** For the metrics: sends since the start by result, and those on their way. */
  readonly counts: () => Record<'delivered' | 'retried' | 'failed' | 'in_flight', number>;
  /** Lets sends end, for at most 10 s, and frees the rest for other nodes. */
  readonly stop: () => Promise<void>;
}

interface Send {
  readonly id: string;
  readonly tenantId: string;
  readonly isMail: boolean;
  readonly recorded: Promise<void>;
}

/** Those that have as many sends on their way as they may. */
function fullTenants(sends: Iterable<Send>, most: number): Set<string> {
  const byTenant = Map.groupBy(sends, ({ tenantId }) => tenantId);
  const full = [...byTenant].filter(([, own]) => own.length >= most);
  return new Set(full.map(([tenantId]) => tenantId));
}

/** How many a claim takes at most, and of which channels. */
function roomBeside(sends: readonly Send[]) {
  const free = slots - sends.length;
  const isScarce = free <= reserved;
  const most = isScarce ? free : free - reserved;
  const ofMail = slotsOfMail - sends.filter(({ isMail }) => isMail).length;
  if (ofMail < leastOfMail)
    return { isScarce, most, known: channels.filter((channel) => channel !== 'email') };
  return { isScarce, most: Math.min(most, ofMail), known: channels };
}

export function startDelivering(options: DeliveryOptions): DeliveryWorker {
  const { db, log } = options;
  const worker = randomUUID();
  /**
   * Sends on their way, by delivery and round: the next round may be claimed before the end of this
   * one is noted here.
   */
  const inFlight = new Map<string, Send>();
  /** Endpoints whose sends were recorded since their tenant was in a claim, with the tenant. */
  const recorded = new Map<string, string>();
  const sent = { delivered: 0, retried: 0, failed: 0 };
  const configs = new OpenedConfigs(options.open);
  const recorder = createRecorder({ db, worker, log, onRecorded });

  function onRecorded(batch: readonly EndedAttempt[]): void {
    for (const { claim, record } of batch) {
      inFlight.delete(keyOf(claim));
      recorded.set(claim.endpoint_key, claim.tenant_id);
      if (record.result === 'retry') {
        sent.retried += 1;
        setTimeout(wake, record.wait_ms).unref();
      } else {
        sent[record.result] += 1;
      }
    }
    // There is room for more now.
    wake();
  }

  function wake(): void {
    loop.wake();
  }

  async function deliver(claim: Claim, open: OpenSentBy): Promise<void> {
    const ended = await attemptDelivery(claim, open, options);
    await recorder.record(ended);
  }

  /** Starts what is due and there is room for; answers how many deliveries it has claimed. */
  async function startDue(): Promise<number> {
    const { most, isScarce, known } = roomBeside([...inFlight.values()]);
    if (most <= 0) return 0;
    const full = fullTenants(inFlight.values(), isScarce ? 1 : sendsPerTenant);
    const endpoints = [...recorded].filter(
      ([key, tenantId]) => !full.has(tenantId) && known.some((name) => key.startsWith(`${name} `)),
    );
    for (const [key] of endpoints) recorded.delete(key);
    const opened = configs.snapshot();
    const claims = await claimDue(db, worker, most, {
      known,
      recorded: endpoints.map(([key]) => key),
      except: [...full],
      ...(isScarce && { perTenant: 1, failing: false }),
      opened: [...opened.keys()],
    });
    for (const [claim, open] of configs.of(claims, opened)) {
      // Claimed once more, because the claim ended while the database stalled. The send that is on
      // its way counts.
      if (inFlight.has(keyOf(claim))) continue;
      const { id, tenant_id: tenantId, channel } = claim;
      const isMail = channel === 'email';
      inFlight.set(keyOf(claim), { id, tenantId, isMail, recorded: deliver(claim, open) });
    }
    return claims.length;
  }

  async function renew(): Promise<void> {
    if (inFlight.size === 0) return;
    const ids = [...inFlight.values()].map(({ id }) => id);
    try {
      await renewClaims(db, worker, ids);
    } catch (error) {
      log.warn({ err: error }, 'claims of notices cannot be renewed');
    }
  }

  let reportAt = -Infinity;
  async function reportUnknown(): Promise<void> {
    if (performance.now() < reportAt) return;
    reportAt = performance.now() + reportMs;
    for (const { channel, waiting } of await unknownChannels(db)) {
      log.warn(
        { channel, waiting },
        'notices wait for a node whose release knows their channel; this one does not',
      );
    }
  }

  const renewing = setInterval(() => void renew(), renewMs).unref();
  const loop = startBackgroundLoop({
    log,
    async look() {
      const started = await startDue();
      await reportUnknown();
      return started === 0 ? pollMs : 0;
    },
    retryMs: pollMs,
    complaint: 'the queue of notices cannot be read; it is tried again every second',
  });

  return {
    wake,
    counts: () => ({ ...sent, in_flight: inFlight.size }),
    async stop() {
      recorder.giveUpAt(Date.now() + drainMs);
      await loop.stop();
      const drained = Promise.all([...inFlight.values()].map(({ recorded }) => recorded));
      await Promise.race([drained, delay(drainMs, undefined, { ref: false })]);
      clearInterval(renewing);
      try {
        await releaseClaims(db, worker);
      } catch (error) {
        log.debug({ err: error }, 'claims of notices were not released; they end by themselves');
      }
    },
  };
}

const keyOf = ({ id, round }: Claim): string => `${id} ${round}`;
