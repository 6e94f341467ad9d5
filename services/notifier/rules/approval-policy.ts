/**
 * Whose decisions count on an approval, and how many it takes: as the tenant's approval_policy was
 * when it was asked for.
 */
import type { ReadRight } from '../../../shared/commits/held-rights.ts';
import type { EffectiveNotifications } from '../../../shared/contracts/notification-config.ts';
import type { Decision, DecisionRight, RiskLevel } from '../../../shared/contracts/notifier.ts';
import { StrataError } from '../../../shared/errors.ts';
import type { ApprovalRow, FrozenPolicy, StoredApprover } from '../schema.ts';
import { overlap } from './principals.ts';

export const frozenPolicyOf = (
  { required, allow_self, machines }: EffectiveNotifications['approval_policy'],
  riskLevel: RiskLevel,
): FrozenPolicy => ({ required: required[riskLevel], allow_self, machines });

/** The strictest of the policy and of those that whoever asks replaced. */
export const strictestOf = ([first, ...others]: readonly [
  FrozenPolicy,
  ...FrozenPolicy[],
]): FrozenPolicy =>
  others.reduce(
    (policy, other) => ({
      required: Math.max(policy.required, other.required),
      allow_self: policy.allow_self && other.allow_self,
      machines: policy.machines && other.machines,
    }),
    first,
  );

/**
 * The chain with the changes of whoever asks taken back, newest first. Where nothing would be left
 * the chain stays: groups where there were none leave nobody out who could decide otherwise.
 */
export function chainWithout(
  chain: readonly string[],
  changes: readonly { readonly before: string[]; readonly after: string[] }[],
): string[] {
  const earlier = changes.reduce<readonly string[]>((groups, { before, after }) => {
    const removed = before.filter((group) => !after.includes(group) && !groups.includes(group));
    const kept = groups.filter((group) => before.includes(group) || !after.includes(group));
    return [...removed, ...kept];
  }, chain);
  return [...(earlier.length > 0 ? earlier : chain)];
}

/**
 * Of an approval from before there were policies: the strictest that it may have been asked for
 * under.
 */
const strictest: FrozenPolicy = { required: 1, allow_self: false, machines: false };
export const policyOf = ({ policy }: Pick<ApprovalRow, 'policy'>): FrozenPolicy =>
  policy ?? strictest;

/** Approver groups that were asked up to a hop. */
export const groupsAsked = (chain: readonly string[], hop: number): string[] =>
  chain.slice(0, hop + 1);

/** Somebody who wants to decide. */
export type Candidate = Omit<StoredApprover, 'at' | 'comment' | 'right'> &
  ReadRight & {
    /** Null where they have none now. */
    readonly right: DecisionRight | null;
    /** Why a right that they have now does not count for this approval. */
    readonly whyNot: 'added_later' | 'added_by_requester' | null;
    /** An API key, whoever's it is. */
    readonly isMachine: boolean;
  };

/** Throws where this is not theirs to decide. Answers by which right they do. */
export function requireRight(
  row: Pick<ApprovalRow, 'policy' | 'requested_by' | 'chain' | 'hop'>,
  candidate: Candidate,
): DecisionRight {
  const policy = policyOf(row);
  if (candidate.isMachine && !policy.machines)
    throw new StrataError(
      'insufficient_scope',
      'API keys may not decide this approval: the approval_policy it was asked for under has no machines.',
    );
  if (!policy.allow_self && overlap(row.requested_by, candidate))
    throw new StrataError('approval_own_request');
  if (candidate.right === 'recipient' && policy.required > 1)
    throw new StrataError(
      'insufficient_role',
      `This needs ${policy.required} people with accounts. An address without one does not count: a person who changes the configuration could name any number of them.`,
    );
  if (candidate.right !== null) return candidate.right;
  if (candidate.whyNot === 'added_by_requester')
    throw new StrataError('approval_decider_added_by_requester');
  if (candidate.whyNot === 'added_later')
    throw new StrataError(
      'insufficient_role',
      'You were given the right to decide after this approval was asked for. Who may decide it was settled then.',
    );
  if (candidate.via === 'link')
    throw new StrataError(
      'insufficient_role',
      'The person this link was sent to may not decide this approval.',
    );
  if (candidate.via === 'slack')
    throw new StrataError('insufficient_role', 'You may not decide this approval.');
  const groups = groupsAsked(row.chain, row.hop).join(', ');
  throw new StrataError(
    'insufficient_role',
    groups === ''
      ? 'Only operators, reviewers and tenant_admins may decide this approval.'
      : `Only members of ${groups} may decide this approval; where no member can, tenant_admins may.`,
  );
}

/** Throws where somebody who has approved approves again. */
export function refuseTwice(
  { approved_by: earlier }: Pick<ApprovalRow, 'approved_by'>,
  candidate: Candidate,
  decision: Decision,
): void {
  if (decision === 'deny') return;
  if (!(earlier ?? []).some((each) => overlap(each, candidate))) return;
  throw new StrataError('conflict', 'You have approved it already; others are still asked.');
}
