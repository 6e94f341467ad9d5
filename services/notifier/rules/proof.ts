/**
 * What the audit keeps of a request and of each decision, so that these events alone prove later
 * who asked for what, who decided it, by which means and right, and how many had to.
 */
import type { ApprovalRow, StoredApprover } from '../schema.ts';
import { groupAt } from './approval.ts';
import { groupsAsked, policyOf } from './approval-policy.ts';
import { shownApprover, shownRequester } from './principals.ts';

export const requestProofOf = (row: ApprovalRow) => ({
  action: row.action,
  risk_level: row.risk_level,
  title: row.title,
  resource: row.resource,
  cost_impact: row.cost_impact,
  ...row.context,
  requested_by: shownRequester(row.requested_by),
  policy: policyOf(row),
  chain: row.chain,
  group: groupAt(row.chain, 0),
});

/** `row` is as the decision left it. The approver is whoever decided, also where they denied. */
export function proofOf(row: ApprovalRow, approver: StoredApprover) {
  const { name, api_key: key, right } = shownApprover(approver);
  return {
    action: row.action,
    risk_level: row.risk_level,
    hop: row.hop,
    comment: approver.comment,
    via: approver.via,
    right,
    decided_by: { type: approver.type, id: approver.id, name, api_key: key },
    requested_by: shownRequester(row.requested_by),
    approved_by: approversOf(row),
    policy: policyOf(row),
    groups: groupsAsked(row.chain, row.hop),
  };
}

/** Nobody decided, and nobody is asked any more. */
export const withdrawalProofOf = (row: ApprovalRow) => ({
  action: row.action,
  risk_level: row.risk_level,
  hop: row.hop,
  requested_by: shownRequester(row.requested_by),
  approved_by: approversOf(row),
});

const approversOf = ({ approved_by: approvers }: ApprovalRow) =>
  (approvers ?? []).map(({ type, id, name }) => ({ type, id, name }));
