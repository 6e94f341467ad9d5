/**
 * Whose decisions count: the cases that the flow of every asker and decider
 * (approval-rights.test.ts) cannot make.
 */
import { expect, test } from '@jest/globals';
import {
  groupsAsked,
  refuseTwice,
  requireRight,
  type Candidate,
} from '../../services/notifier/rules/approval-policy.ts';
import { codeOf } from '../../shared/errors.ts';

const candidate: Candidate = {
  type: 'user',
  id: 'ann',
  name: 'Ann',
  email: 'ann@example.com',
  api_key: null,
  via: 'api',
  isMachine: false,
  whyNot: null,
  right: 'role',
  revisions: {},
};
const codeFrom = (work: () => unknown): unknown => {
  try {
    return work();
  } catch (error) {
    return codeOf(error);
  }
};
const by = (who: Partial<Candidate>, asker: object = { type: 'user', id: 'bob' }) =>
  codeFrom(() =>
    requireRight(
      {
        policy: null,
        requested_by: asker as { type: string; id: string },
        chain: ['sre'],
        hop: 0,
      },
      { ...candidate, ...who },
    ),
  );

test('an approval from before there were policies is decided by others, and by people alone', () => {
  expect(by({})).toBe('role');
  expect(by({ id: 'bob' })).toBe('approval_own_request');
  expect(by({ isMachine: true })).toBe('insufficient_scope');
});

test('a key whose maker is not known stands for its account alone', () => {
  const key = { id: 'k', name: 'ci', made_by: null };
  const asker = { type: 'service', id: 'deploy', api_key: key };
  expect(by({}, asker)).toBe('role');
  expect(by({ type: 'service', id: 'deploy' }, asker)).toBe('approval_own_request');
});

test.each([
  [1, 'recipient'],
  [2, 'insufficient_role'],
])('where it takes %i, an address without an account counts: %s', (required, counts) => {
  const policy = { required, allow_self: false, machines: false };
  const link: Candidate = { ...candidate, id: 'Ann@example.com', via: 'link', right: 'recipient' };
  const asked = { policy, requested_by: { type: 'user', id: 'bob' }, chain: [], hop: 0 };
  expect(codeFrom(() => requireRight(asked, link))).toBe(counts);
});

test('an address counts once, by itself and as that of a person', () => {
  const link: Candidate = { ...candidate, id: 'Ann@example.com', via: 'link' };
  const { isMachine: _isMachine, ...approver } = link;
  const earlier = [
    { ...approver, email: 'Ann@example.com', at: '', comment: null, right: 'recipient' as const },
  ];
  const twice = (decision: 'approve' | 'deny') =>
    codeFrom(() => refuseTwice({ approved_by: earlier }, candidate, decision));
  expect(twice('approve')).toBe('conflict');
  expect(twice('deny')).toBeUndefined();
});

test('groups are asked one after the other; the last one stays', () => {
  const chain = ['sre', 'leads'];
  expect([0, 1, 5].map((hop) => groupsAsked(chain, hop))).toEqual([['sre'], chain, chain]);
  expect(groupsAsked([], 3)).toEqual([]);
});
