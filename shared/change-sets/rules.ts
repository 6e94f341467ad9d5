/**
 * What becomes of a change set, and whom it takes.
 *
 * | State                        | edit, rebase | submit | approve, reject | apply | cancel |
 * | ---------------------------- | ------------ | ------ | --------------- | ----- | ------ |
 * | draft                        | yes          | yes    |                 |       | yes    |
 * | pending                      | yes          |        | yes             |       | yes    |
 * | approved, suspended          | yes          |        |                 | yes   | yes    |
 * | scheduled                    | yes          |        |                 | at its time | yes |
 * | stale                        | yes          |        |                 |       | yes    |
 * | applied, rejected, cancelled, failed |      |        |                 |       |        |
 *
 * An edit and a rebase make it a draft without approvals, of another digest. One that is applied
 * with its last approval is scheduled from then on until it is.
 */
import type { Caller } from '../access.ts';
import type { ApplyWhen, ChangeSetState } from '../contracts/change-sets.ts';
import { claimsOf, type Claims } from '../documents/managed-fields.ts';
import { invalid, StrataError } from '../errors.ts';
import { synchronizedNow } from '../process/synchronized-clock.ts';
import { canonicalHash } from '../schema/canonical-hash.ts';
import { isUuid } from '../schema/uuid.ts';
import type { ChangeSetRow, Content, StoredItem, StoredPerson } from './schema.ts';

const open: readonly ChangeSetState[] = [
  'draft',
  'pending',
  'approved',
  'scheduled',
  'stale',
  'suspended',
];
export const openStates = open;

const allowed = {
  edit: open,
  cancel: open,
  submit: ['draft'],
  approve: ['pending'],
  reject: ['pending'],
  apply: ['approved', 'suspended'],
  run: ['scheduled'],
  // What is stale is not what anybody looked at, also in an emergency.
  break_glass: ['draft', 'pending', 'approved', 'scheduled', 'suspended'],
  review: ['applied'],
} as const satisfies Record<string, readonly ChangeSetState[]>;
export type Step = keyof typeof allowed;

/** After this part of the time that a review has, those who are asked are reminded, once. */
const remindsAfter = 0.75;
/** A review that ends sooner needs no reminder: the first mail is new enough. */
const leastToRemindMs = 3_600_000;
/** The time of a review of what is not scheduled, which ends with a decision alone. */
const reviewMs = 24 * 3_600_000;

/** When those who have not decided by then are reminded; null for never. */
export function reminderOf(submitted: Date, apply: ApplyWhen): Date | null {
  const lasts = typeof apply === 'object' ? Date.parse(apply.at) - submitted.getTime() : reviewMs;
  return lasts < leastToRemindMs ? null : new Date(submitted.getTime() + lasts * remindsAfter);
}

/** Throws 409 where its state does not allow the step. */
export function requireState({ state, content }: ChangeSetRow, step: Step): void {
  const states: readonly ChangeSetState[] = allowed[step];
  if (states.includes(state)) return;
  const why = content.note === null ? '' : `: ${content.note}`;
  throw new StrataError('conflict', `The change set is ${state}${why}.`);
}

/** Throws 409 where the digest that somebody looked at is not that of now. */
export function requireDigest({ digest }: ChangeSetRow, seen: string): void {
  if (digest !== seen)
    throw new StrataError(
      'conflict',
      'The change set was edited since: its digest is another one. Look at it again.',
    );
}

/** Stands for what is written, on which base, why and when, and whose it is then. */
export function digestOf(
  tenantId: string | null,
  { items, ...said }: Pick<Content, 'title' | 'reason' | 'apply' | 'items' | keyof Claims>,
): string {
  const { title, reason, apply } = said;
  const writes = items.map(({ path, base, after }) => ({ path, base, after }));
  const what = { title, reason, apply, ...claimsOf(said), writes };
  return canonicalHash({ form: 1, tenant_id: tenantId, ...what });
}

/**
 * Who stands behind a caller. Operators are one: an operator's name is what they say it is.
 * Throws 403 where nobody can tell who made a service account's key, and so who is not to approve.
 */
export function personOf({ type, id, api_key: key }: Caller): StoredPerson {
  if (type === 'service_account' && !key?.made_by)
    throw new StrataError(
      'insufficient_scope',
      'It is not known who created this key. Create another one to propose changes with.',
    );
  const principals = type === 'operator' ? ['operator'] : [`${type} ${id}`];
  return {
    type,
    id,
    principals: [...principals, ...(key?.made_by ? [`user ${key.made_by}`] : [])],
    ...(key && { key: key.id }),
  };
}

/** As `personOf` has them: only people and operators break the glass, and names of these are no ids. */
export const breakerOf = (by: string): string => (isUuid(by) ? `user ${by}` : 'operator');

export const overlap = (one: StoredPerson, others: readonly StoredPerson[]): boolean =>
  others.some(({ principals }) => principals.some((each) => one.principals.includes(each)));

/**
 * Authors with one more, who is the last. Of an account that comes with another key, the maker of the
 * earlier one stays an author.
 */
export function withAuthor(authors: readonly StoredPerson[], author: StoredPerson): StoredPerson[] {
  const isSame = ({ type, id }: StoredPerson): boolean => type === author.type && id === author.id;
  const before = authors.filter(isSame).flatMap(({ principals }) => principals);
  const principals = [...new Set([...author.principals, ...before])];
  return [...authors.filter((each) => !isSame(each)), { ...author, principals }];
}

/** Their principals as they are kept with what they give: a service account by its type in the audit. */
export const giversAmong = (people: readonly StoredPerson[]): string[] =>
  people.flatMap(({ principals }) =>
    principals.map((each) => each.replace(/^service_account /, 'service ')),
  );

/**
 * Whom those who approve it, or review its emergency, were given their right by, and when it is asked
 * by. Whoever broke the glass may be none of its authors, and has nobody of their own review it.
 */
export const askedOf = ({ authors, submitted_at: at, break_glass: emergency }: Content) => ({
  at: at ?? new Date(synchronizedNow()).toISOString(),
  by: [...new Set([...giversAmong(authors), ...(emergency ? [breakerOf(emergency.by)] : [])])],
});

/** Throws 403 where it is not this person's to approve, whatever their roles. */
export function requireAnother({ authors }: Content, person: StoredPerson): void {
  if (overlap(person, authors))
    throw new StrataError(
      'approval_own_request',
      'Who wrote or edited a change set, or made the key that did, does not approve it.',
    );
}

/**
 * Who approves all items: a change set has the groups of one policy. Throws 422 where other groups
 * approve one of them, since it could be approved and never applied.
 */
export function groupsOfAll(byItem: readonly (readonly string[])[]): readonly string[] {
  const first = byItem.findIndex((groups) => groups.length > 0);
  const groups = byItem[first] ?? [];
  const other = byItem.findIndex((own) => own.length > 0 && own.join() !== groups.join());
  if (other === -1) return groups;
  const message = `is approved by ${byItem[other]!.join(', ')}, and item ${first} by ${groups.join(', ')}: propose it by itself`;
  throw invalid([{ path: `/items/${other}`, message }]);
}

/** Throws 409 where a policy asks for more than there is. */
export const requireEnough =
  ({ approved_by: approvals, groups }: Content) =>
  (asked: { readonly required: number; readonly groups: readonly string[] }): void => {
    if (approvals.length < asked.required)
      throw new StrataError(
        'conflict',
        `The change_policy asks for ${asked.required} approvals now, and there are ${approvals.length}.`,
      );
    const isOfGroups = asked.groups.length === 0 || asked.groups.join() === groups.join();
    if (!isOfGroups)
      throw new StrataError(
        'conflict',
        `The change_policy has ${asked.groups.join(', ')} approve now. Edit the change set and submit it again.`,
      );
  };

/** The precondition that its document is as it was when it was proposed. */
export const onBase = ({ base }: StoredItem) =>
  base === null ? ({ if_none_match: '*' } as const) : { if_match: `"${base}"` };
