/**
 * Giving and taking the slots of a tenant, and finding the tenants in which there is something to
 * give or to take.
 *
 * | What                                  | Kept by                                                                  |
 * |---------------------------------------|--------------------------------------------------------------------------|
 * | never more running than the limit     | whoever starts one holds the tenant's row, and counts under it            |
 * | no limit that was changed before      | the configuration's revisions are held, and are those of the decision     |
 * | an approval and its automation        | one transaction makes both; its decision is read where slots are given    |
 * | a slot of somebody who is gone        | its time, by the database's clock; a heartbeat begins it again             |
 * | what it held of budgets               | is spent with its end (ledger.ts)                                         |
 */
import type { DataSource, EntityManager, SelectQueryBuilder } from 'typeorm';
import { schemaOfKey } from '../../../shared/bounds/known-keys.ts';
import { changesAfter, holdRevisions } from '../../../shared/commits/commit.ts';
import { globalEntryKey } from '../../../shared/contracts/global-entries.ts';
import { platformScope, tenantScope } from '../../../shared/contracts/revision-scopes.ts';
import { runAlone, type Statement } from '../../../shared/database/prepared-statements.ts';
import type { AutomationRow } from '../schema.ts';
import { settleHolds } from './ledger.ts';
import { liveStates } from './usage.ts';

/** How long one that was granted waits for a slot, in seconds. */
const longestInQueue = 86_400;

/** Whoever gives or takes slots of the tenant follows whoever did so before. */
export async function lockSlots(manager: EntityManager, tenantId: string): Promise<void> {
  const lock = (): Promise<unknown[]> =>
    manager.query(
      'SELECT tenant_id FROM notifier.automation_tenants WHERE tenant_id = $1 FOR UPDATE',
      [tenantId],
    );
  if ((await lock()).length > 0) return;
  await manager.query(
    'INSERT INTO notifier.automation_tenants (tenant_id) VALUES ($1) ON CONFLICT DO NOTHING',
    [tenantId],
  );
  await lock();
}

/** An approval may escalate 20 times, a week apart; after that a slot is waited for `longestInQueue`. */
const longestBeforeStart = '150 days';

/** Those that started in the span. By when they were asked for as well, of which there is an index. */
export function startedWithin(
  query: SelectQueryBuilder<AutomationRow>,
  { from, until }: { readonly from: Date | undefined; readonly until: Date | undefined },
): void {
  if (from)
    query.andWhere(
      `a.started_at >= :from AND a.created_at >= :from::timestamptz - interval '${longestBeforeStart}'`,
      { from },
    );
  if (until) query.andWhere('a.started_at < :until AND a.created_at < :until', { until });
}

export interface Revisions {
  readonly tenant: number;
  readonly platform: number;
}

/** The revision of the tenant's configuration, which stays so until the transaction ends. */
export async function heldTenant(manager: EntityManager, tenantId: string): Promise<number> {
  const scope = tenantScope(tenantId);
  const held = await holdRevisions(manager, [scope]);
  return held[scope]!;
}

/** The configuration's revisions, which stay so until the transaction ends. */
export async function heldRevisions(manager: EntityManager, tenantId: string): Promise<Revisions> {
  const scope = tenantScope(tenantId);
  const held = await holdRevisions(manager, [platformScope, scope]);
  return { tenant: held[scope]!, platform: held[platformScope]! };
}

/** So many changes of the platform are looked at. */
const mostChanges = 1000;

/**
 * Whether what was decided by some revisions is decided by those that are held: where nothing was
 * written since but entries of the platform whose names say nothing to Strata. Else whoever writes
 * many of them would keep all tenants' automations from starting.
 */
export async function isDecidedBy(
  manager: EntityManager,
  held: Revisions,
  { tenant, platform }: Revisions,
): Promise<boolean> {
  if (held.tenant !== tenant || held.platform < platform) return false;
  if (held.platform === platform) return true;
  const changes = await changesAfter(manager, platformScope, platform, mostChanges);
  const areAll = changes.length === held.platform - platform;
  return areAll && changes.every(({ keys }) => keys.length > 0 && keys.every(decidesNothing));
}

const entries = globalEntryKey({ key: '' });
const decidesNothing = (key: string): boolean =>
  key.startsWith(entries) && schemaOfKey(key.slice(entries.length)) === undefined;

/**
 * So many are ended, and of so many is taken notice, in one transaction: ten thousand may be due at the
 * same moment, such as where no notifier ran, and would outlast every time-out. No more than this run.
 */
const mostSettled = 1000;

/**
 * Ends what has had its time, and takes notice of approvals that have ended: what was granted waits
 * for a slot from now on. Those that hold a slot first. Each is locked before its time is compared:
 * a heartbeat takes no other lock. Answers the rows that changed, and whether there may be more.
 */
export async function settleDue(
  manager: EntityManager,
  tenantId: string,
): Promise<{ readonly settled: AutomationRow[]; readonly hasMore: boolean }> {
  const expired = await changedRows(
    manager,
    `UPDATE notifier.automations SET state = 'expired', ended_at = expires_at, expires_at = NULL
     WHERE id = ANY (ARRAY(
       SELECT id FROM notifier.automations
       WHERE tenant_id = $1 AND state IN ('running', 'waiting_slot') AND expires_at <= notifier.slot_now()
       ORDER BY state, expires_at LIMIT ${mostSettled} FOR UPDATE))
     RETURNING *`,
    [tenantId],
  );
  await settleHolds(manager, expired);
  const decided = await changedRows(
    manager,
    `WITH ended AS (
       UPDATE notifier.approvals SET awaited = false
       WHERE id = ANY (ARRAY(
         SELECT id FROM notifier.approvals WHERE tenant_id = $1 AND awaited AND state <> 'pending'
         ORDER BY decided_at LIMIT ${mostSettled}))
       RETURNING id, state, decided_at
     )
     UPDATE notifier.automations a SET
       state = CASE WHEN p.state = 'approved' THEN 'waiting_slot' ELSE 'denied' END,
       granted_at = CASE WHEN p.state = 'approved' THEN p.decided_at END,
       expires_at = CASE WHEN p.state = 'approved' THEN now() + make_interval(secs => $2) END,
       ended_at = CASE WHEN p.state = 'approved' THEN NULL ELSE now() END
     FROM ended p
     WHERE a.tenant_id = $1 AND a.state = 'waiting_approval' AND p.id = a.approval_id
     RETURNING a.*`,
    [tenantId, longestInQueue],
  );
  const hasMore = expired.length === mostSettled || decided.length === mostSettled;
  return { settled: [...expired, ...decided], hasMore };
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
     WHERE tenant_id = $1 AND state IN ${liveStates}`,
    [tenantId],
  );
  return counts;
}

export type GrantedRow = Pick<
  AutomationRow,
  'id' | 'state' | 'intent' | 'decided' | 'request_id' | 'approval_id'
>;

/** Of so many that wait longest some are looked at. */
const mostWaiting = 1000;

/**
 * Those that wait for a slot, or whose approval is granted, in the order of the grants. Where there
 * are more, those of one context, which has one limit, leave room for the first ones of others.
 */
export const grantedRows = (
  manager: EntityManager,
  tenantId: string,
  most: number,
): Promise<GrantedRow[]> =>
  manager.query(
    `SELECT id, state, intent, decided, request_id, approval_id FROM (
       SELECT granted.*, row_number() OVER (
         PARTITION BY intent ->> 'agent_type', intent ->> 'service_id', intent ->> 'service_type'
         ORDER BY granted_at, created_at, id) AS place
       FROM (
         (SELECT id, state, intent, decided, request_id, approval_id, granted_at, created_at FROM notifier.automations
          WHERE tenant_id = $1 AND state = 'waiting_slot' ORDER BY granted_at, created_at, id LIMIT $3)
         UNION ALL
         (SELECT a.id, a.state, a.intent, a.decided, a.request_id, a.approval_id, p.decided_at, a.created_at
          FROM notifier.approvals p JOIN notifier.automations a ON a.approval_id = p.id
          WHERE p.tenant_id = $1 AND p.awaited AND p.state = 'approved'
            AND a.tenant_id = $1 AND a.state = 'waiting_approval' LIMIT $2)
       ) AS granted
       ORDER BY place, granted_at, created_at, id LIMIT $2
     ) AS first ORDER BY granted_at, created_at, id`,
    [tenantId, most, mostWaiting],
  );

/** One that starts, with what it was charged. */
export type Start = Pick<AutomationRow, 'id' | 'holds'>;

/** Gives slots to those of them that wait for one, and answers their rows. */
export const startGranted = (
  manager: EntityManager,
  starts: readonly Start[],
): Promise<AutomationRow[]> =>
  changedRows(
    manager,
    `UPDATE notifier.automations a SET state = 'running', holds = started.holds, (started_at, expires_at) =
       (SELECT now, now + make_interval(secs => a.ttl_seconds) FROM clock_timestamp() AS now)
     FROM json_to_recordset($1) AS started (id uuid, holds json)
     WHERE a.id = started.id AND a.state = 'waiting_slot' RETURNING a.*`,
    [JSON.stringify(starts)],
  );

export type Denial = Pick<AutomationRow, 'id' | 'decided'>;

/** Denies those of them that wait for a slot, and answers their rows. */
export const denyGranted = (
  manager: EntityManager,
  denials: readonly Denial[],
): Promise<AutomationRow[]> =>
  changedRows(
    manager,
    `UPDATE notifier.automations a SET state = 'denied', decided = denied.decided, ended_at = now(), expires_at = NULL
     FROM json_to_recordset($1) AS denied (id uuid, decided json)
     WHERE a.id = denied.id AND a.state = 'waiting_slot' RETURNING a.*`,
    [JSON.stringify(denials)],
  );

/** The time of one that runs begins again. Undefined where it does not run, or its time is up. */
export const prolong = async (
  manager: EntityManager,
  tenantId: string,
  id: string,
): Promise<AutomationRow | undefined> => {
  const [row] = await changedRows(
    manager,
    `UPDATE notifier.automations SET expires_at = clock_timestamp() + make_interval(secs => ttl_seconds)
     WHERE id = $1 AND tenant_id = $2 AND state = 'running' AND expires_at > notifier.slot_now()
     RETURNING *`,
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
       OR (state = 'running' AND expires_at > notifier.slot_now()))
     RETURNING *`,
    [id, tenantId, outcome, cost ?? null],
  );
  if (row) await settleHolds(manager, [row]);
  return row;
};

/**
 * Up to so many tenants of each kind of work: a time is up, an approval has ended, or somebody waits
 * for a slot and was not looked at for a while. Who waits there is not looked at by others until
 * `claimSeconds` have passed; a tenant that somebody is giving slots in is left to them.
 */
export async function claimTenantsDue(
  db: DataSource,
  most: number,
  claimSeconds: number,
  except: readonly string[] = [],
): Promise<string[]> {
  const rows = await runAlone<{ tenant_id: string }>(db, claimTenants, [
    most,
    claimSeconds,
    except,
  ]);
  return rows.map((row) => row.tenant_id);
}

/** Of those whose time is up longest: more than one tenant has. */
const mostExpired = 20_000;

const claimTenants: Statement = {
  name: 'notifier_claim_tenants',
  text: `WITH due AS (
       (SELECT DISTINCT tenant_id FROM (
          SELECT tenant_id FROM notifier.automations
          WHERE state IN ('waiting_slot', 'running') AND expires_at <= notifier.slot_now() AND tenant_id <> ALL ($3::uuid[])
          ORDER BY expires_at LIMIT ${mostExpired}) AS expired LIMIT $1)
       UNION
       (SELECT DISTINCT tenant_id FROM notifier.approvals
        WHERE awaited AND state <> 'pending' AND tenant_id <> ALL ($3::uuid[]) LIMIT $1)
       UNION
       (SELECT tenant_id FROM notifier.automation_tenants
        WHERE look_at <= now() AND tenant_id <> ALL ($3::uuid[]) ORDER BY look_at LIMIT $1)
     ),
     free AS (
       SELECT t.tenant_id FROM notifier.automation_tenants t JOIN due USING (tenant_id) FOR UPDATE OF t SKIP LOCKED
     )
     UPDATE notifier.automation_tenants t SET look_at = now() + make_interval(secs => $2)
     FROM free WHERE t.tenant_id = free.tenant_id RETURNING t.tenant_id`,
};

/** Whether there is anything to give in the tenant, as far as no time is up. */
export async function hasGranted(manager: EntityManager, tenantId: string): Promise<boolean> {
  const [row] = await manager.query<[{ has_granted: boolean }]>(
    `SELECT EXISTS (SELECT FROM notifier.automation_tenants WHERE tenant_id = $1 AND look_at IS NOT NULL)
       OR EXISTS (SELECT FROM notifier.approvals WHERE tenant_id = $1 AND awaited AND state <> 'pending') AS has_granted`,
    [tenantId],
  );
  return row.has_granted;
}

/** Under the lock on the tenant's slots: when those who wait are looked at, if any do. */
export async function lookAgainIn(
  manager: EntityManager,
  tenantId: string,
  seconds: number,
): Promise<void> {
  await manager.query(
    `UPDATE notifier.automation_tenants t SET look_at = CASE
       WHEN EXISTS (SELECT FROM notifier.automations WHERE tenant_id = $1 AND state = 'waiting_slot')
       THEN now() + make_interval(secs => $2) END
     WHERE tenant_id = $1`,
    [tenantId, seconds],
  );
}

/** Has those who wait for a slot looked at now: in these tenants, or in all. */
export async function lookNow(
  manager: EntityManager,
  tenantIds: readonly string[] | 'all',
): Promise<void> {
  await manager.query(
    `UPDATE notifier.automation_tenants SET look_at = now()
     WHERE look_at > now() AND ($1::uuid[] IS NULL OR tenant_id = ANY($1))`,
    [tenantIds === 'all' ? null : tenantIds],
  );
}

async function changedRows(
  manager: EntityManager,
  statement: string,
  values: unknown[],
): Promise<AutomationRow[]> {
  const [rows] = await manager.query<[AutomationRow[]]>(statement, values);
  return rows;
}
