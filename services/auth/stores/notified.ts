/**
 * Who was mailed about an event that is tried again, since others were not: kept as shares that are
 * used up, which go when their time is over, and with the account.
 */
import type { DataSource } from 'typeorm';
import { holderOf } from '../../../shared/commits/shares.ts';

const userPrefix = holderOf({ type: 'user', id: '' });

/** The ids of those people, by notice. */
export async function notifiedOf(
  db: DataSource,
  notices: readonly string[],
): Promise<Map<string, readonly string[]>> {
  const rows = await db.query<{ what: string; ids: string[] }[]>(
    `SELECT what, array_agg(substr(holder, $2)) AS ids FROM strata.shares
     WHERE what = ANY($1) AND until > now() GROUP BY what`,
    [notices, userPrefix.length + 1],
  );
  return new Map(rows.map(({ what, ids }) => [what, ids]));
}

/** So many are noted in one statement, which is to end in its time. */
const mostAtOnce = 10_000;

/** For `seconds` from now. */
export async function noteNotified(
  db: DataSource,
  notice: string,
  ids: readonly string[],
  seconds: number,
): Promise<void> {
  for (let from = 0; from < ids.length; from += mostAtOnce)
    await db.query(
      `INSERT INTO strata.shares (what, holder, taken, until)
       SELECT $1, $2 || id, 1, now() + make_interval(secs => $4) FROM unnest($3::text[]) AS id
       ON CONFLICT (what, holder) DO UPDATE SET until = excluded.until`,
      [notice, userPrefix, ids.slice(from, from + mostAtOnce), seconds],
    );
}
