/**
 * Writes of the platform that wait to be planned together, kept over a reload: a plan is looked at
 * and applied, or put away.
 */
import { effect, signal } from '@preact/signals';
import type { ParamsOf } from '../shared/contracts/index.ts';
import { keepDraft, keptDraft } from './drafts.ts';
import { user } from './session.ts';

export type PlanItem = ParamsOf<'global-config.plan'>['body']['items'][number];

const name = 'plan';
export const planItems = signal<readonly PlanItem[]>([]);

let of: string | undefined;
effect(() => {
  const id = user.value?.id;
  if (id === of) return;
  of = id;
  planItems.value = keptDraft<readonly PlanItem[]>(name) ?? [];
});

function become(items: readonly PlanItem[]): void {
  planItems.value = items;
  keepDraft(name, items.length === 0 ? undefined : items);
}

/**
 * A later write of a document takes the place of an earlier one: each was made from what is stored.
 */
export const addToPlan = (item: PlanItem): void =>
  become([...planItems.peek().filter(({ path }) => path !== item.path), item]);

export const removeFromPlan = (path: string): void =>
  become(planItems.peek().filter((item) => item.path !== path));

export const emptyPlan = (): void => become([]);
