/** What messages with rows say of an approval or a change set, in Slack and Teams alike. */
import { readableJson } from '../../../shared/schema/readable-json.ts';
import { costText } from './asked-because.ts';
import { asksForDecision } from './notice.ts';
import type { ApprovalNotice, ChangeSetStepped } from './notice-words.ts';

/** A text, or a name with its value. */
export type NoticeRow = string | readonly [name: string, value: string];

/** Without the title. */
export function approvalRows({ type, data }: ApprovalNotice) {
  const facts: NoticeRow[] = [
    ['Action', data.action],
    ['Risk', data.risk_level],
  ];
  if (data.current_group !== null) facts.push(['Asked', data.current_group]);
  const cost = costText(data);
  if (cost !== '') facts.push(['Cost impact', cost]);
  if (data.asked_because) facts.push(['Why it asks', data.asked_because.join(' ')]);

  const said: NoticeRow[] = [];
  if (data.description) said.push(data.description);
  if (data.decision) {
    const { by, name, comment } = data.decision;
    said.push(['By', name ?? by]);
    if (comment) said.push(comment);
  }
  if (asksForDecision(type)) {
    const silence = data.what_happens?.silence;
    said.push(silence ? ['If no one decides', silence] : ['Until', data.expires_at]);
  }
  const { resource } = data;
  if (resource == null) return { facts, resource: undefined, said };
  // Goes before what is said of it; each kind of message has another room for it.
  const text = typeof resource === 'string' ? resource : readableJson(resource);
  return { facts, resource: text, said };
}

/** Without the title. */
export function changeSetRows({
  reason,
  paths,
  note,
  emergency,
}: ChangeSetStepped['data']): NoticeRow[] {
  const documents = paths.length === 1 ? paths[0]! : `${paths.length} documents`;
  return [reason, ['Changes', documents], ...[note, emergency].filter((text) => text !== null)];
}
