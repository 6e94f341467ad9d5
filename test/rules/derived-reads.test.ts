/** Answers that are remembered beside the cached entry that they were derived from. */
import { expect, test } from '@jest/globals';
import { RememberedAnswers } from '../../shared/contract-runtime/derived-reads.ts';

const params = (cost_impact: unknown, tenant_id = 'a') => ({ tenant_id, body: { cost_impact } });
const entryOf = (isFresh: () => boolean) => {
  const hits: number[] = [];
  return { value: {}, asOf: {}, isFresh, recordHit: (now: number) => hits.push(now), hits };
};

test('are given to the same question only, while the entry is fresh, and count as its hits', () => {
  let fresh = true;
  const entry = entryOf(() => fresh);
  const answers = new RememberedAnswers();
  const answer = { decision: 'allow', reasons: [{ limit: 1 }] };
  const asked = params(1);
  answers.remember('x', asked, entry, answer);
  asked.body.cost_impact = 9;
  expect(answers.find('x', params(1), 5)).toBe(answer);
  expect(answers.find('y', params(1), 5)).toBeUndefined();
  expect(answers.find('x', params(1, 'b'), 5)).toBeUndefined();
  expect(answers.find('x', { ...params(1), more: 1 }, 5)).toBeUndefined();
  expect(answers.find('x', { tenant_id: 'a' }, 5)).toBeUndefined();
  expect(Object.isFrozen(answer.reasons[0])).toBe(true);
  fresh = false;
  expect(answers.find('x', params(1), 6)).toBeUndefined();
  expect(entry.hits).toEqual([5]);
});

test('another question in the same place replaces an answer, and is never given it', () => {
  const entry = entryOf(() => true);
  const answers = new RememberedAnswers();
  const costs = Array.from({ length: 20_000 }, (_each, index) => index);
  for (const cost of costs) answers.remember('x', params(cost), entry, { cost });
  const found = costs.map((cost) => answers.find('x', params(cost), 1));
  expect(found.filter((answer) => answer !== undefined).length).toBeGreaterThan(1000);
  for (const [cost, answer] of found.entries())
    if (answer !== undefined) expect(answer).toEqual({ cost });
  // Of another type, and in the same place.
  answers.remember('x', params(true), entry, { cost: true });
  expect(answers.find('x', params('true'), 1)).toBeUndefined();
});
