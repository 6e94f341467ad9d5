/**
 * config-resolver: all layers to one effective configuration. Holds no data of its own; its answers
 * are cached on the caller's node, what it merges on its own.
 */
import type { ServiceSchema } from 'moleculer';
import { serviceOf } from '../../shared/contract-runtime/service.ts';
import type { Settings } from '../../shared/settings/settings.ts';
import { decideActions } from './actions/decide.ts';
import { decisionActions } from './actions/decisions.ts';
import { digestActions } from './actions/digests.ts';
import { effectiveActions } from './actions/effective.ts';
import { flagActions } from './actions/flags.ts';
import { DecisionRecorder } from './actions/recording.ts';
import { impactActions } from './actions/impact.ts';
import { overTimeImpactActions } from './actions/impact-over-time.ts';
import { layersInMemory } from './actions/layers-in-memory.ts';
import { replayActions } from './actions/replay.ts';
import { ReplayThread } from './actions/replay-thread.ts';
import { usageActions } from './actions/usage.ts';
import { Environments } from './rules/environments.ts';

export { applyBounds } from './rules/apply-bounds.ts';
export { layeredMerge, resolveValue } from './rules/layered-merge.ts';

export const configResolverService = ({
  settings,
  recorder = new DecisionRecorder(),
}: {
  /** The settings in use now; a reload replaces them. */
  readonly settings: () => Settings;
  /** Of the node; one of its own where nobody looks at what it counts. */
  readonly recorder?: DecisionRecorder;
}): ServiceSchema => {
  const inMemory = layersInMemory();
  const environments = new Environments(settings());
  const replayThread = new ReplayThread();
  const handlers = {
    ...effectiveActions(settings, environments, inMemory),
    ...digestActions(settings, environments, inMemory),
    ...decideActions(recorder),
    ...decisionActions(settings),
    ...replayActions(settings, replayThread),
    ...flagActions(),
    ...impactActions(settings),
    ...overTimeImpactActions(),
    ...usageActions(settings),
  };
  return serviceOf('config-resolver', handlers, { stopped: () => replayThread.stop() });
};
