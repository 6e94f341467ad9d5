/** What the roles in a tenant are for, in the words that whoever gives them reads. */
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
