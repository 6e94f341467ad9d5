/** Tenants at work as they are stored: what runs, what waits, and endpoints that answer nobody. */
import type { Database } from '../../support/postgres.ts';

export interface AtWork {
  readonly tenants: number;
  /** Running automations of each tenant. */
  readonly running: number;
  /** Endpoints with an open circuit breaker, each with a notice that waits and one to be retried. */
  readonly deadEndpoints: number;
}

/** So many automations of a tenant run at most. */
export const slots = 10;

const intent = `'{"action":"scale","risk_level":"low"}'::json`;
const decided = `'{"decision":"allow","reasons":[],"revision":{"tenant":1,"platform":0}}'::json`;
const by = `'{"type":"user","id":"bench"}'::json`;

/** Ids of tenants are those of `bench_tenants`, which stays. */
export async function seed({ query }: Database, size: AtWork): Promise<void> {
  await query(
    `CREATE TABLE bench_tenants AS
     SELECT n, ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid AS id FROM generate_series(1, $1::int) n`,
    [size.tenants],
  );
  await query(
    `INSERT INTO tenant_config.tenants (id, name, status, created_at, updated_at, notification_revision, notification_updated_by, notification_updated_at)
     SELECT id, 'Tenant ' || n, 'active', now(), now(), 0, 'bench', now() FROM bench_tenants`,
  );
  await query(
    `INSERT INTO strata.revisions (scope, revision) SELECT 'tenant:' || id, 1 FROM bench_tenants`,
  );
  await query(
    `INSERT INTO tenant_config.tenant_risk_configurations (tenant_id, id, document, revision, updated_by, updated_at)
     SELECT id, id, json_build_object('global_settings', json_build_object(
       'max_cost_impact_auto', 10, 'max_cost_impact_approval', 40, 'max_resource_scaling', 2, 'approval_timeout_minutes', 30,
       'require_approval_for_high_risk', true, 'auto_approve_rollbacks', true, 'automation_enabled', true,
       'business_hours_only', false, 'max_concurrent_automations', ${slots})), 1, 'bench', now()
     FROM bench_tenants`,
  );
  await query(
    `INSERT INTO notifier.automations (id, tenant_id, state, intent, decided, ttl_seconds, requested_by, request_id, request_hash, created_at, started_at, expires_at)
     SELECT gen_random_uuid(), id, 'running', ${intent}, ${decided}, 86400, ${by}, 'bench', 'bench', now(), now(), now() + interval '1 day'
     FROM bench_tenants, generate_series(1, $1::int)`,
    [size.running],
  );
  await query('INSERT INTO notifier.automation_tenants (tenant_id) SELECT id FROM bench_tenants');
  await query(
    `INSERT INTO notifier.endpoints (key, served_at, failures, blocked_until)
     SELECT 'webhook ' || id || ' dead', now(), 25, now() + interval '1 day' FROM bench_tenants WHERE n <= $1::int`,
    [size.deadEndpoints],
  );
  await query(
    `INSERT INTO notifier.approvals (id, tenant_id, state, action, risk_level, title, hop, max_hops, window_seconds, chain, frozen,
       requested_by, request_id, request_hash, created_at, expires_at, expires_fixed, escalates_at)
     SELECT id, id, 'pending', 'scale', 'high', 'Scale', 0, 2, 86400, '{}', '', ${by}, 'bench', 'bench', now(), now() + interval '2 days', true, now() + interval '1 day'
     FROM bench_tenants WHERE n <= $1::int`,
    [size.deadEndpoints],
  );
  await query(
    `INSERT INTO notifier.deliveries (id, tenant_id, approval_id, type, hop, channel, endpoint_key, place, target, body, state, attempts, round, next_attempt_at, created_at)
     SELECT gen_random_uuid(), id, id, 'approval.requested', 0, 'webhook', 'webhook ' || id || ' dead', '0', 'https://dead.example', '{}', 'pending',
       round, round, now() + round * interval '1 day', now()
     FROM bench_tenants, generate_series(0, 1) round WHERE n <= $1::int`,
    [size.deadEndpoints],
  );
  await query('VACUUM ANALYZE');
}

/** In each of so many tenants all slots are taken, and one automation was granted and waits. */
export async function fillSlots({ query }: Database, tenants: number): Promise<void> {
  await query(
    `INSERT INTO notifier.automations (id, tenant_id, state, intent, decided, ttl_seconds, requested_by, request_id, request_hash, created_at, granted_at, started_at, expires_at)
     SELECT gen_random_uuid(), id, CASE WHEN place = 0 THEN 'waiting_slot' ELSE 'running' END, ${intent}, ${decided}, 86400, ${by}, 'bench', 'bench', now(),
       now(), now(), now() + interval '1 day'
     FROM bench_tenants t, generate_series(0, ${slots}) place WHERE n <= $1::int`,
    [tenants],
  );
}
