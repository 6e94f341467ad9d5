/**
 * What the notifier removes when it has had its time. Nothing that is under way: an approval that
 * is pending, a delivery that is still to be sent, or the deliveries of a pending approval, which
 * say whom to tell of its end. That an approval was asked for, and how it was decided, stays in the
 * audit.
 */
import { sweepAfterDays, type Sweep } from '../../../shared/database/sweeper.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { liveStates } from './usage.ts';

/**
 * Of an approval `a` that is not pending: when it ended, at the latest. An exhausted one ends with
 * its last window, which may be long before the expiry that was asked for.
 */
const approvalEnd = `COALESCE(a.decided_at, CASE a.state
  WHEN 'exhausted' THEN LEAST(a.expires_at, a.created_at + make_interval(secs => (a.max_hops + 1) * a.window_seconds::float8))
  ELSE a.expires_at END)`;

/**
 * The part of a statement that removes these deliveries, the rows of `settled` or `theirs`, and at
 * most $2 of their attempts before them: where there are more, the deliveries stay for the next
 * batch. Ids are compared as arrays, which are looked up in an index whatever the statistics say.
 */
const withAttempts = (of: 'settled' | 'theirs'): string =>
  `attempts AS (
     DELETE FROM notifier.attempts WHERE ctid = ANY (ARRAY(
       SELECT ctid FROM notifier.attempts
       WHERE delivery_id = ANY (ARRAY(SELECT id FROM ${of})) LIMIT $2
     )) RETURNING n
   ),
   deliveries AS (
     DELETE FROM notifier.deliveries
     WHERE id = ANY (ARRAY(SELECT id FROM ${of})) AND (SELECT count(*) FROM attempts) < $2
     RETURNING id
   )`;

/** Recorded decisions, so many days after they were made. */
export const removeOldDecisions = (settings: () => Settings): Sweep =>
  sweepAfterDays(
    () => settings().decision_retention_days,
    `WITH removed AS (
       DELETE FROM notifier.decisions WHERE ctid = ANY (ARRAY(
         SELECT ctid FROM notifier.decisions WHERE decided_at < now() - make_interval(days => $1)
         ORDER BY decided_at LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING 1
     )
     SELECT count(*)::int AS decisions FROM removed`,
  );

/**
 * Deliveries that were settled so many days ago, with their attempts; one of very many attempts
 * goes after them.
 */
export const removeSettledDeliveries = (settings: () => Settings): Sweep =>
  sweepAfterDays(
    () => settings().delivery_retention_days,
    `WITH settled AS (
       SELECT d.id FROM notifier.deliveries d
       WHERE d.state <> 'pending' AND d.settled_at < now() - make_interval(days => $1)
         AND NOT EXISTS (
           SELECT FROM notifier.approvals a WHERE a.id = d.approval_id AND a.state = 'pending'
         )
       ORDER BY d.settled_at LIMIT $2 FOR UPDATE OF d SKIP LOCKED
     ),
     ${withAttempts('settled')}
     SELECT (SELECT count(*) FROM deliveries)::int AS deliveries,
       (SELECT count(*) FROM attempts)::int AS attempts`,
  );

/**
 * Approvals that ended so many days ago, with what is left of their deliveries: without its
 * approval a delivery could not be sent again. One whose delivery is being replayed stays until
 * that is settled, and one that an automation waits or runs by until that ends.
 */
export const removeEndedApprovals = (settings: () => Settings): Sweep =>
  sweepAfterDays(
    () => settings().approval_retention_days,
    `WITH ended AS (
       SELECT a.id FROM notifier.approvals a
       WHERE a.state <> 'pending' AND a.created_at < now() - make_interval(days => $1)
         AND ${approvalEnd} < now() - make_interval(days => $1)
         AND NOT EXISTS (
           SELECT FROM notifier.deliveries d WHERE d.approval_id = a.id AND d.state = 'pending'
         )
         AND NOT EXISTS (
           SELECT FROM notifier.automations m
           WHERE m.tenant_id = a.tenant_id AND m.approval_id = a.id
             AND m.state IN ${liveStates}
         )
       ORDER BY a.created_at LIMIT $2 FOR UPDATE OF a SKIP LOCKED
     ),
     theirs AS (
       SELECT d.id FROM notifier.deliveries d
       WHERE d.approval_id = ANY (ARRAY(SELECT id FROM ended)) AND d.state <> 'pending'
       LIMIT $2 FOR UPDATE OF d SKIP LOCKED
     ),
     ${withAttempts('theirs')},
     approvals AS (
       DELETE FROM notifier.approvals a
       WHERE a.id = ANY (ARRAY(SELECT id FROM ended)) AND (SELECT count(*) FROM attempts) < $2
         AND NOT EXISTS (
           SELECT FROM notifier.deliveries d
           WHERE d.approval_id = a.id AND d.id NOT IN (SELECT id FROM theirs)
         )
       RETURNING id, tenant_id
     ),
     copies AS (
       DELETE FROM notifier.slack_messages c USING approvals a WHERE c.tenant_id = a.tenant_id AND c.approval_id = a.id
     )
     SELECT (SELECT count(*) FROM approvals)::int AS approvals,
       (SELECT count(*) FROM deliveries)::int AS deliveries,
       (SELECT count(*) FROM attempts)::int AS attempts`,
  );

/**
 * Endpoints that nothing was sent to for so many days, whose failures and pause are forgotten with
 * them. The table is small and each claim writes `served_at`, so there is no index on it. Notices
 * for an endpoint mark it before they are queued (notices.ts).
 */
export const removeUnusedEndpoints = (settings: () => Settings): Sweep =>
  sweepAfterDays(
    () => settings().delivery_retention_days,
    `WITH unused AS (
       SELECT e.key FROM notifier.endpoints e
       WHERE e.served_at < now() - make_interval(days => $1)
         AND NOT EXISTS (
           SELECT FROM notifier.deliveries d WHERE d.endpoint_key = e.key AND d.state = 'pending'
         )
       LIMIT $2 FOR UPDATE OF e SKIP LOCKED
     ),
     removed AS (DELETE FROM notifier.endpoints WHERE key = ANY (ARRAY(SELECT key FROM unused)) RETURNING key)
     SELECT count(*)::int AS endpoints FROM removed`,
  );

/**
 * Automations that ended so many days ago, as approvals; that each was asked for, and what became
 * of it, stays in the audit.
 */
export const removeEndedAutomations = (settings: () => Settings): Sweep =>
  sweepAfterDays(
    () => settings().approval_retention_days,
    `WITH removed AS (
       DELETE FROM notifier.automations WHERE id IN (
         SELECT id FROM notifier.automations
         WHERE ended_at < now() - make_interval(days => $1)
         ORDER BY ended_at LIMIT $2 FOR UPDATE SKIP LOCKED
       ) RETURNING 1
     )
     SELECT count(*)::int AS automations FROM removed`,
  );

/**
 * What budgets spent so many days ago, and longer than any period lasts. What is held stays, since
 * it is still to be settled.
 */
export const removeOldLedger = (settings: () => Settings): Sweep =>
  sweepAfterDays(
    () => settings().approval_retention_days,
    `WITH removed AS (
       DELETE FROM notifier.ledger WHERE (tenant_id, budget, bucket) IN (
         SELECT tenant_id, budget, bucket FROM notifier.ledger
         WHERE bucket < now() - make_interval(days => GREATEST($1::int, 62)) AND held = 0
         ORDER BY bucket LIMIT $2 FOR UPDATE SKIP LOCKED
       ) RETURNING bucket
     ),
     warnings AS (
       DELETE FROM notifier.budget_warnings WHERE (tenant_id, budget) IN (
         SELECT tenant_id, budget FROM notifier.budget_warnings
         WHERE until < now() - make_interval(days => $1) LIMIT $2 FOR UPDATE SKIP LOCKED
       ) RETURNING budget
     )
     SELECT (SELECT count(*) FROM removed)::int AS ledger,
       (SELECT count(*) FROM warnings)::int AS budget_warnings`,
  );
