/** The actions of rollouts: `rollout-steps.ts` makes the steps, `rollout-runs.ts` those of the runner. */
import type { DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import type { Rollout } from '../../../shared/contracts/rollouts.ts';
import { newestFirst } from '../../../shared/documents/paging.ts';
import { storedRollout } from '../documents/rollout.ts';
import { RolloutEntity } from '../schema.ts';
import type { RolloutGates } from './rollout-gates.ts';
import { runRollout, type RunOptions } from './rollout-runs.ts';
import { Rollouts } from './rollout-steps.ts';
import type { Planner } from './plan.ts';

export function rolloutActions(
  db: DataSource,
  planner: Planner,
  gates: RolloutGates,
  onAnswers: RunOptions['onAnswers'],
) {
  const rollouts = new Rollouts(db, planner, gates);
  const view = async (kept: ReturnType<Rollouts['find']>): Promise<Rollout> =>
    (await rollouts.views([await kept]))[0]!;
  return {
    'global-config.rollouts.create': ({ body }, request) => view(rollouts.create(body, request)),
    'global-config.rollouts.get': ({ rollout_id: id }) => view(rollouts.find(id)),
    async 'global-config.rollouts.list'(params) {
      const page = await newestFirst(db, RolloutEntity, params, storedRollout);
      return { ...page, items: await rollouts.views(page.items) };
    },
    'global-config.rollouts.advance': ({ rollout_id: id, body }, request) =>
      view(rollouts.advance(id, body, request)),
    'global-config.rollouts.hold': ({ rollout_id: id, body }, request) =>
      view(rollouts.hold(id, body.reason, request)),
    'global-config.rollouts.resume': ({ rollout_id: id, body }, request) =>
      view(rollouts.resume(id, body.reason, request)),
    'global-config.rollouts.revert': ({ rollout_id: id, body }, request) =>
      view(rollouts.revert(id, body.reason, request)),
    'global-config.rollouts.run': ({ rollout_id: id }, request) =>
      view(runRollout({ db, rollouts, gates, onAnswers }, id, request)),
  } satisfies Handlers;
}
