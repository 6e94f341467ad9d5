/**
 * Very many tenants, put into the database as they would be stored, and what a node keeps of each
 * that it has read.
 */
import type { Database } from '../support/postgres.ts';
import { loadCore, serverCore, startProgram } from './machine.ts';
import type { Kept } from './peers/tenants-in-memory.ts';
import type { Comparison, Group } from './report.ts';
import { startStage } from './stage.ts';

const measured = 10_000;
const goalBytes = 8000;
export const instancesOfTenant = ['checkout', 'search'] as const;

export const tenantId = (index: number): string =>
  `00000000-0000-4000-8000-${String(index).padStart(12, '0')}`;

/** Of each the risk limits and two instances, each written by somebody of its own, and named. */
async function insertTenants({ query }: Database, count: number): Promise<void> {
  await query(
    `CREATE TABLE bench_tenants AS
     SELECT n, ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid AS id, gen_random_uuid()::text AS by
     FROM generate_series(0, $1::int - 1) n`,
    [count],
  );
  await query(
    `INSERT INTO tenant_config.tenants SELECT id, 'Tenant ' || n, 'active', now(), now(), NULL, 0, by, now() FROM bench_tenants`,
  );
  await query(
    `INSERT INTO strata.revisions (scope, revision) SELECT 'tenant:' || id, 3 FROM bench_tenants`,
  );
  await query(
    `INSERT INTO strata.actor_names SELECT id::text, by, 'Operator ' || n, NULL FROM bench_tenants`,
  );
  await query(
    `INSERT INTO tenant_config.tenant_risk_configurations SELECT id, id, json_build_object(
       'global_settings', json_build_object('max_cost_impact_auto', n % 30, 'max_cost_impact_approval', 40, 'max_resource_scaling', 2,
         'approval_timeout_minutes', 30, 'require_approval_for_high_risk', true, 'auto_approve_rollbacks', n % 2 = 0,
         'automation_enabled', true, 'business_hours_only', false, 'max_concurrent_automations', n % 10),
       'service_overrides', json_build_object('cloud_run', json_build_object('max_cost_impact_auto', n % 20))), 1, by, now()
     FROM bench_tenants`,
  );
  for (const [place, service] of instancesOfTenant.entries())
    await query(
      `INSERT INTO tenant_config.service_configurations SELECT id, $1::text, json_build_object(
         'service_id', $1::text, 'service_type', 'cloud_run', 'service_name', 'Service ' || n, 'min_instances', 1,
         'max_instances', 2 + n % 40, 'monitoring_enabled', true), $2::int, by, now()
       FROM bench_tenants`,
      [service, 2 + place],
    );
  await query('DROP TABLE bench_tenants');
  await query('VACUUM ANALYZE');
}

async function readAll(): Promise<Kept> {
  const stage = await startStage();
  try {
    const roles = ['tenant-config', 'global-config', 'config-resolver', 'auth', 'audit'];
    await stage.start(roles, loadCore, stage.clustered);
    // Some more are read before anything is measured.
    await insertTenants(stage.database, measured + 1000);
    const file = 'test/bench/peers/tenants-in-memory.ts';
    const program = await startProgram(file, [stage.bus.url, String(measured)], serverCore);
    return JSON.parse(program.said) as Kept;
  } finally {
    await stage.stop();
  }
}

/** What is on the heap says the same in each round, so there is one. */
export const tenants: Group = async () => {
  const { heap, entries, bytes } = await readAll();
  const ofTenant = 2 + instancesOfTenant.length;
  // What is read while a lease is late is not kept.
  if (entries < measured * ofTenant * 0.99)
    throw new Error(`${entries} of ${measured * ofTenant} entries were kept`);
  const many = measured.toLocaleString('en');
  const row: Comparison = {
    what: `heap of a node for each of ${many} tenants of which it has read risk, two instances and effective configuration`,
    peer: '8 kB',
    unit: 'kB',
    goal: { atMost: 1 },
    strata: [heap / measured / 1000],
    baseline: [goalBytes / 1000],
  };
  const asCounted = `${(bytes / measured / 1000).toFixed(2)} kB`;
  return { rows: [row], facts: [{ what: 'the same, as the caches count it', result: asCounted }] };
};
