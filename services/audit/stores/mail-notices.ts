/**
 * Events that people are still to be told of by mail: noted with the event, so that mails are sent
 * also after a kill. What was erased or purged meanwhile is in no mail.
 */
import { In, type DataSource, type EntityManager } from 'typeorm';
import type { AuditEventFacts } from '../../../shared/commits/commit.ts';
import { EventEntity, eventFrom } from '../schema.ts';

/** Of one tenant, and of all, in one look. */
const mostAtOnce = { ofTenant: 20, ofAll: 100 } as const;
/** Of those that wait longest so many are looked at. */
const mostLookedAt = 1000;
/** Another node tries again what a dead one claimed, and any what could not be sent. */
const claimSeconds = 120;

/** Whether the event is of something powerful: `commit.ts` says so in its payload. */
export const hasPower = ({ payload }: AuditEventFacts): boolean =>
  typeof payload === 'object' && payload !== null && 'power' in payload;
export const isOfChangeSet = ({ action }: AuditEventFacts): boolean =>
  action.startsWith('changeset.');

/** Inside the transaction that recorded them. Resolves to whether there are any. */
export async function noteMails(
  manager: EntityManager,
  recorded: readonly AuditEventFacts[],
): Promise<boolean> {
  const ids = recorded
    .filter((event) => hasPower(event) || isOfChangeSet(event))
    .map(({ id }) => id);
  if (ids.length === 0) return false;
  await manager.query(
    `INSERT INTO audit.mail_notices (event_id, due_at)
     SELECT id, clock_timestamp() FROM unnest($1::uuid[]) AS id`,
    [ids],
  );
  return true;
}

/** Mails of one tenant, or of the platform, that are to be sent. */
export interface DueMails {
  readonly tenantId: string | null;
  readonly ids: readonly string[];
  /** Those that there still are, oldest first. */
  readonly events: readonly AuditEventFacts[];
}

/** Claims what is due, but for that of some tenants. A node that dies loses its claims and nothing else. */
export async function claimMails(
  db: DataSource,
  except: readonly DueMails['tenantId'][],
): Promise<DueMails[]> {
  const rows = await db.query<{ event_id: string; tenant_id: string | null }[]>(
    `WITH waiting AS (
       SELECT event_id, tenant_id, row_number() OVER (PARTITION BY tenant_id ORDER BY due_at) AS place
       FROM (
         SELECT n.event_id, n.due_at, e.tenant_id FROM audit.mail_notices n LEFT JOIN audit.events e ON e.id = n.event_id
         WHERE n.due_at <= clock_timestamp()
           AND NOT EXISTS (SELECT FROM unnest($1::uuid[]) AS o (id) WHERE o.id IS NOT DISTINCT FROM e.tenant_id)
         ORDER BY n.due_at LIMIT ${mostLookedAt}
       ) AS oldest
     ),
     due AS (
       SELECT event_id FROM audit.mail_notices
       WHERE event_id = ANY (ARRAY(
           SELECT event_id FROM waiting WHERE place <= ${mostAtOnce.ofTenant} ORDER BY place LIMIT ${mostAtOnce.ofAll}))
         AND due_at <= clock_timestamp() FOR UPDATE SKIP LOCKED
     ),
     claimed AS (
       UPDATE audit.mail_notices n SET due_at = clock_timestamp() + interval '${claimSeconds} seconds'
       FROM due WHERE n.event_id = due.event_id RETURNING n.event_id
     )
     SELECT event_id, tenant_id FROM claimed JOIN waiting USING (event_id)`,
    [except],
  );
  if (rows.length === 0) return [];
  const found = await db.manager.find(EventEntity, {
    where: { id: In(rows.map(({ event_id: id }) => id)) },
    order: { occurred_at: 'ASC' },
  });
  const byTenant = Map.groupBy(rows, ({ tenant_id: tenantId }) => tenantId);
  return [...byTenant].map(([tenantId, own]) => ({
    tenantId,
    ids: own.map(({ event_id: id }) => id),
    events: found.filter((event) => event.tenant_id === tenantId).map(eventFrom),
  }));
}

/** Of those that are on their way still. */
export const renewMails = (db: DataSource, ids: DueMails['ids']): Promise<unknown> =>
  db.query(
    `UPDATE audit.mail_notices SET due_at = clock_timestamp() + interval '${claimSeconds} seconds'
     WHERE event_id = ANY ($1)`,
    [ids],
  );

export const removeMails = (db: DataSource, ids: DueMails['ids']): Promise<unknown> =>
  db.query('DELETE FROM audit.mail_notices WHERE event_id = ANY ($1)', [ids]);
