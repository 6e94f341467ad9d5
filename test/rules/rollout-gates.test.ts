/** What gates' answers mean, and what follows from them. */
import { describe, expect, test } from '@jest/globals';
import type { GateAnswer } from '../../shared/contracts/rollout-gates.ts';
import { mostAnswers, type StoredRollout } from '../../shared/contracts/rollouts.ts';
import {
  following,
  notPassed,
  verdictOfCounts,
  verdictOfPrometheus,
  verdictOfWebhook,
  withAnswers,
} from '../../services/global-config/rules/rollout-gates.ts';

const began = Date.parse('2030-01-01T10:00:00.000Z');
const minutes = (count: number): number => began + count * 60_000;
const webhook = { type: 'webhook', url: 'https://gate.example', secret: 'of the gate' } as const;
const rollout = (more: Partial<StoredRollout> = {}): StoredRollout => ({
  id: '00000000-0000-4000-8000-000000000000',
  title: 'Two',
  reason: 'Because',
  state: 'running',
  stage: 0,
  stage_at: new Date(began).toISOString(),
  stages: [
    { percent: 10, bake_minutes: 10, gate: [webhook, { type: 'manual' }] },
    { percent: 100, bake_minutes: 0, gate: [] },
  ],
  salt: 'a',
  on_fail: 'hold',
  max_hold_minutes: 30,
  digest: 'd',
  items: [],
  changeset_id: null,
  approvals: 0,
  approver_groups: [],
  revisions: null,
  note: null,
  started_by: { type: 'user', id: 'u' },
  created_by: 'u',
  created_at: new Date(began).toISOString(),
  ...more,
});
const answer = (result: GateAnswer['result'], gate = 0, at = began, stage = 0): GateAnswer => ({
  stage,
  gate,
  result,
  detail: result,
  since: new Date(at).toISOString(),
  at: new Date(at).toISOString(),
});

describe('what follows', () => {
  const both = (one: GateAnswer['result'], other: GateAnswer['result'] = 'pass') => [
    answer(one),
    answer(other, 1),
  ];
  test.each([
    ['bakes, whatever passes', both('pass'), 9, 'none'],
    ['has baked and all pass', both('pass'), 10, 'advance'],
    ['has baked and one waits', both('pass', 'wait'), 10, 'none'],
    ['waited for too long', both('wait'), 40, 'hold'],
    ['passes at last', both('pass'), 4000, 'advance'],
    ['fails while it bakes', both('pass', 'fail'), 1, 'hold'],
  ])('of a stage that %s', (_name, answers, minute, step) => {
    expect(following(rollout(), answers, minutes(minute)).step).toBe(step);
  });
  test('is a revert, where on_fail says so', () => {
    const of = rollout({ on_fail: 'revert' });
    expect(following(of, both('fail'), minutes(1))).toEqual({
      step: 'revert',
      note: expect.stringMatching(/gate 1 \(webhook\) of stage 1/),
    });
    expect(following(of, both('wait'), minutes(39.9)).step).toBe('none');
    expect(following(of, both('wait'), minutes(40)).step).toBe('revert');
  });
});

describe('a webhook', () => {
  test.each([
    [200, '{"result":"pass"}', 'pass'],
    [200, '{"result":"fail","detail":"burns"}', 'fail'],
    [200, '{"result":"wait"}', 'wait'],
    [200, '', 'wait'],
    [200, 'null', 'wait'],
    [200, '[]', 'wait'],
    [200, '"pass"', 'wait'],
    [200, '{"result":"PASS"}', 'wait'],
    [200, '{"result":["pass"]}', 'wait'],
    [200, '{"result":"fail","result":"pass"}', 'wait'],
    [200, '{"result":"pass","of":{"result":"fail"},"cost":0.1000000000000000055}', 'pass'],
    [200, 'pass', 'wait'],
    [204, '', 'wait'],
    [201, '{"result":"pass"}', 'wait'],
    [302, '{"result":"pass"}', 'wait'],
    [404, '{"result":"fail"}', 'wait'],
    [500, '{"result":"pass"}', 'wait'],
  ])('that answers %i %s', (status, body, result) => {
    expect(verdictOfWebhook(status, body, webhook.secret).result).toBe(result);
  });
  test('shows a line of what it said, without the secret', () => {
    const detail = `first\nsecond \u0000${webhook.secret}\ud800${'x'.repeat(500)}`;
    const said = verdictOfWebhook(200, JSON.stringify({ result: 'wait', detail }), webhook.secret);
    expect(said.detail).toMatch(/^first second \*{8}/);
    expect(said.detail).not.toContain(webhook.secret);
    expect(said.detail.length).toBeLessThanOrEqual(200);
    expect(said.detail.isWellFormed()).toBe(true);
  });
});

describe('Prometheus', () => {
  const gate = { type: 'prometheus', query: 'up', at_most: 5, at_least: 1 } as const;
  const vector = (...values: unknown[]) =>
    JSON.stringify({
      status: 'success',
      data: {
        resultType: 'vector',
        result: values.map((value) => ({ metric: {}, value: [1, value] })),
      },
    });
  const scalar = JSON.stringify({
    status: 'success',
    data: { resultType: 'scalar', result: [1, '3'] },
  });
  const warned = (value: string, ...warnings: string[]) =>
    JSON.stringify({ ...JSON.parse(vector(value)), warnings });
  test.each([
    [200, vector('3'), 'pass'],
    [200, scalar, 'pass'],
    [200, vector('5.1'), 'fail'],
    [200, vector('0.9'), 'fail'],
    [200, warned('3', 'store eu-2: partial response'), 'wait'],
    [200, warned('6', 'store eu-2: partial response'), 'fail'],
    [200, warned('3', 'PromQL info: metric might not be a counter'), 'pass'],
    [200, vector(), 'wait'],
    [200, vector('1', '2'), 'wait'],
    [200, vector('NaN'), 'wait'],
    [200, vector('+Inf'), 'wait'],
    [200, vector(''), 'wait'],
    [200, vector(null), 'wait'],
    [200, '{"status":"success","data":{"resultType":"matrix","result":[]}}', 'wait'],
    [200, '{"status":"error","data":{"resultType":"scalar","result":[1,"3"]}}', 'wait'],
    [200, '{"status":"success"}', 'wait'],
    [200, 'null', 'wait'],
    [200, '<html>', 'wait'],
    [503, scalar, 'wait'],
  ])('that answers %i %s', (status, body, result) => {
    expect(verdictOfPrometheus(gate, status, body).result).toBe(result);
  });
});

test.each([
  [{ all: 100, bad: 3 }, { all: 100, bad: 1 }, 'pass'],
  [{ all: 100, bad: 4 }, { all: 100, bad: 1 }, 'fail'],
  [{ all: 100, bad: 0 }, { all: 100, bad: 90 }, 'pass'],
  [{ all: 100, bad: 7 }, { all: 100, bad: 5 }, 'pass'],
  [{ all: 10_000, bad: 701 }, { all: 10_000, bad: 500 }, 'fail'],
  [{ all: 19, bad: 19 }, { all: 100, bad: 1 }, 'wait'],
  [{ all: 100, bad: 100 }, { all: 19, bad: 0 }, 'wait'],
  [{ all: 0, bad: 0 }, { all: 0, bad: 0 }, 'wait'],
])('figures of %j beside %j', (cohort, rest, result) => {
  const gate = { type: 'figures', figure: 'failed', tolerance_percent: 2, min_sample: 20 } as const;
  expect(verdictOfCounts(gate, { cohort, rest }).result).toBe(result);
});

test('answers that say the same are one, the newest first, and no more than are kept', () => {
  const first = withAnswers([], [answer('wait'), answer('wait', 1)]);
  const next = withAnswers(first, [answer('wait', 0, minutes(1)), answer('pass', 1, minutes(1))]);
  expect(next.map(({ gate, result }) => `${gate} ${result}`)).toEqual([
    '1 pass',
    '0 wait',
    '1 wait',
  ]);
  expect(next[1]).toMatchObject({
    since: new Date(began).toISOString(),
    at: new Date(minutes(1)).toISOString(),
  });
  const flapping = Array.from({ length: 200 }, (_, index) =>
    answer(index % 2 === 0 ? 'pass' : 'wait', 0, minutes(index)),
  ).reduce((known, each) => withAnswers(known, [each]), next);
  expect(flapping).toHaveLength(mostAnswers);
  expect(flapping[0]!.at).toBe(new Date(minutes(199)).toISOString());
});

test('only what was answered since the stage began lets somebody advance it', () => {
  expect(notPassed(rollout(), [])).toEqual(['gate 1 (webhook) has not answered']);
  expect(notPassed(rollout(), [answer('pass', 0, began - 1)])).toHaveLength(1);
  expect(notPassed(rollout(), [answer('pass', 0, began, 1)])).toHaveLength(1);
  expect(notPassed(rollout(), [answer('wait', 0, minutes(2)), answer('pass')])).toEqual([
    'gate 1 (webhook) says wait',
  ]);
  expect(notPassed(rollout(), [answer('pass', 0, minutes(2))])).toEqual([]);
});
