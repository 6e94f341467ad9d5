/** config-resolver: all layers to one effective configuration. Holds no data; its answers are cached on the caller's node. */
import type { ServiceSchema } from 'moleculer';
import { serviceOf } from '../../shared/cluster/service.ts';
import type { Settings } from '../../shared/settings.ts';
import { decideActions } from './actions/decide.ts';
import { effectiveActions } from './actions/effective.ts';
import { impactActions } from './actions/impact.ts';

export { applyBounds } from './rules/apply-bounds.ts';
export { layeredMerge, resolveValue } from './rules/layered-merge.ts';

export const configResolverService = ({
  settings,
}: {
  /** The settings in use now; a reload replaces them. */
  readonly settings: () => Settings;
}): ServiceSchema =>
  serviceOf('config-resolver', {
    ...effectiveActions(settings),
    ...decideActions,
    ...impactActions(settings),
  });
