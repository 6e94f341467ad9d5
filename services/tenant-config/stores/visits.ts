/** Visits in the database, whose clock says when one begins and ends. */
import { randomUUID } from 'node:crypto';
import type { EntityManager } from 'typeorm';
import { visitMinutes } from '../../../shared/contracts/visits.ts';
import type { VisitRow } from '../schema.ts';

/** Of so many one look sees to. */
const mostAtOnce = 100;

export async function insertVisit(
  manager: EntityManager,
  {
    tenant_id,
    user_id,
    session_id,
    reason,
  }: Omit<VisitRow, 'id' | 'created_at' | 'until' | 'ended_at'>,
): Promise<VisitRow> {
  const [row] = await manager.query<[VisitRow]>(
    `INSERT INTO tenant_config.visits
     SELECT $1, $2, $3, $4, $5, now, now + interval '${visitMinutes} minutes', NULL
     FROM (SELECT date_trunc('milliseconds', clock_timestamp()) AS now) AS clock RETURNING *`,
    [tenant_id, randomUUID(), user_id, session_id, reason],
  );
  return row;
}

/** The visit that is open, whose time is not over; null where there is none. */
export async function openVisit(
  manager: EntityManager,
  tenantId: string,
  userId: string,
): Promise<VisitRow | null> {
  const [row] = await manager.query<VisitRow[]>(
    `SELECT * FROM tenant_config.visits
     WHERE tenant_id = $1 AND user_id = $2 AND ended_at IS NULL AND until > clock_timestamp()`,
    [tenantId, userId],
  );
  return row ?? null;
}

/** Those that were open at a moment, in the order in which they began. */
export const visitsAt = (manager: EntityManager, tenantId: string, at: Date): Promise<VisitRow[]> =>
  manager.query(
    `SELECT * FROM tenant_config.visits WHERE tenant_id = $1 AND created_at <= $2
       AND least(until, ended_at) > $2 ORDER BY created_at, id`,
    [tenantId, at],
  );

/** Which of a tenant's open visits end. */
interface Ending {
  readonly tenant_id: string;
  readonly id?: string;
  readonly user_id?: string;
}

/** Ends what is open of them. A visit has ended by its time, however late that is noticed. */
export async function endVisits(
  manager: EntityManager,
  { tenant_id: tenantId, id, user_id: userId }: Ending,
): Promise<VisitRow[]> {
  const [rows] = await manager.query<[VisitRow[], number]>(
    `UPDATE tenant_config.visits
     SET ended_at = date_trunc('milliseconds', least(clock_timestamp(), until))
     WHERE tenant_id = $1 AND ended_at IS NULL AND ($2::uuid IS NULL OR id = $2)
       AND ($3::uuid IS NULL OR user_id = $3) RETURNING *`,
    [tenantId, id ?? null, userId ?? null],
  );
  return rows;
}

/** Those whose time is over. */
export const dueVisits = (manager: EntityManager): Promise<Pick<VisitRow, 'tenant_id' | 'id'>[]> =>
  manager.query(
    `SELECT tenant_id, id FROM tenant_config.visits
     WHERE ended_at IS NULL AND until <= clock_timestamp() ORDER BY until LIMIT ${mostAtOnce}`,
  );
