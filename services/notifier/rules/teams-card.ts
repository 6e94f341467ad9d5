/**
 * A notice as an Adaptive Card (adaptivecards.io, version 1.4), in the message that a workflow of
 * Microsoft Teams takes. What a request says stands in text runs, which know no Markdown, so that
 * it can neither pose as a link nor as a part of the card.
 */
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
export interface AdaptiveCard {
  readonly $schema: 'http://adaptivecards.io/schemas/adaptive-card.json';
  readonly type: 'AdaptiveCard';
  readonly version: '1.4';
  readonly body: readonly TextBlock[];
  readonly actions?: readonly {
    readonly type: 'Action.OpenUrl';
    readonly title: string;
    readonly url: string;
  }[];
}
export interface TeamsMessage {
  readonly type: 'message';
  readonly attachments: readonly [
    {
      readonly contentType: 'application/vnd.microsoft.card.adaptive';
      readonly content: AdaptiveCard;
    },
  ];
}

/** In bytes of JSON; Teams refuses messages of more than 28 KB. */
const longestMessage = 26_000;
const longestText = 6000;

/** `page` is where the button leads: the one thing that can be done in the card. */
export function teamsMessage(
  notice: ChatNotice | BudgetWarned | ChangeSetStepped,
  page: string | undefined,
): TeamsMessage {
  const isAsking = asksForDecision(notice.type) || notice.type === 'changeset.submitted';
  const content: AdaptiveCard = {
    $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
    type: 'AdaptiveCard',
    version: '1.4',
    body: blocksOf(notice),
    ...(page !== undefined && {
      actions: [
        { type: 'Action.OpenUrl', title: isAsking ? 'Review and decide' : 'Open', url: page },
      ],
    }),
  };
  const contentType = 'application/vnd.microsoft.card.adaptive';
  return { type: 'message', attachments: [{ contentType, content }] };
}

function blocksOf(notice: ChatNotice | BudgetWarned | ChangeSetStepped): TextBlock[] {
  if (notice.type === budgetNoticeType)
    return [heading(budgetHeading(notice.data)), ...budgetRows(notice.data).map(row)];
  if (tellsOfChangeSet(notice)) return changeSetBlocks(notice);
  return approvalBlocks(notice);
}

function approvalBlocks(notice: ChatNotice): TextBlock[] {
  const { type, data } = notice;
  const above = [heading(headingOf(notice)), titled(data.title), row(['Action', data.action])];
  above.push(row(['Risk', data.risk_level]));
  if (data.current_group !== null) above.push(row(['Asked', data.current_group]));
  const cost = costText(data);
  if (cost !== '') above.push(row(['Cost impact', cost]));
  if (data.asked_because) above.push(row(['Why it asks', data.asked_because.join(' ')]));

  const below: TextBlock[] = [];
  if (data.description) below.push(paragraph(shortenedTo(data.description, longestText)));
  if (data.decision) {
    const { by, name, comment } = data.decision;
    below.push(row(['By', name ?? by]));
    if (comment) below.push(paragraph(shortenedTo(comment, longestText)));
  }
  if (asksForDecision(type)) {
    const silence = data.what_happens?.silence;
    below.push(silence ? row(['If no one decides', silence]) : row(['Until', data.expires_at]));
  }
  // What exactly is approved goes before what is said of it.
  return [...above, ...resourceBlocks(data, [...above, ...below]), ...below];
}

/** Whole where it fits; else it says that it is not. */
function resourceBlocks(
  { resource }: ChatNotice['data'],
  others: readonly TextBlock[],
): TextBlock[] {
  if (resource === undefined || resource === null) return [];
  const text = typeof resource === 'string' ? resource : JSON.stringify(resource);
  const room = longestMessage - bytesOf(others);
  const shown = row(['Resource', shortenedTo(text, room)]);
  return bytesOf(text) <= room ? [shown] : [shown, paragraph(cutOff)];
}

function changeSetBlocks({ type, data }: ChangeSetStepped): TextBlock[] {
  const { title, reason, paths, note, emergency } = data;
  const documents = paths.length === 1 ? paths[0]! : `${paths.length} documents`;
  const said = [note, emergency].filter((text) => text !== null);
  return [
    heading(stepHeadings[type]),
    titled(title),
    paragraph(reason),
    row(['Changes', documents]),
    ...said.map((text) => paragraph(shortenedTo(text, longestText))),
  ];
}

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
