/** Who could approve what, of members and a configuration. */
import { describe, expect, test } from '@jest/globals';
import {
  approvalsOf,
  changeSetApproversOf,
  groupsOf,
  type Principals,
} from '../../services/tenant-config/rules/access-report.ts';
import { effectiveNotifications } from '../../services/tenant-config/rules/effective-notifications.ts';
import { accessReportCsv } from '../../gateway/http/access-report-csv.ts';
import { approverChainOf } from '../../shared/approver-chain.ts';
import type { NotificationConfig } from '../../shared/contracts/notification-config.ts';
import { loadSettings } from '../../shared/settings/settings.ts';

const settings = loadSettings({});

interface Given {
  readonly roles?: Principals['members'][number]['roles'];
  readonly groups?: string[];
  readonly status?: 'invited' | 'active';
  readonly can_act?: boolean | null;
}
const member = (
  id: string,
  { roles = ['operator'], groups = [], status = 'active', can_act: canAct = true }: Given = {},
): Principals['members'][number] => ({
  user_id: id,
  email: `${id}@example.com`,
  display_name: null,
  roles,
  groups,
  status,
  account_status: canAct === null ? null : 'active',
  can_act: canAct,
});
const admin = member('admin', { roles: ['tenant_admin'] });

const robot = {
  id: 'robot',
  name: 'Robot',
  roles: ['operator' as const],
  status: 'active' as const,
};

/** Of high risk: `hop right ids`. */
function highOf(members: Principals['members'], config: NotificationConfig, robots = [robot]) {
  const principals = { members, service_accounts: robots };
  const { routes } = approvalsOf(principals, effectiveNotifications(config, settings));
  const route = routes.find(({ risk_level: level }) => level === 'high')!;
  return {
    deciders: route.deciders.map(({ hop, right, ids }) => `${hop} ${right} ${ids.join(' ')}`),
    recipients: route.recipients,
  };
}
const asks = (...high: string[]): NotificationConfig => ({
  approver_groups: { risk_levels: { high } },
  email: { default_recipients: ['Outside@example.com'] },
});

describe('who could decide', () => {
  test.each<[string, Principals['members'], NotificationConfig, string[], string[]]>([
    [
      'without groups every operator and administrator, and addresses without an account',
      [admin, member('ada'), member('eve', { roles: ['viewer'] })],
      asks(),
      ['0 role admin ada'],
      ['outside@example.com'],
    ],
    [
      'of groups the members alone, each at the hop that asks them first',
      [admin, member('ada', { groups: ['one'] }), member('bob', { groups: ['two', 'three'] })],
      asks('one', 'two', 'three'),
      ['0 group_member ada', '1 group_member bob'],
      [],
    ],
    [
      'administrators only until a group is asked that has somebody',
      [admin, member('bob', { groups: ['two'] })],
      asks('one', 'two'),
      ['0 groups_without_members admin', '1 group_member bob'],
      ['outside@example.com'],
    ],
    [
      'no one who was invited, disabled or only views',
      [
        admin,
        member('ada', { groups: ['one'], status: 'invited', can_act: false }),
        member('bob', { groups: ['one'], can_act: false }),
        member('eve', { groups: ['one'], roles: ['viewer'] }),
      ],
      asks('one'),
      ['0 groups_without_members admin'],
      ['outside@example.com'],
    ],
    [
      'somebody of whom it is not known that they could not',
      [member('ada', { groups: ['one'], can_act: null })],
      asks('one'),
      ['0 group_member ada'],
      [],
    ],
    [
      'no group that no hop is left for',
      [member('ada', { groups: ['one'] }), member('bob', { groups: ['two'] })],
      { ...asks('one', 'two'), escalation: { max_hops: 0 } },
      ['0 group_member ada'],
      [],
    ],
    [
      'service accounts where machines may',
      [admin],
      { ...asks(), approval_policy: { machines: true } },
      ['0 role admin robot'],
      ['outside@example.com'],
    ],
  ])('%s', (_what, members, config, deciders, recipients) => {
    expect(highOf(members, config)).toEqual({ deciders, recipients });
  });

  test('an action that has groups is a route of its own, one without is not', () => {
    const config: NotificationConfig = {
      approver_groups: {
        risk_levels: { low: ['one'] },
        action_overrides: { spend: ['two'], scale: [] },
      },
    };
    const { routes } = approvalsOf(
      { members: [admin], service_accounts: [] },
      effectiveNotifications(config, settings),
    );
    expect(routes.map(({ action, risk_level: level, chain }) => [action, level, chain])).toEqual([
      [null, 'low', ['one']],
      [null, 'medium', []],
      [null, 'high', []],
      [null, 'critical', []],
      ['spend', null, ['two']],
    ]);
    const groups = effectiveNotifications(config, settings).approver_groups;
    expect(approverChainOf(groups, 'spend', 'high')).toEqual(['two']);
    expect(approverChainOf(groups, 'scale', 'low')).toEqual(['one']);
    expect(approverChainOf(groups, '__proto__', 'high')).toEqual([]);
  });

  test('more than can be shown are refused, and not cut off', () => {
    const members = Array.from({ length: 2000 }, (_each, index) => member(`m${index}`));
    const actions = Array.from({ length: 60 }, (_each, index) => [`a${index}`, ['none']]);
    const config: NotificationConfig = {
      approver_groups: { action_overrides: Object.fromEntries(actions) },
    };
    const everybody = members.map((each) => ({ ...each, roles: ['tenant_admin' as const] }));
    expect(() =>
      approvalsOf(
        { members: everybody, service_accounts: [] },
        effectiveNotifications(config, settings),
      ),
    ).toThrow(/more than 100000 approvers/);
  });
});

test('groups are those with members and those asked, with who could decide', () => {
  const members = [
    member('ada', { groups: ['one'] }),
    member('eve', { groups: ['one'], roles: ['viewer'] }),
  ];
  expect(groupsOf(members, ['two'])).toEqual([
    { name: 'one', members: ['ada', 'eve'], deciders: ['ada'] },
    { name: 'two', members: [], deciders: [] },
  ]);
});

test('members are looked at once, however many groups and routes there are', () => {
  let looks = 0;
  const names = Array.from({ length: 100 }, (_each, index) => `g${index}`);
  const members = names.map((name) => {
    const each = member(name);
    return Object.defineProperty(each, 'groups', {
      get: () => {
        looks += 1;
        return [name];
      },
    });
  });
  const config: NotificationConfig = {
    approver_groups: {
      action_overrides: Object.fromEntries(names.map((name) => [name, ['none']])),
    },
  };
  expect(groupsOf(members, []).map(({ deciders }) => deciders)).toEqual(
    names.toSorted().map((name) => [name]),
  );
  const principals = { members, service_accounts: [] };
  approvalsOf(principals, effectiveNotifications(config, settings));
  expect(looks).toBe(2 * members.length);
});

test('a table looks for no approver among all others', () => {
  let looks = 0;
  const members = Array.from({ length: 100 }, (_each, index) => member(`m${index}`));
  const principals = { members, service_accounts: [] };
  const table = accessReportCsv({
    ...principals,
    tenant_id: 'acme',
    at: '2026-11-01T00:00:00Z',
    revision: 1,
    complete: true,
    known_since: null,
    groups: [],
    visits: [],
    approvals: approvalsOf(principals, effectiveNotifications({}, settings)),
    change_sets: {
      policy: null,
      approvers: new Proxy(changeSetApproversOf(principals, null), {
        get(all, name, receiver): unknown {
          looks += 1;
          return Reflect.get(all, name, receiver);
        },
      }),
    },
    bounds: null,
    platform_bounds: null,
  });
  expect(table.match(/^"change_set_approver"/gm)).toHaveLength(100);
  expect(looks).toBeLessThan(5 * 100);
});

test('changes of the configuration are approved by the groups of the policy, else by roles', () => {
  const members = [admin, member('ada', { groups: ['one'] }), member('eve', { roles: ['viewer'] })];
  const principals = { members, service_accounts: [robot] };
  expect(changeSetApproversOf(principals, { groups: ['one'] })).toEqual(['ada']);
  expect(changeSetApproversOf(principals, { groups: ['nobody'] })).toEqual([]);
  expect(changeSetApproversOf(principals, null)).toEqual(['admin', 'ada']);
});
