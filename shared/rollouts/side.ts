/**
 * On which side of a rollout a tenant is. It follows from the rollout's stage, its salt and the
 * tenant's id alone, so every node says the same without asking, and nothing is kept for a tenant.
 */
import { createHash } from 'node:crypto';
import type { RolloutInLayers } from '../contracts/rollout-sides.ts';
import type { StoredRollout } from '../contracts/rollouts.ts';

const range = 2 ** 48;

/**
 * From 0 to below 100, evenly spread over tenants. Another salt spreads them differently, so that
 * not always the same tenants come first.
 */
export function percentileOf(salt: string, tenantId: string): number {
  const hash = createHash('sha256').update(`${salt} ${tenantId}`).digest();
  return (hash.readUIntBE(0, 6) / range) * 100;
}

type Cohort = Pick<RolloutInLayers, 'salt' | 'percent' | 'tenants'>;

/** Whether the tenant has what is rolled out. One that is made later falls by its hash, too. */
export const hasCandidate = ({ salt, percent, tenants }: Cohort, tenantId: string): boolean =>
  tenants.includes(tenantId) || percentileOf(salt, tenantId) < percent;

/** Of all stages up to this one: a later stage takes nobody out. */
export function cohortOf(
  { stages, salt }: Pick<StoredRollout, 'stages' | 'salt'>,
  stage: number,
): Cohort {
  const begun = stages.slice(0, stage + 1);
  return {
    salt,
    percent: Math.max(0, ...begun.map(({ percent = 0 }) => percent)),
    tenants: [...new Set(begun.flatMap(({ tenants = [] }) => tenants))],
  };
}
