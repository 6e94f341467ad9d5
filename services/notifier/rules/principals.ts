/**
 * Who stands behind a request or a decision. Whoever asked cannot decide, and nobody counts twice,
 * in whichever way they come:
 *
 * | Who comes                               | stands for                                   |
 * | --------------------------------------- | -------------------------------------------- |
 * | a person, signed in or by a mailed link | the person, by id and by mail address        |
 * | a person's API key                      | the same                                     |
 * | a service account's API key             | the account, and whoever made the key        |
 * | an address without an account           | the address                                  |
 * | a gateway, for a subject                | its account, and the subject by id and address |
 */
import { actorOf } from '../../../shared/commits/commit.ts';
import type { Caller } from '../../../shared/access.ts';
import type { StoredApprover, StoredKey, StoredRequester } from '../schema.ts';

type Somebody = Pick<StoredRequester, 'type' | 'id' | 'api_key' | 'for'> & {
  email?: string | null;
};

export function principalsOf({ type, id, api_key: key, email, for: behalf }: Somebody): string[] {
  const maker = key?.made_by;
  return [
    `${type} ${id}`,
    ...(maker ? [`user ${maker}`] : []),
    ...(email ? [`mail ${email.toLowerCase()}`] : []),
    // A gateway has its own names of types and spelling of ids, and may know people by mail address.
    ...(behalf ? ['user', 'service', 'mail'].map((kind) => `${kind} ${idOf(behalf)}`) : []),
    ...(behalf?.user_id === undefined ? [] : [`user ${behalf.user_id}`]),
  ];
}

const idOf = ({ id }: NonNullable<Somebody['for']>): string => id.toLowerCase();

/** Whether somebody stands behind both. */
export function overlap(one: Somebody, other: Somebody): boolean {
  const principals = principalsOf(one);
  return principalsOf(other).some((each) => principals.includes(each));
}

export const storedKeyOf = ({ api_key: key }: Caller): StoredKey | null =>
  key ? { id: key.id, name: key.name, made_by: key.made_by } : null;

/** The caller as an approval keeps them. */
export const requesterOf = (
  caller: Caller,
  name: string,
  onBehalfOf?: StoredRequester['for'],
): StoredRequester => ({
  ...actorOf(caller),
  name,
  api_key: storedKeyOf(caller),
  ...(onBehalfOf && { for: onBehalfOf }),
});

/** Who a key belongs to is shown; who made it is not. */
const shownKey = (key: StoredKey | null | undefined) =>
  key ? { id: key.id, name: key.name } : null;

export const shownRequester = ({ type, id, name, api_key: key }: StoredRequester) => ({
  type,
  id,
  name: name ?? null,
  api_key: shownKey(key),
});

export const shownApprover = (approver: StoredApprover) => ({
  type: approver.type,
  by: approver.id,
  name: approver.name,
  api_key: shownKey(approver.api_key),
  at: approver.at,
  comment: approver.comment,
  via: approver.via,
  right: approver.right,
});
