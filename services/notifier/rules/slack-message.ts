/**
 * A notice as blocks of Slack (Block Kit). What a request says stands in plain text, which knows
 * neither links nor mentions, so that it cannot pose as a part of the message.
 */
import type { KnownBlock, Button } from '@slack/web-api';
import { budgetNoticeType } from '../../../shared/contracts/notifier.ts';
import { budgetHeading, budgetRows } from './budget-notice.ts';
import { oneLine } from './mail-layout.ts';
import { asksForDecision, tellsOfChangeSet } from './notice.ts';
import { approvalRows, changeSetRows, type NoticeRow } from './notice-rows.ts';
import {
  cutOff,
  headingOf,
  quoted,
  shortened,
  stepHeadings,
  type ApprovalNotice,
  type ChangeSetStepped,
  type ChatNotice,
} from './notice-words.ts';

export interface SlackMessage {
  /** For notifications, and readers that show no blocks. */
  readonly text: string;
  readonly blocks: KnownBlock[];
}

/** The ids of the buttons, by which a click says what was decided. */
export const slackActions = { strata_approve: 'approve', strata_deny: 'deny' } as const;

/** Slack refuses longer texts of a section, and of a header. */
const [longestText, longestHeading] = [3000, 150];

/** `page` is where the approval or change set is seen and decided by whoever signs in. */
export function slackMessage(notice: ChatNotice, page: string | undefined): SlackMessage {
  if (notice.type === budgetNoticeType)
    return messageOf(budgetHeading(notice.data), budgetRows(notice.data), [], page);
  if (tellsOfChangeSet(notice)) {
    const rows = [titleOf(notice), ...changeSetRows(notice.data).map(marked)];
    return messageOf(stepHeadings[notice.type], rows, [], page);
  }
  const { type, data } = notice;
  const buttons = asksForDecision(type) ? decisionButtons(data) : [];
  return messageOf(headingOf(notice), rowsOf(notice), buttons, page);
}

function rowsOf(notice: ApprovalNotice): NoticeRow[] {
  const { facts, resource, said } = approvalRows(notice);
  const row = resource === undefined ? [] : [['Resource', resource] as const];
  const cut = row.some((each) => textOf(each).length > longestText) ? [cutOff] : [];
  return [titleOf(notice), ...facts, ...row, ...cut, ...said.map(marked)];
}

/** Slack refuses a message with an empty text for good, and nobody would be asked. */
const titleOf = ({ data: { title } }: ApprovalNotice | ChangeSetStepped): string =>
  oneLine(title) || '(no title)';

const marked = (row: NoticeRow): NoticeRow => (typeof row === 'string' ? quoted(row) : row);
const textOf = (row: NoticeRow): string =>
  typeof row === 'string' ? row : `${row[0]}: ${oneLine(row[1])}`;

function messageOf(
  heading: string,
  rows: readonly NoticeRow[],
  buttons: Button[],
  page: string | undefined,
): SlackMessage {
  const open: Button[] =
    page === undefined ? [] : [{ type: 'button', text: plain('Open in Strata'), url: page }];
  const elements = [...buttons, ...open];
  const title = rows.find((row) => typeof row === 'string');
  return {
    text: shortened(title === undefined ? heading : `${heading}: ${escaped(title)}`, longestText),
    blocks: [
      { type: 'header', text: plain(heading, longestHeading) },
      ...rows.map((row): KnownBlock => ({
        type: 'section',
        text: plain(textOf(row)),
      })),
      ...(elements.length === 0 ? [] : [{ type: 'actions', elements } as const]),
    ],
  };
}

function decisionButtons({
  approval_id: value,
  risk_level: risk,
}: ApprovalNotice['data']): Button[] {
  const sure = {
    title: plain('Approve at critical risk?'),
    text: plain('It is done as soon as enough have approved.'),
    confirm: plain('Approve'),
    deny: plain('Not yet'),
  };
  return [
    {
      type: 'button',
      action_id: 'strata_approve',
      text: plain('Approve'),
      style: 'primary',
      value,
      ...(risk === 'critical' && { confirm: sure }),
    },
    { type: 'button', action_id: 'strata_deny', text: plain('Deny'), style: 'danger', value },
  ];
}

const plain = (text: string, longest = longestText) =>
  ({ type: 'plain_text', text: shortened(text, longest), emoji: false }) as const;

/** In the text beside the blocks, where these three would begin links and mentions. */
const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
