import type { NoticeType } from '../../../shared/contracts/notifier.ts';

/** What a notice in chat is made from: the body that webhooks get. */
export interface ChatNotice {
  /** One of our own, or `test`. */
  readonly type: NoticeType | (string & {});
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
    readonly expires_at: string;
    readonly decision?: {
      readonly decision: 'approve' | 'deny';
      readonly by: string;
      readonly comment?: string | null;
    } | null;
  };
}
export interface ChatLink {
  readonly label: string;
  readonly url: string;
}

/** The whole text may have 4096 characters. */
const longestDescription = 2000;

/** A message of Google Chat (developers.google.com/workspace/chat/api/reference/rest/v1/spaces.messages), one thread per approval. */
export function chatMessage(
  { type, data }: ChatNotice,
  links: readonly ChatLink[],
): { text: string; thread: { threadKey: string } } {
  const { decision, description } = data;
  const heading: Record<string, string> = {
    'approval.requested': 'Approval needed',
    'approval.escalated': `Still needs approval (escalation ${data.hop} of ${data.max_hops})`,
    'approval.decided': decision?.decision === 'approve' ? 'Approved' : 'Denied',
    'approval.expired': 'Expired: nobody decided in time',
    'approval.exhausted': 'Nobody decided, and nobody is left to ask',
  };
  const lines = [
    `*${heading[type] ?? plain(type)}*`,
    plain(data.title),
    `${plain(data.action)} · ${data.risk_level} risk${data.current_group === null ? '' : ` · asked: ${plain(data.current_group)}`}`,
    ...(data.cost_impact == null ? [] : [`Cost impact: ${data.cost_impact}`]),
    ...(description ? [plain(description.slice(0, longestDescription).toWellFormed())] : []),
    ...(decision
      ? [`by ${plain(decision.by)}${decision.comment ? `: ${plain(decision.comment)}` : ''}`]
      : []),
    ...(type === 'approval.requested' || type === 'approval.escalated'
      ? [`Until ${data.expires_at}`]
      : []),
    ...links.map(({ label, url }) => `<${url}|${plain(label)}>`),
  ];
  return { text: lines.join('\n'), thread: { threadKey: data.approval_id } };
}

/** Text that mentions nobody and links nowhere under another name. */
const plain = (text: string): string => text.replaceAll('<', '‹').replaceAll('>', '›');
