/** An approval as its readers and the receivers of its notices see it. */
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { Approval as ApprovalSchema } from '../../../shared/contracts/notifier.ts';
import { minuteOf } from '../../../shared/schema/moment.ts';
import { viewBy } from '../../../shared/schema/view.ts';
import type { ShownApproval } from '../schema.ts';
import { policyOf } from './approval-policy.ts';
import { endOf } from './escalation.ts';
import { shownApprover, shownRequester } from './principals.ts';

export type Approval = ResultOf<'notifier.approvals.get'>;

/**
 * The group asked at a hop: the first at hop 0, the k-th at hop k, the last one for every hop
 * beyond. Null without a chain.
 */
export const groupAt = (chain: readonly string[], hop: number): string | null =>
  chain[Math.min(hop, chain.length - 1)] ?? null;

export const approvalView = (row: ShownApproval): Approval => ({
  ...viewBy(ApprovalSchema, row),
  ...row.context,
  current_group: groupAt(row.chain, row.hop),
  requested_by: shownRequester(row.requested_by),
  policy: policyOf(row),
  approved_by: (row.approved_by ?? []).map(shownApprover),
  acknowledged: acknowledgementOf(row),
  decision: decisionOf(row),
  ...(row.state === 'pending' && { what_happens: whatHappens(row) }),
});

function acknowledgementOf(row: ShownApproval): Approval['acknowledged'] {
  const { acknowledged_by: by, acknowledged_at: at } = row;
  if (by === null || at === null) return null;
  return { by, at: at.toISOString() };
}

function decisionOf(row: ShownApproval): Approval['decision'] {
  const { decided_by: by, decided_at: at, comment, via } = row;
  if (by === null || at === null || via === null) return null;
  const decision = row.state === 'approved' ? 'approve' : 'deny';
  return { decision, by, name: row.decided_by_name, at: at.toISOString(), comment, via };
}

type WhatHappens = NonNullable<Approval['what_happens']>;

/**
 * What follows from each answer to an approval, and from none, in words: the same on every surface
 * that asks, since readers decide by it.
 */
function whatHappens(row: ShownApproval): WhatHappens {
  const earlier = (row.approved_by ?? []).length;
  const missing = policyOf(row).required - earlier;
  // Whether they do is found out when somebody decides.
  const counting = earlier > 0 ? ', if those before still count' : '';
  const ends = `at ${minuteOf(endOf(row).toISOString())} it expires, which is no approval`;
  const next = groupAt(row.chain, row.hop + 1);
  const escalates = row.hop < row.max_hops ? row.escalates_at : null;
  return {
    approve:
      missing > 1
        ? `It is one of ${missing} approvals that are missing${counting}; with the last one the action is granted.`
        : `The action is granted${counting}, and its requester is notified.`,
    deny: 'The action is refused immediately, whatever others have said, and its requester is notified.',
    silence: escalates
      ? `At ${minuteOf(escalates.toISOString())} it escalates to ${next ?? 'everyone who decides'}; ${ends}.`
      : `${ends[0]!.toUpperCase()}${ends.slice(1)}.`,
  };
}
