/** What an operator typed, as the values that actions take. */
import { parseExactJson } from '../shared/schema/exact-json.ts';
import { isUuid } from '../shared/schema/uuid.ts';
import { Misused, type FlagValue } from './command.ts';
import type { Session, TenantName } from './session.ts';

export const textOf = (flag: FlagValue): string | undefined =>
  typeof flag === 'string' ? flag : undefined;

export const textsOf = (flag: FlagValue): string[] =>
  Array.isArray(flag) ? flag.filter((each) => typeof each === 'string') : [];

/** A number from 1 to 999. */
export function countOf(flag: FlagValue, otherwise: number): number {
  if (flag === undefined) return otherwise;
  if (typeof flag !== 'string' || !/^[1-9][0-9]{0,2}$/.test(flag))
    throw new Misused('a number from 1 to 999 is needed');
  return Number(flag);
}

export function eventNumberOf(word: string): number {
  if (!/^[0-9]{1,15}$/.test(word)) throw new Misused(`${word} is not the number of an event`);
  return Number(word);
}

export function revisionOf(word: string): number {
  if (!/^[1-9][0-9]{0,14}$/.test(word)) throw new Misused(`${word} is not a revision`);
  return Number(word);
}

export function jsonOf(word: string): unknown {
  try {
    return parseExactJson(word);
  } catch (error) {
    throw new Misused(`the JSON is not valid: ${(error as Error).message}`);
  }
}

/**
 * Without the members that are undefined: a contract takes an optional member that is absent, and
 * none that is undefined.
 */
export const given = <T extends object>(members: T): T =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as T;

/** For the Tab key: ids, and the names that are one word, also in a shell. */
export async function tenantIds(session: Session): Promise<readonly string[]> {
  const tenants = await session.tenants();
  const names = tenants.map(({ name }) => name).filter((name) => plainWord.test(name));
  return [...tenants.map(({ id }) => id), ...names];
}
const plainWord = /^[\p{L}\p{N}_][\p{L}\p{N}_.:@%+/-]*$/u;

/**
 * In place of a tenant's id: what is the platform's. A tenant of just this name is called by its
 * id.
 */
export const platformWord = 'platform';

/** For the Tab key, of what the platform has as well. */
export const ownerIds = async (session: Session): Promise<readonly string[]> => [
  platformWord,
  ...(await tenantIds(session)),
];

/**
 * The id of the tenant that an operator names by id or by name, in upper or lower case. Throws
 * Misused where there is none of that name, with those that are called nearly so, and where there
 * are several.
 */
export async function tenantId(session: Session, word: string): Promise<string> {
  if (isUuid(word) || word === platformWord) return word;
  const named = await session.tenants(word);
  const lower = word.toLowerCase();
  const same = named.filter(({ name }) => name.toLowerCase() === lower);
  const exact = same.filter(({ name }) => name === word);
  const [found, ...others] = exact.length > 0 ? exact : same;
  if (!found) throw new Misused(`there is no tenant ${word}${nearly(named)}`);
  if (others.length === 0) return found.id;
  const ids = [found, ...others].map(({ id }) => id);
  throw new Misused(`several tenants are called ${found.name}; use the id: ${ids.join(', ')}`);
}

const mostShown = 5;
function nearly(tenants: readonly TenantName[]): string {
  if (tenants.length === 0) return '';
  const names = tenants.slice(0, mostShown).map(({ name }) => name);
  return `; there are ${names.join(', ')}${tenants.length > mostShown ? ', …' : ''}`;
}
