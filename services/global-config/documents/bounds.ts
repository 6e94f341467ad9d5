/** The platform's bounds, one document. */
import { boundsProblems } from '../../../shared/bounds/bounds-document.ts';
import { Bounds } from '../../../shared/contracts/bounds.ts';
import { defaultConfiguration } from '../../../shared/contracts/service-types.ts';
import { columnsOf } from '../../../shared/database/columns.ts';
import type { DocumentKind, Stored } from '../../../shared/documents/document-kind.ts';
import { BoundsEntity, ServiceTypeEntity, type BoundsRow } from '../schema.ts';
import { platformDocument } from './platform-document.ts';

/** The id of its row, and its name in the history and in audit events. */
const id = 'platform';

export const storedBounds = (row: BoundsRow): Stored<Bounds> => ({
  document: row.document,
  revision: row.revision,
  updated_by: row.updated_by,
  updated_at: row.updated_at.toISOString(),
});

export const boundsKind: DocumentKind<object, Bounds> = {
  ...platformDocument<object, Bounds>({
    auditName: 'bounds',
    configType: 'bounds_config',
    resourceId: () => id,
    async find(manager) {
      const row = await manager.findOneBy(BoundsEntity, { id });
      return row && storedBounds(row);
    },
    async save(manager, _address, { document, revision, updated_by, updated_at }) {
      const row = { id, document, revision, updated_by, updated_at: new Date(updated_at) };
      await manager.upsert(BoundsEntity, columnsOf<BoundsRow>(row), ['id']);
    },
    remove: (manager) => manager.delete(BoundsEntity, { id }),
  }),
  schema: Bounds,
  patchCreates: true,
  complete: (draft) => draft,
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
};
