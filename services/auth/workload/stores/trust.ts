/** Rows of workload identity: the issuers that the platform allows, and the rules of accounts. */
import type { EntityManager } from 'typeorm';
import type { WorkloadIssuer } from '../../../../shared/contracts/auth-workload.ts';
import { StrataError } from '../../../../shared/errors.ts';
import { WorkloadIssuersEntity, WorkloadTrustEntity, type WorkloadTrustRow } from '../../schema.ts';
import type { AccountAddress } from '../../../../shared/contracts/service-accounts.ts';

const noIssuers = { id: 1, revision: 0, issuers: [] as WorkloadIssuer[] };

export const findIssuers = async (manager: EntityManager): Promise<typeof noIssuers> =>
  (await manager.findOneBy(WorkloadIssuersEntity, { id: 1 })) ?? noIssuers;

export const findTrust = async (
  manager: EntityManager,
  { tenant_id, account_id }: AccountAddress,
): Promise<WorkloadTrustRow> =>
  (await manager.findOneBy(WorkloadTrustEntity, { tenant_id, account_id })) ?? {
    tenant_id,
    account_id,
    revision: 0,
    rules: [],
  };

/** Throws 412 where somebody else has written since it was read. */
export function requireRead(read: number | undefined, current: number): void {
  if (read === undefined || read === current) return;
  throw new StrataError(
    'precondition_failed',
    `It is at revision ${current}, and you have read ${read}. Read it again before writing.`,
  );
}
