/**
 * What the platform's documents have in common: its revisions, its ConfigurationHistory, and no
 * tenant.
 */
import type { EntitySchema } from 'typeorm';
import type { PlatformConfigType } from '../../../shared/contracts/history.ts';
import { platformScope } from '../../../shared/contracts/revision-scopes.ts';
import { columnsOf } from '../../../shared/database/columns.ts';
import type { DocumentKind } from '../../../shared/documents/document-kind.ts';
import type { SingleRow } from '../schema.ts';
import { recordHistory } from '../stores/history.ts';

type OfPlatform =
  'auditName' | 'revisionScope' | 'tenantId' | 'resourceId' | 'prepare' | 'recordHistory';

/**
 * `configType` is what the history calls the kind, `resourceId` what it calls one document of it. A
 * new kind also has its place in `begin_history()`, and the trigger `has_history` on its table
 * (../schema.ts), by a migration of its own.
 */
export function platformDocument<Address, Document>({
  auditName,
  configType,
  resourceId,
}: {
  readonly auditName: string;
  readonly configType: PlatformConfigType;
  readonly resourceId: (address: Address) => string;
}): Pick<DocumentKind<Address, Document>, OfPlatform> {
  return {
    auditName,
    revisionScope: () => platformScope,
    tenantId: () => null,
    resourceId,
    prepare: async () => undefined,
    recordHistory: (manager, address, record, request) =>
      recordHistory(manager, { configType, resourceId: resourceId(address) }, record, request),
  };
}

/** The id of the row of a document that the platform has one of, in the history and in events. */
const id = 'platform';

type Single = Exclude<OfPlatform, 'prepare'> | 'patchCreates' | 'read' | 'complete';

/**
 * A document that the platform has one of, in a table of its own. It passed its kind's schema when
 * it was written, so its type is taken on trust.
 */
export const singleDocument = <Document, Context = undefined>(
  entity: EntitySchema<SingleRow>,
  names: { readonly auditName: string; readonly configType: PlatformConfigType },
): Pick<DocumentKind<object, Document, Context>, Single> &
  Pick<Required<DocumentKind<object, Document>>, 'save' | 'remove'> => ({
  ...platformDocument({ ...names, resourceId: () => id }),
  patchCreates: true,
  async read(manager) {
    const row = await manager.findOneBy(entity, { id });
    if (!row) return null;
    const { document, revision, updated_by, updated_at } = row;
    return {
      document: document as Document,
      revision,
      updated_by,
      updated_at: updated_at.toISOString(),
    };
  },
  async save(manager, _address, { document, revision, updated_by, updated_at }) {
    const row = { id, document, revision, updated_by, updated_at: new Date(updated_at) };
    await manager.upsert(entity, columnsOf<SingleRow>(row), ['id']);
  },
  async remove(manager) {
    await manager.delete(entity, { id });
  },
  complete: (draft) => draft,
});
