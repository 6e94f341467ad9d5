/**
 * Requests that wait for a tenant's automations, or its approvals, to change. Whoever changes one
 * says so on the bus, and all who wait in the tenant are answered from one statement. Nothing is
 * read while nothing changes.
 *
 * | Danger | Bounded by |
 * |---|---|
 * | a statement for each who waits | a row is read once for all who wait for it, and rows of all tenants together |
 * | many changes at once | one statement at a time: what changes while it runs is read with the next |
 * | large rows that did not change | left out of the statement's answer |
 * | a change whose announcement is lost | the change feed brings it within a second (shared/coherence/) |
 * | changes that the feed has lost | all that is waited for is looked at |
 * | very many who wait | held-requests.ts |
 */
import type { Caller } from '../../../shared/access.ts';
import type { ReadChanged, Versioned, Wanted } from '../stores/changed-rows.ts';
import type { HeldRequests } from '../../../shared/concurrency/held-requests.ts';

/** Rows of one statement. */
const mostAtOnce = 1000;

/** A request that waits, and what it is about. */
export interface Held<Row> {
  readonly tenantId: string;
  readonly id: string;
  /** How long at most, in milliseconds. */
  readonly ms: number;
  readonly caller: Caller;
  /** Whether the row is what the request waits for. */
  readonly fits: (row: Row) => boolean;
}

interface Waiter<Row> extends Held<Row> {
  readonly resolve: (row: Row | null) => void;
  readonly reject: (error: unknown) => void;
  /** Has seen the row, and holds a place; undefined before. */
  release?: () => void;
  timer?: NodeJS.Timeout;
  /** Its time is up: it takes the row as it is. */
  isDue: boolean;
}

/** A row that is waited for. */
interface Awaited<Row> {
  readonly tenantId: string;
  readonly id: string;
  readonly waiters: Set<Waiter<Row>>;
  /** What those who wait have seen. */
  version: string | null;
}

/** A row in a statement, for those who were there before it began. */
interface Look<Row> {
  readonly awaited: Awaited<Row>;
  readonly waiters: readonly Waiter<Row>[];
  readonly wanted: Wanted;
}

export interface TenantChangesOptions<Row> {
  /** Tells every node. */
  readonly announce: (tenantId: string) => void;
  readonly read: ReadChanged<Row>;
  readonly held: HeldRequests;
}

export class TenantChanges<Row extends { readonly id: string; readonly tenant_id: string }> {
  /** Tells every node that something of the tenant's has changed. */
  readonly announce: (tenantId: string) => void;
  readonly #read: ReadChanged<Row>;
  readonly #held: HeldRequests;
  readonly #awaited = new Map<string, Awaited<Row>>();
  readonly #byTenant = new Map<string, Set<Awaited<Row>>>();
  /** To be read with the next statement. */
  #wanted = new Set<Awaited<Row>>();
  #isReading = false;
  #isStopping = false;

  constructor({ announce, read, held }: TenantChangesOptions<Row>) {
    this.announce = announce;
    this.#read = read;
    this.#held = held;
  }

  /** Called on every node where something of the tenant's changed. */
  changed(tenantId: string): void {
    this.#look(this.#byTenant.get(tenantId) ?? []);
  }

  /** Called on every node where changes were missed. */
  missed(): void {
    this.#look(this.#awaited.values());
  }

  /**
   * The row, once it fits, the time is up or the node stops; null where there is none. Throws
   * `rate_limited` where it does not fit and nothing more is held.
   */
  until(held: Held<Row>): Promise<Row | null> {
    const { promise, resolve, reject } = Promise.withResolvers<Row | null>();
    const isDue = held.ms <= 0 || this.#isStopping;
    const awaited = this.#awaitedOf(held);
    awaited.waiters.add({ ...held, resolve, reject, isDue });
    this.#look([awaited]);
    return promise;
  }

  stop(): void {
    this.#isStopping = true;
    for (const { waiters } of this.#awaited.values())
      for (const waiter of waiters) waiter.isDue = true;
    this.#look(this.#awaited.values());
  }

  #awaitedOf({ tenantId, id }: Held<Row>): Awaited<Row> {
    const key = keyOf(tenantId, id);
    const known = this.#awaited.get(key);
    if (known) return known;
    const made: Awaited<Row> = { tenantId, id, waiters: new Set(), version: null };
    this.#awaited.set(key, made);
    const ofTenant = this.#byTenant.get(tenantId) ?? new Set();
    this.#byTenant.set(tenantId, ofTenant.add(made));
    return made;
  }

  #look(awaited: Iterable<Awaited<Row>>): void {
    for (const each of awaited) this.#wanted.add(each);
    if (!this.#isReading) void this.#readWanted();
  }

  async #readWanted(): Promise<void> {
    this.#isReading = true;
    while (this.#wanted.size > 0) {
      const batch = [...this.#wanted].slice(0, mostAtOnce);
      for (const each of batch) this.#wanted.delete(each);
      const looks = batch.map(lookOf);
      try {
        const found = await this.#read(looks.map(({ wanted }) => wanted));
        const byKey = new Map(found.map((each) => [keyOf(each.row.tenant_id, each.row.id), each]));
        for (const look of looks)
          this.#offer(look, byKey.get(keyOf(look.awaited.tenantId, look.awaited.id)));
      } catch (error) {
        for (const look of looks) this.#fail(look, error);
      }
    }
    this.#isReading = false;
  }

  #offer({ awaited, waiters, wanted }: Look<Row>, found: Versioned<Row> | undefined): void {
    const isGone = !found && wanted.version === null;
    for (const waiter of waiters) {
      if (isGone) this.#end(awaited, waiter, () => waiter.resolve(null));
      else if (found && (waiter.isDue || waiter.fits(found.row)))
        this.#end(awaited, waiter, () => waiter.resolve(found.row));
      else if (!waiter.release) this.#hold(awaited, waiter);
    }
    if (found) awaited.version = found.version;
  }

  #hold(awaited: Awaited<Row>, waiter: Waiter<Row>): void {
    try {
      waiter.release = this.#held.take(waiter.tenantId, waiter.caller);
    } catch (error) {
      this.#end(awaited, waiter, () => waiter.reject(error));
      return;
    }
    waiter.timer = setTimeout(() => {
      waiter.isDue = true;
      this.#look([awaited]);
    }, waiter.ms);
  }

  /** Whoever has time left waits for the database as for a change. */
  #fail({ awaited, waiters }: Look<Row>, error: unknown): void {
    for (const waiter of waiters)
      if (waiter.isDue || !waiter.release) this.#end(awaited, waiter, () => waiter.reject(error));
  }

  #end(awaited: Awaited<Row>, waiter: Waiter<Row>, answer: () => void): void {
    clearTimeout(waiter.timer);
    waiter.release?.();
    awaited.waiters.delete(waiter);
    if (awaited.waiters.size === 0) this.#forget(awaited);
    answer();
  }

  #forget(awaited: Awaited<Row>): void {
    const { tenantId, id } = awaited;
    this.#awaited.delete(keyOf(tenantId, id));
    const ofTenant = this.#byTenant.get(tenantId);
    ofTenant?.delete(awaited);
    if (ofTenant?.size === 0) this.#byTenant.delete(tenantId);
  }
}

const keyOf = (tenantId: string, id: string): string => `${tenantId} ${id}`;

/** The row is left out where it is as all of them have seen it, and none takes it as it is. */
function lookOf<Row>(awaited: Awaited<Row>): Look<Row> {
  const { tenantId: tenant_id, id } = awaited;
  const waiters = [...awaited.waiters];
  const needsRow = waiters.some(({ isDue, release }) => isDue || !release);
  const version = needsRow ? null : awaited.version;
  return { awaited, waiters, wanted: { tenant_id, id, version } };
}
