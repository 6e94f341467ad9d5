/**
 * How much of something one holder has taken lately, counted in the database, so that it holds over
 * all nodes and restarts. A window begins with what is taken first, and what is taken in it counts
 * until it ends.
 */
import { LRUCache } from 'lru-cache';
import type { DataSource, EntityManager } from 'typeorm';
import { actsByRoles, type Caller } from '../access.ts';
import { StrataError } from '../errors.ts';
import type { Settings } from '../settings/settings.ts';

export interface Share {
  /** What is taken, such as `invitation`. */
  readonly what: string;
  /** A tenant, or a principal. */
  readonly holder: string;
  readonly most: number;
  /** The length of a window. */
  readonly seconds: 60 | 3600;
  /** The variable that says how much. */
  readonly setting: string;
}

const windows = { 60: 'minute', 3600: 'hour' } as const;

export const holderOf = ({ type, id }: Pick<Caller, 'type' | 'id'>): string => `${type} ${id}`;
export const tenantHolder = (tenantId: string): string => `tenant ${tenantId}`;

type ShareSetting = Extract<keyof Settings, `${string}_per_${'minute' | 'hour'}${string}`>;

/** What a setting allows the holder in the window that it names. */
export const shareOf = (
  what: string,
  holder: string,
  settings: Pick<Settings, ShareSetting>,
  name: ShareSetting,
): Share => ({
  what,
  holder,
  most: settings[name],
  seconds: name.includes('_per_hour') ? 3600 : 60,
  setting: name.toUpperCase(),
});

/**
 * Takes `count` of the share. What is taken at once may pass the limit, so that something larger
 * than the share is possible at all. Resolves to what is taken in this window; null where nothing
 * was left of it.
 */
export async function tryTakeShare(
  db: DataSource,
  { what, holder, most, seconds }: Omit<Share, 'setting'>,
  count = 1,
): Promise<number | null> {
  const [row] = await db.query<{ taken: number }[]>(
    `INSERT INTO strata.shares AS s (what, holder, taken, until)
     VALUES ($1, $2, $3, now() + make_interval(secs => $4))
     ON CONFLICT (what, holder) DO UPDATE SET
       taken = CASE WHEN s.until <= now() THEN $3 ELSE s.taken + $3 END,
       until = CASE WHEN s.until <= now() THEN excluded.until ELSE s.until END
     WHERE s.until <= now() OR s.taken < $5
     RETURNING taken`,
    [what, holder, count, seconds, most],
  );
  return row?.taken ?? null;
}

/** Gives one back that came to nothing. */
export const giveBackShare = (
  db: DataSource,
  { what, holder }: Pick<Share, 'what' | 'holder'>,
): Promise<unknown> =>
  db.query('UPDATE strata.shares SET taken = taken - 1 WHERE what = $1 AND holder = $2', [
    what,
    holder,
  ]);

/**
 * Shares that nothing is left of until their window ends: whoever asks on and on is refused from
 * memory, and does not keep the database from others. A limit that was raised is another key.
 */
const exhausted = new LRUCache<string, true>({ max: 10_000, ttl: 1, ttlAutopurge: false });

/** Throws `rate_limited` where nothing is left of the share. */
export async function takeShare(db: DataSource, share: Share, count = 1): Promise<void> {
  const { what, holder, most, seconds, setting } = share;
  const key = `${what} ${holder} ${most}`;
  if (!exhausted.has(key)) {
    if ((await tryTakeShare(db, share, count)) !== null) return;
    const [left] = await db.query<{ seconds: number }[]>(
      `SELECT ceil(extract(epoch FROM until - now()))::int AS seconds FROM strata.shares
       WHERE what = $1 AND holder = $2`,
      [what, holder],
    );
    exhausted.set(key, true, { ttl: Math.max(1, left?.seconds ?? 1) * 1000 });
  }
  const wait = Math.max(1, Math.ceil(exhausted.getRemainingTTL(key) / 1000));
  throw new StrataError(
    'rate_limited',
    `At most ${most} per ${windows[seconds]} are allowed (${setting}). Try again in ${wait} s.`,
    { headers: { 'retry-after': String(wait) } },
  );
}

/**
 * Takes from each share of whoever acts by roles; Strata's services and its operators have no
 * bounds. The caller's own share comes first, so that one person does not use up the tenant's.
 */
export async function takeShares(
  db: DataSource,
  caller: Caller,
  shares: readonly Share[],
  count = 1,
): Promise<void> {
  if (!actsByRoles(caller)) return;
  for (const share of shares) await takeShare(db, share, count);
}

/** For whoever erases the holder. */
export const removeSharesOf = (manager: EntityManager, holder: string): Promise<unknown> =>
  manager.query('DELETE FROM strata.shares WHERE holder = $1', [holder]);

/** Removes windows that have ended: at most `most`. */
export async function removeEndedShares(
  manager: Pick<DataSource, 'query'>,
  most: number,
): Promise<{ shares: number }> {
  const [, shares] = await manager.query<[unknown[], number]>(
    `DELETE FROM strata.shares WHERE ctid = ANY (ARRAY(
       SELECT ctid FROM strata.shares WHERE until < now() LIMIT $1 FOR UPDATE SKIP LOCKED))`,
    [most],
  );
  return { shares };
}
