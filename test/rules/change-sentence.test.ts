import { expect, test } from '@jest/globals';
import { sentenceOf } from '../../console/screens/change-sentence.ts';

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
    { path: '/daily', after: { amount: '1', currency: 'EUR', per: 'day' } },
    'set daily with amount, currency, per',
  ],
  [
    { path: '/daily', before: { a: 1, b: 2, c: 3, d: 4, e: 5, f: 6 } },
    'removed daily, which had a, b, c, d and 2 more',
  ],
  [{ path: '/chain', after: ['a'] }, 'set chain to ["a"]'],
  [{ path: '', after: {} }, 'made all of it'],
  [{ path: '', before: {} }, 'removed all of it'],
])('%j reads %s', (change, sentence) => {
  expect(sentenceOf(change)).toBe(sentence);
});
