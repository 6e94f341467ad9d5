/** The platform's bounds, one document. */
import { boundsProblems } from '../../../shared/bounds/bounds-document.ts';
import { Bounds } from '../../../shared/contracts/bounds.ts';
import { defaultConfiguration } from '../../../shared/contracts/service-types.ts';
import type { DocumentKind } from '../../../shared/documents/document-kind.ts';
import { tightensBounds } from '../../../shared/documents/tightening.ts';
import { BoundsEntity, ServiceTypeEntity } from '../schema.ts';
import { singleDocument } from './platform-document.ts';

export const boundsKind: DocumentKind<object, Bounds> = {
  ...singleDocument<Bounds>(BoundsEntity, 'bounds'),
  schema: Bounds,
  check: () => ({ refused: [] }),
  async checkInTransaction(manager, _address, next, current) {
    if (next === null) return [];
    const types = await manager.findBy(ServiceTypeEntity, {
      configuration_name: defaultConfiguration,
      is_active: true,
    });
    const serviceTypes = types.map(({ service_type }) => service_type);
    return boundsProblems({ by: 'platform', next, current, above: [], serviceTypes });
  },
  tightens: tightensBounds,
};
