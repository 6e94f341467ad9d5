/**
 * Rollouts, one document each. It says which tenants have its candidates; the layers' own documents
 * stay the base until it is completed. Policies are asked about its items (../rules/rollouts.ts).
 */
import { StoredRollout } from '../../../shared/contracts/rollouts.ts';
import { columnsOf } from '../../../shared/database/columns.ts';
import { storedFrom, type DocumentKind } from '../../../shared/documents/document-kind.ts';
import { RolloutEntity, type RolloutRow } from '../schema.ts';
import { platformDocument } from './platform-document.ts';

export interface RolloutAddress {
  readonly rollout_id: string;
}

export const storedRollout = storedFrom<StoredRollout>;

export const rolloutKind: DocumentKind<RolloutAddress, StoredRollout> = {
  ...platformDocument<RolloutAddress, StoredRollout>({
    auditName: 'rollout',
    configType: 'rollout_config',
    actions: 'global-config.rollouts',
    resourceId: ({ rollout_id: id }) => id,
    async find(manager, { rollout_id: id }) {
      const row = await manager.findOneBy(RolloutEntity, { id });
      return row && storedRollout(row);
    },
    async save(manager, { rollout_id: id }, { document, revision, updated_by, updated_at }) {
      const { state, created_at } = document;
      const row = {
        id,
        document,
        state,
        created_at: new Date(created_at),
        revision,
        updated_by,
        updated_at: new Date(updated_at),
      };
      await manager.upsert(RolloutEntity, columnsOf<RolloutRow>(row), ['id']);
    },
    remove: (manager, { rollout_id: id }) => manager.delete(RolloutEntity, { id }),
  }),
  approvedElsewhere: true,
  hasNoPut: true,
  schema: StoredRollout,
  complete: (draft) => draft,
  check: () => ({ refused: [] }),
};
