import { expect, test } from '@jest/globals';
import { prefixesOf } from '../../services/audit/rules/action-prefixes.ts';

test.each([
  ['tenant.member', ['tenant.member']],
  ['tenant.member*', ['tenant.member']],
  ['config.risk., config.bounds.*', ['config.risk.', 'config.bounds.']],
  ['*', ['']],
  ['config.risk.,*', ['config.risk.', '']],
  ['', ['']],
  [' , ', ['']],
])('%j asks for what begins with %j', (actions, prefixes) => {
  expect(prefixesOf(actions)).toEqual(prefixes);
});
