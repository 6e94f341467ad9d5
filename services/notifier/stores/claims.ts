/**
 * Taking deliveries out of the queue. A claim is a worker's hold on one delivery: the columns
 * `lease` (the worker) and `lease_until` (when it ends, unless the worker renews it). Of two
 * workers one gets a row; a worker that dies loses its claims and nothing else.
 *
 * The endpoint's limits are kept here: how many sends may be on their way to it, and what its
 * circuit breaker lets pass.
 */
import type { DataSource } from 'typeorm';
import { channels } from '../../../shared/contracts/notifier.ts';
import { runAlone, type Statement } from '../../../shared/database/prepared-statements.ts';
import type { DeliveryRow } from '../schema.ts';

/** Sends to one endpoint that may be on their way at a time, over all workers. */
const sendsPerEndpoint = 16;
/**
 * Sends for one tenant on their way from a worker, at most: a tenant may have any number of endpoints
 * that hang, if only one after the other.
 */
export const sendsPerTenant = 384;
/**
 * A worker renews every 3 s (worker/deliver.ts); another takes over when this has passed without.
 */
const claimSeconds = 10;

/**
 * So many failures in a row open an endpoint's circuit breaker. While it is open, one first send
 * passes in so many seconds.
 */
export const breaker = { failures: 20, probeSeconds: 30 } as const;

/**
 * For the FROM of a statement: its transaction commits without waiting for the disk, which is most
 * of what a claim or a record costs. If the database crashes, the claims and records of its last
 * moments are lost as a whole. Those notices are due again and are sent again under the same id.
 */
export const withoutDiskWait = `(SELECT set_config('synchronous_commit', 'off', true)) AS without_disk_wait`;

/** Of a delivery `d`: pending, with no claim on it that has not ended. */
export const unclaimed = `d.state = 'pending' AND (d.lease_until IS NULL OR d.lease_until <= now())`;
/** Of a delivery `d`: it may be sent now, as far as its endpoint allows. */
const due = `${unclaimed} AND d.next_attempt_at <= now()`;
/**
 * Of an endpoint `e`: the time of its next probe has come. It never opened where `blocked_until` is
 * null, so nothing waits.
 */
const firstSendMayPass = `coalesce(e.blocked_until <= now(), true)`;

/**
 * Of an endpoint `e`: what waits for it is of a channel that this release knows, if anything does;
 * all of it is of one channel. What is not is left to nodes that know it: a newer release may have
 * queued it. In the order of an index: where one endpoint has most of what is pending, the planner takes
 * any row for one of the endpoint's, and would read the whole table for each endpoint that has none.
 */
const isKnown = `(SELECT d.channel FROM notifier.deliveries d
  WHERE d.endpoint_key = e.key AND d.state = 'pending' ORDER BY d.next_attempt_at LIMIT 1) = ANY($3) IS NOT FALSE`;

/**
 * Of an endpoint `e`: its tenant, the second word of its key, is none of those that are left out. Mail
 * is one endpoint of a tenant, and is sent beside webhooks that hang.
 */
const isOfOthers = `(split_part(e.key, ' ', 2) <> ALL ((SELECT $5::text[])::text[]) OR starts_with(e.key, 'email '))`;

/** Of an endpoint `e`: it has not failed last, or that does not matter. */
const isWanted = `(e.failures = 0 OR (SELECT $8::boolean))`;

export interface ClaimOptions {
  /** The channels of this release. */
  readonly known?: readonly string[];
  /** Endpoints to which there is room again. */
  readonly recorded?: readonly string[];
  /** Tenants that are left out, but for their mail. */
  readonly except?: readonly string[];
  /** So many are claimed of each tenant. */
  readonly perTenant?: number;
  /** Also for endpoints that have failed since they took a notice. */
  readonly failing?: boolean;
  /** Approvals whose configuration this worker has already. */
  readonly opened?: readonly string[];
}

/** A claimed delivery, with what its approval and its endpoint add. */
export type Claim = Pick<
  DeliveryRow,
  | 'id'
  | 'tenant_id'
  | 'approval_id'
  | 'type'
  | 'channel'
  | 'endpoint_key'
  | 'place'
  | 'target'
  | 'body'
  | 'round'
> & {
  /**
   * The FrozenConfig, sealed. Null where the worker has it already, or another delivery of its
   * approval in this claim brings it: it names each approver, so that, were it read for each notice,
   * notices would cost the square of their number.
   */
  readonly frozen: string | null;
  /** When its approval ends; null where it has none. */
  readonly expires_at: Date | null;
  /** Of the request that asked for its approval; null where it has none. */
  readonly request_id: string | null;
  /** The endpoint's failures in a row when it was claimed. */
  readonly failures: number;
};

/** Endpoints of one claim: each is locked until the claim is committed. */
const endpointsAtOnce = 500;
/** Fresh notices of an endpoint that one claim counts into its `due_at`. */
const freshAtOnce = 200;

/**
 * Claims up to `slots` due deliveries for a worker. The endpoint served longest ago comes first,
 * and each gives only as many as may be on their way to it, so one that hangs delays itself alone.
 *
 * | Breaker | First sends (`round` 0) | Retries |
 * |---|---|---|
 * | closed | when they are due | when they are due |
 * | open, `blocked_until` ahead | wait | when they are due |
 * | open, `blocked_until` past | one, the probe | when they are due |
 *
 * Retries always pass, because a notice that has begun keeps to its own waits. Only a claimed probe
 * moves `blocked_until`, so that retries neither use up a probe's turn nor put it off. What a
 * probe's outcome does to the breaker is in attempts.ts.
 *
 * Endpoints that have nothing to give are not looked at, however many there are:
 *
 * | Looked at | Found by | Until |
 * |---|---|---|
 * | one with notices that no worker has looked at | `fresh` of these | they are claimed, or counted into `due_at` |
 * | one whose time has come: of a retry, of a probe, of a claim that ends | `due_at` | it says when the next time is |
 * | one whose sends this worker has just recorded | `recorded` | nobody need know of it: its claims would have ended by `due_at` |
 *
 * Whoever queues a notice locks no endpoint for that, so that neither waits for the other.
 */
export const claimDue = (
  db: DataSource,
  worker: string,
  slots: number,
  {
    known = channels,
    recorded = [],
    except = [],
    opened = [],
    perTenant = sendsPerTenant,
    failing = true,
  }: ClaimOptions = {},
): Promise<Claim[]> =>
  runAlone<Claim>(db, claimStatement, [
    worker,
    slots,
    known,
    recorded,
    except,
    opened,
    perTenant,
    failing,
  ]);

/**
 * It is a prepared statement: planning takes ten times as long as the work. PostgreSQL keeps
 * a plan where it costs no more than one that is made for the values, so the planner sees none of
 * `$2` and `$4` to `$8`.
 */
const claimStatement: Statement = {
  name: 'notifier_claim_due',
  text: `
    WITH RECURSIVE
    -- Each endpoint with fresh notices, without reading them all: https://wiki.postgresql.org/wiki/Loose_indexscan
    fresh AS (
      (SELECT endpoint_key AS key FROM notifier.deliveries WHERE state = 'pending' AND fresh ORDER BY endpoint_key LIMIT 1)
      UNION ALL
      SELECT (
        SELECT d.endpoint_key FROM notifier.deliveries d
        WHERE d.state = 'pending' AND d.fresh AND d.endpoint_key > f.key
        ORDER BY d.endpoint_key LIMIT 1)
      FROM fresh f WHERE f.key IS NOT NULL
    ),
    candidates AS (
      (SELECT e.key FROM fresh e WHERE ${isKnown} AND ${isOfOthers} LIMIT ${endpointsAtOnce})
      UNION
      (SELECT e.key FROM notifier.endpoints e WHERE e.due_at <= now() AND ${isWanted} AND ${isKnown} AND ${isOfOthers}
       ORDER BY e.due_at LIMIT ${endpointsAtOnce})
      UNION
      SELECT unnest((SELECT $4::text[]))
    ),
    -- One that another worker locks is being served by it.
    visited AS (
      SELECT e.key, e.failures, e.served_at, e.blocked_until, e.due_at FROM notifier.endpoints e, ${withoutDiskWait}
      WHERE e.key IN (SELECT key FROM candidates) AND ${isWanted}
      ORDER BY e.served_at LIMIT ${endpointsAtOnce} FOR UPDATE OF e SKIP LOCKED
    ),
    -- One that was served or recorded after this statement began is left to the next claim: what is read of it here is older.
    ready AS (
      SELECT e.*,
        ${sendsPerEndpoint} - (
          SELECT count(*) FROM notifier.deliveries d
          WHERE d.endpoint_key = e.key AND d.state = 'pending' AND d.lease_until > now())::int AS room,
        CASE WHEN e.failures >= ${breaker.failures} AND ${firstSendMayPass} THEN (
          SELECT d.id FROM notifier.deliveries d
          WHERE d.endpoint_key = e.key AND d.round = 0 AND ${due}
          ORDER BY d.next_attempt_at LIMIT 1)
        END AS probe
      FROM visited e JOIN notifier.endpoints before ON before.key = e.key
        AND before.served_at = e.served_at AND before.due_at IS NOT DISTINCT FROM e.due_at
    ),
    -- The probe has the first place, then whatever has been due longest; with an open breaker that is retries alone.
    offered AS (
      SELECT d.id, r.key, r.failures, r.probe, r.served_at, d.next_attempt_at,
        row_number() OVER (PARTITION BY split_part(r.key, ' ', 2) ORDER BY r.served_at, d.next_attempt_at) AS place_in_tenant
      FROM ready r CROSS JOIN LATERAL (
        (SELECT d.id, d.next_attempt_at FROM notifier.deliveries d WHERE d.id = r.probe AND r.room > 0)
        UNION ALL
        (SELECT d.id, d.next_attempt_at FROM notifier.deliveries d
         WHERE d.endpoint_key = r.key AND ${due} AND (d.round > 0 OR r.failures < ${breaker.failures})
         ORDER BY d.next_attempt_at LIMIT greatest(0, r.room - (r.probe IS NOT NULL)::int))
      ) d
    ),
    chosen AS (
      SELECT id, key, failures, probe FROM offered WHERE place_in_tenant <= (SELECT $7::int)
      ORDER BY served_at, next_attempt_at LIMIT (SELECT $2::int)
    ),
    -- Whoever has locked one of them records or cancels it.
    won AS (
      SELECT d.id FROM notifier.deliveries d
      WHERE d.id = ANY (ARRAY(SELECT id FROM chosen)) AND ${due} FOR UPDATE SKIP LOCKED
    ),
    gave AS (
      SELECT key, count(*) AS number, bool_or(id = probe) AS has_probe FROM chosen JOIN won USING (id) GROUP BY key
    ),
    seen AS (
      SELECT d.id FROM ready r CROSS JOIN LATERAL (
        -- As a range in its order, for the same reason as isKnown.
        SELECT f.id FROM notifier.deliveries f
        WHERE f.state = 'pending' AND f.fresh AND f.endpoint_key >= r.key AND f.endpoint_key <= r.key
        ORDER BY f.endpoint_key LIMIT ${freshAtOnce}
      ) f JOIN notifier.deliveries d ON d.id = f.id
      WHERE d.id NOT IN (SELECT id FROM won) FOR UPDATE OF d SKIP LOCKED
    ),
    counted AS (
      UPDATE notifier.deliveries d SET fresh = false FROM seen WHERE d.id = seen.id
    ),
    -- When each has something to give again: as a claim ends; and while there is room, as something is due.
    times AS (
      SELECT r.key, g.number, g.has_probe,
        CASE WHEN g.has_probe THEN now() + interval '${breaker.probeSeconds} seconds' ELSE r.blocked_until END AS blocked_until,
        LEAST(
          CASE WHEN g.number > 0 THEN now() + interval '${claimSeconds} seconds' END,
          (SELECT d.lease_until FROM notifier.deliveries d
           WHERE d.endpoint_key = r.key AND d.state = 'pending' AND d.lease_until > now() ORDER BY d.lease_until LIMIT 1)
        ) AS claim_ends,
        CASE WHEN r.room > coalesce(g.number, 0) THEN (
          SELECT d.next_attempt_at FROM notifier.deliveries d
          WHERE d.endpoint_key = r.key AND ${unclaimed} AND (d.round > 0 OR r.failures < ${breaker.failures})
            AND d.id NOT IN (SELECT id FROM won) ORDER BY d.next_attempt_at LIMIT 1)
        END AS due,
        CASE WHEN r.room > coalesce(g.number, 0) AND r.failures >= ${breaker.failures} THEN (
          SELECT d.next_attempt_at FROM notifier.deliveries d
          WHERE d.endpoint_key = r.key AND ${unclaimed} AND d.round = 0
            AND d.id NOT IN (SELECT id FROM won) ORDER BY d.next_attempt_at LIMIT 1)
        END AS first_due
      FROM ready r LEFT JOIN gave g USING (key)
    ),
    served AS (
      UPDATE notifier.endpoints e SET
        served_at = CASE WHEN t.number > 0 THEN clock_timestamp() ELSE e.served_at END,
        blocked_until = t.blocked_until,
        due_at = LEAST(t.claim_ends, t.due, CASE WHEN t.first_due IS NOT NULL THEN GREATEST(t.first_due, t.blocked_until) END)
      FROM times t WHERE e.key = t.key
    ),
    claimed AS (
      UPDATE notifier.deliveries d SET lease = $1, lease_until = now() + interval '${claimSeconds} seconds', fresh = false
      FROM won JOIN chosen c USING (id)
      WHERE d.id = c.id
      RETURNING d.id, d.tenant_id, d.approval_id, d.type, d.channel, d.endpoint_key, d.place, d.target, d.body, d.round,
        d.frozen, c.failures
    )
    SELECT c.id, c.tenant_id, c.approval_id, c.type, c.channel, c.endpoint_key, c.place, c.target, c.body, c.round,
      CASE WHEN a.id IS NULL THEN c.frozen
        WHEN a.id <> ALL ((SELECT $6::uuid[])::uuid[]) AND row_number() OVER (PARTITION BY a.id) = 1 THEN a.frozen
      END AS frozen, a.expires_at, a.request_id, c.failures
    FROM claimed c LEFT JOIN notifier.approvals a ON a.id = c.approval_id`,
};

/**
 * Prolongs a worker's claims on deliveries that it still sends. One that is locked is being
 * recorded or cancelled right now.
 */
export const renewClaims = (db: DataSource, worker: string, ids: readonly string[]) =>
  db.query(
    `UPDATE notifier.deliveries SET lease_until = now() + interval '${claimSeconds} seconds'
     WHERE id IN (SELECT id FROM notifier.deliveries WHERE id = ANY($2) AND lease = $1 FOR UPDATE SKIP LOCKED)`,
    [worker, ids],
  );

/**
 * Ends a worker's claims on shutdown, so that others take the deliveries at once. `lease` keeps
 * naming the worker, because what it was still sending may have arrived.
 */
export const releaseClaims = (db: DataSource, worker: string) =>
  db.query(
    `UPDATE notifier.deliveries SET lease_until = now(), fresh = true
     WHERE id IN (SELECT id FROM notifier.deliveries WHERE lease = $1 AND state = 'pending' FOR UPDATE SKIP LOCKED)`,
    [worker],
  );
