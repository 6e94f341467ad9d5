/** A tenant's freezes, one document. */
import type { Freezes } from '../../../shared/contracts/freezes.ts';
import type { TenantAddress } from '../../../shared/contracts/tenant-document.ts';
import type { DocumentKind } from '../../../shared/documents/document-kind.ts';
import { freezesRules, type IsTimed } from '../../../shared/documents/freezes-rules.ts';
import { FreezesEntity } from '../schema.ts';
import { single } from './tenant-document.ts';

export const freezesKind: DocumentKind<TenantAddress, Freezes, IsTimed> = {
  ...single<Freezes>(FreezesEntity, 'freezes'),
  ...freezesRules,
};
