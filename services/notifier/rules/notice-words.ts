/** What messages in chats are made from, and the words that they share. */
import type { BudgetNotice } from '../../../shared/contracts/budget-usage.ts';
import type { ChangeSetNotice } from '../../../shared/contracts/change-set-notices.ts';
import type {
  ChangeSetNoticeType,
  Decision,
  NoticeType,
} from '../../../shared/contracts/notifier.ts';
import { lineBreak, oneLine } from './mail-layout.ts';
import { testNotice } from './notice.ts';

/**
 * What a message is made from: the body that webhooks receive. A test notice lacks what nobody
 * asked.
 */
export interface ApprovalNotice {
  readonly type: NoticeType | typeof testNotice;
  readonly data: {
    readonly approval_id: string;
    readonly title: string;
    readonly description?: string | null;
    readonly action: string;
    readonly risk_level: string;
    readonly hop: number;
    readonly max_hops: number;
    readonly current_group: string | null;
    readonly cost_impact?: number | null;
    readonly cost_currency?: string;
    readonly asked_because?: readonly string[];
    readonly resource?: string | Readonly<Record<string, unknown>> | null;
    readonly expires_at: string;
    readonly what_happens?: { readonly silence: string };
    readonly decision?: {
      readonly decision: Decision;
      readonly by: string;
      readonly name?: string | null;
      readonly comment?: string | null;
    } | null;
  };
}
export type BudgetWarned = Pick<BudgetNotice, 'type' | 'data'>;
export type ChangeSetStepped = Pick<ChangeSetNotice, 'type' | 'data'>;
/** What chats are told of. */
export type ChatNotice = ApprovalNotice | BudgetWarned | ChangeSetStepped;

export const cutOff = 'Not all of it fits here: see the rest in Strata before you decide.';

/** At most `length` characters, without half of a surrogate pair at the cut. */
export const shortened = (text: string, length: number): string =>
  text.length <= length ? text : `${text.slice(0, length - 1).toWellFormed()}…`;

/**
 * What a request says in sentences of its own, each line marked, so that none looks like a line of
 * ours.
 */
export const quoted = (text: string): string =>
  text
    .split(lineBreak)
    .map((line) => `› ${oneLine(line)}`)
    .join('\n');

export function headingOf({ type, data }: ApprovalNotice): string {
  switch (type) {
    case 'approval.requested':
      return 'Approval needed';
    case 'approval.escalated':
      return `Still needs approval (escalation ${data.hop} of ${data.max_hops})`;
    case 'approval.reminded':
      return 'Reminder: still needs approval';
    case 'approval.decided':
      return data.decision?.decision === 'approve' ? 'Approved' : 'Denied';
    case 'approval.expired':
      return 'Expired: no one decided in time';
    case 'approval.withdrawn':
      return 'Withdrawn: no one needs it any more';
    case 'approval.exhausted':
      return 'No one decided, and no one is left to ask';
    case testNotice:
      return testNotice;
  }
}

export const stepHeadings: Readonly<Record<ChangeSetNoticeType, string>> = {
  'changeset.submitted': 'A change waits for approval',
  'changeset.approved': 'A change was approved',
  'changeset.rejected': 'A change was rejected',
  'changeset.cancelled': 'A change was taken back',
  'changeset.applied': 'A change was applied',
  'changeset.stale': 'A change was not applied: a document was written since',
  'changeset.suspended': 'A change was not applied, and may be tried again',
  'changeset.failed': 'A change cannot be applied',
  'changeset.broke_glass': 'A change was applied in an emergency, without approvals',
};
