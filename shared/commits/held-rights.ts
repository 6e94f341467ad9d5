/**
 * What somebody may do, which other services said ahead of a transaction, and which is compared in it:
 * nobody is asked while its locks are held.
 *
 * All tenants' accounts and credentials are in one scope. It is held last, so that nobody who signs out
 * waits for all that a transaction does, and whoever holds it waits for nothing else.
 */
import type { EntityManager } from 'typeorm';
import { authScope } from '../contracts/revision-scopes.ts';
import { changesAfter, holdRevisions, revisionsOf } from './commit.ts';

export interface ReadRight {
  /** Of the scopes that say it, from before it was read. */
  readonly revisions: Readonly<Record<string, number>>;
  /**
   * Keys of the accounts and credentials that it goes by: changes of others say nothing of it. Without
   * keys each change of the scope counts.
   */
  readonly identities?: readonly string[];
}

/** So many changes of accounts are looked at. */
const mostChanges = 1000;

/**
 * Whether the rights are as they were read. Then they stay so until the transaction ends, but for
 * accounts and credentials, which `identitiesHold` asks for at its end.
 */
export async function areStillSo(
  manager: EntityManager,
  rights: readonly ReadRight[],
): Promise<boolean> {
  const scopes = new Set(rights.flatMap(({ revisions }) => Object.keys(revisions)));
  scopes.delete(authScope);
  const held = await holdRevisions(manager, [...scopes]);
  const isSo = rights.every(({ revisions }) =>
    [...scopes].every((scope) => (revisions[scope] ?? held[scope]) === held[scope]),
  );
  const named = namingIdentities(rights);
  if (!isSo || named.length === 0) return isSo;
  return areUntouched(manager, await revisionsOf(manager, [authScope]), named);
}

/** Whether accounts and credentials are as they were read. Then they stay so until the end. */
export async function identitiesHold(
  manager: EntityManager,
  rights: readonly ReadRight[],
): Promise<boolean> {
  const named = namingIdentities(rights);
  if (named.length === 0) return true;
  return areUntouched(manager, await holdRevisions(manager, [authScope]), named);
}

const namingIdentities = (rights: readonly ReadRight[]): ReadRight[] =>
  rights.filter(({ revisions }) => revisions[authScope] !== undefined);

async function areUntouched(
  manager: EntityManager,
  { [authScope]: now = 0 }: Readonly<Record<string, number>>,
  rights: readonly ReadRight[],
): Promise<boolean> {
  for (const { revisions, identities } of rights) {
    const read = revisions[authScope] ?? now;
    if (read === now) continue;
    if (identities === undefined) return false;
    const changes = await changesAfter(manager, authScope, read, mostChanges);
    const areAll = changes.length === now - read;
    const touched = changes.some(({ keys }) => identities.some((each) => keys.includes(each)));
    if (!areAll || touched) return false;
  }
  return true;
}
