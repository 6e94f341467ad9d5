import type { ResultOf } from '../../../shared/contracts/index.ts';
import type { ApprovalRow } from '../schema.ts';

export type Approval = ResultOf<'notifier.approvals.get'>;

/** Hop 0 asks the first group, hop k the k-th, and the last one again once the chain is used up; null without a chain. */
export const groupAt = (chain: readonly string[], hop: number): string | null =>
  chain[Math.min(hop, chain.length - 1)] ?? null;

/** An approval as its readers and the receivers of its notices see it. */
export const approvalView = (row: ApprovalRow): Approval => ({
  id: row.id,
  tenant_id: row.tenant_id,
  state: row.state,
  action: row.action,
  risk_level: row.risk_level,
  title: row.title,
  description: row.description,
  resource: row.resource as Approval['resource'],
  cost_impact: row.cost_impact,
  metadata: row.metadata as Approval['metadata'],
  hop: row.hop,
  max_hops: row.max_hops,
  chain: row.chain,
  current_group: groupAt(row.chain, row.hop),
  requested_by: row.requested_by,
  created_at: row.created_at.toISOString(),
  expires_at: row.expires_at.toISOString(),
  escalates_at: row.escalates_at?.toISOString() ?? null,
  acknowledged: row.acknowledged_at && {
    by: row.acknowledged_by!,
    at: row.acknowledged_at.toISOString(),
  },
  decision: row.decided_at && {
    decision: row.state === 'approved' ? 'approve' : 'deny',
    by: row.decided_by!,
    at: row.decided_at.toISOString(),
    comment: row.comment,
    via: row.via!,
  },
});
