/** Automations of the tenants that a rollout has reached, beside those of all others. */
import type { DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import { besideRest } from '../../../shared/rollouts/beside.ts';
import { countsByTenant } from '../stores/automation-counts.ts';

export const automationCountActions = (db: DataSource) =>
  ({
    'notifier.automations.figures': async ({ since, figure, rule, ...cohort }) =>
      besideRest(await countsByTenant(db.manager, figure, new Date(since), rule), cohort),
  }) satisfies Handlers;
