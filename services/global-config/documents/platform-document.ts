/**
 * What the platform's documents have in common: its revisions, its ConfigurationHistory, and no
 * tenant.
 */
import type { EntityManager } from 'typeorm';
import type { PlatformConfigType } from '../../../shared/contracts/history.ts';
import { allEnded } from '../../../shared/database/all-ended.ts';
import type { DocumentKind, Stored } from '../../../shared/documents/document-kind.ts';
import { recordHistory } from '../stores/history.ts';

type OfPlatform = 'auditName' | 'tenantId' | 'resourceId' | 'prepare' | 'load' | 'store';

/**
 * `configType` is what the history calls the kind, `resourceId` what it calls one document of it. A
 * new kind also has its place in `begin_history()`, and the trigger `has_history` on its table
 * (../schema.ts), by a migration of its own.
 */
export function platformDocument<Address, Document>({
  auditName,
  configType,
  resourceId,
  find,
  save,
  remove,
}: {
  readonly auditName: string;
  readonly configType: PlatformConfigType;
  readonly resourceId: (address: Address) => string;
  find(manager: EntityManager, address: Address): Promise<Stored<Document> | null>;
  save(manager: EntityManager, address: Address, stored: Stored<Document>): Promise<unknown>;
  remove(manager: EntityManager, address: Address): Promise<unknown>;
}): Pick<DocumentKind<Address, Document>, OfPlatform> {
  return {
    auditName,
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
        recordHistory(manager, name, record, request),
      ]);
    },
  };
}
