/** A tenant's change_policy, one document. */
import { ChangePolicy } from '../../../shared/contracts/change-policy.ts';
import type { TenantAddress } from '../../../shared/contracts/tenant-document.ts';
import { guardingItself } from '../../../shared/documents/change-policy.ts';
import type { DocumentKind } from '../../../shared/documents/document-kind.ts';
import { ChangePolicyEntity } from '../schema.ts';
import { single } from './tenant-document.ts';

export const changePolicyKind: DocumentKind<TenantAddress, ChangePolicy> = guardingItself({
  ...single<ChangePolicy>(ChangePolicyEntity, 'change_policy'),
  schema: ChangePolicy,
  prepare: async () => undefined,
  check: () => ({ refused: [] }),
});
