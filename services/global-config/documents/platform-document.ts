/**
 * What the platform's documents have in common: its revisions, its ConfigurationHistory, and no
 * tenant.
 */
import type { EntityManager, EntitySchema } from 'typeorm';
import type { PlatformConfigType } from '../../../shared/contracts/history.ts';
import { allEnded } from '../../../shared/database/all-ended.ts';
import {
  singleNames,
  storedFrom,
  type DocumentKind,
  type SingleName,
  type Stored,
} from '../../../shared/documents/document-kind.ts';
import { columnsOf } from '../../../shared/database/columns.ts';
import type { SingleRow } from '../schema.ts';
import { recordHistory } from '../stores/history.ts';

type OfPlatform =
  'auditName' | 'configType' | 'actions' | 'tenantId' | 'resourceId' | 'prepare' | 'load' | 'store';

/**
 * `configType` is what the history calls the kind, `resourceId` what it calls one document of it. A
 * new kind also has its place in `begin_history()`, and the trigger `has_history` on its table
 * (../schema.ts), by a migration of its own.
 */
export const platformDocument = <Address, Document>({
  auditName,
  configType,
  actions,
  resourceId,
  find,
  save,
  remove,
}: {
  readonly auditName: string;
  readonly configType: PlatformConfigType;
  readonly actions: string;
  readonly resourceId: (address: Address) => string;
  find(manager: EntityManager, address: Address): Promise<Stored<Document> | null>;
  save(manager: EntityManager, address: Address, stored: Stored<Document>): Promise<unknown>;
  remove(manager: EntityManager, address: Address): Promise<unknown>;
}): Pick<DocumentKind<Address, Document>, OfPlatform> => ({
  auditName,
  configType,
  actions,
  tenantId: () => null,
  resourceId,
  prepare: async () => undefined,
  load: async (manager, address) => ({ current: await find(manager, address) }),
  async store(manager, address, record, request) {
    const { after, revision, at } = record;
    const stored = { revision, updated_by: request.caller.id, updated_at: at };
    const name = { configType, resourceId: resourceId(address) };
    await allEnded([
      after === null
        ? remove(manager, address)
        : save(manager, address, { document: after, ...stored }),
      !record.isTrial && recordHistory(manager, name, record, request),
    ]);
  },
});

/** The id of the row of a document that the platform has one of, in the history and in events. */
const id = 'platform';

/** A document that the platform has one of, in a table of its own. */
export const singleDocument = <Document>(entity: EntitySchema<SingleRow>, name: SingleName) => ({
  ...platformDocument<object, Document>({
    ...singleNames('global-config', name),
    resourceId: () => id,
    async find(manager) {
      const row = await manager.findOneBy(entity, { id });
      return row && storedFrom<Document>(row);
    },
    async save(manager, _address, { document, revision, updated_by, updated_at }) {
      const row = { id, document, revision, updated_by, updated_at: new Date(updated_at) };
      await manager.upsert(entity, columnsOf<SingleRow>(row), ['id']);
    },
    remove: (manager) => manager.delete(entity, { id }),
  }),
  patchCreates: true as const,
  complete: (draft: Document) => draft,
});
