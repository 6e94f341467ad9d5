import type { DataSource } from 'typeorm';
import type { ApprovalRow, DeliveryRow } from '../schema.ts';
import { auditFailures, type FailedDelivery } from './failures.ts';
import { pausedReason } from './notices.ts';

/** How many sends to one endpoint may be on their way at a time. */
const perEndpoint = 16;
/** So many failures in a row open an endpoint's circuit breaker: it holds back first sends, but for one probe in each such time. */
const breakerFailures = 20;
const breakerSeconds = 30;
/** A worker renews well within it; another takes over when it has passed. */
const leaseSeconds = 10;

export type Claimed = Pick<
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
  Pick<ApprovalRow, 'frozen' | 'expires_at'> & { readonly failures: number };

/**
 * In a statement's FROM: its transaction does not wait for the disk. If the database crashes, the claims and records of its last
 * moments are gone together with what they knew: those notices are due again and sent again under the same id.
 */
const hurried = `(SELECT set_config('synchronous_commit', 'off', true)) AS hurried`;

/** What a worker may take up: due, and neither claimed nor left over by a claim that has not run out. `d` is a delivery. */
const free = `d.state = 'pending' AND d.next_attempt_at <= now() AND (d.lease_until IS NULL OR d.lease_until <= now())`;

/**
 * Takes up to `slots` due deliveries for this worker. The endpoint served longest ago comes first, and each gives only what it may
 * have in flight, so one that hangs delays itself alone.
 *
 * An endpoint with an open breaker gives its retries, since a notice that has begun keeps to its own waits, and of its first sends
 * one probe each time `blocked_until` has passed. Only a probe sets that time anew.
 */
export const claim = (db: DataSource, worker: string, slots: number): Promise<Claimed[]> =>
  db.query<Claimed[]>(
    `
  WITH RECURSIVE waiting AS (
    -- Each endpoint with a waiting delivery: a loose index scan, https://wiki.postgresql.org/wiki/Loose_indexscan
    (SELECT endpoint_key FROM notifier.deliveries WHERE state = 'pending' ORDER BY endpoint_key LIMIT 1)
    UNION ALL
    SELECT (
      SELECT d.endpoint_key FROM notifier.deliveries d
      WHERE d.state = 'pending' AND d.endpoint_key > w.endpoint_key
      ORDER BY d.endpoint_key LIMIT 1)
    FROM waiting w WHERE w.endpoint_key IS NOT NULL
  ), ready AS (
    SELECT e.key, e.failures, e.served_at,
      $3::int - (
        SELECT count(*) FROM notifier.deliveries d
        WHERE d.endpoint_key = e.key AND d.state = 'pending' AND d.lease_until > now())::int AS room,
      CASE WHEN e.failures >= $4 AND coalesce(e.blocked_until <= now(), true) THEN (
        SELECT d.id FROM notifier.deliveries d
        WHERE d.endpoint_key = e.key AND d.round = 0 AND ${free}
        ORDER BY d.next_attempt_at LIMIT 1)
      END AS probe
    FROM notifier.endpoints e JOIN waiting w ON w.endpoint_key = e.key, ${hurried}
    WHERE EXISTS (
      SELECT FROM notifier.deliveries d
      WHERE d.endpoint_key = e.key AND ${free} AND (d.round > 0 OR coalesce(e.blocked_until <= now(), true)))
    ORDER BY e.served_at FOR UPDATE OF e SKIP LOCKED
  ), chosen AS (
    SELECT d.id, r.key, r.failures, r.probe FROM ready r CROSS JOIN LATERAL (
      (SELECT d.id, d.next_attempt_at FROM notifier.deliveries d WHERE d.id = r.probe AND r.room > 0)
      UNION ALL
      (SELECT d.id, d.next_attempt_at FROM notifier.deliveries d
       WHERE d.endpoint_key = r.key AND ${free} AND (d.round > 0 OR r.failures < $4)
       ORDER BY d.next_attempt_at LIMIT greatest(0, r.room - (r.probe IS NOT NULL)::int))
    ) d ORDER BY r.served_at, d.next_attempt_at LIMIT $2
  ), taken AS (
    -- Two claims at once may choose the same rows; whoever locks a row second finds it claimed.
    SELECT d.id FROM notifier.deliveries d WHERE d.id IN (SELECT id FROM chosen) AND ${free} FOR UPDATE SKIP LOCKED
  ), served AS (
    UPDATE notifier.endpoints e SET
      served_at = clock_timestamp(),
      blocked_until = CASE WHEN s.probed THEN now() + $6 * interval '1 second' ELSE e.blocked_until END
    FROM (SELECT key, bool_or(id = probe) AS probed FROM chosen JOIN taken USING (id) GROUP BY key) s
    WHERE e.key = s.key
  ), claimed AS (
    UPDATE notifier.deliveries d SET lease = $1, lease_until = now() + $5 * interval '1 second'
    FROM taken JOIN chosen c USING (id), notifier.approvals a
    WHERE d.id = c.id AND a.id = d.approval_id
    RETURNING d.id, d.tenant_id, d.approval_id, d.type, d.channel, d.endpoint_key, d.place, d.target, d.body, d.round,
      a.frozen, a.expires_at, c.failures
  )
  SELECT * FROM claimed`,
    [worker, slots, perEndpoint, breakerFailures, leaseSeconds, breakerSeconds],
  );

/** A row that is locked is being settled or cancelled at this moment. */
export const renew = (db: DataSource, worker: string, ids: readonly string[]) =>
  db.query(
    `UPDATE notifier.deliveries SET lease_until = now() + $3 * interval '1 second'
   WHERE id IN (SELECT id FROM notifier.deliveries WHERE id = ANY($2) AND lease = $1 FOR UPDATE SKIP LOCKED)`,
    [worker, ids, leaseSeconds],
  );

/** On shutdown: what is still on its way is free for others at once. The lease stays, as a sign that it may have been sent. */
export const release = (db: DataSource, worker: string) =>
  db.query(
    `UPDATE notifier.deliveries SET lease_until = now()
   WHERE id IN (SELECT id FROM notifier.deliveries WHERE lease = $1 AND state = 'pending' FOR UPDATE SKIP LOCKED)`,
    [worker],
  );

export interface Settled {
  readonly id: string;
  /** Of the claim, so that an attempt whose recording was answered by a lost connection is not recorded twice. */
  readonly round: number;
  readonly verdict: 'delivered' | 'retry' | 'failed';
  /** Before the next attempt, where the verdict is `retry`. */
  readonly wait_ms: number;
  readonly duration_ms: number;
  readonly status: number | null;
  readonly answer: string | null;
  readonly error: string | null;
}
export interface EndpointNews {
  readonly key: string;
  readonly delivered: boolean;
  readonly failures: number;
  /** Revision of the configuration that it was in when it answered 410. */ readonly gone:
    number | null;
}

/**
 * Records attempts, and the events of the deliveries that have failed by them, in one transaction. Who has lost the lease to another
 * worker records nothing: that one sends, too, and says how it went. Rows are locked in one order, here and where they are cancelled,
 * so that two transactions can't wait for each other.
 */
export const settle = (
  db: DataSource,
  worker: string,
  settled: readonly Settled[],
  endpoints: readonly EndpointNews[],
): Promise<void> =>
  db.transaction(async (manager) => {
    const failed = await manager.query<FailedDelivery[]>(
      `
    WITH news AS (
      SELECT n.* FROM json_to_recordset($2) AS n (id uuid, round int4, verdict text, wait_ms float8, duration_ms int4, status int4, answer text, error text), ${hurried}
    ), held AS (
      SELECT id FROM notifier.deliveries WHERE (id, round) IN (SELECT id, round FROM news) AND lease = $1 ORDER BY id FOR UPDATE
    ), settled AS (
      UPDATE notifier.deliveries d SET
        attempts = d.attempts + 1, round = d.round + 1, lease = NULL, lease_until = NULL, reason = n.error,
        state = CASE WHEN n.verdict = 'delivered' THEN 'delivered' WHEN d.state = 'cancelled' THEN 'cancelled' WHEN n.verdict = 'failed' THEN 'failed' ELSE 'pending' END,
        next_attempt_at = CASE WHEN n.verdict = 'retry' THEN now() + n.wait_ms * interval '1 millisecond' ELSE d.next_attempt_at END,
        settled_at = CASE WHEN n.verdict = 'retry' THEN d.settled_at ELSE now() END
      FROM news n JOIN held USING (id) WHERE d.id = n.id
      RETURNING d.*, n.duration_ms, n.status, n.answer, n.error
    ), logged AS (
      INSERT INTO notifier.attempts (delivery_id, n, at, duration_ms, status, answer, error)
      SELECT id, attempts, now() - duration_ms * interval '1 millisecond', duration_ms, status, answer, error FROM settled
    )
    SELECT id, tenant_id, approval_id, channel, target, reason, status FROM settled WHERE state = 'failed'`,
      [worker, JSON.stringify(settled)],
    );
    await auditFailures(manager, failed);
    if (endpoints.length === 0) return;
    await manager.query(
      `
    WITH news AS (
      SELECT * FROM json_to_recordset($1) AS n (key text, delivered boolean, failures int4, gone int8)
    ), held AS (
      SELECT key FROM notifier.endpoints WHERE key IN (SELECT key FROM news) ORDER BY key FOR UPDATE
    )
    UPDATE notifier.endpoints e SET
      failures = CASE WHEN n.delivered THEN 0 ELSE e.failures + n.failures END,
      blocked_until = CASE WHEN n.delivered OR e.failures + n.failures < $2 THEN NULL ELSE coalesce(e.blocked_until, now() + $3 * interval '1 second') END,
      paused_revision = greatest(n.gone, e.paused_revision)
    FROM news n JOIN held USING (key) WHERE e.key = n.key`,
      [JSON.stringify(endpoints), breakerFailures, breakerSeconds],
    );
    const gone = endpoints.filter((news) => news.gone !== null).map(({ key }) => key);
    if (gone.length === 0) return;
    // A row that is locked is being sent, recorded or cancelled at this moment.
    const unsent = await manager.query<FailedDelivery[]>(
      `
    WITH free AS (
      SELECT id FROM notifier.deliveries
      WHERE endpoint_key = ANY($1) AND state = 'pending' AND (lease_until IS NULL OR lease_until <= now()) FOR UPDATE SKIP LOCKED
    ), failed AS (
      UPDATE notifier.deliveries d SET state = 'failed', settled_at = now(), reason = $2
      FROM free WHERE d.id = free.id RETURNING d.*
    )
    SELECT id, tenant_id, approval_id, channel, target, reason, NULL::int4 AS status FROM failed`,
      [gone, pausedReason],
    );
    await auditFailures(manager, unsent);
  });
