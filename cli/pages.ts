/** Lists that are longer than a page. */
import type { ActionName, ParamsOf, ResultOf } from '../shared/contracts/index.ts';
import type { Session, TenantName, Typed } from './session.ts';
import { given } from './typed.ts';

interface Page {
  readonly items: readonly unknown[];
  readonly next_cursor: string | null;
}
type ListName = {
  [A in ActionName]: ResultOf<A> extends Page ? A : never;
}[ActionName];
type ItemOf<A extends ListName> = (ResultOf<A> & Page)['items'][number];
type Caller = Pick<Session, 'call'>;

const mostInPage = 200;

/**
 * The items of a list, to its end. Once the signal is aborted it ends after the page that it has,
 * with an error where `stopped` says one.
 */
export async function* itemsOf<A extends ListName>(
  { call }: Caller,
  action: A,
  params: Partial<Typed<ParamsOf<A>>>,
  signal: AbortSignal,
  stopped?: string,
): AsyncGenerator<ItemOf<A>> {
  let cursor: string | null | undefined;
  do {
    const asked = given({ ...params, limit: mostInPage, cursor });
    const page = (await call(action, asked as Typed<ParamsOf<A>>)) as Page;
    yield* page.items as ItemOf<A>[];
    cursor = page.next_cursor;
  } while (cursor !== null && !signal.aborted);
  if (cursor !== null && stopped !== undefined) throw new Error(stopped);
}

export async function allItems<A extends ListName>(
  caller: Caller,
  action: A,
  params: Partial<Typed<ParamsOf<A>>>,
  signal = new AbortController().signal,
): Promise<ItemOf<A>[]> {
  const found: ItemOf<A>[] = [];
  for await (const item of itemsOf(caller, action, params, signal)) found.push(item);
  return found;
}

/** All tenants whose names contain the word; without one the first page. */
export async function tenantsNamed(caller: Caller, word?: string): Promise<readonly TenantName[]> {
  if (word !== undefined) return allItems(caller, 'tenant-config.tenants.list', { q: word });
  const { items } = await caller.call('tenant-config.tenants.list', { limit: mostInPage });
  return items;
}
