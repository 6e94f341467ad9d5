/**
 * Recording how attempts went: the deliveries, the attempts' log, their endpoints, and the audit of
 * what has failed.
 */
import type { DataSource, EntityManager } from 'typeorm';
import type { NextStep } from '../rules/retry-policy.ts';
import { breaker, unclaimed, withoutDiskWait } from './claims.ts';
import { auditFailures, type FailedDelivery } from './failures.ts';
import { pausedReason } from './notices.ts';

/** What becomes of one claimed delivery. */
export interface AttemptRecord extends NextStep {
  /** The delivery's id. */
  readonly id: string;
  /**
   * Of the claim. It tells a repeated record, sent again because the connection was lost, from the
   * next attempt.
   */
  readonly round: number;
  readonly duration_ms: number;
  readonly status: number | null;
  readonly answer: string | null;
  readonly error: string | null;
}

/** What attempts that ended together say of one endpoint. */
export interface EndpointRecord {
  readonly key: string;
  /** At least one arrived, which ends its failures in a row. */
  readonly delivered: boolean;
  /** Attempts that failed for a reason which may pass. */
  readonly failures: number;
  /** Revision of the configuration with which it answered 410 Gone; null unless it did. */
  readonly paused_revision: number | null;
}

/**
 * Records attempts in one transaction. A worker whose claim has gone to another records nothing for
 * that delivery: the other one sends it, too, and records that.
 *
 * Deliveries are locked in the order of their ids and then endpoints in that of their keys, here
 * and where deliveries are cancelled, so that no two transactions wait for each other.
 */
export const recordAttempts = (
  db: DataSource,
  worker: string,
  attempts: readonly AttemptRecord[],
  endpoints: readonly EndpointRecord[],
): Promise<void> =>
  db.transaction(async (manager) => {
    const failed = await recordDeliveries(manager, worker, attempts);
    await recordEndpoints(manager, endpoints);
    const paused = endpoints.filter((endpoint) => endpoint.paused_revision !== null);
    const unsent = await failWaiting(
      manager,
      paused.map(({ key }) => key),
    );
    await auditFailures(manager, [...failed, ...unsent]);
  });

/**
 * Answers the deliveries that have failed by their attempts. One that was cancelled meanwhile is
 * logged and stays cancelled.
 */
const recordDeliveries = (
  manager: EntityManager,
  worker: string,
  attempts: readonly AttemptRecord[],
): Promise<FailedDelivery[]> =>
  manager.query<FailedDelivery[]>(
    `
    WITH ended AS (
      SELECT n.* FROM json_to_recordset($2) AS n (
        id uuid, round int4, result text, wait_ms float8, duration_ms int4, status int4, answer text, error text),
        ${withoutDiskWait}
    ),
    still_claimed AS (
      SELECT id FROM notifier.deliveries
      WHERE (id, round) IN (SELECT id, round FROM ended) AND lease = $1 ORDER BY id FOR UPDATE
    ),
    recorded AS (
      UPDATE notifier.deliveries d SET
        attempts = d.attempts + 1,
        round = d.round + 1,
        lease = NULL,
        lease_until = NULL,
        reason = n.error,
        state = CASE
          WHEN n.result = 'delivered' THEN 'delivered'
          WHEN d.state = 'cancelled' THEN 'cancelled'
          WHEN n.result = 'failed' THEN 'failed'
          ELSE 'pending' END,
        next_attempt_at = CASE
          WHEN n.result = 'retry' THEN now() + n.wait_ms * interval '1 millisecond'
          ELSE d.next_attempt_at END,
        settled_at = CASE WHEN n.result = 'retry' THEN d.settled_at ELSE now() END
      FROM ended n JOIN still_claimed USING (id) WHERE d.id = n.id
      RETURNING d.*, n.duration_ms, n.status, n.answer, n.error
    ),
    logged AS (
      INSERT INTO notifier.attempts (delivery_id, n, at, duration_ms, status, answer, error)
      SELECT id, attempts, now() - duration_ms * interval '1 millisecond', duration_ms, status, answer, error
      FROM recorded
    )
    SELECT id, tenant_id, approval_id, channel, target, reason, status FROM recorded WHERE state = 'failed'`,
    [worker, JSON.stringify(attempts)],
  );

/**
 * The failure that opens a breaker sets the time of its first probe. Later ones leave the time as
 * it is: only a probe moves it (claims.ts). A success closes the breaker. The next claim says when
 * the endpoint is due.
 */
async function recordEndpoints(
  manager: EntityManager,
  endpoints: readonly EndpointRecord[],
): Promise<void> {
  if (endpoints.length === 0) return;
  await manager.query(
    `
    WITH ended AS (
      SELECT * FROM json_to_recordset($1) AS n (key text, delivered boolean, failures int4, paused_revision int8)
    ),
    locked AS (
      SELECT key FROM notifier.endpoints WHERE key IN (SELECT key FROM ended) ORDER BY key FOR UPDATE
    )
    UPDATE notifier.endpoints e SET
      failures = CASE WHEN n.delivered THEN 0 ELSE e.failures + n.failures END,
      blocked_until = CASE
        WHEN n.delivered OR e.failures + n.failures < ${breaker.failures} THEN NULL
        ELSE coalesce(e.blocked_until, now() + interval '${breaker.probeSeconds} seconds') END,
      paused_revision = greatest(n.paused_revision, e.paused_revision),
      due_at = now()
    FROM ended n JOIN locked USING (key) WHERE e.key = n.key`,
    [JSON.stringify(endpoints)],
  );
}

/**
 * Fails what waits for paused endpoints. What is locked is being sent, recorded or cancelled right
 * now, and is left to that.
 */
async function failWaiting(
  manager: EntityManager,
  pausedKeys: readonly string[],
): Promise<FailedDelivery[]> {
  if (pausedKeys.length === 0) return [];
  return manager.query<FailedDelivery[]>(
    `
    WITH waiting AS (
      SELECT d.id FROM notifier.deliveries d
      WHERE d.endpoint_key = ANY($1) AND ${unclaimed} FOR UPDATE SKIP LOCKED
    ),
    failed AS (
      UPDATE notifier.deliveries d SET state = 'failed', settled_at = now(), reason = $2
      FROM waiting WHERE d.id = waiting.id RETURNING d.*
    )
    SELECT id, tenant_id, approval_id, channel, target, reason, NULL::int4 AS status FROM failed`,
    [pausedKeys, pausedReason],
  );
}
