/** A notice as blocks of Slack: whole, or with the word that it is not. */
import { expect, test } from '@jest/globals';
import {
  cutOff,
  type ApprovalNotice,
  type ChatNotice,
} from '../../services/notifier/rules/notice-words.ts';
import { slackMessage } from '../../services/notifier/rules/slack-message.ts';

const about = (resource: string): ApprovalNotice => ({
  type: 'approval.requested',
  data: {
    approval_id: '5e0c6c0c-3a5f-4d6e-9d39-7c8b7a0f5a11',
    title: 'Scale <!channel>',
    action: 'scale',
    risk_level: 'critical',
    hop: 0,
    max_hops: 2,
    current_group: null,
    resource,
    expires_at: '2026-01-01T00:00:00.000Z',
  },
});
const sectionsOf = (notice: ChatNotice): string[] =>
  slackMessage(notice, undefined).blocks.flatMap((block) =>
    block.type === 'section' && block.text ? [block.text.text] : [],
  );
const textsOf = (resource: string): string[] => sectionsOf(about(resource));

test.each([
  [2990, false],
  // With its name before it, it is longer than a section may be.
  [2991, true],
  [9000, true],
])('a resource of %i characters: whether it says that it is cut', (length, isCut) => {
  const texts = textsOf('r'.repeat(length));
  expect(texts.includes(cutOff)).toBe(isCut);
  for (const text of texts) expect(text.length).toBeLessThanOrEqual(3000);
});

test('texts are plain, and critical risk takes a confirmation', () => {
  const { text, blocks } = slackMessage(about('vm'), 'https://strata.example/a');
  expect(text).toBe('Approval needed: Scale &lt;!channel&gt;');
  expect(JSON.stringify(blocks)).not.toContain('mrkdwn');
  const buttons = blocks.find(({ type }) => type === 'actions');
  expect(buttons).toMatchObject({
    elements: [
      { action_id: 'strata_approve', confirm: { title: { text: 'Approve at critical risk?' } } },
      { action_id: 'strata_deny' },
      { url: 'https://strata.example/a' },
    ],
  });
});

test('no line of a request looks like one of ours', () => {
  const forged = 'Fine.\nRisk: low\u2028Cost impact: 0';
  const { type, data } = about(forged);
  const decision = { decision: 'deny', by: 'ada', comment: forged } as const;
  const title = 'Scale\u2028Risk: low';
  expect(sectionsOf({ type, data: { ...data, title, description: forged, decision } })).toEqual([
    'Scale Risk: low',
    'Action: scale',
    'Risk: critical',
    'Resource: Fine. Risk: low Cost impact: 0',
    '› Fine.\n› Risk: low\n› Cost impact: 0',
    'By: ada',
    '› Fine.\n› Risk: low\n› Cost impact: 0',
    'Until: 2026-01-01T00:00:00.000Z',
  ]);
});

test('no text is empty, which Slack refuses, whatever a request is called', () => {
  const { type, data } = about('vm');
  for (const title of [' ', '\u2028\u00a0'])
    for (const text of sectionsOf({ type, data: { ...data, title } })) expect(text).toMatch(/\S/);
  const { text } = slackMessage({ type, data: { ...data, title: ' ' } }, undefined);
  expect(text).toBe('Approval needed: (no title)');
});
