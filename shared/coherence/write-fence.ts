/**
 * What a write waits for after its commit: the acknowledgements of all nodes that hold a lease, at
 * most the longest T of any of them.
 */
import { performance } from 'node:perf_hooks';
import type { Logger } from 'pino';
import type { Change } from '../commits/commit.ts';
import { WakeableWait } from '../concurrency/wakeable-wait.ts';
import { within } from '../concurrency/within.ts';
import type { Lease, LeaseTableRead } from './feed.ts';
import { LeaseTable } from './lease-table.ts';

/** What a write waits for. */
interface Acknowledgements {
  /** The lease holders that have acknowledged its change so far. */
  readonly arrived: Set<string>;
  /** Those that have not; undefined while it is not known who holds a lease. */
  missing: Set<string> | undefined;
  /** Woken by the last of those that are missing, not by each: their number would count squared. */
  readonly completion: WakeableWait;
}

/** How often the lease table is read while acknowledgements are missing. */
const leaseTableIntervalMs = 200;
/** No transaction has this id. */
const noChange = '0';

type LeasesOf = (changeId: string) => Promise<LeaseTableRead>;

export interface WriteFenceOptions {
  readonly holder: string;
  readonly fenceMs: number;
  readonly log: Logger;
  /** Which server the last good poll was answered by. */
  readonly polledServer: () => string | undefined;
  /** Undefined on nodes without a database, which do not commit. */
  readonly leases: () => LeasesOf | undefined;
}

export class WriteFence {
  readonly #options: WriteFenceOptions;
  readonly #awaited = new Map<string, Acknowledgements>();
  readonly #leaseTable = new LeaseTable();

  constructor(options: WriteFenceOptions) {
    this.#options = options;
  }

  /**
   * Announces the change, then resolves to true once every lease holder has acknowledged it, to
   * false at the end of the fence.
   */
  async pass(change: Change, announce: () => void): Promise<boolean> {
    const began = performance.now();
    const acknowledgements: Acknowledgements = {
      arrived: new Set([this.#options.holder]),
      missing: undefined,
      completion: new WakeableWait(),
    };
    this.#awaited.set(nameOf(change), acknowledgements);
    try {
      announce();
      return await this.#waitForLeaseHolders(change.id, acknowledgements, began);
    } finally {
      this.#awaited.delete(nameOf(change));
    }
  }

  /** Leases that ended long ago, for whoever prunes the feed. */
  forgottenLeases(): Pick<Lease, 'holder' | 'token'>[] {
    return this.#leaseTable.forgotten(performance.now());
  }

  /** Reads the table, so that a write finds leases that ended long ago already known to be over. */
  async observeLeases(withinMs: number): Promise<void> {
    const leases = this.#options.leases();
    if (leases) await this.#readLeases(leases, noChange, performance.now() + withinMs);
  }

  /**
   * Resolves to true once every lease holder has acknowledged, to false at the end of the fence.
   */
  async #waitForLeaseHolders(
    changeId: string,
    acknowledgements: Acknowledgements,
    began: number,
  ): Promise<boolean> {
    for (;;) {
      // Nobody joins the holders afterwards: a lease renewed after they were read belongs to a poll
      // that reads this change.
      const holders = await this.#leaseHolders(changeId, began + this.#fenceMs());
      acknowledgements.missing =
        holders && new Set(holders.filter((each) => !acknowledgements.arrived.has(each)));
      const haveAllAnswered = (): boolean => acknowledgements.missing?.size === 0;
      // Read again meanwhile, for nodes that saw the change in the feed, or left, and do not
      // acknowledge.
      const fenceEnd = began + this.#fenceMs();
      const readAgainAt = Math.min(fenceEnd, performance.now() + leaseTableIntervalMs);
      while (!haveAllAnswered() && performance.now() < readAgainAt)
        await acknowledgements.completion.wait(readAgainAt - performance.now());
      if (haveAllAnswered()) return true;
      if (performance.now() >= fenceEnd) return false;
    }
  }

  /** How long after a commit its write waits at most. */
  #fenceMs(): number {
    return Math.max(this.#options.fenceMs, this.#leaseTable.longestFenceMs());
  }

  /**
   * Who may still serve what was cached before the change. Undefined where the lease table cannot
   * be read by then, or is another server's than this node's polls were answered by, so that leases
   * may be missing from it: then only the end of the fence is safe.
   */
  async #leaseHolders(changeId: string, until: number): Promise<string[] | undefined> {
    const leases = this.#options.leases();
    if (!leases) return [];
    const polledServer = this.#options.polledServer();
    const read = await this.#readLeases(leases, changeId, until);
    if (read === undefined || read.server !== polledServer) return undefined;
    return read.leases.filter(({ hasRead }) => !hasRead).map(({ holder }) => holder);
  }

  /** The leases that may be good. Undefined where the table does not answer by then. */
  async #readLeases(
    leasesOf: LeasesOf,
    changeId: string,
    until: number,
  ): Promise<LeaseTableRead | undefined> {
    const began = performance.now();
    try {
      const read = await within(until - began, leasesOf(changeId));
      const leases = this.#leaseTable.observe(read.leases, began, performance.now());
      return { server: read.server, leases };
    } catch (error) {
      this.#options.log.warn(
        { err: error },
        'the lease table does not answer; the write waits for the fence',
      );
      return undefined;
    }
  }

  /** Another node has applied a change that was committed here. */
  acknowledge(change: Pick<Change, 'id' | 'scope'>, holder: string): void {
    const awaited = this.#awaited.get(nameOf(change));
    if (!awaited) return;
    awaited.arrived.add(holder);
    awaited.missing?.delete(holder);
    if (awaited.missing?.size === 0) awaited.completion.wake();
  }
}

/** A transaction may change several scopes. */
const nameOf = ({ id, scope }: Pick<Change, 'id' | 'scope'>): string => `${id} ${scope}`;
