/**
 * The clock by which slots run out, `notifier.slot_now()`: the database's, which moves on only as
 * far as a notifier node has seen time pass by its own monotonic clock.
 *
 * | Part        | Protects against                                         | Bounded by, degrades to                             |
 * |-------------|----------------------------------------------------------|-----------------------------------------------------|
 * | judged only | a time that a trailing clock makes too short             | set by the database's clock; between a jump and its shift too long by the jump, until the next heartbeat |
 * | bound       | a start just after the database's clock has jumped, or a standby with another one took over | slots run out at most five seconds early |
 * | shift       | the new clock saying that the time of what runs is up    | its times are moved by the jump, by one node        |
 * | own reading | taking a pause of all notifier nodes for a jump          | what ran out in the pause is free once one is back  |
 * | patience    | a node that has just started taking a jump for a pause   | the same, five seconds later                        |
 * | late        | taking an answer that was long on its way for a jump     | a jump that is no longer than that was is taken for a pause |
 *
 * A clock that jumps while no notifier node runs looks like time that has passed.
 */
import { performance } from 'node:perf_hooks';
import type { DataSource, EntityManager } from 'typeorm';
import {
  startBackgroundLoop,
  type BackgroundLoop,
} from '../../../shared/concurrency/background-loop.ts';
import type { ServiceOptions } from '../../../shared/contract-runtime/service.ts';
import { runAlone } from '../../../shared/database/prepared-statements.ts';

const tickMs = 1000;
/** Of `notifier.slot_now()`. */
const boundMs = 5000;
/** A clock that is corrected by less has not jumped. */
const toleranceMs = 1000;

/** Both clocks at one moment, in milliseconds: the database's since 1970, performance.now(). */
interface Reading {
  readonly database: number;
  readonly own: number;
  /** By how much its own clock may have been read later than the database's. */
  readonly late: number;
}

interface SlotClock extends Reading {
  /** Where it stands, by the database's clock. */
  readonly observed: number;
}

export function startSlotClock({ db, log }: Pick<ServiceOptions, 'db' | 'log'>): BackgroundLoop {
  let first: Reading | undefined;
  let last: Reading | undefined;

  /** How far the database's clock has moved beyond this node's since the last reading. */
  const jumpSince = (now: Reading, before: Reading): number =>
    now.database - before.database - (now.own - before.own);

  async function catchUp(manager: EntityManager): Promise<Reading> {
    const now = await lockClock(manager);
    const isCurrent = now.database >= now.observed && now.database <= now.observed + boundMs;
    if (isCurrent || !first || !last) return now;
    const jump = jumpSince(now, last);
    const hasJumped = Math.abs(jump) > toleranceMs + now.late + last.late;
    // Another node may be about to find a jump where this one would see a pause.
    if (!hasJumped && now.own - first.own < boundMs) return now;
    if (hasJumped) {
      log.warn({ jump_ms: jump }, "the database's clock jumped; the times of slots move with it");
      await shiftSlots(manager, jump);
    }
    await setClock(manager);
    return now;
  }

  return startBackgroundLoop({
    log,
    retryMs: tickMs,
    complaint: 'the clock of slots stands still; no slot runs out until it runs again',
    async look() {
      const ticked = await tick(db);
      last = ticked ?? (await db.transaction(catchUp));
      first ??= last;
      return tickMs;
    },
  });
}

const clockRead = `extract(epoch FROM clock_timestamp())::float8 * 1000 AS database,
  extract(epoch FROM observed_at)::float8 * 1000 AS observed`;

/** As it mostly is: another moment has passed. Undefined where the clocks have parted. */
async function tick(db: DataSource): Promise<Reading | undefined> {
  const asked = performance.now();
  const [clock] = await runAlone<SlotClock>(
    db,
    {
      name: 'notifier_tick',
      text: `UPDATE notifier.slot_clock SET observed_at = clock_timestamp()
     WHERE clock_timestamp() BETWEEN observed_at AND observed_at + make_interval(secs => $1)
     RETURNING ${clockRead}`,
    },
    [boundMs / 1000],
  );
  return clock && { ...clock, ...ownSince(asked) };
}

async function lockClock(manager: EntityManager): Promise<SlotClock> {
  const asked = performance.now();
  const [row] = await manager.query<SlotClock[]>(
    `SELECT ${clockRead} FROM notifier.slot_clock FOR UPDATE`,
  );
  return { ...row!, ...ownSince(asked) };
}

function ownSince(asked: number): Pick<Reading, 'own' | 'late'> {
  const own = performance.now();
  return { own, late: own - asked };
}

const setClock = (manager: EntityManager): Promise<unknown> =>
  manager.query('UPDATE notifier.slot_clock SET observed_at = clock_timestamp()');

const shiftSlots = (manager: EntityManager, byMs: number): Promise<unknown> =>
  manager.query(
    `UPDATE notifier.automations SET expires_at = expires_at + make_interval(secs => $1)
     WHERE state IN ('running', 'waiting_slot')`,
    [byMs / 1000],
  );
