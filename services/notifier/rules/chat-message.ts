/** A notice as a message in Google Chat. */
import type { Decision, NoticeType } from '../../../shared/contracts/notifier.ts';
import { asksForDecision, testNotice } from './notice.ts';

/** What a message is made from: the body that webhooks receive. A test notice lacks what nobody asked. */
export interface ChatNotice {
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
    readonly expires_at: string;
    readonly decision?: {
      readonly decision: Decision;
      readonly by: string;
      readonly comment?: string | null;
    } | null;
  };
}
export interface ChatLink {
  readonly label: string;
  readonly url: string;
}
export interface ChatMessage {
  readonly text: string;
  readonly thread: { readonly threadKey: string };
}

/** In characters. A whole message may have 4096. */
const longestDescription = 2000;

/** A message (developers.google.com/workspace/chat/api/reference/rest/v1/spaces.messages) in the thread of its approval. */
export function chatMessage(notice: ChatNotice, links: readonly ChatLink[]): ChatMessage {
  const { type, data } = notice;
  const lines = [`*${headingOf(notice)}*`, withoutMarkup(data.title), summaryOf(data)];
  // `==` also finds a test notice's cost, which is undefined.
  if (data.cost_impact != null) lines.push(`Cost impact: ${data.cost_impact}`);
  if (data.description) {
    const shortened = data.description.slice(0, longestDescription).toWellFormed();
    lines.push(withoutMarkup(shortened));
  }
  if (data.decision) lines.push(decisionLine(data.decision));
  if (asksForDecision(type)) lines.push(`Until ${data.expires_at}`);
  for (const { label, url } of links) lines.push(`<${url}|${withoutMarkup(label)}>`);
  return { text: lines.join('\n'), thread: { threadKey: data.approval_id } };
}

function headingOf({ type, data }: ChatNotice): string {
  switch (type) {
    case 'approval.requested':
      return 'Approval needed';
    case 'approval.escalated':
      return `Still needs approval (escalation ${data.hop} of ${data.max_hops})`;
    case 'approval.decided':
      return data.decision?.decision === 'approve' ? 'Approved' : 'Denied';
    case 'approval.expired':
      return 'Expired: nobody decided in time';
    case 'approval.exhausted':
      return 'Nobody decided, and nobody is left to ask';
    case testNotice:
      return testNotice;
  }
}

function summaryOf({ action, risk_level: risk, current_group: group }: ChatNotice['data']): string {
  const asked = group === null ? '' : ` · asked: ${withoutMarkup(group)}`;
  return `${withoutMarkup(action)} · ${risk} risk${asked}`;
}

function decisionLine({ by, comment }: NonNullable<ChatNotice['data']['decision']>): string {
  const said = comment ? `: ${withoutMarkup(comment)}` : '';
  return `by ${withoutMarkup(by)}${said}`;
}

/** Google Chat writes mentions and named links in angle brackets; text of a request must make neither. */
const withoutMarkup = (text: string): string => text.replaceAll('<', '‹').replaceAll('>', '›');
