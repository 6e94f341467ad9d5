/** Approver groups: those that members are in, and those that the approval routing asks. */
import type { ResultOf } from '../../shared/contracts/index.ts';
import { ofTenant } from '../address.ts';
import { get } from '../api.ts';

export type Routes = ResultOf<'tenant-config.notifications.effective'>;

export const routesOf = (aborted: AbortSignal): Promise<Routes> =>
  get<Routes>(ofTenant('/config/notifications/effective'), aborted);

/** By group, what asks it, such as "high risk". */
export function askersOf({ approver_groups: groups }: Routes): Map<string, string[]> {
  const askers = new Map<string, string[]>();
  const note = (asker: string, names: readonly string[] | null | undefined): void => {
    for (const name of names ?? []) askers.set(name, [...(askers.get(name) ?? []), asker]);
  };
  for (const [level, names] of Object.entries(groups.risk_levels ?? {}))
    note(`${level} risk`, names);
  for (const [action, names] of Object.entries(groups.action_overrides)) note(action, names);
  return askers;
}

/** In the order of their names: a group that is asked is one, also while nobody is in it. */
export const groupNames = (
  members: readonly { readonly groups: readonly string[] }[],
  askers: ReadonlyMap<string, unknown>,
): string[] =>
  [...new Set([...members.flatMap(({ groups }) => groups), ...askers.keys()])].toSorted();
