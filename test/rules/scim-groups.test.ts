/** What PATCHes of directories make of a group. */
import { expect, test } from '@jest/globals';
import { patchedGroup } from '../../services/tenant-config/rules/scim-groups.ts';

test('many are taken out of many without a search for each among all', () => {
  const sent = (prefix: string) =>
    Array.from({ length: 30_000 }, (_each, index) => ({ value: `${prefix}${index}` }));
  const began = process.cpuUsage();
  const { members } = patchedGroup(
    'group',
    { displayName: 'Everybody', externalId: null, members: ['ada'] },
    [
      { op: 'add', path: 'members', value: sent('one') },
      { op: 'remove', path: 'members', value: sent('other') },
      { op: 'remove', path: 'members', value: sent('one') },
    ],
  );
  expect(members).toEqual(['ada']);
  expect(process.cpuUsage(began).user / 1000).toBeLessThan(1000);
});
