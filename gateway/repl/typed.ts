/** What an operator typed, as the values that actions take. */
import { parseExactJson } from '../../shared/schema/exact-json.ts';
import { Misused, type FlagValue } from './command.ts';
import type { Session } from './session.ts';

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

/** Without the members that are undefined: a contract takes an optional member that is absent, and none that is undefined. */
export const given = <T extends object>(members: T): T =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as T;

/** For the Tab key. */
export async function tenantIds(session: Session): Promise<readonly string[]> {
  const { items } = await session.call('tenant-config.tenants.list', { limit: 200 });
  return items.map(({ id }) => id);
}
