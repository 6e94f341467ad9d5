import { describe, expect, test } from '@jest/globals';
import type { ApprovalNotice } from '../../services/notifier/rules/notice-words.ts';
import { teamsMessage } from '../../services/notifier/rules/teams-card.ts';
import fc, { runs } from '../support/properties.ts';

const data: ApprovalNotice['data'] = {
  approval_id: 'apr_1',
  title: 'More room',
  action: 'scale',
  risk_level: 'high',
  hop: 1,
  max_hops: 2,
  current_group: 'sre',
  cost_impact: 12.5,
  expires_at: '2026-10-09T08:53:20.000Z',
  what_happens: { silence: 'nothing is done' },
};
const linesOf = (...of: Parameters<typeof teamsMessage>): string[] =>
  teamsMessage(...of).attachments[0].content.body.map(({ inlines }) =>
    inlines.map(({ text }) => text).join(''),
  );

describe('a card of Teams', () => {
  test('says what an approval asks, what exactly it is for before what is said of it', () => {
    const why = {
      cost_currency: 'EUR',
      asked_because: ['It costs too much.', 'Its risk is high.'],
    };
    const asked = { ...data, ...why, resource: { replicas: 4 }, description: 'It is slow' };
    expect(linesOf({ type: 'approval.escalated', data: asked }, undefined)).toEqual([
      'Still needs approval (escalation 1 of 2)',
      'More room',
      'Action: scale',
      'Risk: high',
      'Asked: sre',
      'Cost impact: 12.5 EUR',
      'Why it asks: It costs too much. Its risk is high.',
      'Resource: {"replicas":4}',
      'It is slow',
      'If no one decides: nothing is done',
    ]);
  });

  test('of a decision says whose', () => {
    const decision = { decision: 'approve', by: 'usr_1', name: 'Ada', comment: 'Fine' } as const;
    const lines = linesOf({ type: 'approval.decided', data: { ...data, decision } }, undefined);
    expect([lines[0], ...lines.slice(-2)]).toEqual(['Approved', 'By: Ada', 'Fine']);
  });

  test('of a change set says each step', () => {
    const step = {
      type: 'changeset.rejected',
      data: {
        title: 'Lower',
        reason: 'Slow',
        paths: ['/a', '/b'],
        note: 'Not now',
        emergency: null,
      },
    } as unknown as Parameters<typeof teamsMessage>[0];
    expect(linesOf(step, 'https://strata.example/')).toEqual([
      'A change was rejected',
      'Lower',
      'Slow',
      'Changes: 2 documents',
      'Not now',
    ]);
  });

  test('has at most 28 KB, and the resource whole or a word that it is not', () => {
    const long = fc.string({ unit: 'binary', minLength: 0, maxLength: 12_000, size: 'max' });
    fc.assert(
      fc.property(long, long, long, (resource, description, comment) => {
        const decision = { decision: 'deny', by: 'usr_1', comment } as const;
        const said = { ...data, title: '鍵'.repeat(300), resource, description, decision };
        const message = teamsMessage({ type: 'approval.requested', data: said }, 'https://a.b/');
        const text = JSON.stringify(message);
        expect(Buffer.byteLength(text)).toBeLessThan(28_000);
        const isWhole = text.includes(JSON.stringify(resource).slice(1, -1));
        expect(isWhole || text.includes('see the rest in Strata before you decide')).toBe(true);
      }),
      // Shrinking texts of this length takes minutes.
      { ...runs(25), endOnFailure: true },
    );
  });

  test('says where the resource is cut, and cuts as late as it can', () => {
    const resource = '\u{1D11E}'.repeat(8000);
    const [, , , , , , shown, note] = linesOf(
      { type: 'approval.requested', data: { ...data, resource } },
      undefined,
    );
    expect(shown!.isWellFormed()).toBe(true);
    expect(Buffer.byteLength(shown!)).toBeGreaterThan(20_000);
    expect(note).toMatch(/^Not all of it fits here/);
  });
});
