/** The platform's change_policy, one document. */
import { PlatformChangePolicy } from '../../../shared/contracts/change-policy.ts';
import { guardingItself } from '../../../shared/documents/change-policy.ts';
import type { DocumentKind } from '../../../shared/documents/document-kind.ts';
import { ChangePolicyEntity } from '../schema.ts';
import { singleDocument } from './platform-document.ts';

export const changePolicyKind: DocumentKind<object, PlatformChangePolicy> = guardingItself({
  ...singleDocument<PlatformChangePolicy>(ChangePolicyEntity, 'change_policy'),
  schema: PlatformChangePolicy,
  check: () => ({ refused: [] }),
});
