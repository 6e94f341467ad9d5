/** global-config: global entries and service types, the platform's two layers of every effective configuration, and its bounds. */
import type { ServiceSchema } from 'moleculer';
import type { DataSource } from 'typeorm';
import { serviceOf } from '../../shared/cluster/service.ts';
import { boundActions } from './actions/bounds.ts';
import { changeActions } from './actions/changes.ts';
import { entryActions } from './actions/entries.ts';
import { layerActions } from './actions/layers.ts';
import { serviceTypeActions } from './actions/service-types.ts';

export const globalConfigService = ({ db }: { readonly db: DataSource }): ServiceSchema =>
  serviceOf('global-config', {
    ...entryActions(db),
    ...serviceTypeActions(db),
    ...boundActions(db),
    ...layerActions(db),
    ...changeActions(db),
  });
