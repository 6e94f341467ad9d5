/**
 * config-resolver: all layers to one effective configuration. Holds no data of its own; its answers
 * are cached on the caller's node, what it merges on its own.
 */
import type { ServiceSchema } from 'moleculer';
import { serviceOf } from '../../shared/contract-runtime/service.ts';
import type { Settings } from '../../shared/settings/settings.ts';
import { decideActions } from './actions/decide.ts';
import { digestActions } from './actions/digests.ts';
import { effectiveActions } from './actions/effective.ts';
import { impactActions } from './actions/impact.ts';
import { layersInMemory } from './actions/layers-in-memory.ts';
import { usageActions } from './actions/usage.ts';
import { Environments } from './rules/environments.ts';

export { applyBounds } from './rules/apply-bounds.ts';
export { layeredMerge, resolveValue } from './rules/layered-merge.ts';

export const configResolverService = ({
  settings,
}: {
  /** The settings in use now; a reload replaces them. */
  readonly settings: () => Settings;
}): ServiceSchema => {
  const inMemory = layersInMemory();
  const environments = new Environments(settings());
  return serviceOf('config-resolver', {
    ...effectiveActions(settings, environments, inMemory),
    ...digestActions(settings, environments, inMemory),
    ...decideActions(),
    ...impactActions(settings),
    ...usageActions(settings),
  });
};
