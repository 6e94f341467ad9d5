/**
 * Whose turn a rollout is: one node at a time asks its gates, and what they answered is kept with
 * its turn. It is no part of the rollout's document, of which each change is a write of the platform.
 *
 * A node that is gone loses its turn after `turnSeconds`. One that comes back late finds that its
 * turn is over, in the transaction of the step that it was about to make: what gates said before it
 * stood still they may say no more, also where no other node has asked them since.
 */
import { randomUUID } from 'node:crypto';
import type { DataSource, EntityManager } from 'typeorm';
import type { GateAnswer } from '../../../shared/contracts/rollout-gates.ts';
import { runAlone } from '../../../shared/database/prepared-statements.ts';
import { StrataError } from '../../../shared/errors.ts';
import { withAnswers } from '../rules/rollout-gates.ts';

/** More than all gates together take to answer or time out. */
const turnSeconds = 30;
/** From one look at a rollout to the next. */
const everySeconds = 15;

export interface Turn {
  readonly rollout_id: string;
  readonly id: string;
  /** The database's time at which it began. */
  readonly at: Date;
  readonly answers: readonly GateAnswer[];
}

/** Rollouts that gates may be asked for, or that may not begin any more, and nobody looks at. */
export async function rolloutsDue(db: DataSource): Promise<string[]> {
  const rows = await runAlone<{ id: string }>(db, {
    name: 'strata_rollouts_due',
    text: `SELECT id FROM global_config.rollouts r LEFT JOIN global_config.rollout_runs t ON t.rollout_id = r.id
     WHERE state IN ('planned', 'running') AND (due_at IS NULL OR due_at <= clock_timestamp())
     ORDER BY due_at NULLS FIRST`,
  });
  return rows.map(({ id }) => id);
}

/** Throws 409 where it is not due, or another node was first. */
export async function takeTurn(manager: EntityManager, rolloutId: string): Promise<Turn> {
  const [turn] = await manager.query<Turn[]>(
    `INSERT INTO global_config.rollout_runs AS t (rollout_id, turn, due_at, answers)
     SELECT id, $2, clock_timestamp() + make_interval(secs => $3), '[]'
     FROM global_config.rollouts WHERE id = $1
     ON CONFLICT (rollout_id) DO UPDATE SET turn = excluded.turn, due_at = excluded.due_at
       WHERE t.due_at <= clock_timestamp()
     RETURNING rollout_id, turn AS id, clock_timestamp() AS at, answers`,
    [rolloutId, randomUUID(), turnSeconds],
  );
  if (!turn) throw new StrataError('conflict', 'It is not its turn.');
  return turn;
}

/** Ends the turn with what gates answered in it. Throws 409 where it was over by itself. */
export async function endTurn(
  manager: EntityManager,
  { rollout_id, id, answers: known }: Turn,
  answers: readonly GateAnswer[],
): Promise<void> {
  const [ended] = await manager.query<[unknown[], number]>(
    `UPDATE global_config.rollout_runs
     SET answers = $3, due_at = clock_timestamp() + make_interval(secs => $4)
     WHERE rollout_id = $1 AND turn = $2 AND due_at > clock_timestamp() RETURNING rollout_id`,
    [rollout_id, id, JSON.stringify(withAnswers(known, answers)), everySeconds],
  );
  if (ended.length === 0) throw new StrataError('conflict', 'Its turn is over.');
}

export async function answersOf(
  manager: EntityManager,
  ids: readonly string[],
): Promise<ReadonlyMap<string, readonly GateAnswer[]>> {
  const rows = await manager.query<{ rollout_id: string; answers: GateAnswer[] }[]>(
    'SELECT rollout_id, answers FROM global_config.rollout_runs WHERE rollout_id = ANY ($1)',
    [ids],
  );
  return new Map(rows.map(({ rollout_id: id, answers }) => [id, answers]));
}

/** Open rollouts by their state, and for how long one has waited for somebody, in seconds. */
export const openRollouts = (
  manager: EntityManager,
): Promise<{ readonly state: string; readonly count: number; readonly oldest: number }[]> =>
  manager.query(
    `SELECT state, count(*)::int AS count,
       extract(epoch FROM max(clock_timestamp() - updated_at))::float8 AS oldest
     FROM global_config.rollouts WHERE state IN ('planned', 'running', 'held') GROUP BY state`,
  );
