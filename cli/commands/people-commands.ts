/** Commands about who belongs to a tenant, who may decide in it, and by which keys. */
import type { ResultOf } from '../../shared/contracts/index.ts';
import { deciderRoles } from '../../shared/contracts/notifier.ts';
import type { Command } from '../command.ts';
import { columns } from '../output.ts';
import { allItems } from '../pages.ts';
import type { Session } from '../session.ts';

type Member = ResultOf<'tenant-config.members.list'>['items'][number];

const membersOf = (session: Session, tenant: string): Promise<Member[]> =>
  allItems(session, 'tenant-config.members.list', { tenant_id: tenant });

/** What keeps somebody from acting, or that nothing does. */
const statusOf = ({ status, account_status: account }: Member): string =>
  account === 'disabled' ? 'account disabled' : status;

const members: Command = {
  name: 'members',
  parameters: '<tenant>',
  summary: 'who belongs to the tenant, with roles, approver groups and status',
  async run({ session, args: { tenant }, answer }) {
    const all = await membersOf(session, tenant!);
    const rows = all.map((member) => ({
      email: member.email,
      name: member.display_name,
      roles: member.roles.join(','),
      groups: member.groups.join(',') || '-',
      status: statusOf(member),
    }));
    answer(all, () => columns(rows));
  },
};

const keys: Command = {
  name: 'keys',
  parameters: '',
  summary: 'your API keys, without their secrets; needs a sign-in',
  async run({ session, answer }) {
    const found = await allItems(session, 'auth.api-key.list', {});
    const rows = found.map(({ id, name, prefix, scopes, expires_at, last_used_at }) => ({
      id,
      name,
      prefix,
      scopes: scopes.join(','),
      expires: expires_at,
      last_used: last_used_at ?? 'never',
    }));
    answer(found, () => columns(rows));
  },
};

const decides = ({ can_act: canAct, roles }: Member): boolean =>
  canAct && deciderRoles.some((role) => roles.includes(role));

const who: Command = {
  name: 'who',
  parameters: '<tenant>',
  summary: 'who is asked for approval at each risk, and who of them can decide now',
  async run({ session, args: { tenant }, answer }) {
    const [routes, all] = await Promise.all([
      session.call('tenant-config.notifications.effective', { tenant_id: tenant }),
      membersOf(session, tenant!),
    ]);
    const { risk_levels: risks, action_overrides: actions } = routes.approver_groups;
    const levels: Readonly<Record<string, readonly string[]>> = risks ?? {};
    const asked: readonly (readonly [string, readonly string[] | null])[] = [
      ...Object.entries(levels).map(([risk, groups]) => [`${risk} risk`, groups] as const),
      ...Object.entries(actions),
    ];
    const rows = asked.flatMap(([what, groups]) =>
      (groups ?? []).map((group) => {
        const able = all.filter((member) => member.groups.includes(group) && decides(member));
        const names = able.map(({ email }) => email);
        return { for: what, group, can_decide: names.join(',') || 'no one' };
      }),
    );
    answer(rows, () =>
      rows.length === 0
        ? 'No group is asked: every operator and administrator decides.'
        : columns(rows),
    );
  },
};

export const peopleCommands: readonly Command[] = [members, keys, who];
