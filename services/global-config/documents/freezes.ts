/** The platform's freezes, one document. */
import type { Freezes } from '../../../shared/contracts/freezes.ts';
import type { DocumentKind } from '../../../shared/documents/document-kind.ts';
import { freezesRules, type EvaluatedAt } from '../../../shared/documents/freezes-rules.ts';
import { FreezesEntity } from '../schema.ts';
import { singleDocument } from './platform-document.ts';

export const freezesKind: DocumentKind<object, Freezes, EvaluatedAt> = {
  ...singleDocument<Freezes>(FreezesEntity, 'freezes'),
  ...freezesRules,
};
