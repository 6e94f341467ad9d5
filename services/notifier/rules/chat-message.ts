/** A notice as a message in Google Chat. */
import { budgetNoticeType } from '../../../shared/contracts/notifier.ts';
import { readableJson } from '../../../shared/schema/readable-json.ts';
import { costText } from './asked-because.ts';
import { budgetHeading, budgetRows } from './budget-notice.ts';
import { oneLine } from './mail-layout.ts';
import { asksForDecision, tellsOfChangeSet } from './notice.ts';
import {
  cutOff,
  headingOf,
  quoted,
  shortened,
  stepHeadings,
  type ApprovalNotice,
  type BudgetWarned,
  type ChangeSetStepped,
  type ChatNotice,
} from './notice-words.ts';

type ApprovalData = ApprovalNotice['data'];

export interface ChatLink {
  readonly label: string;
  readonly url: string;
}
export interface ChatMessage {
  readonly text: string;
  readonly thread: { readonly threadKey: string };
}

/**
 * In characters (UTF-16 code units); Google Chat refuses a longer one for good, and nobody would be
 * asked.
 */
const longestMessage = 4096;
const longestDescription = 2000;

/**
 * A message (developers.google.com/workspace/chat/api/reference/rest/v1/spaces.messages) in the
 * thread of its approval.
 */
export function chatMessage(notice: ChatNotice, links: readonly ChatLink[]): ChatMessage {
  if (notice.type === budgetNoticeType) return budgetMessage(notice);
  if (tellsOfChangeSet(notice)) return changeSetMessage(notice, links);
  const { type, data } = notice;
  const above = [`*${headingOf(notice)}*`, withoutMarkup(data.title), summaryOf(data)];
  const cost = costText(data);
  if (cost !== '') above.push(`Cost impact: ${cost}`);
  if (data.asked_because) above.push(withoutMarkup(data.asked_because.join(' ')));
  const below: string[] = [];
  if (data.decision) below.push(decisionLine(data.decision));
  if (asksForDecision(type))
    below.push(
      data.what_happens
        ? `If no one decides: ${withoutMarkup(data.what_happens.silence)}`
        : `Until ${data.expires_at}`,
    );
  below.push(...links.map(linkLine));

  // What exactly is approved goes before what is said of it.
  above.push(...resourceLines(data, [...above, ...below]));
  const lines = [...above, ...descriptionLines(data, [...above, ...below]), ...below];
  return { text: lines.join('\n'), thread: { threadKey: data.approval_id } };
}

const linkLine = ({ label, url }: ChatLink): string => `<${url}|${withoutMarkup(label)}>`;

/** Warnings of one budget are one thread. */
function budgetMessage({ data }: BudgetWarned): ChatMessage {
  const lines = [`*${budgetHeading(data)}*`, ...budgetRows(data).map((row) => row.join(': '))];
  return {
    text: lines.join('\n'),
    thread: { threadKey: `budget ${data.tenant_id} ${data.by} ${data.name}` },
  };
}

/** Whole where it fits; else it says that it is not. */
function resourceLines({ resource }: ApprovalData, others: readonly string[]): string[] {
  if (resource === undefined || resource === null) return [];
  const text = typeof resource === 'string' ? resource : readableJson(resource);
  const whole = `Resource: ${withoutMarkup(text.replaceAll(/\s+/g, ' '))}`;
  const room = longestMessage - others.join('\n').length - 1;
  if (whole.length <= room) return [whole];
  return [shortened(whole, Math.max(room - cutOff.length - 1, 1)), cutOff];
}

/** Steps of one change set are one thread. */
function changeSetMessage(
  { type, data }: ChangeSetStepped,
  links: readonly ChatLink[],
): ChatMessage {
  const { tenant_id: tenantId, changeset_id: id, title, reason, paths, note, emergency } = data;
  const lines = [`*${stepHeadings[type]}*`, withoutMarkup(title), withoutMarkup(reason)];
  lines.push(paths.length === 1 ? withoutMarkup(paths[0]!) : `${paths.length} documents`);
  for (const said of [note, emergency])
    if (said !== null) lines.push(shortened(withoutMarkup(said), longestDescription));
  lines.push(`/tenants/${tenantId}/config/changesets/${id}`, ...links.map(linkLine));
  return { text: lines.join('\n'), thread: { threadKey: `change set ${id}` } };
}

/**
 * The description takes what the other lines, none of which has more than some 2300 characters,
 * leave of the message.
 */
function descriptionLines({ description }: ApprovalData, others: readonly string[]): string[] {
  if (!description) return [];
  const taken = others.join('\n').length + 1;
  const room = Math.min(longestDescription, longestMessage - taken);
  return room > 0 ? [shortened(withoutBrackets(quoted(description)), room)] : [];
}

function summaryOf({ action, risk_level: risk, current_group: group }: ApprovalData): string {
  const asked = group === null ? '' : ` · asked: ${withoutMarkup(group)}`;
  return `${withoutMarkup(action)} · ${risk} risk${asked}`;
}

function decisionLine({ by, name, comment }: NonNullable<ApprovalData['decision']>): string {
  const said = comment ? `: ${withoutMarkup(comment)}` : '';
  return `by ${withoutMarkup(name ?? by)}${said}`;
}

/**
 * Google Chat writes mentions and named links in angle brackets; text of a request must make
 * neither.
 */
const withoutBrackets = (text: string): string => text.replaceAll('<', '‹').replaceAll('>', '›');
/** Nor a line that could look like one of ours. */
const withoutMarkup = (text: string): string => withoutBrackets(oneLine(text));
