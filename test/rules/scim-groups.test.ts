/** What PATCHes of directories make of a group, and whose gift counts of what groups give. */
import { describe, expect, test } from '@jest/globals';
import { givenNow, type Given } from '../../services/tenant-config/rules/given.ts';
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

describe('a role that several groups of a directory give', () => {
  const gift = (by: string) => ({ at: `2026-01-0${by}T00:00:00.000Z`, by: [by] });
  const role = { roles: ['operator' as const], groups: [] };
  const nothing = { roles: [], groups: [] };
  /** By whom it is given in the end; the nth step is the gift of n, a group that ceases has a minus. */
  function giverAfter(...steps: readonly string[]): string {
    let given: Given = {};
    steps.forEach((step, index) => {
      const group = step.replace('-', '');
      const isFirst = index === 0;
      const began = step === group && !isFirst ? role : nothing;
      const ceased = step === group ? nothing : role;
      const before = { ...(isFirst ? nothing : role), given };
      given = givenNow(role, gift(String(index + 1)), before, { group, began, ceased });
    });
    return given['role operator']!.by.join();
  }
  test.each([
    ['the first, while it gives it', ['a', 'b', '-b'], '1'],
    ['the second, once the first ceases to', ['a', 'b', '-a'], '2'],
    ['the older of two that are left', ['a', 'b', 'c', '-a'], '2'],
    ['the last one', ['a', 'b', 'c', '-a', '-b'], '3'],
    ['the last one, in whichever order', ['a', 'b', 'c', '-b', '-a'], '3'],
    ['one that began again', ['a', 'b', '-a', 'a', '-b'], '4'],
    ['the newest of more than are kept apart', ['a', 'b', 'c', 'd', '-a'], '4'],
    ['one that is kept apart, while it is not the newest', ['a', 'b', 'c', 'd', '-b'], '1'],
  ])('is given by %s', (_what, steps, giver) => expect(giverAfter(...steps)).toBe(giver));
});
