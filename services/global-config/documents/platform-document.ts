/**
 * What the platform's documents have in common: its revisions, its ConfigurationHistory, and no
 * tenant.
 */
import type { PlatformConfigType } from '../../../shared/contracts/history.ts';
import { platformScope } from '../../../shared/contracts/revision-scopes.ts';
import type { DocumentKind } from '../../../shared/documents/document-kind.ts';
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
