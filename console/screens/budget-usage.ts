/** What budgets have spent, as the API says it, and which automations they count. */
import { matchesAct, matchesPlace } from '../../shared/budgets/matching.ts';
import type { ResultOf } from '../../shared/contracts/index.ts';

export type Usage = ResultOf<'notifier.budgets.usage'>['items'][number];
export type Automation = ResultOf<'notifier.automations.list'>['items'][number];

export const unitOf = ({ rule }: Usage): string =>
  rule.counts === 'actions' ? 'actions' : (rule.currency ?? '');

/** In the address, and of no two. */
export const keyOf = ({ by, name }: Usage): string => `${by}/${name}`;

/**
 * Whether the budget counts the automation, by what the automation says itself: of which project an
 * instance is, and whether a rollback was proven, it does not.
 */
export function counts({ rule: { match = {} } }: Usage, automation: Automation): boolean {
  const { project_ids: _projects, environments: _environments, ...known } = match;
  return matchesPlace(known, automation) && matchesAct(known, automation);
}
