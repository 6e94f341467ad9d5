/**
 * What people gave a member, and what groups of the directory add to it. `roles` and `groups` of a
 * member are both together, since whoever asks what somebody may do need not know from where.
 */
import { isDeepStrictEqual } from 'node:util';
import { tenantRoles, type TenantRole } from '../../../shared/contracts/roles.ts';
import { StrataError } from '../../../shared/errors.ts';
import type { GroupGifts } from './given.ts';

export interface Rights {
  roles: TenantRole[];
  groups: string[];
}
export const noRights: Rights = { roles: [], groups: [] };

/** As many as the contract lets a member be in. */
const mostApproverGroups = 100;

/** What a member has in all. */
export interface MemberRights extends Rights {
  /** What people gave; null where groups of the directory add nothing to it. */
  by_hand: Rights | null;
}

export const rightsByHand = ({ roles, groups, by_hand: byHand }: MemberRights): Rights =>
  byHand ?? { roles, groups };

export const without = (all: Rights, some: Rights): Rights => ({
  roles: all.roles.filter((role) => !some.roles.includes(role)),
  groups: all.groups.filter((group) => !some.groups.includes(group)),
});

/** What a member has by the directory alone. */
export const rightsByDirectory = (row: MemberRights): Rights => without(row, rightsByHand(row));

/** A group as far as people have rights by it. */
export interface GivingGroup extends Rights {
  readonly members: readonly string[];
}
/** What becomes of a group; null where there is none after it. */
export interface GroupChange {
  readonly id: string;
  readonly before: GivingGroup;
  readonly after: GivingGroup | null;
}

/**
 * What a change of a group begins, or ceases, to give each of its people beside others. What people
 * gave they gave before any group did, and keep while one does.
 */
export function groupGiftsOf({ id, before, after }: GroupChange) {
  const [had, has] = [new Set(before.members), new Set(after?.members)];
  return (row: MemberRights & { readonly user_id: string }): GroupGifts => {
    const byHand = rightsByHand(row);
    const gave = without(had.has(row.user_id) ? before : noRights, byHand);
    const gives = without(after && has.has(row.user_id) ? after : noRights, byHand);
    return { group: id, began: without(gives, gave), ceased: without(gave, gives) };
  };
}

/** Roles that were added come in the order of the contract, groups by name. */
const union = (one: Rights, other: Rights): Rights => {
  const added = without(other, one);
  return {
    roles: [...one.roles, ...tenantRoles.filter((role) => added.roles.includes(role))],
    groups: [...one.groups, ...new Set(added.groups.toSorted())],
  };
};

/** What a member has who was given the one by people and the other by the directory. */
export function together(byHand: Rights, byDirectory: Rights): MemberRights {
  const both = union(byHand, byDirectory);
  if (both.groups.length > mostApproverGroups)
    throw new StrataError(
      'conflict',
      `Somebody would be in ${both.groups.length} approver groups, and no one is in more than ${mostApproverGroups}.`,
    );
  return { ...both, by_hand: isDeepStrictEqual(both, byHand) ? null : byHand };
}

/**
 * What people have given once they want `wanted` in all; `viewer` where that is no role, as whoever
 * a directory brings has it. Throws 409 where they want less than the directory gives.
 */
export function givenByHand(before: Rights, wanted: Rights, byDirectory: Rights): Rights {
  const missing = without(byDirectory, wanted);
  const named = [...missing.roles, ...missing.groups].join(', ');
  if (named !== '')
    throw new StrataError(
      'conflict',
      `A group of the directory gives ${named}. Take the person out of it there, or change what it gives.`,
    );
  const { roles, groups } = without(wanted, without(byDirectory, before));
  return { roles: roles.length === 0 ? ['viewer'] : roles, groups };
}
