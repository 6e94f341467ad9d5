/** Actions on the platform's bounds. */
import type { DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import { documentActions } from '../../../shared/documents/document.ts';
import { boundsKind } from '../documents/bounds.ts';
import type { Planner } from './plan.ts';

export function boundActions(db: DataSource, planner: Planner) {
  const bounds = documentActions(db, boundsKind);
  return {
    'global-config.bounds.get': bounds.get,
    'global-config.bounds.put': planner.orPlan('bounds', 'put', bounds.put),
    'global-config.bounds.patch': planner.orPlan('bounds', 'patch', bounds.patch),
    'global-config.bounds.delete': planner.orPlan('bounds', 'delete', bounds.delete),
  } satisfies Handlers;
}
