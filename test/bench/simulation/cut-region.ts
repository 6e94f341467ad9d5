/**
 * What writes wait for when a region is cut off from the writer and the database, by the rules of
 * leases (shared/coherence/lease-table.ts): only clocks and the lease table take part, so
 * nothing here is measured.
 */
import { EventQueue, seeded } from './events.ts';

export interface Cut {
  /** Lease holders in the region: its nodes, or their gatherers. */
  readonly holders: number;
  /** COHERENCE_FENCE_MS. */
  readonly fenceMs: number;
  /** To the region and back half of it, in milliseconds. */
  readonly oneWayMs: number;
  readonly seed: number;
}

export interface CutResult {
  /** Of each write after the cut: when it began, after the cut, and how long it waited. */
  readonly writes: readonly { readonly began: number; readonly ms: number }[];
  /** When the last node of the region stopped to answer from memory, after the cut. */
  readonly servedUntil: number;
  /** From when on, after the cut, writes wait for the region no more. */
  readonly normalFrom: number;
}

/** As in lease-table.ts and coherence.ts. */
const leaseTableIntervalMs = 200;
const leaseShare = 0.95;
/** A write each so many milliseconds. */
const writeIntervalMs = 25;

interface Holder {
  /** In the lease table; another with each poll. */
  token: number;
  /** By its own count: T after its last good poll began, less a twentieth. */
  leaseUntil: number;
}

/**
 * One node writes and reads the lease table; the region is well for some time, and then nothing
 * passes in either direction.
 */
export function simulateCut({ holders: count, fenceMs, oneWayMs, seed }: Cut): CutResult {
  const queue = new EventQueue();
  const random = seeded(seed);
  const cutAt = 5 * fenceMs;
  const pollMs = fenceMs / 4;
  const holders: Holder[] = Array.from({ length: count }, () => ({ token: 0, leaseUntil: 0 }));
  const observed = holders.map(() => ({ token: -1, since: 0 }));
  const writes: { began: number; ms: number }[] = [];

  const poll = (holder: Holder): void => {
    const began = queue.now;
    const next = (): void => queue.after(pollMs, () => poll(holder));
    if (began + oneWayMs >= cutAt) return next();
    queue.after(oneWayMs, () => {
      holder.token += 1;
      if (queue.now + oneWayMs >= cutAt) return next();
      queue.after(oneWayMs, () => {
        holder.leaseUntil = began + leaseShare * fenceMs;
        next();
      });
    });
  };

  /** A read of the lease table. Returns how many of its leases may still be good. */
  const readTable = (): number => {
    const { now } = queue;
    let good = 0;
    for (const [index, { token }] of holders.entries()) {
      if (observed[index]!.token !== token) observed[index] = { token, since: now };
      if (now - observed[index]!.since < fenceMs) good += 1;
    }
    return good;
  };

  const write = (): void => {
    const began = queue.now;
    queue.after(writeIntervalMs, write);
    const look = (): void => {
      const isOver = readTable() === 0 || queue.now >= began + fenceMs;
      if (isOver) writes.push({ began: began - cutAt, ms: queue.now - began });
      else queue.after(Math.min(leaseTableIntervalMs, began + fenceMs - queue.now), look);
    };
    // One that began before the cut has its acknowledgements.
    if (began >= cutAt) look();
  };

  for (const holder of holders) queue.after(pollMs * random(), () => poll(holder));
  const ownPoll = (): void => {
    readTable();
    queue.after(pollMs, ownPoll);
  };
  queue.after(pollMs * random(), ownPoll);
  queue.after(writeIntervalMs * random(), write);
  queue.run(() => queue.now > cutAt + 3 * fenceMs);
  const waited = writes.filter(({ ms }) => ms > 0);
  return {
    writes: writes.toSorted((one, other) => one.began - other.began),
    servedUntil: Math.max(...holders.map(({ leaseUntil }) => leaseUntil)) - cutAt,
    normalFrom: Math.max(0, ...waited.map(({ began, ms }) => began + ms)),
  };
}
