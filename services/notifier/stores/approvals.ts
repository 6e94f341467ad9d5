/**
 * Approvals as their rows: found, locked, and marked as changed. Each change gives its approval the
 * tenant's next revision, so that streams and readers resume from there.
 */
import type { EntityManager } from 'typeorm';
import { countChange } from '../../../shared/commits/commit.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { approvalScope } from '../../../shared/contracts/revision-scopes.ts';
import { lockRow } from '../../../shared/database/locked-row.ts';
import { StrataError } from '../../../shared/errors.ts';
import { ApprovalEntity, type ApprovalRow, type ShownApproval } from '../schema.ts';
import { databaseTime } from './clock.ts';

type Changes = ResultOf<'notifier.approvals.changes'>['items'];

export async function findApproval(
  manager: EntityManager,
  tenantId: string,
  id: string,
): Promise<ApprovalRow> {
  const row = await manager.findOneBy(ApprovalEntity, { id, tenant_id: tenantId });
  return requireApproval(row);
}

export function requireApproval<Row extends ShownApproval>(row: Row | null): Row {
  if (!row) throw new StrataError('not_found', 'The tenant has no such approval.');
  return row;
}

/** Whoever locks an approval first settles every race: the next one finds it decided. */
export async function lockApproval(manager: EntityManager, tenantId: string, id: string) {
  const locked = await lockRow(manager, ApprovalEntity, { id, tenant_id: tenantId });
  const row = requireApproval(locked);
  const now = await databaseTime(manager);
  return { row, now };
}

/**
 * The last thing in a transaction that changes an approval: what it locks is wanted by every other
 * change in the tenant.
 */
export async function markChanged(
  manager: EntityManager,
  { id, tenant_id: tenantId }: Pick<ApprovalRow, 'id' | 'tenant_id'>,
): Promise<number> {
  const scope = approvalScope(tenantId);
  const revision = await countChange(manager, scope);
  await manager.update(ApprovalEntity, { id }, { revision });
  return revision;
}

/** Those that changed after a revision, each by its last change. */
export const changedAfter = (
  manager: EntityManager,
  tenantId: string,
  after: number,
  limit: number,
): Promise<Changes> =>
  manager.query(
    `SELECT revision, id AS approval_id, state FROM notifier.approvals
     WHERE tenant_id = $1 AND revision > $2 ORDER BY revision LIMIT $3`,
    [tenantId, after, limit],
  );
