/** What the queue of notices holds, for metrics and the log. No look costs more where more waits. */
import type { DataSource } from 'typeorm';
import { channels } from '../../../shared/contracts/notifier.ts';
import { breaker } from './claims.ts';

/** No more notices are counted. */
export const mostCounted = 10_000;

const counted = `(SELECT channel FROM notifier.deliveries WHERE state = 'pending' LIMIT ${mostCounted}) AS counted`;

export interface QueueRow {
  readonly pending: number;
  readonly overdue_seconds: number;
  readonly unknown_channel: number;
}

/**
 * Overdue is what no worker has looked at in time: a fresh notice, or an endpoint whose time has
 * come. What waits for an endpoint that has as many sends on their way as it may is not.
 */
export async function readQueue(db: DataSource): Promise<QueueRow | undefined> {
  const [row] = await db.query<QueueRow[]>(
    `SELECT count(*)::int AS pending,
       count(*) FILTER (WHERE channel <> ALL($1))::int AS unknown_channel,
       coalesce(extract(epoch FROM now() - LEAST(
         (SELECT min(e.due_at) FROM notifier.endpoints e
          WHERE e.due_at <= now() AND e.failures < ${breaker.failures}),
         (SELECT min(d.next_attempt_at) FROM (
            SELECT next_attempt_at FROM notifier.deliveries
            WHERE state = 'pending' AND fresh AND next_attempt_at <= now() LIMIT ${mostCounted}) AS d)
       )), 0)::float8 AS overdue_seconds
     FROM ${counted}`,
    [channels],
  );
  return row;
}

/** Notices that wait, of channels that this release does not know. */
export const unknownChannels = (
  db: DataSource,
): Promise<{ readonly channel: string; readonly waiting: number }[]> =>
  db.query(
    `SELECT channel, count(*)::int AS waiting FROM ${counted}
     WHERE channel <> ALL($1) GROUP BY channel ORDER BY channel`,
    [channels],
  );
