/** The platform's layers and bounds, as they are in a transaction. */
import type { EntityManager } from 'typeorm';
import { defaultConfiguration } from '../../../shared/contracts/service-types.ts';
import type { PlatformLayers } from '../../../shared/contracts/layers.ts';
import { boundsKind } from '../documents/bounds.ts';
import { GlobalEntity, ServiceTypeEntity } from '../schema.ts';
import { rolloutsUnderWay } from './rollouts.ts';

/** With every active service type. */
export async function readPlatformLayers(manager: EntityManager): Promise<PlatformLayers> {
  const entries = await manager.findBy(GlobalEntity, { is_public: true });
  const types = await manager.findBy(ServiceTypeEntity, {
    configuration_name: defaultConfiguration,
    is_active: true,
  });
  const { current: bounds } = await boundsKind.load(manager, {});
  return {
    entries: entries.map(({ config_key, config_value }) => ({
      document: { config_key, config_value },
    })),
    service_types: Object.fromEntries(
      types.map(({ service_type, revision, ...row }) => {
        const { default_settings, scaling_limits, monitoring_defaults } = row;
        const document = { default_settings, scaling_limits, monitoring_defaults };
        return [service_type, { document, revision }];
      }),
    ),
    bounds: bounds && { document: bounds.document, revision: bounds.revision },
    rollouts: await rolloutsUnderWay(manager),
  };
}
