/**
 * Giving and taking the slots of a tenant.
 *
 * | What                                  | Kept by                                                                  |
 * |---------------------------------------|--------------------------------------------------------------------------|
 * | never more running than the limit     | whoever starts one holds the tenant's row, and counts under it            |
 * | no limit that was changed before      | the configuration's revisions are held, and are those of the decision     |
 * | an approval and its automation        | one transaction makes both; its decision is read where slots are given    |
 * | a slot of somebody who is gone        | its time, by the database's clock; a heartbeat begins it again             |
 * | what it held of budgets               | is spent with its end (ledger.ts)                                         |
 */
import type { EntityManager } from 'typeorm';
import { holdRevisions } from '../../../shared/commits/commit.ts';
import { platformScope, tenantScope } from '../../../shared/contracts/revision-scopes.ts';
import { AutomationEntity, type AutomationRow } from '../schema.ts';
import { settleHolds } from './ledger.ts';

/** How long one that was granted waits for a slot, in seconds. */
const longestInQueue = 86_400;

/** Whoever gives or takes slots of the tenant follows whoever did so before. */
export async function lockSlots(manager: EntityManager, tenantId: string): Promise<void> {
  await manager.query(
    'INSERT INTO notifier.automation_tenants (tenant_id) VALUES ($1) ON CONFLICT DO NOTHING',
    [tenantId],
  );
  await manager.query(
    'SELECT tenant_id FROM notifier.automation_tenants WHERE tenant_id = $1 FOR UPDATE',
    [tenantId],
  );
}

export interface Revisions {
  readonly tenant: number;
  readonly platform: number;
}

/** The configuration's revisions, which stay so until the transaction ends. */
export async function heldRevisions(manager: EntityManager, tenantId: string): Promise<Revisions> {
  const scope = tenantScope(tenantId);
  const held = await holdRevisions(manager, [platformScope, scope]);
  return { tenant: held[scope]!, platform: held[platformScope]! };
}

export const isSameRevision = (a: Revisions, b: Revisions): boolean =>
  a.tenant === b.tenant && a.platform === b.platform;

/**
 * Ends what has had its time, and takes notice of approvals that are decided: what was granted
 * waits for a slot from now on. Answers the rows that changed.
 */
export async function settleDue(
  manager: EntityManager,
  tenantId: string,
): Promise<AutomationRow[]> {
  const expired = await changedRows(
    manager,
    `UPDATE notifier.automations SET state = 'expired', ended_at = expires_at, expires_at = NULL
     WHERE tenant_id = $1 AND state IN ('running', 'waiting_slot') AND expires_at <= now()
     RETURNING id`,
    [tenantId],
  );
  await settleHolds(manager, expired);
  const decided = await changedRows(
    manager,
    `UPDATE notifier.automations a SET
       state = CASE WHEN p.state = 'approved' THEN 'waiting_slot' ELSE 'denied' END,
       granted_at = CASE WHEN p.state = 'approved' THEN p.decided_at END,
       expires_at = CASE WHEN p.state = 'approved' THEN now() + make_interval(secs => $2) END,
       ended_at = CASE WHEN p.state = 'approved' THEN NULL ELSE now() END
     FROM notifier.approvals p
     WHERE a.tenant_id = $1 AND a.state = 'waiting_approval' AND p.id = a.approval_id AND p.state <> 'pending'
     RETURNING a.id`,
    [tenantId, longestInQueue],
  );
  return [...expired, ...decided];
}

/** How many hold a slot, and how many were granted and come next. */
export async function countSlots(
  manager: EntityManager,
  tenantId: string,
): Promise<{ running: number; waiting: number }> {
  const [counts] = await manager.query<[{ running: number; waiting: number }]>(
    `SELECT count(*) FILTER (WHERE state = 'running')::int AS running,
       count(*) FILTER (WHERE state = 'waiting_slot')::int AS waiting
     FROM notifier.automations
     WHERE tenant_id = $1 AND state IN ('waiting_approval', 'waiting_slot', 'running')`,
    [tenantId],
  );
  return counts;
}

/** Those that wait for a slot, or whose approval is granted, in the order of the grants. */
export const grantedRows = async (
  manager: EntityManager,
  tenantId: string,
  most: number,
): Promise<AutomationRow[]> => {
  const rows = await manager.query<{ id: string }[]>(
    `SELECT a.id FROM notifier.automations a LEFT JOIN notifier.approvals p ON p.id = a.approval_id
     WHERE a.tenant_id = $1 AND a.state IN ('waiting_approval', 'waiting_slot') AND (
       a.state = 'waiting_slot' OR (a.state = 'waiting_approval' AND p.state = 'approved'))
     ORDER BY COALESCE(a.granted_at, p.decided_at), a.created_at, a.id LIMIT $2`,
    [tenantId, most],
  );
  return rowsOf(manager, rows);
};

/** Gives a slot to one that waits for it. False where it does not wait any more. */
export async function startGranted(manager: EntityManager, id: string): Promise<boolean> {
  const [started] = await manager.query<[unknown[]]>(
    `UPDATE notifier.automations SET state = 'running', started_at = clock_timestamp(),
       expires_at = clock_timestamp() + make_interval(secs => ttl_seconds)
     WHERE id = $1 AND state = 'waiting_slot' RETURNING id`,
    [id],
  );
  return started.length > 0;
}

/** Denies one that waits for a slot. False where it does not wait any more. */
export async function denyGranted(
  manager: EntityManager,
  id: string,
  decided: AutomationRow['decided'],
): Promise<boolean> {
  const [denied] = await manager.query<[unknown[]]>(
    `UPDATE notifier.automations SET state = 'denied', decided = $2, ended_at = now(), expires_at = NULL
     WHERE id = $1 AND state = 'waiting_slot' RETURNING id`,
    [id, JSON.stringify(decided)],
  );
  return denied.length > 0;
}

/** The time of one that runs begins again. Undefined where it does not run, or its time is up. */
export const prolong = async (
  manager: EntityManager,
  tenantId: string,
  id: string,
): Promise<AutomationRow | undefined> => {
  const [row] = await changedRows(
    manager,
    `UPDATE notifier.automations SET expires_at = clock_timestamp() + make_interval(secs => ttl_seconds)
     WHERE id = $1 AND tenant_id = $2 AND state = 'running' AND expires_at > clock_timestamp()
     RETURNING id`,
    [id, tenantId],
  );
  return row;
};

/**
 * Ends one that runs or waits, under the lock on the slots. Undefined where it has ended, or its
 * time is up.
 */
export const finish = async (
  manager: EntityManager,
  tenantId: string,
  id: string,
  { outcome, actual_cost: cost }: { readonly outcome: string; readonly actual_cost?: number },
): Promise<AutomationRow | undefined> => {
  const [row] = await changedRows(
    manager,
    `UPDATE notifier.automations SET state = 'finished', outcome = $3, actual_cost = $4, ended_at = clock_timestamp(), expires_at = NULL
     WHERE id = $1 AND tenant_id = $2 AND (state IN ('waiting_approval', 'waiting_slot')
       OR (state = 'running' AND expires_at > clock_timestamp()))
     RETURNING id`,
    [id, tenantId, outcome, cost ?? null],
  );
  if (row) await settleHolds(manager, [row]);
  return row;
};

/**
 * Tenants in which something is to be done: a time is up, an approval is decided, or somebody waits
 * for a slot.
 */
export const tenantsWithWork = async (manager: EntityManager): Promise<string[]> => {
  const rows = await manager.query<{ tenant_id: string }[]>(
    `SELECT DISTINCT a.tenant_id FROM notifier.automations a
     LEFT JOIN notifier.approvals p ON p.id = a.approval_id
     WHERE a.state IN ('waiting_approval', 'waiting_slot', 'running') AND (a.state = 'waiting_slot'
       OR (a.state = 'running' AND a.expires_at <= now())
       OR (a.state = 'waiting_approval' AND p.state <> 'pending'))`,
  );
  return rows.map((row) => row.tenant_id);
};

async function changedRows(
  manager: EntityManager,
  statement: string,
  values: unknown[],
): Promise<AutomationRow[]> {
  const [rows] = await manager.query<[{ id: string }[]]>(statement, values);
  return rowsOf(manager, rows);
}

/** In the order given. */
async function rowsOf(
  manager: EntityManager,
  ids: readonly { readonly id: string }[],
): Promise<AutomationRow[]> {
  const found = await Promise.all(ids.map(({ id }) => manager.findOneBy(AutomationEntity, { id })));
  return found.filter((row) => row !== null);
}
