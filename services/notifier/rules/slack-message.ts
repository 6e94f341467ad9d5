/**
 * A notice as blocks of Slack (Block Kit). What a request says stands in plain text, which knows
 * neither links nor mentions, so that it cannot pose as a part of the message.
 */
import type { KnownBlock, Button } from '@slack/web-api';
import { budgetNoticeType } from '../../../shared/contracts/notifier.ts';
import { costText } from './asked-because.ts';
import { budgetHeading, budgetRows } from './budget-notice.ts';
import { asksForDecision, tellsOfChangeSet } from './notice.ts';
import {
  cutOff,
  headingOf,
  shortened,
  stepHeadings,
  type BudgetWarned,
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
export function slackMessage(
  notice: ChatNotice | BudgetWarned | ChangeSetStepped,
  page: string | undefined,
): SlackMessage {
  if (notice.type === budgetNoticeType)
    return messageOf(budgetHeading(notice.data), budgetRows(notice.data), [], page);
  if (tellsOfChangeSet(notice)) {
    const { title, reason, paths, note, emergency } = notice.data;
    const changes = paths.length === 1 ? paths[0]! : `${paths.length} documents`;
    const said = [title, reason, note, emergency].filter((text) => text !== null);
    return messageOf(stepHeadings[notice.type], [...said, ['Changes', changes]], [], page);
  }
  const { type, data } = notice;
  const buttons = asksForDecision(type) ? decisionButtons(data) : [];
  return messageOf(headingOf(notice), approvalRows(notice), buttons, page);
}

/** A text, or a name with its value. */
type Row = string | readonly [name: string, value: string];

function approvalRows({ type, data }: ChatNotice): Row[] {
  const rows: Row[] = [data.title, ['Action', data.action], ['Risk', data.risk_level]];
  if (data.current_group !== null) rows.push(['Asked', data.current_group]);
  const cost = costText(data);
  if (cost !== '') rows.push(['Cost impact', cost]);
  if (data.asked_because) rows.push(['Why it asks', data.asked_because.join(' ')]);
  // What exactly is approved goes before what is said of it.
  if (data.resource !== undefined && data.resource !== null) {
    const { resource } = data;
    const text = typeof resource === 'string' ? resource : JSON.stringify(resource);
    rows.push(['Resource', text]);
    if (text.length > longestText) rows.push(cutOff);
  }
  if (data.description) rows.push(data.description);
  if (data.decision) {
    const { by, name, comment } = data.decision;
    rows.push(['By', name ?? by]);
    if (comment) rows.push(comment);
  }
  if (asksForDecision(type)) {
    const silence = data.what_happens?.silence;
    rows.push(silence ? ['If no one decides', silence] : ['Until', data.expires_at]);
  }
  return rows;
}

function messageOf(
  heading: string,
  rows: readonly Row[],
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
        text: plain(typeof row === 'string' ? row : `${row[0]}: ${row[1]}`),
      })),
      ...(elements.length === 0 ? [] : [{ type: 'actions', elements } as const]),
    ],
  };
}

function decisionButtons({ approval_id: value, risk_level: risk }: ChatNotice['data']): Button[] {
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
