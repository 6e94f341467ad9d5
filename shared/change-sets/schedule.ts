/**
 * Runs change sets whose time has come, and reminds of those that wait for a review, by the
 * database's clock, on whichever node looks first. It goes by what is stored, and each is applied in
 * one transaction that also says so: once, or not at all.
 */
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import type { DataSource } from 'typeorm';
import { startBackgroundLoop, type BackgroundLoop } from '../concurrency/background-loop.ts';
import { runAlone, type Statement } from '../database/prepared-statements.ts';
import { isOutage } from '../errors.ts';
import { remindDue } from './reminders.ts';
import { tableOf, type Of } from './store.ts';

const pollMs = 1000;
/** So late it may still be applied: what is meant for the night does not come in the morning. */
export const graceMs = 15 * 60_000;
const batch = 20;
/**
 * What is refused, and not suspended by that, is tried again after this time, such as a write of a
 * tenant that has changed as much as it may in an hour. Until then the others come first.
 */
const refusedMs = 30_000;
/** The same after an outage, which may be of its tenant alone: the next of that tenant comes first. */
const outageMs = 5000;
const mostLater = 10_000;

export interface ScheduleOptions {
  readonly db: DataSource;
  readonly entity: Of['entity'];
  /** Who reminds of what waits. */
  readonly service: 'tenant-config' | 'global-config';
  readonly log: Logger;
  readonly run: (tenantId: string | null, id: string) => Promise<unknown>;
}

interface DueSet {
  readonly id: string;
  readonly tenant_id: string | null;
}

export function startSchedule({ db, entity, service, log, run }: ScheduleOptions): BackgroundLoop {
  const table = tableOf(entity);
  // One of each tenant: how many one has, and what its own wait for, holds up no other.
  const dueSets: Statement = {
    name: `${table}_scheduled`,
    text: `SELECT id, tenant_id FROM (
             SELECT DISTINCT ON (tenant_id) id, tenant_id, due_at FROM ${table}
             WHERE state = 'scheduled' AND due_at <= now() AND id <> ALL ($1) ORDER BY tenant_id, due_at
           ) AS first ORDER BY due_at LIMIT ${batch}`,
  };
  /** Ids of those that were not applied, until they are tried again. */
  const later = new LRUCache<string, true>({ max: mostLater });

  /** Answers the outage that kept it from being applied. */
  async function attempt(tenantId: string | null, id: string): Promise<unknown> {
    try {
      await run(tenantId, id);
      return undefined;
    } catch (error) {
      // Another node was first, or somebody took it back.
      log.info({ err: error, changeset_id: id }, 'a scheduled change set was not applied');
      const outage = isOutage(error) ? error : undefined;
      later.set(id, true, { ttl: outage === undefined ? refusedMs : outageMs });
      return outage;
    }
  }
  return startBackgroundLoop({
    log,
    async look() {
      const due = await runAlone<DueSet>(db, dueSets, [[...later.keys()]]);
      const outages = await Promise.all(due.map(({ id, tenant_id: of }) => attempt(of, id)));
      const reminded = await remindDue(db, entity, service);
      const outage = outages.find((each) => each !== undefined);
      if (outage !== undefined) throw outage;
      return due.length > 0 || reminded === batch ? 0 : pollMs;
    },
    retryMs: pollMs,
    complaint: 'scheduled change sets cannot be applied; it is tried again',
    firstMs: pollMs,
  });
}

/** Whether a change set is due, and whether it is too late for it, by the database's clock. */
export interface Due {
  readonly due: boolean;
  readonly late: boolean;
  readonly now: Date;
}

export async function dueNow(db: DataSource, entity: Of['entity'], id: string): Promise<Due> {
  const [row] = await db.query<Due[]>(
    `SELECT due_at <= now AS due, now - due_at > make_interval(secs => $2) AS late, now
     FROM ${tableOf(entity)}, clock_timestamp() AS now WHERE id = $1`,
    [id, graceMs / 1000],
  );
  return row ?? { due: false, late: false, now: new Date(0) };
}
