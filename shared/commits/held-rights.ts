/**
 * What somebody may do, which other services said ahead of a transaction, and which is compared in it:
 * nobody is asked while its locks are held.
 */
import type { EntityManager } from 'typeorm';
import { authScope } from '../contracts/revision-scopes.ts';
import { changesAfter, holdRevisions } from './commit.ts';

export interface ReadRight {
  /** Of the scopes that say it, from before it was read. */
  readonly revisions: Readonly<Record<string, number>>;
  /**
   * Keys of the accounts and credentials that it goes by. All tenants' are in one scope, where
   * somebody signs out all the time; without keys each change of it counts.
   */
  readonly identities?: readonly string[];
}

/** So many changes of accounts are looked at. */
const mostChanges = 1000;

/** Whether the rights are as they were read. Then they stay so until the transaction ends. */
export async function areStillSo(
  manager: EntityManager,
  rights: readonly ReadRight[],
): Promise<boolean> {
  const scopes = new Set(rights.flatMap(({ revisions }) => Object.keys(revisions)));
  const held = await holdRevisions(manager, [...scopes]);
  for (const { revisions, identities } of rights)
    for (const [scope, read] of Object.entries(revisions)) {
      const now = held[scope]!;
      if (now === read) continue;
      if (scope !== authScope || identities === undefined) return false;
      if (!(await areUntouched(manager, { read, now }, identities))) return false;
    }
  return true;
}

/** Whether all changes of accounts and credentials since are of others. */
async function areUntouched(
  manager: EntityManager,
  { read, now }: { readonly read: number; readonly now: number },
  identities: readonly string[],
): Promise<boolean> {
  const changes = await changesAfter(manager, authScope, read, mostChanges);
  const areAll = changes.length === now - read;
  return areAll && !changes.some(({ keys }) => identities.some((each) => keys.includes(each)));
}
