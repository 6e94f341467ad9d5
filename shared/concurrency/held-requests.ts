/**
 * How many requests with `wait` this node holds: each takes a connection of a gateway and memory of
 * two nodes for up to a minute. A notifier counts those of all gateways; a gateway refuses its own
 * before it calls one, since whoever floods is refused thousands of times.
 *
 * | Danger | Bounded by |
 * |---|---|
 * | one person or key holds all of its tenant's | HELD_REQUESTS_PER_CALLER |
 * | one tenant holds all | HELD_REQUESTS_PER_TENANT, and at most half of HELD_REQUESTS |
 * | all tenants together | HELD_REQUESTS |
 */
import type { Caller } from '../access.ts';
import { StrataError } from '../errors.ts';
import type { Settings } from '../settings/settings.ts';

export class HeldRequests {
  readonly #settings: () => Settings;
  readonly #byCaller = new Map<string, number>();
  readonly #byTenant = new Map<string, number>();
  #held = 0;

  constructor(settings: () => Settings) {
    this.#settings = settings;
  }

  /** A place, which ends when the result is called. Throws `rate_limited` where there is none. */
  take(tenantId: string, caller: Caller): () => void {
    const name = nameOf(caller);
    this.#requirePlace(tenantId, name);
    this.#count(tenantId, name, 1);
    return () => this.#count(tenantId, name, -1);
  }

  #requirePlace(tenantId: string, name: string): void {
    const {
      held_requests: most,
      held_requests_per_tenant: mostPerTenant,
      held_requests_per_caller: mostPerCaller,
    } = this.#settings();
    if ((this.#byCaller.get(name) ?? 0) >= mostPerCaller)
      throw tooMany(`Of your requests ${mostPerCaller} wait`, 'HELD_REQUESTS_PER_CALLER');
    // Half, so that a tenant never takes all of them, however the limits are set.
    const share = Math.min(mostPerTenant, Math.ceil(most / 2));
    if ((this.#byTenant.get(tenantId) ?? 0) >= share)
      throw tooMany(`Of the tenant's requests ${share} wait`, 'HELD_REQUESTS_PER_TENANT');
    if (this.#held >= most) throw tooMany(`${most} requests wait`, 'HELD_REQUESTS');
  }

  #count(tenantId: string, name: string, change: 1 | -1): void {
    this.#held += change;
    countIn(this.#byCaller, name, change);
    countIn(this.#byTenant, tenantId, change);
  }
}

/** An API key counts by itself, since each is a client of its own. */
const nameOf = ({ type, id, api_key: key }: Caller): string =>
  key === undefined ? `${type} ${id}` : `key ${key.id}`;

/** A count that comes to nothing is kept no longer. */
export function countIn(counts: Map<string, number>, name: string, change: number): void {
  const count = (counts.get(name) ?? 0) + change;
  if (count > 0) counts.set(name, count);
  else counts.delete(name);
}

const tooMany = (held: string, setting: string): StrataError =>
  new StrataError(
    'rate_limited',
    `${held} on this node already (${setting}). Ask without wait, or watch the stream of changes.`,
    { headers: { 'retry-after': '10' } },
  );
