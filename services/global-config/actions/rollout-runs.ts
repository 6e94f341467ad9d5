/**
 * One look of the runner at a rollout: asks the gates of its stage, keeps what they answered, and
 * does what follows, all in one transaction, so that a node that is killed has done all of it or
 * nothing.
 */
import type { DataSource } from 'typeorm';
import type { Request } from '../../../shared/contract-runtime/request.ts';
import type { GateAnswer } from '../../../shared/contracts/rollout-gates.ts';
import type { StoredRollout } from '../../../shared/contracts/rollouts.ts';
import type { Stored } from '../../../shared/documents/document-kind.ts';
import { codeOf, StrataError } from '../../../shared/errors.ts';
import { following } from '../rules/rollout-gates.ts';
import { endTurn, takeTurn, type Turn } from '../stores/rollout-runs.ts';
import { platformRights } from './change-sets.ts';
import type { RolloutGates } from './rollout-gates.ts';
import { movedBases, type Rollouts } from './rollout-steps.ts';

export interface RunOptions {
  readonly db: DataSource;
  readonly rollouts: Rollouts;
  readonly gates: RolloutGates;
  readonly onAnswers: (answers: readonly GateAnswer[]) => void;
}

type Kept = Stored<StoredRollout>;
/** As long as a reason may be. */
const longestNote = 500;

/** Throws 409 where it is not its turn, or others changed it while gates were asked. */
export async function runRollout(options: RunOptions, id: string, request: Request): Promise<Kept> {
  const { db, rollouts } = options;
  const turn = await takeTurn(db.manager, id);
  const found = await rollouts.find(id);
  switch (found.document.state) {
    case 'planned':
      return supersede(options, found, turn, request);
    case 'running':
      return run(options, found, turn, request);
    default:
      await endTurn(db.manager, turn, []);
      return found;
  }
}

async function run(
  { db, rollouts, gates, onAnswers }: RunOptions,
  { document, revision }: Kept,
  turn: Turn,
  request: Request,
): Promise<Kept> {
  const answers = await gates.ask(document, turn.at, request);
  onAnswers(answers);
  const how = { revision, turn, answers };
  const next = following(document, answers, turn.at.getTime());
  const hold = (note: string) => rollouts.follow(document, { step: 'hold', note }, how, request);
  if (next.step === 'none') {
    await endTurn(db.manager, turn, answers);
    return rollouts.find(document.id);
  }
  if (next.step !== 'advance') return rollouts.follow(document, next, how, request);
  const { right } = await platformRights(db).author(
    null,
    { ...document.started_by, principals: [] },
    request,
  );
  if (right === null) return hold('The person who let it advance may no longer write it.');
  try {
    return await rollouts.follow(document, next, how, request);
  } catch (error) {
    if (!isForSomebody(error)) throw error;
    return await hold(`It may not advance: ${error.message}`.slice(0, longestNote));
  }
}

/** What does not pass by itself, such as approvals that are not enough any more. */
const forSomebody: readonly string[] = [
  'change_approval_required',
  'field_managed',
  'payload_too_large',
  'precondition_failed',
  'validation_failed',
];
const isForSomebody = (error: unknown): error is StrataError =>
  error instanceof StrataError && forSomebody.includes(codeOf(error));

async function supersede(
  { db, rollouts }: RunOptions,
  found: Kept,
  turn: Turn,
  request: Request,
): Promise<Kept> {
  const { document, revision } = found;
  const moved = await movedBases(db.manager, document.items);
  if (moved.length === 0) {
    await endTurn(db.manager, turn, []);
    return found;
  }
  const note = `Others wrote its documents before it began: ${moved.join(', ')}.`.slice(
    0,
    longestNote,
  );
  const how = { revision, turn, answers: [] };
  return rollouts.follow(document, { step: 'supersede', note }, how, request);
}
