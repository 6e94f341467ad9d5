/**
 * Writes of the platform that wait to be planned together. In this page's memory: a plan is looked
 * at and applied, not kept.
 */
import { signal } from '@preact/signals';
import type { ParamsOf } from '../shared/contracts/index.ts';

export type PlanItem = ParamsOf<'global-config.plan'>['body']['items'][number];

export const planItems = signal<readonly PlanItem[]>([]);

/**
 * A later write of a document takes the place of an earlier one: each was made from what is stored.
 */
export function addToPlan(item: PlanItem): void {
  planItems.value = [...planItems.value.filter(({ path }) => path !== item.path), item];
}

export function removeFromPlan(path: string): void {
  planItems.value = planItems.value.filter((item) => item.path !== path);
}
