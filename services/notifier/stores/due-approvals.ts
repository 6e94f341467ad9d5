/** Approvals of which something is due, in rounds in which each tenant has a turn. */
import type { DataSource } from 'typeorm';
import type { ApprovalRow } from '../schema.ts';

/** Of an approval: when the next of it is due. There is an index on exactly this. */
const dueAt = 'least(escalates_at, expires_at, reminds_at)';
/** Of an approval: something of it is due. */
export const isDue = `state = 'pending' AND ${dueAt} <= now()`;

/** Of one tenant in a round: as many as it may have may be due at the same moment. */
const mostOfTenant = 10;
const mostOfRound = 100;

export type Due = Pick<ApprovalRow, 'id' | 'tenant_id' | 'chain'> & {
  /** When that was read. */
  readonly at: Date;
};

/**
 * Those that are due longest, the first of each tenant before the second of any, and those of
 * tenants that were served before after all others.
 */
export const dueApprovals = (
  db: DataSource,
  except: readonly string[],
  served: readonly string[] = [],
): Promise<Due[]> =>
  db.query<Due[]>(
    `SELECT id, tenant_id, chain, now() AS at FROM (
       SELECT id, tenant_id, chain, ${dueAt} AS due_at,
         row_number() OVER (PARTITION BY tenant_id ORDER BY ${dueAt}, id) AS place
       FROM notifier.approvals WHERE ${isDue} AND id <> ALL($1)
     ) AS due
     WHERE place <= ${mostOfTenant} ORDER BY tenant_id = ANY($2), place, due_at LIMIT ${mostOfRound}`,
    [except, served],
  );
