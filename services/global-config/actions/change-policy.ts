/** Actions on the platform's change_policy. */
import type { DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import { documentActions } from '../../../shared/documents/document.ts';
import { changePolicyKind } from '../documents/change-policy.ts';

export function changePolicyActions(db: DataSource) {
  const policy = documentActions(db, changePolicyKind);
  return {
    'global-config.change-policy.get': policy.get,
    'global-config.change-policy.put': policy.put,
    'global-config.change-policy.patch': policy.patch,
    'global-config.change-policy.delete': policy.delete,
  } satisfies Handlers;
}
