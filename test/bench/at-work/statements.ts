/** What a database does for the notifier: its statements, and processor time of its sessions. */
import { readFileSync } from 'node:fs';
import type { Database } from '../../support/postgres.ts';

/** For the server: statements are counted. */
export const countingStatements = [
  '-c',
  'shared_preload_libraries=pg_stat_statements',
  '-c',
  'pg_stat_statements.max=10000',
];

export interface Done {
  /** Processor time of the notifier's sessions in milliseconds. */
  readonly cpuMs: number;
  /** Statements of all sessions. */
  readonly statements: number;
  readonly seconds: number;
}

/** Processor time so far of each session of the notifier in the database, by process id. */
async function sessions({ query }: Database): Promise<Map<number, number>> {
  const rows = await query<{ pid: number }>(
    `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'strata-notifier'`,
  );
  return new Map(rows.map(({ pid }) => [pid, processorMs(pid)]));
}

/** Of a process: proc(5), schedstat. A session may have ended since it was listed. */
function processorMs(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6;
  } catch {
    return 0;
  }
}

async function calls({ query }: Database): Promise<number> {
  const [row] = await query<{ calls: number }>(
    `SELECT coalesce(sum(calls), 0)::float8 AS calls FROM public.pg_stat_statements
     WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
       AND query NOT LIKE '%pg_stat_%'`,
  );
  return row!.calls;
}

/** What is done in the database while `work` runs. */
export async function during(database: Database, work: () => Promise<unknown>): Promise<Done> {
  await database.query('CREATE EXTENSION IF NOT EXISTS pg_stat_statements SCHEMA public');
  const before = await sessions(database);
  const callsBefore = await calls(database);
  const began = performance.now();
  await work();
  const seconds = (performance.now() - began) / 1000;
  const statements = (await calls(database)) - callsBefore;
  const after = await sessions(database);
  const cpuMs = [...after].reduce((sum, [pid, ms]) => sum + ms - (before.get(pid) ?? 0), 0);
  return { cpuMs, statements, seconds };
}
