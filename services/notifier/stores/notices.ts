/**
 * Putting notices into the queue, and taking them out again when their approval is settled.
 * claims.ts and attempts.ts empty it.
 */
import type { EntityManager } from 'typeorm';
import { adminDestinations } from '../channels/destinations.ts';
import type { FrozenConfig } from '../rules/frozen-config.ts';
import type { ApprovalRow, Destination } from '../schema.ts';
import type { NewDelivery } from '../rules/notice.ts';
import { auditFailures, type FailedDelivery } from './failures.ts';

export const pausedReason =
  'The endpoint answered 410 Gone and is paused. Save the configuration, or replay, to use it again.';

/** What notices tell of: an approval, or something else, by a configuration that was sealed for it. */
type About =
  | (Pick<ApprovalRow, 'id' | 'tenant_id'> & { readonly sealed?: undefined })
  | { readonly id: null; readonly tenant_id: string; readonly sealed: string };

/**
 * Queues notices inside the transaction that makes them true. `configRevision` is that of the
 * frozen configuration: one newer than an endpoint's pause ends the pause. At an
 * endpoint that stays paused a notice fails at once, which is audited. What is queued already, by
 * its id, stays as it is. Answers whether any is to be sent.
 */
export async function queueNotices(
  manager: EntityManager,
  about: About,
  configRevision: number,
  notices: readonly NewDelivery[],
): Promise<boolean> {
  if (notices.length === 0) return false;
  // In one order everywhere, so that no two transactions wait for each other's endpoints.
  const endpointKeys = [...new Set(notices.map((notice) => notice.endpoint_key))].sort();
  await holdEndpoints(manager, endpointKeys, configRevision);
  let failures = 0;
  for (const slice of slicesOf(notices)) {
    const failed = await insertDeliveries(manager, about, slice);
    await auditFailures(manager, failed);
    failures += failed.length;
  }
  return failures < notices.length;
}

/**
 * What one statement queues. Of notices to thousands the bodies together may be longer than a text
 * can be, and as one statement they would hold the event loop for as long as they are written.
 */
const mostInSlice = { notices: 500, characters: 512 * 1024 };

function* slicesOf(notices: readonly NewDelivery[]): Generator<NewDelivery[]> {
  let slice: NewDelivery[] = [];
  let characters = 0;
  for (const notice of notices) {
    const made = { ...notice };
    slice.push(made);
    characters += made.body.length;
    if (slice.length < mostInSlice.notices && characters < mostInSlice.characters) continue;
    yield slice;
    slice = [];
    characters = 0;
  }
  if (slice.length > 0) yield slice;
}

/** Answers those that have failed already. */
const insertDeliveries = (
  manager: EntityManager,
  about: About,
  notices: readonly NewDelivery[],
): Promise<FailedDelivery[]> =>
  manager.query(
    `WITH queued AS (
       INSERT INTO notifier.deliveries (
         id, tenant_id, approval_id, type, hop, channel, endpoint_key, place, target, body,
         attempts, round, next_attempt_at, created_at, frozen, state, settled_at, reason)
       SELECT
         n.id, $2, $3, n.type, n.hop, n.channel, n.endpoint_key, n.place, n.target, n.body,
         0, 0, now(), date_trunc('milliseconds', now()), $5,
         CASE WHEN e.paused_revision IS NULL THEN 'pending' ELSE 'failed' END,
         CASE WHEN e.paused_revision IS NULL THEN NULL ELSE now() END,
         CASE WHEN e.paused_revision IS NULL THEN NULL ELSE $4 END
       FROM json_to_recordset($1) AS n (
         id uuid, type text, hop int4, channel text, endpoint_key text, place text, target text, body text)
       -- Each by its key: the planner takes the few notices for a hundred, and would read all endpoints.
       CROSS JOIN LATERAL (SELECT paused_revision FROM notifier.endpoints WHERE key = n.endpoint_key LIMIT 1) e
       ON CONFLICT (id) DO NOTHING
       RETURNING *
     )
     SELECT id, tenant_id, approval_id, channel, target, reason, NULL::int4 AS status
     FROM queued WHERE state = 'failed'`,
    [JSON.stringify(notices), about.tenant_id, about.id, pausedReason, about.sealed ?? null],
  );

/**
 * Queues what somebody must receive: administrators do, where each endpoint of the others is
 * paused.
 */
export async function queueForSomebody(
  manager: EntityManager,
  about: About,
  frozen: FrozenConfig,
  destinations: readonly Destination[],
  noticesTo: (destinations: readonly Destination[]) => NewDelivery[],
): Promise<void> {
  const queue = (to: readonly Destination[]): Promise<boolean> =>
    queueNotices(manager, about, frozen.revision, noticesTo(to));
  if (!(await queue(destinations))) await queue(adminDestinations(about, frozen));
}

/**
 * Makes sure that the endpoints are there until their notices are: without one a notice would never
 * be sent. Those that were not used of late are marked first, and so neither look unused any more
 * nor can be removed meanwhile (retention.ts); those that are gone are made again. All others are
 * only read, since each row that is written here holds up whoever sends to it.
 */
async function holdEndpoints(
  manager: EntityManager,
  keys: readonly string[],
  configRevision: number,
): Promise<void> {
  await manager.query(
    `WITH marked AS (
       SELECT key FROM notifier.endpoints
       WHERE key = ANY($1) AND (paused_revision < $2 OR served_at < now() - interval '12 hours')
       ORDER BY key FOR UPDATE
     )
     UPDATE notifier.endpoints e SET
       paused_revision = CASE WHEN e.paused_revision < $2 THEN NULL ELSE e.paused_revision END,
       served_at = GREATEST(e.served_at, now() - interval '6 hours')
     FROM marked WHERE e.key = marked.key`,
    [keys, configRevision],
  );
  await manager.query(
    `INSERT INTO notifier.endpoints (key, served_at, failures)
     SELECT key, now(), 0 FROM unnest($1::text[]) AS key
     ON CONFLICT (key) DO NOTHING`,
    [keys],
  );
}

/**
 * Cancels what was not sent. Answers the destinations that the approval has reached, or may have
 * reached: they must be told how it ended. A delivery that still names a worker is on its way, or
 * its worker died and nobody knows.
 */
export async function cancelUnsent(
  manager: EntityManager,
  approvalId: string,
): Promise<Destination[]> {
  // Locked in the order of ids, as where attempts are recorded, so that the two do not wait for
  // each other.
  await manager.query(
    `WITH unsent AS (
       SELECT id FROM notifier.deliveries WHERE approval_id = $1 AND state = 'pending' ORDER BY id FOR UPDATE
     )
     UPDATE notifier.deliveries d SET state = 'cancelled', settled_at = now(), reason = 'The approval is settled.'
     FROM unsent WHERE d.id = unsent.id`,
    [approvalId],
  );
  return manager.query<Destination[]>(
    `SELECT DISTINCT channel, place, target, endpoint_key FROM notifier.deliveries
     WHERE approval_id = $1 AND (state = 'delivered' OR attempts > 0 OR lease IS NOT NULL)
     ORDER BY channel, place`,
    [approvalId],
  );
}
