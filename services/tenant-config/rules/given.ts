/**
 * By whom and when a member or a service account was given what they decide by, and whether that
 * counts for an approval. A right holds only if it is there now, was there when the approval was
 * asked for, and was not given by whoever asked within the 24 hours before.
 */
import type { Caller } from '../../../shared/access.ts';
import { actorOf } from '../../../shared/commits/commit.ts';
import type { TenantRole } from '../../../shared/contracts/roles.ts';

/** What a right depends on; a service account has roles and no groups. */
export interface RolesAndGroups {
  readonly roles: readonly TenantRole[];
  readonly groups: readonly string[];
}

export interface Gift {
  readonly at: string;
  /** Principals, as rules/principals.ts of the notifier names them. */
  readonly by: readonly string[];
  /**
   * What further groups of the directory gave after it, oldest first, which counts once they alone do.
   * Without a group where it is the last of several.
   */
  readonly further?: readonly (Omit<Gift, 'further'> & { readonly group?: string })[];
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

/** What one group of the directory began or ceased to give somebody who has it otherwise, too. */
export interface GroupGifts {
  readonly group: string;
  readonly began: RolesAndGroups;
  readonly ceased: RolesAndGroups;
}

/** What was given before this was kept. */
const longAgo: Gift = { at: new Date(0).toISOString(), by: [] };

/**
 * What is kept is kept as it was given first by what gives it still; what is new is given by this
 * gift.
 */
export function givenNow(
  after: RolesAndGroups,
  gift: Gift,
  before: RolesAndGroups & { readonly given: Given | null } = { ...nothing, given: null },
  { group, began, ceased }: GroupGifts = { group: '', began: nothing, ceased: nothing },
): Given {
  const had = new Set(entriesOf(before));
  const [further, less] = [new Set(entriesOf(began)), new Set(entriesOf(ceased))];
  const kept = before.given ?? {};
  return Object.fromEntries(
    entriesOf(after).flatMap((entry) => {
      const first = kept[entry];
      if (!had.has(entry)) return [[entry, gift]];
      if (further.has(entry)) return [[entry, withFurther(first ?? longAgo, gift, group)]];
      if (!first) return [];
      return [[entry, less.has(entry) ? withoutGroup(first, group) : first]];
    }),
  );
}

/** So many further gifts are kept apart. */
const mostFurther = 2;

function withFurther(first: Gift, gift: Gift, group: string): Gift {
  const { further = [] } = first;
  const isFull = further.length === mostFurther;
  return {
    ...first,
    further: isFull ? [...further.slice(0, -1), gift] : [...further, { ...gift, group }],
  };
}

/** Where several may have given the last, it is taken for what is left: it is the newest. */
function withoutGroup(first: Gift, group: string): Gift {
  const { further = [], ...gift } = first;
  const others = further.filter((each) => each.group !== group);
  if (others.length === further.length) {
    const next = further.find((each) => each.group === undefined) ?? further[0];
    if (!next) return first;
    const rest = further.slice(further.indexOf(next) + 1);
    return { at: next.at, by: next.by, ...(rest.length > 0 && { further: rest }) };
  }
  return others.length > 0 ? { ...gift, further: others } : gift;
}

/** Whoever accepts an invitation has from then on what the inviter gave. */
export function givenOnJoining(joined: RolesAndGroups, given: Given | null, at: Date): Given {
  const from = { at: at.toISOString() };
  return Object.fromEntries(
    entriesOf(joined).map((entry) => {
      const { by, further } = given?.[entry] ?? longAgo;
      const later = further && { further: further.map((each) => ({ ...each, ...from })) };
      return [entry, { ...from, by, ...later }];
    }),
  );
}

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
