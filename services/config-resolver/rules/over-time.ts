/** Which budgets and freezes are about what acts in one context. */
import { matchesPlace, type Touched } from '../../../shared/budgets/matching.ts';
import { budgetOfProject } from '../../../shared/budgets/project-budget.ts';
import type { LimitMatch } from '../../../shared/contracts/budgets.ts';
import type { Address } from '../../../shared/contracts/effective-config.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import type { Sources } from './layers.ts';

export type LimitsOverTime = NonNullable<ResultOf<'config-resolver.resolve'>['over_time']>;

/**
 * Those that could hold there, the platform's first. What names other places is left out: readers
 * of a tenant learn nothing of what the platform says of others.
 */
export function overTimeOf(
  { tenant, platform, serviceType }: Sources,
  { agent_type, service_id }: Address,
): { over_time?: LimitsOverTime } {
  const touched: Touched = {
    agent_type,
    service_id,
    service_type: serviceType ?? undefined,
    project_id: tenant.service?.document.project_id,
    environment: tenant.project?.document.environment,
  };
  const ofProject = budgetOfProject(tenant.project);
  const budgets = [
    ...inForce('platform', platform.budgets, touched),
    ...inForce('tenant', tenant.budgets, touched),
    ...(ofProject ? [ofProject] : []),
  ];
  const freezes = [
    ...inForce('platform', platform.freezes, touched),
    ...inForce('tenant', tenant.freezes, touched),
  ];
  if (budgets.length + freezes.length === 0) return {};
  const { project_id: project = null, environment } = touched;
  const where = { project_id: project, ...(environment !== undefined && { environment }) };
  return { over_time: { budgets, freezes, ...where } };
}

const inForce = <By extends 'platform' | 'tenant', Rule extends { readonly match?: LimitMatch }>(
  by: By,
  stored:
    | { readonly document: Readonly<Record<string, Rule>>; readonly revision: number }
    | null
    | undefined,
  touched: Touched,
) =>
  Object.entries(stored?.document ?? {})
    .filter(([, rule]) => matchesPlace(rule.match, touched))
    .map(([name, rule]) => ({ by, name, rule, revision: stored!.revision }));
