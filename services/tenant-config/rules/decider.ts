/**
 * Who may decide by a link that was mailed to an address. The mail gave no right: a link holds only while the person could decide
 * otherwise, and an address without an account only while the configuration names it.
 *
 * | The address                             | decides                                                                     |
 * | --------------------------------------- | --------------------------------------------------------------------------- |
 * | of an account that is disabled          | nothing                                                                     |
 * | of a member                             | as the member, with a role that decides, and asked now as when it was sent  |
 * | of a proved account that is no member   | nothing                                                                     |
 * | of nobody, or of an account not proved  | as the address, while the configuration names it                            |
 *
 * An account that nobody proved counts for nothing here: anybody can have one made for an address of others.
 */
import type { ResultOf } from '../../../shared/contracts/index.ts';
import type { NotificationConfig } from '../../../shared/contracts/notification-config.ts';
import { deciderRoles } from '../../../shared/contracts/notifier.ts';
import type { MemberRow } from '../schema.ts';

export interface DeciderFacts {
  readonly address: string;
  readonly account: ResultOf<'auth.users.find'>;
  /** The account's membership; null where it has none that counts. */
  readonly member: Pick<MemberRow, 'user_id' | 'roles' | 'groups'> | null;
  readonly config: NotificationConfig | null;
  /** Approver groups of the approval. */
  readonly chain: readonly string[];
}

/** The user id or the address in whose name a link decides; null where it decides nothing. */
export function deciderOf({
  address,
  account,
  member,
  config,
  chain,
}: DeciderFacts): string | null {
  if (account?.status === 'disabled') return null;
  const isListed = recipientsOf(config).includes(address.toLowerCase());
  if (member) {
    const isAsked = isListed || isAskedAsMember(member, chain);
    return mayDecide(member) && isAsked ? member.user_id : null;
  }
  if (account?.email_verified) return null;
  return isListed ? address : null;
}

const mayDecide = ({ roles }: Pick<MemberRow, 'roles'>): boolean =>
  deciderRoles.some((role) => roles.includes(role));

/** Administrators are asked where nobody else is. Without a chain any member may have been. */
const isAskedAsMember = (
  { roles, groups }: Pick<MemberRow, 'roles' | 'groups'>,
  chain: readonly string[],
): boolean =>
  roles.includes('tenant_admin') ||
  chain.length === 0 ||
  chain.some((group) => groups.includes(group));

function recipientsOf(config: NotificationConfig | null): string[] {
  const { approval_recipients: approval = [], default_recipients: other = [] } =
    config?.email ?? {};
  return [...approval, ...other].map((address) => address.toLowerCase());
}
