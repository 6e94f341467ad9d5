/** What the roles in a tenant are for, in the words that whoever gives them reads. */
import type { ResultOf } from '../shared/contracts/index.ts';
import type { TenantRole } from '../shared/contracts/roles.ts';

export const roleChoices: readonly {
  readonly name: TenantRole;
  readonly title?: string;
  readonly says: string;
}[] = [
  {
    name: 'tenant_admin',
    title: 'tenant admin',
    says: 'changes everything, members and limits included',
  },
  { name: 'operator', says: 'edits service instances, asks for approvals and decides them' },
  { name: 'reviewer', says: 'sees the configuration and decides approvals, writes nothing' },
  { name: 'reverter', says: 'sees the history and rolls back, nothing else' },
  { name: 'viewer', says: 'sees effective values' },
];

export const roleText = (roles: readonly string[]): string => roles.join(', ').replaceAll('_', ' ');

type Member = ResultOf<'tenant-config.members.list'>['items'][number];

const deciderRoles: readonly TenantRole[] = ['tenant_admin', 'operator', 'reviewer'];
/** Whoever is invited or disabled, or only views or takes changes back, decides nothing. */
export const decides = ({ can_act: canAct, roles }: Member): boolean =>
  canAct && deciderRoles.some((role) => roles.includes(role));
