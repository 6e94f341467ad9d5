/**
 * Who may decide an approval now, and by which right: signed in, with an API key, or by a link that
 * was mailed to an address. The mail gave no right: a link holds only while the person could decide
 * otherwise, and an address without an account only while the configuration names it, and named it
 * when the approval was asked for. Roles and groups are those that count for it (given.ts).
 *
 * | Groups that were asked so far      | decide                                                                       |
 * | ---------------------------------- | ---------------------------------------------------------------------------- |
 * | none: the approval has no chain    | everybody with a role that decides; addresses that the configuration names   |
 * | some, with a member who could      | the members of these groups with a role that decides, and nobody else        |
 * | some, without any                  | every tenant_admin; addresses that the configuration names                   |
 *
 * | The address of a link                   | stands for                                                             |
 * | --------------------------------------- | ---------------------------------------------------------------------- |
 * | of an account that is disabled          | nobody                                                                 |
 * | of a member                             | the member                                                             |
 * | of a proved account that is no member   | nobody                                                                 |
 * | of nobody, or of an account not proved  | the address, while the configuration names it                          |
 *
 * An account that nobody proved counts for nothing here: anybody can have one made for an address
 * of others.
 */
import type { ResultOf } from '../../../shared/contracts/index.ts';
import type { NotificationConfig } from '../../../shared/contracts/notification-config.ts';
import { recipientsOf } from './recent-changes.ts';
import { deciderRoles, type DecisionRight } from '../../../shared/contracts/notifier.ts';
import type { MemberRow } from '../schema.ts';
import type { RolesAndGroups } from './given.ts';

export interface AskedGroups {
  /** Approver groups that were asked so far. */
  readonly names: readonly string[];
  /** Whether any of them has a member who could decide. */
  readonly haveDeciders: boolean;
}

/** By which right a member or a service account decides; null where by none. */
export function rightOf(
  { roles, groups }: RolesAndGroups,
  { names, haveDeciders }: AskedGroups,
): DecisionRight | null {
  if (!hasDeciderRole(roles)) return null;
  if (names.length === 0) return 'role';
  if (names.some((name) => groups.includes(name))) return 'group_member';
  return !haveDeciders && roles.includes('tenant_admin') ? 'groups_without_members' : null;
}

export const hasDeciderRole = (roles: RolesAndGroups['roles']): boolean =>
  deciderRoles.some((role) => roles.includes(role));

export interface LinkFacts {
  readonly address: string;
  readonly account: Pick<
    NonNullable<ResultOf<'auth.users.find'>>,
    'email_verified' | 'status'
  > | null;
  /** The account's membership; null where it has none that counts. */
  readonly member: Pick<MemberRow, 'user_id' | 'roles' | 'groups'> | null;
  readonly config: NotificationConfig | null;
  /** Addresses that counted when the approval was asked for, in lower case. */
  readonly recipients: readonly string[];
  readonly asked: AskedGroups;
}

/**
 * In whose name a link to an address decides, a user id or the address, and by which right; null
 * where it decides nothing.
 */
export function linkDeciderOf({
  address,
  account,
  member,
  config,
  recipients,
  asked,
}: LinkFacts): { readonly id: string; readonly right: DecisionRight } | null {
  if (account?.status === 'disabled') return null;
  if (member) {
    const right = rightOf(member, asked);
    return right && { id: member.user_id, right };
  }
  if (account?.email_verified) return null;
  const lower = address.toLowerCase();
  const isListed = recipients.includes(lower) && recipientsOf(config).includes(lower);
  return isListed && !asked.haveDeciders ? { id: address, right: 'recipient' } : null;
}
