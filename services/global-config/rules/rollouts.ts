/**
 * What becomes of a rollout.
 *
 * | State                | advance          | hold | resume | revert                                |
 * | -------------------- | ---------------- | ---- | ------ | ------------------------------------- |
 * | planned              | the first stage  |      |        | yes                                   |
 * | running              | the next one     | yes  |        | yes                                   |
 * | held                 | the next one     |      | yes    | yes                                   |
 * | completed            |                  |      |        | while nobody else wrote its documents |
 * | reverted, superseded |                  |      |        |                                       |
 *
 * After the last stage, which all tenants are in, it is completed: its documents are written. Once it
 * runs, the runner advances it (`rollout-gates.ts`). It also supersedes one whose documents others
 * wrote before it began: that one can't begin any more.
 */
import { isDeepStrictEqual } from 'node:util';
import type { ParamsOf } from '../../../shared/contracts/index.ts';
import type {
  RolloutItem,
  RolloutState,
  StoredRollout,
} from '../../../shared/contracts/rollouts.ts';
import type { GateAnswer } from '../../../shared/contracts/rollout-gates.ts';
import type { ServiceType } from '../../../shared/contracts/service-types.ts';
import type { StoredGlobalEntry } from '../../../shared/contracts/global-entries.ts';
import { defaultConfiguration } from '../../../shared/contracts/service-types.ts';
import { tightensLimits } from '../../../shared/documents/tightening.ts';
import { invalid, StrataError, type Problem } from '../../../shared/errors.ts';
import { bakedAt, notPassed, problemsOfGates } from './rollout-gates.ts';

const allowed = {
  advance: ['planned', 'running', 'held'],
  hold: ['running'],
  resume: ['held'],
  revert: ['planned', 'running', 'held', 'completed'],
  supersede: ['planned'],
} as const satisfies Record<string, readonly RolloutState[]>;
export type RolloutStep = keyof typeof allowed;

/** Throws 409 where its state does not allow the step. */
export function requireStep({ state }: StoredRollout, step: RolloutStep): void {
  const states: readonly RolloutState[] = allowed[step];
  if (!states.includes(state)) throw new StrataError('conflict', `The rollout is ${state}.`);
}

/** Of all stages together; every reader of layers has them. */
const mostTenants = 1000;

/** Throws 422 for stages that would take a tenant out again, or never reach all. */
export function requireStages(stages: StoredRollout['stages']): void {
  const problems: Problem[] = [];
  let percent = 0;
  for (const [index, stage] of stages.entries()) {
    const { percent: next = percent } = stage;
    if (next < percent)
      problems.push({
        path: `/stages/${index}/percent`,
        message: 'is less than in the previous stage; only a revert takes tenants back',
      });
    problems.push(...problemsOfGates(stage, next, `/stages/${index}/gate`));
    if (stage.percent === undefined && stage.tenants === undefined)
      problems.push({ path: `/stages/${index}`, message: 'has neither percent nor tenants' });
    percent = next;
  }
  if (percent !== 100)
    problems.push({ path: `/stages/${stages.length - 1}/percent`, message: 'is not 100' });
  if (stages.flatMap(({ tenants = [] }) => tenants).length > mostTenants)
    problems.push({ path: '/stages', message: `list more than ${mostTenants} tenants` });
  if (problems.length > 0) throw invalid(problems);
}

/** Throws 422 for what is no layer, or reaches all tenants at once whatever it is written by. */
export function requireStageable(items: readonly RolloutItem[]): void {
  const problems = items.flatMap((item, index) => {
    const message = item.config_type === 'global_config' ? ofEntry(item) : ofType(item);
    return message === undefined ? [] : [{ path: `/items/${index}`, message }];
  });
  if (problems.length > 0) throw invalid(problems);
}

const tightening =
  'can only deny automation more, and is never staged: write it for all tenants at once';

function ofEntry({ resource_id: key, before, after }: RolloutItem): string | undefined {
  // They passed their schema when they were tried.
  const [was, is] = [before, after] as [StoredGlobalEntry | null, StoredGlobalEntry | null];
  if (was?.is_public !== true && is?.is_public !== true)
    return 'is not public, so that no tenant has it in its configuration';
  const tightens =
    was !== null &&
    is !== null &&
    tightensLimits({ [key]: was.config_value }, { [key]: is.config_value });
  return tightens ? tightening : undefined;
}

function ofType({ resource_id: id, before, after }: RolloutItem): string | undefined {
  const [was, is] = [before, after] as [ServiceType | null, ServiceType | null];
  if (!id.endsWith(`/${defaultConfiguration}`))
    return `is no layer: only the configuration ${defaultConfiguration} is`;
  if (was === null || is === null || was.is_active !== is.is_active)
    return 'activates or deactivates a service type, which is for all tenants at once';
  if (!is.is_active) return 'is not active, so that no tenant has it in its configuration';
  if (!isDeepStrictEqual(was.scaling_limits, is.scaling_limits))
    return 'changes scaling_limits, which every write is held to immediately';
  const isOnlySettings = isDeepStrictEqual(was.monitoring_defaults, is.monitoring_defaults);
  return isOnlySettings && tightensLimits(was.default_settings, is.default_settings)
    ? tightening
    : undefined;
}

export const isLast = ({ stages, stage }: StoredRollout): boolean => stage === stages.length - 1;

type Advance = ParamsOf<'global-config.rollouts.advance'>['body'];

/** Whether a step leads to its end, which takes the writes of its items. */
export const completes = (
  rollout: StoredRollout,
  { all_at_once: all = false }: Pick<Advance, 'all_at_once'>,
): boolean => all || isLast(rollout);

/**
 * Throws 409 where it is at another stage than was read, or has not baked or gates have not passed
 * and nobody says why not. Whoever advances is what a manual gate waits for.
 */
export function requireAdvance(
  rollout: StoredRollout,
  answers: readonly GateAnswer[],
  body: Advance,
  at: Date,
): void {
  requireStep(rollout, 'advance');
  if (body.stage !== rollout.stage)
    throw new StrataError('conflict', `The rollout is at stage ${rollout.stage ?? 'none'} now.`);
  if (body.reason !== undefined) return;
  if (body.all_at_once === true)
    throw invalid([{ path: '/reason', message: 'is required for all tenants at once' }]);
  const baked = bakedAt(rollout) ?? 0;
  if (at.getTime() < baked)
    throw new StrataError(
      'conflict',
      `Its stage bakes until ${new Date(baked).toISOString()}. Give a reason to advance earlier.`,
    );
  const open = rollout.state === 'planned' ? [] : notPassed(rollout, answers);
  if (open.length > 0)
    throw new StrataError(
      'conflict',
      `Its gates have not passed: ${open.join('; ')}. Give a reason to advance nevertheless.`,
    );
}
