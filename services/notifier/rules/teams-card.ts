/**
 * A notice as an Adaptive Card (adaptivecards.io, version 1.4), in the message that a workflow of
 * Microsoft Teams takes. What a request says stands in text runs, which know no Markdown, so that
 * it can neither pose as a link nor as a part of the card.
 */
import { budgetNoticeType } from '../../../shared/contracts/notifier.ts';
import { budgetHeading, budgetRows } from './budget-notice.ts';
import { asksForDecision, tellsOfChangeSet } from './notice.ts';
import { approvalRows, changeSetRows, type NoticeRow } from './notice-rows.ts';
import {
  cutOff,
  headingOf,
  shortened,
  stepHeadings,
  type ApprovalNotice,
  type ChangeSetStepped,
  type ChatNotice,
} from './notice-words.ts';

interface TextRun {
  readonly type: 'TextRun';
  readonly text: string;
  readonly weight?: 'bolder';
  readonly size?: 'large';
}
interface TextBlock {
  readonly type: 'RichTextBlock';
  readonly inlines: readonly TextRun[];
}
export type TeamsMessage = ReturnType<typeof teamsMessage>;
export type AdaptiveCard = TeamsMessage['attachments'][number]['content'];

/** In bytes of JSON; Teams refuses messages of more than 28 KB. */
const longestMessage = 26_000;
const longestText = 6000;

/** `page` is where the button leads: the one thing that can be done in the card. */
export function teamsMessage(notice: ChatNotice, page: string | undefined) {
  const isAsking = asksForDecision(notice.type) || notice.type === 'changeset.submitted';
  const content = {
    $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
    type: 'AdaptiveCard',
    version: '1.4',
    body: blocksOf(notice),
    ...(page !== undefined && {
      actions: [
        { type: 'Action.OpenUrl', title: isAsking ? 'Review and decide' : 'Open', url: page },
      ],
    }),
  } as const;
  const contentType = 'application/vnd.microsoft.card.adaptive';
  return { type: 'message', attachments: [{ contentType, content }] } as const;
}

function blocksOf(notice: ChatNotice): TextBlock[] {
  if (notice.type === budgetNoticeType)
    return [heading(budgetHeading(notice.data)), ...budgetRows(notice.data).map(row)];
  if (tellsOfChangeSet(notice)) return changeSetBlocks(notice);
  return approvalBlocks(notice);
}

function approvalBlocks(notice: ApprovalNotice): TextBlock[] {
  const { facts, resource, said } = approvalRows(notice);
  const above = [heading(headingOf(notice)), titled(notice.data.title), ...facts.map(rowBlock)];
  const below = said.map(rowBlock);
  return [...above, ...resourceBlocks(resource, [...above, ...below]), ...below];
}

/** Whole where it fits; else it says that it is not. */
function resourceBlocks(text: string | undefined, others: readonly TextBlock[]): TextBlock[] {
  if (text === undefined) return [];
  const room = longestMessage - bytesOf(others);
  const shown = row(['Resource', shortenedTo(text, room)]);
  return bytesOf(text) <= room ? [shown] : [shown, paragraph(cutOff)];
}

const changeSetBlocks = ({ type, data }: ChangeSetStepped): TextBlock[] => [
  heading(stepHeadings[type]),
  titled(data.title),
  ...changeSetRows(data).map(rowBlock),
];

const rowBlock = (each: NoticeRow): TextBlock =>
  typeof each === 'string' ? paragraph(shortenedTo(each, longestText)) : row(each);
const block = (...inlines: readonly TextRun[]): TextBlock => ({ type: 'RichTextBlock', inlines });
const heading = (text: string): TextBlock =>
  block({ type: 'TextRun', text, weight: 'bolder', size: 'large' });
const titled = (text: string): TextBlock => block({ type: 'TextRun', text, weight: 'bolder' });
const paragraph = (text: string): TextBlock => block({ type: 'TextRun', text });
const row = ([name, value]: readonly [string, string]): TextBlock =>
  block({ type: 'TextRun', text: `${name}: `, weight: 'bolder' }, { type: 'TextRun', text: value });

const bytesOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value));

/** A text, or its longest beginning that takes at most `room` bytes in JSON. */
function shortenedTo(text: string, room: number): string {
  if (bytesOf(text) <= room) return text;
  let fits = 0;
  let tooLong = text.length;
  while (tooLong - fits > 1) {
    const length = Math.floor((fits + tooLong) / 2);
    if (bytesOf(shortened(text, length)) <= room) fits = length;
    else tooLong = length;
  }
  return shortened(text, fits);
}
