/** A tenant's change_policy, one document. */
import { ChangePolicy } from '../../../shared/contracts/change-policy.ts';
import type { TenantAddress } from '../../../shared/contracts/tenant-document.ts';
import { guardingItself } from '../../../shared/documents/change-policy.ts';
import type { DocumentKind } from '../../../shared/documents/document-kind.ts';
import { ChangePolicyEntity } from '../schema.ts';
import { inTable } from './tenant-document.ts';

const resourceId = ({ tenant_id }: TenantAddress): string => tenant_id;

export const changePolicyKind: DocumentKind<TenantAddress, ChangePolicy> = guardingItself({
  ...inTable<TenantAddress, ChangePolicy>(ChangePolicyEntity, {
    auditName: 'change_policy',
    configType: 'change_policy_config',
    actions: 'tenant-config.change-policy',
    resourceId,
  }),
  schema: ChangePolicy,
  patchCreates: true,
  prepare: async () => undefined,
  complete: (draft) => draft,
  check: () => ({ refused: [] }),
});
