/** Automations of the tenants that a rollout has reached, beside those of all others. */
import type { DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import { besideRest } from '../../../shared/rollouts/beside.ts';
import { figuresByTenant } from '../stores/figures.ts';

export const figureActions = (db: DataSource) =>
  ({
    'notifier.automations.figures': async ({ since, figure, rule, ...cohort }) =>
      besideRest(await figuresByTenant(db.manager, figure, new Date(since), rule), cohort),
  }) satisfies Handlers;
