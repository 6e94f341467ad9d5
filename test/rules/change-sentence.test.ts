import { expect, test } from '@jest/globals';
import { sentenceOf, subjectOf } from '../../console/screens/change-sentence.ts';

test.each([
  [
    { path: '/service_overrides/cloud_run/max_cost_impact_auto', before: 8, after: 2 },
    'lowered max_cost_impact_auto for cloud_run from 8 to 2',
  ],
  [
    { path: '/global_settings/max_cost_impact_auto', before: 2, after: 8 },
    'raised max_cost_impact_auto for all services from 2 to 8',
  ],
  [
    { path: '/default_settings/memory', before: '1Gi', after: '2Gi' },
    'changed memory by default from "1Gi" to "2Gi"',
  ],
  [{ path: '/custom/a~1b', after: null }, 'set custom.a/b to null'],
  [{ path: '/min_instances', before: 3 }, 'removed min_instances, which was 3'],
  [{ path: '/service_overrides/cloud_run', after: {} }, 'set service_overrides.cloud_run to {}'],
  [{ path: '/global_settings', before: {} }, 'removed global_settings, which was {}'],
  [
    { path: '/automation_enabled', after: { const: false, reason: 'incident 7' } },
    'set automation_enabled to {"const":false,"reason":"incident 7"}',
  ],
  [
    { path: '/daily', before: { a: 1, b: 2, c: 3, d: 4, e: 5, f: 'x'.repeat(40) } },
    'removed daily, which had a, b, c, d and 2 more',
  ],
  [{ path: '/constructor/a', before: 1, after: 2 }, 'raised constructor.a from 1 to 2'],
  [{ path: '/chain', after: ['a'] }, 'set chain to ["a"]'],
  [{ path: '', after: {} }, 'made all of it'],
  [{ path: '', before: {} }, 'removed all of it'],
])('%j reads %s', (change, sentence) => {
  expect(sentenceOf(change)).toBe(sentence);
});

test('a value of all services and that of one type are told apart', () => {
  expect(subjectOf('/global_settings/max_cost_impact_auto')).toBe(
    'max_cost_impact_auto for all services',
  );
  expect(subjectOf('/service_overrides/cloud_run/max_cost_impact_auto')).toBe(
    'max_cost_impact_auto for cloud_run',
  );
});
