/** Figures of the tenants that a rollout has reached, beside those of all others. */
import { hasCandidate } from './side.ts';

export interface CountsOfTenant {
  readonly tenant_id: string;
  readonly all: number;
  readonly bad: number;
}

const sum = (all: readonly CountsOfTenant[]) => ({
  all: all.reduce((total, each) => total + each.all, 0),
  bad: all.reduce((total, each) => total + each.bad, 0),
});

export function besideRest(
  all: readonly CountsOfTenant[],
  cohort: Parameters<typeof hasCandidate>[0],
) {
  const { cohort: mine = [], rest = [] } = Object.groupBy(all, ({ tenant_id: id }) =>
    hasCandidate(cohort, id) ? 'cohort' : 'rest',
  );
  return { cohort: sum(mine), rest: sum(rest) };
}
