/**
 * The loop that pushes events: follows documents that were written, claims destinations that are
 * due, sends each its next batch. Any number of nodes may run it. To a destination one batch is on
 * its way at a time, so that they arrive in order.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { startBackgroundLoop } from '../../../shared/concurrency/background-loop.ts';
import {
  claimDestinations,
  destinationChanges,
  followDocument,
  postponeChange,
  type Claim,
  type DestinationChange,
} from '../stores/destinations.ts';
import { openDestinations } from './open-destinations.ts';
import { push, type PushOptions } from './push.ts';

/** Batches on their way from one node to destinations that answer well, of which each is in memory. */
const slotsOfWell = 48;
/**
 * A batch that has been on its way for so long has none of these any more, but one of those of slow
 * destinations: ones that answer before they time out would hold up all others and never fail.
 */
const slowMs = 5000;
const slotsOfSlow = 64;
/**
 * Beside these, those to destinations whose last attempt failed: whatever hangs has no more, so that
 * the others never wait for it.
 */
const slotsOfFailing = 16;
/**
 * A chain with as many on their way is left out: each time that its document is written its
 * destinations count as well, and are sent to beside what hangs.
 */
const slotsOfChain = 10;
const changesAtOnce = 20;
const postponedSeconds = 5;
/** How late a wake-up that was missed makes an event. */
const pollMs = 1000;
/** How long a shutdown waits for batches on their way. */
const drainMs = 10_000;

export function startPushing(options: PushOptions) {
  const { db, log, call } = options;
  const inFlight = new Map<
    string,
    {
      readonly chain: string;
      readonly isFailing: boolean;
      readonly beganAt: number;
      readonly ended: Promise<void>;
    }
  >();

  function fullChains(): string[] {
    const byChain = Map.groupBy(inFlight.values(), ({ chain }) => chain);
    const full = [...byChain].filter(([, own]) => own.length >= slotsOfChain);
    return full.map(([chain]) => chain);
  }

  async function follow(change: DestinationChange): Promise<void> {
    const { chain } = change;
    try {
      const document = await openDestinations(call, chain);
      await db.transaction((manager) => followDocument(manager, change, document));
    } catch (error) {
      log.error({ err: error, chain }, 'event_destinations that were written cannot be read');
      await postponeChange(db.manager, change, postponedSeconds);
    }
  }

  /** Resolves to whether there may be more. */
  async function followDocuments(): Promise<boolean> {
    const changes = await destinationChanges(db, changesAtOnce);
    for (const change of changes) await follow(change);
    return changes.length === changesAtOnce;
  }

  async function start(claim: Claim): Promise<void> {
    try {
      await push(claim, options);
    } finally {
      inFlight.delete(claim.lease + claim.chain + claim.name);
      loop.wake();
    }
  }

  async function startDue(which: 'failing' | 'well', most: number): Promise<number> {
    const claims = await claimDestinations(db, most, which, fullChains());
    for (const claim of claims) {
      const { chain } = claim;
      const key = claim.lease + chain + claim.name;
      const isFailing = which === 'failing';
      inFlight.set(key, { chain, isFailing, beganAt: performance.now(), ended: start(claim) });
    }
    return claims.length;
  }

  const loop = startBackgroundLoop({
    log,
    async look() {
      const hasMore = await followDocuments();
      const others = [...inFlight.values()].filter(({ isFailing }) => !isFailing);
      const failing = inFlight.size - others.length;
      const slowSince = performance.now() - slowMs;
      const slow = others.filter(({ beganAt }) => beganAt < slowSince).length;
      const well = others.length - Math.min(slow, slotsOfSlow);
      const started =
        (await startDue('well', slotsOfWell - well)) +
        (await startDue('failing', slotsOfFailing - failing));
      return hasMore || started > 0 ? 0 : pollMs;
    },
    retryMs: pollMs,
    complaint: 'events cannot be pushed; it is tried again every second',
  });

  return {
    /** Looks for events to send now instead of at the next poll. */
    wake: (): void => loop.wake(),
    /** Lets sends end, for at most 10 s; the claims of others end by themselves. */
    async stop(): Promise<void> {
      await loop.stop();
      const drained = Promise.all([...inFlight.values()].map(({ ended }) => ended));
      await Promise.race([drained, delay(drainMs, undefined, { ref: false })]);
    },
  };
}
