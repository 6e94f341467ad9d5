/** Automations of the tenants that a rollout has reached, beside those of all others. */
import type { DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import { hasCandidate } from '../../../shared/rollouts/side.ts';
import { figuresByTenant, type FiguresOfTenant } from '../stores/figures.ts';

const sum = (all: readonly FiguresOfTenant[]) => ({
  all: all.reduce((total, each) => total + each.all, 0),
  bad: all.reduce((total, each) => total + each.bad, 0),
});

export const figureActions = (db: DataSource) =>
  ({
    async 'notifier.automations.figures'({ since, figure, rule, ...cohort }) {
      const all = await figuresByTenant(db.manager, figure, new Date(since), rule);
      const { cohort: mine = [], rest = [] } = Object.groupBy(all, ({ tenant_id: id }) =>
        hasCandidate(cohort, id) ? 'cohort' : 'rest',
      );
      return { cohort: sum(mine), rest: sum(rest) };
    },
  }) satisfies Handlers;
