/**
 * What somebody may do, which other services said ahead of a transaction, and which is compared in it:
 * nobody is asked while its locks are held.
 *
 * All tenants' accounts and credentials are in one scope. It is held last, so that nobody who signs out
 * waits for all that a transaction does, and whoever holds it waits for nothing else.
 */
import type { EntityManager } from 'typeorm';
import type { Call, Request } from '../contract-runtime/request.ts';
import { accountKey } from '../contracts/auth.ts';
import { apiKeyCacheKey } from '../contracts/auth-api-keys.ts';
import { trustCacheKey } from '../contracts/auth-workload.ts';
import { authScope } from '../contracts/revision-scopes.ts';
import { ifFound, StrataError } from '../errors.ts';
import { synchronizedNow } from '../process/synchronized-clock.ts';
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

/** Somebody, with the API key or the rule of trust in a workload that they came with, if any. */
export interface Principal {
  readonly isPerson: boolean;
  readonly id: string;
  readonly key: string | undefined;
}

type Calling = Pick<Request, 'caller' | 'call'>;

/** Keys of the account and the credential that somebody comes with, whose changes concern them. */
export const identitiesOf = ({ isPerson, id, key }: Principal): string[] => [
  isPerson ? accountKey({ user_id: id }) : trustCacheKey({ account_id: id }),
  ...(key === undefined ? [] : [apiKeyCacheKey({ key_id: key })]),
];

/**
 * Whether the key that somebody came with, or the trust in their workload, is good now; true without
 * one. Throws where nobody can say, since what is known from before an outage may be revoked.
 */
export async function isKeyGood({ isPerson, id, key }: Principal, call: Call): Promise<boolean> {
  if (key === undefined) return true;
  const known = await ifFound(call('auth.api-key.resolve', { key_id: key }));
  const found = known ?? (!isPerson && (await call('auth.trust.resolve', { account_id: id })));
  if (!found) return false;
  if ('stale' in found) throw new StrataError('service_unavailable');
  return Array.isArray(found)
    ? found.some((rule) => rule.id === key)
    : found.usable && Date.parse(found.expires_at) > synchronizedNow();
}

/** Thrown where what is changed, or who may do so, is not as it was read ahead of the transaction. */
export class Outdated extends Error {}

/** Each that fails met a change of what it changes, or of somebody's rights. */
const maxAttempts = 50;

/** Does something with what was read, again where it was not so any more. */
export async function whileAsRead<T>(
  attempt: () => Promise<T>,
  complaint = 'It kept changing. Try again.',
): Promise<T> {
  for (let made = 1; ; made += 1) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof Outdated)) throw error;
      if (made === maxAttempts) throw new StrataError('service_unavailable', complaint);
    }
  }
}

/** Throws 401 where the key or the session of the call is good no more. */
export async function requireCredential(
  principal: Principal,
  { caller: { session_id: id }, call }: Calling,
): Promise<void> {
  if (!(await isKeyGood(principal, call))) throw new StrataError('auth_api_key_invalid');
  if (id === undefined) return;
  const session = await ifFound(call('auth.sessions.resolve', { session_id: id }));
  if (session && 'stale' in session) throw new StrataError('service_unavailable');
  if (session?.status !== 'active') throw new StrataError('auth_session_revoked');
}

/** So many changes of accounts are looked at. */
const mostChanges = 1000;

/**
 * Whether the rights are as they were read. Then they stay so until the transaction ends, but for
 * accounts and credentials, which `holdAccounts` asks for at its end.
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

/** The same. Throws `Outdated` where they are not. */
export async function holdRights(
  manager: EntityManager,
  rights: readonly ReadRight[],
): Promise<void> {
  if (!(await areStillSo(manager, rights))) throw new Outdated();
}

/**
 * Throws `Outdated` where accounts or credentials are not as they were read. Then they stay so until
 * the end.
 */
export async function holdAccounts(
  manager: EntityManager,
  rights: readonly ReadRight[],
): Promise<void> {
  const named = namingIdentities(rights);
  if (named.length === 0) return;
  const held = await holdRevisions(manager, [authScope]);
  if (!(await areUntouched(manager, held, named))) throw new Outdated();
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
