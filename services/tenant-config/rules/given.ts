/**
 * By whom and when a member or a service account was given what they decide by, and whether that
 * counts for an approval. A right holds only if it is there now, was there when the approval was
 * asked for, and was not given by whoever asked within the 24 hours before.
 */
import type { Caller } from '../../../shared/access.ts';
import { actorOf } from '../../../shared/commits/commit.ts';
import type { TenantRole } from '../../../shared/contracts/roles.ts';

interface RolesAndGroups {
  readonly roles: readonly TenantRole[];
  readonly groups: readonly string[];
}

export interface Gift {
  readonly at: string;
  /** Principals, as rules/principals.ts of the notifier names them. */
  readonly by: readonly string[];
}
/** By role or group; what is missing was given before this was kept. */
export type Given = Readonly<Record<string, Gift>>;

/** The approval that somebody wants to decide. */
export interface Asked {
  readonly at: string;
  readonly by: readonly string[];
}

/** For how long before an approval what its requester gives away does not count. */
export const hoursOfDistrust = 24;

/** From when on a gift of the requester does not count for what was asked for at this time. */
export const distrustedBefore = (at: string): Date =>
  new Date(Date.parse(at) - hoursOfDistrust * 3_600_000);

/** Among givers: who gave one of them their right is not known any more, so it may be any requester. */
export const unknownGiver = 'unknown';

const roleEntry = (role: string): string => `role ${role}`;
const groupEntry = (group: string): string => `group ${group}`;
const entriesOf = ({ roles, groups }: RolesAndGroups): string[] => [
  ...roles.map(roleEntry),
  ...groups.map(groupEntry),
];
const nothing: RolesAndGroups = { roles: [], groups: [] };

/** Who gives something: the caller, and the maker of their key. */
export function giversOf(caller: Caller): string[] {
  const { type, id } = actorOf(caller);
  const maker = caller.api_key?.made_by;
  return [`${type} ${id}`, ...(maker ? [`user ${maker}`] : [])];
}

/**
 * Who gave these rights within the 24 hours before. Whoever has just been given theirs passes on
 * what they were given for: else an administrator would make another one, and have that one do it.
 */
export const recentGivers = (all: readonly (Given | null)[], at: Date): string[] =>
  all
    .flatMap((given) => Object.values(given ?? {}))
    .filter((gift) => Date.parse(gift.at) > distrustedBefore(at.toISOString()).getTime())
    .flatMap(({ by }) => by);

/** What is kept is kept as it was given first; what is new is given by this gift. */
export function givenNow(
  after: RolesAndGroups,
  gift: Gift,
  before: RolesAndGroups & { readonly given: Given | null } = { ...nothing, given: null },
): Given {
  const had = new Set(entriesOf(before));
  const kept = before.given ?? {};
  return Object.fromEntries(
    entriesOf(after).flatMap((entry) => {
      if (!had.has(entry)) return [[entry, gift]];
      return kept[entry] ? [[entry, kept[entry]]] : [];
    }),
  );
}

/** Whoever accepts an invitation has from then on what the inviter gave. */
export const givenOnJoining = (joined: RolesAndGroups, given: Given | null, at: Date): Given =>
  Object.fromEntries(
    entriesOf(joined).map((entry) => [
      entry,
      { at: at.toISOString(), by: given?.[entry]?.by ?? [] },
    ]),
  );

export type WhyNot = 'added_later' | 'added_by_requester';

/** Why one thing that was given does not count for the approval; null where it does. */
function whyNot(gift: Gift | undefined, asked: Asked): WhyNot | null {
  if (!gift) return null;
  const [at, askedAt] = [Date.parse(gift.at), Date.parse(asked.at)];
  if (at > askedAt) return 'added_later';
  const isRecent = at > distrustedBefore(asked.at).getTime();
  const isTheirs = gift.by.some((by) => by === unknownGiver || asked.by.includes(by));
  return isRecent && isTheirs ? 'added_by_requester' : null;
}

/** The roles and groups that count for an approval, and why others do not. */
export function countedFor<Row extends RolesAndGroups & { readonly given: Given | null }>(
  row: Row,
  asked: Asked,
): { readonly counted: Row; readonly whyNot: WhyNot | null } {
  const reasons = new Set<WhyNot>();
  const counts = (entry: string): boolean => {
    const reason = whyNot(row.given?.[entry], asked);
    if (reason) reasons.add(reason);
    return reason === null;
  };
  const counted = {
    ...row,
    roles: row.roles.filter((role) => counts(roleEntry(role))),
    groups: row.groups.filter((group) => counts(groupEntry(group))),
  };
  const reason = reasons.has('added_by_requester') ? 'added_by_requester' : [...reasons][0];
  return { counted, whyNot: reason ?? null };
}
