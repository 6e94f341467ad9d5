/** A notice as blocks of Slack: whole, or with the word that it is not. */
import { expect, test } from '@jest/globals';
import { cutOff, type ApprovalNotice } from '../../services/notifier/rules/notice-words.ts';
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
const textsOf = (resource: string): string[] =>
  slackMessage(about(resource), undefined).blocks.flatMap((block) =>
    block.type === 'section' && block.text ? [block.text.text] : [],
  );

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
