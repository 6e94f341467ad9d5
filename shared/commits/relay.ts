/**
 * Takes committed audit events from the outbox to the audit service. Runs on every node with a
 * database.
 *
 * | Part | Protects against | Degrades to |
 * |---|---|---|
 * | a lease on relaying | every node sending every event | two nodes send the same, which the audit records once |
 * | nothing is locked while the audit is asked | writers and vacuum waiting for a slow audit | |
 * | chains are tried apart where a batch fails | one refused event holding up all tenants | |
 * | a refused event has its chain wait, for longer after each try | gaps and another order in the chain | the chain's later events are late; figure, alert and `audit waiting` say so |
 */
import { randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import type { DataSource } from 'typeorm';
import { startBackgroundLoop, type BackgroundLoop } from '../concurrency/background-loop.ts';
import { runAlone, type Statement } from '../database/prepared-statements.ts';
import { codeOf, isOutage } from '../errors.ts';
import type { AuditEventFacts } from './commit.ts';

const batchEvents = 200;
/** A batch ends with the event that reaches this size. */
const batchBytes = 1024 * 1024;
/**
 * How often the outbox is read without a wake-up: for events of other nodes, and after failures.
 */
const intervalMs = 1000;
/**
 * At least so long from one batch to the next, where none is waiting: a batch costs the database
 * the same for one event as for many.
 */
const spacingMs = 50;
/** A node that ends while it relays is replaced after this time. */
const leaseSeconds = 5;
/** After so many tries a chain counts as set aside, which alerts: half a minute after the first. */
export const triesUntilAside = 5;
const longestRetrySeconds = 600;
/** Waiting chains that one look tries again. */
const retriesPerLook = 20;
const maxErrorLength = 500;

interface WaitingEvent {
  readonly seq: number;
  readonly chain: string;
  readonly event: AuditEventFacts;
}
interface BatchedEvent extends WaitingEvent {
  /** Its chain waits for an event before it. */
  readonly waits: boolean;
  /** How many events are to be handed on, counted up to `batchEvents`. */
  readonly waiting: number;
}
interface WaitingChain {
  readonly chain: string;
  /** Its first event; null where somebody has removed all of them. */
  readonly seq: number | null;
  readonly event: AuditEventFacts;
}

type Deliver = (events: AuditEventFacts[]) => Promise<unknown>;

/**
 * Hands events to `deliver` in the order of their commits within a chain, and removes them once it
 * has answered. Delivery is at least once. To be woken after a commit on this node, so that its
 * events do not wait for the interval.
 */
export function startRelay(db: DataSource, deliver: Deliver, log: Logger): BackgroundLoop {
  const relay = new Relay(db, deliver, log);
  let nextAt = -Infinity;
  return startBackgroundLoop({
    log,
    async look() {
      const tooEarlyMs = nextAt - performance.now();
      if (tooEarlyMs > 0) return tooEarlyMs;
      const moreWait = await relay.handOn();
      if (moreWait) return 0;
      nextAt = performance.now() + spacingMs;
      return intervalMs;
    },
    retryMs: intervalMs,
    complaint: 'audit events wait in the outbox: the audit service or the database does not answer',
  });
}

const hold: Statement = {
  name: 'strata_hold_relay',
  text: `UPDATE strata.relay_lease
     SET holder = $1::text, until = clock_timestamp() + make_interval(secs => $2)
     WHERE (holder = $1::text OR until < clock_timestamp())
       AND (EXISTS (SELECT FROM strata.outbox WHERE NOT aside)
         OR EXISTS (SELECT FROM strata.chain_waits WHERE retry_at <= clock_timestamp()))
     RETURNING 1`,
};

class Relay {
  readonly #db: DataSource;
  readonly #deliver: Deliver;
  readonly #log: Logger;
  readonly #holder = randomUUID();
  /** The audit has accepted something in this look, so what it does not accept is at fault. */
  #isAccepting = false;

  constructor(db: DataSource, deliver: Deliver, log: Logger) {
    this.#db = db;
    this.#deliver = deliver;
    this.#log = log;
  }

  /**
   * Hands on one batch, and the first event of some chains that wait. Resolves to whether more is to
   * be handed on. Throws where the audit does not answer.
   */
  async handOn(): Promise<boolean> {
    if (!(await this.#hold())) return false;
    this.#isAccepting = false;
    try {
      const moreWait = await this.#handOnBatch();
      return (await this.#tryAgain()) || moreWait;
    } finally {
      await this.#db.query(
        `UPDATE strata.relay_lease SET until = '-infinity' WHERE holder = $1::text`,
        [this.#holder],
      );
    }
  }

  /** Takes or extends the lease, where there is something to do. */
  async #hold(): Promise<boolean> {
    const rows = await runAlone(this.#db, hold, [this.#holder, leaseSeconds]);
    return rows.length > 0;
  }

  async #handOnBatch(): Promise<boolean> {
    const batch = await this.#db.query<BatchedEvent[]>(
      `SELECT seq, chain, event, waits, waiting FROM (
         SELECT seq, chain, event, w.event_id IS NOT NULL AS waits, count(*) OVER ()::int AS waiting,
           sum(octet_length(event::text)) OVER (ORDER BY seq) - octet_length(event::text) AS bytes_before
         FROM (SELECT seq, chain, event FROM strata.outbox WHERE NOT aside ORDER BY seq LIMIT $1) AS oldest
         LEFT JOIN strata.chain_waits w USING (chain)
       ) AS measured WHERE bytes_before < $2 ORDER BY seq`,
      [batchEvents, batchBytes],
    );
    const [first] = batch;
    if (!first) return false;
    const waiting = batch.filter(({ waits }) => waits);
    if (waiting.length > 0) await this.#setAside(waiting);
    const events = batch.filter(({ waits }) => !waits);
    if (events.length > 0) await this.#handOnEvents(events);
    return first.waiting === batchEvents || first.waiting > batch.length;
  }

  async #handOnEvents(events: readonly WaitingEvent[]): Promise<void> {
    try {
      await this.#offer(events);
    } catch (error) {
      this.#log.warn(
        { err: error },
        'the audit does not accept a batch; its chains are tried apart',
      );
      await this.#handOnApart(events);
      return;
    }
    await this.#remove(events);
  }

  /**
   * Event by event. The chain whose first event is the newest comes first: the one that has stopped
   * the others is among the oldest, and an outage shows with one that is not at fault.
   */
  async #handOnApart(events: readonly WaitingEvent[]): Promise<void> {
    const chains = Map.groupBy(events, ({ chain }) => chain);
    for (const ofChain of [...chains.values()].toReversed())
      for (const [index, event] of ofChain.entries()) {
        if (!(await this.#hold())) return;
        const error = await this.#tryEvent(event);
        if (error === undefined) continue;
        await this.#noteRefusal(ofChain.slice(index), error);
        break;
      }
  }

  /** Resolves to why the event is refused. Throws where the audit answers nothing at all. */
  async #tryEvent(event: WaitingEvent): Promise<unknown> {
    try {
      await this.#offer([event]);
    } catch (error) {
      if (isOutage(error) && !this.#isAccepting) throw error;
      return error;
    }
    await this.#remove([event]);
    return undefined;
  }

  async #offer(events: readonly WaitingEvent[]): Promise<void> {
    await this.#deliver(events.map(({ event }) => event));
    this.#isAccepting = true;
  }

  async #remove(events: readonly WaitingEvent[]): Promise<void> {
    await this.#db.query('DELETE FROM strata.outbox WHERE seq = ANY($1)', [
      events.map(({ seq }) => seq),
    ]);
  }

  /** Has the chain of the events wait, of which the first is refused. */
  async #noteRefusal(events: readonly WaitingEvent[], error: unknown): Promise<void> {
    const { chain, event } = events[0]!;
    const { message } = error as Error;
    const said = `${codeOf(error)}: ${message}`.slice(0, maxErrorLength);
    this.#log.error({ err: error, chain, event: event.id }, 'an audit event is refused');
    await this.#db.query(
      `WITH refused AS (
         INSERT INTO strata.chain_waits AS w (chain, event_id, tries, error, since, retry_at)
         VALUES ($1, $2, 1, $3, clock_timestamp(), clock_timestamp() + interval '2 seconds')
         ON CONFLICT (chain) DO UPDATE SET
           event_id = excluded.event_id, tries = w.tries + 1, error = excluded.error,
           retry_at = clock_timestamp() + make_interval(secs => LEAST($4, 2 ^ LEAST(w.tries + 1, 16)))
       )
       UPDATE strata.outbox SET aside = true WHERE seq = ANY($5)`,
      [chain, event.id, said, longestRetrySeconds, events.map(({ seq }) => seq)],
    );
  }

  /**
   * Out of the way of other chains. A wait that ends meanwhile is over before this begins, or takes
   * these events back.
   */
  async #setAside(events: readonly WaitingEvent[]): Promise<void> {
    await this.#db.query(
      `UPDATE strata.outbox o SET aside = true
       FROM (SELECT chain FROM strata.chain_waits WHERE chain = ANY($1) FOR SHARE) w
       WHERE o.chain = w.chain AND o.seq = ANY($2)`,
      [[...new Set(events.map(({ chain }) => chain))], events.map(({ seq }) => seq)],
    );
  }

  /** Tries chains whose time has come. Resolves to whether events are to be handed on by that. */
  async #tryAgain(): Promise<boolean> {
    const due = await this.#db.query<WaitingChain[]>(
      `SELECT w.chain, o.seq, o.event FROM strata.chain_waits w LEFT JOIN LATERAL (
         SELECT seq, event FROM strata.outbox o WHERE o.chain = w.chain AND aside ORDER BY seq LIMIT 1
       ) o ON true WHERE w.retry_at <= clock_timestamp() ORDER BY w.retry_at LIMIT $1`,
      [retriesPerLook],
    );
    let isOneReleased = false;
    for (const { chain, seq, event } of due) {
      if (!(await this.#hold())) return false;
      const first = seq === null ? undefined : { chain, seq, event };
      const error = first && (await this.#tryEvent(first));
      if (error === undefined) {
        if (await this.#handOnAside(chain)) await this.#release(chain);
        isOneReleased = true;
      } else await this.#noteRefusal([first!], error);
    }
    return isOneReleased;
  }

  /**
   * Hands on the next events of a chain that waited, which stays due. Resolves to whether less than a
   * batch is left instead, and can be taken back: all of very many would outlast the statement's time,
   * and each look with it.
   */
  async #handOnAside(chain: string): Promise<boolean> {
    const events = await this.#db.query<Omit<BatchedEvent, 'waits'>[]>(
      `SELECT seq, chain, event, waiting FROM (
         SELECT seq, chain, event, count(*) OVER ()::int AS waiting,
           sum(octet_length(event::text)) OVER (ORDER BY seq) - octet_length(event::text) AS bytes_before
         FROM (SELECT seq, chain, event FROM strata.outbox WHERE chain = $1 AND aside ORDER BY seq LIMIT $2) AS oldest
       ) AS measured WHERE bytes_before < $3 ORDER BY seq`,
      [chain, batchEvents, batchBytes],
    );
    if ((events[0]?.waiting ?? 0) < batchEvents) return true;
    await this.#handOnEvents(events);
    return false;
  }

  async #release(chain: string): Promise<void> {
    await this.#db.transaction(async (manager) => {
      // First, since it waits for whoever sets events of the chain aside.
      await manager.query('DELETE FROM strata.chain_waits WHERE chain = $1', [chain]);
      await manager.query('UPDATE strata.outbox SET aside = false WHERE chain = $1 AND aside', [
        chain,
      ]);
    });
  }
}
