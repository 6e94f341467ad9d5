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
import type { ApprovalRow, DeliveryRow } from '../schema.ts';

/** Sends to one endpoint that may be on their way at a time, over all workers. */
const sendsPerEndpoint = 16;
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
/**
 * Of a delivery `d`: it may be sent now, as far as its endpoint allows. One of a channel that this
 * release does not know is left to nodes that do: a newer release may have queued it.
 */
const due = `${unclaimed} AND d.next_attempt_at <= now() AND d.channel = ANY($3)`;
/**
 * Of an endpoint `e`: the time of its next probe has come. It never opened where `blocked_until` is
 * null, so nothing waits.
 */
const firstSendMayPass = `coalesce(e.blocked_until <= now(), true)`;

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
> &
  Pick<ApprovalRow, 'frozen' | 'expires_at'> & {
    /** The endpoint's failures in a row when it was claimed. */
    readonly failures: number;
  };

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
 */
export const claimDue = (
  db: DataSource,
  worker: string,
  slots: number,
  known: readonly string[] = channels,
): Promise<Claim[]> =>
  db.query<Claim[]>(
    `
    WITH RECURSIVE
    -- Each endpoint with pending deliveries, without reading them all: https://wiki.postgresql.org/wiki/Loose_indexscan
    waiting AS (
      (SELECT endpoint_key FROM notifier.deliveries WHERE state = 'pending' ORDER BY endpoint_key LIMIT 1)
      UNION ALL
      SELECT (
        SELECT d.endpoint_key FROM notifier.deliveries d
        WHERE d.state = 'pending' AND d.endpoint_key > w.endpoint_key
        ORDER BY d.endpoint_key LIMIT 1)
      FROM waiting w WHERE w.endpoint_key IS NOT NULL
    ),
    -- The endpoints that have something to give. One that another worker locks is being served by it.
    ready AS (
      SELECT e.key, e.failures, e.served_at,
        ${sendsPerEndpoint} - (
          SELECT count(*) FROM notifier.deliveries d
          WHERE d.endpoint_key = e.key AND d.state = 'pending' AND d.lease_until > now())::int AS room,
        CASE WHEN e.failures >= ${breaker.failures} AND ${firstSendMayPass} THEN (
          SELECT d.id FROM notifier.deliveries d
          WHERE d.endpoint_key = e.key AND d.round = 0 AND ${due}
          ORDER BY d.next_attempt_at LIMIT 1)
        END AS probe
      FROM notifier.endpoints e JOIN waiting w ON w.endpoint_key = e.key, ${withoutDiskWait}
      WHERE EXISTS (
        SELECT FROM notifier.deliveries d
        WHERE d.endpoint_key = e.key AND ${due} AND (d.round > 0 OR ${firstSendMayPass}))
      ORDER BY e.served_at FOR UPDATE OF e SKIP LOCKED
    ),
    -- The probe has the first place, then whatever has been due longest; with an open breaker that is retries alone.
    chosen AS (
      SELECT d.id, r.key, r.failures, r.probe FROM ready r CROSS JOIN LATERAL (
        (SELECT d.id, d.next_attempt_at FROM notifier.deliveries d WHERE d.id = r.probe AND r.room > 0)
        UNION ALL
        (SELECT d.id, d.next_attempt_at FROM notifier.deliveries d
         WHERE d.endpoint_key = r.key AND ${due} AND (d.round > 0 OR r.failures < ${breaker.failures})
         ORDER BY d.next_attempt_at LIMIT greatest(0, r.room - (r.probe IS NOT NULL)::int))
      ) d ORDER BY r.served_at, d.next_attempt_at LIMIT $2
    ),
    -- Two workers may choose the same rows at the same moment; the second finds them locked, or claimed.
    won AS (
      SELECT d.id FROM notifier.deliveries d
      WHERE d.id IN (SELECT id FROM chosen) AND ${due} FOR UPDATE SKIP LOCKED
    ),
    served AS (
      UPDATE notifier.endpoints e SET
        served_at = clock_timestamp(),
        blocked_until = CASE
          WHEN s.has_probe THEN now() + interval '${breaker.probeSeconds} seconds'
          ELSE e.blocked_until END
      FROM (SELECT key, bool_or(id = probe) AS has_probe FROM chosen JOIN won USING (id) GROUP BY key) s
      WHERE e.key = s.key
    ),
    claimed AS (
      UPDATE notifier.deliveries d SET lease = $1, lease_until = now() + interval '${claimSeconds} seconds'
      FROM won JOIN chosen c USING (id), notifier.approvals a
      WHERE d.id = c.id AND a.id = d.approval_id
      RETURNING d.id, d.tenant_id, d.approval_id, d.type, d.channel, d.endpoint_key, d.place, d.target, d.body, d.round,
        a.frozen, a.expires_at, c.failures
    )
    SELECT * FROM claimed`,
    [worker, slots, known],
  );

/** Notices that wait, of channels that this release does not know. */
export const unknownChannels = (
  db: DataSource,
): Promise<{ readonly channel: string; readonly waiting: number }[]> =>
  db.query(
    `SELECT channel, count(*)::int AS waiting FROM notifier.deliveries
     WHERE state = 'pending' AND channel <> ALL($1) GROUP BY channel ORDER BY channel`,
    [channels],
  );

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
    `UPDATE notifier.deliveries SET lease_until = now()
     WHERE id IN (SELECT id FROM notifier.deliveries WHERE lease = $1 AND state = 'pending' FOR UPDATE SKIP LOCKED)`,
    [worker],
  );
