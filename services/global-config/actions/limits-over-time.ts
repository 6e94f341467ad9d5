/** Actions on the platform's budgets and freezes. */
import type { DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import { documentActions } from '../../../shared/documents/document.ts';
import { budgetsKind } from '../documents/budgets.ts';
import { freezesKind } from '../documents/freezes.ts';
import type { Planner } from './plan.ts';

export function overTimeActions(db: DataSource, planner: Planner) {
  const budgets = documentActions(db, budgetsKind);
  const freezes = documentActions(db, freezesKind);
  return {
    'global-config.budgets.get': budgets.get,
    'global-config.budgets.put': planner.orPlan('budgets', 'put', budgets.put),
    'global-config.budgets.patch': planner.orPlan('budgets', 'patch', budgets.patch),
    'global-config.budgets.delete': planner.orPlan('budgets', 'delete', budgets.delete),
    'global-config.freezes.get': freezes.get,
    'global-config.freezes.put': planner.orPlan('freezes', 'put', freezes.put),
    'global-config.freezes.patch': planner.orPlan('freezes', 'patch', freezes.patch),
    'global-config.freezes.delete': planner.orPlan('freezes', 'delete', freezes.delete),
  } satisfies Handlers;
}
