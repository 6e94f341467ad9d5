/** The platform's freezes, one document. */
import type { Freezes } from '../../../shared/contracts/freezes.ts';
import type { DocumentKind } from '../../../shared/documents/document-kind.ts';
import { freezesRules, type IsTimed } from '../../../shared/documents/freezes-rules.ts';
import { FreezesEntity } from '../schema.ts';
import { singleDocument } from './platform-document.ts';

export const freezesKind: DocumentKind<object, Freezes, IsTimed> = {
  ...singleDocument<Freezes>(FreezesEntity, 'freezes'),
  ...freezesRules,
};
