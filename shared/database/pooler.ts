/**
 * A pooler in transaction mode, such as PgBouncer, gives each transaction of a client another
 * connection to PostgreSQL. What a client says when it connects, and what it prepares, does not
 * reach the next one:
 *
 * | Of a connection             | Directly                  | Behind a pooler                           |
 * |-----------------------------|---------------------------|-------------------------------------------|
 * | time-outs                   | sent when it is made      | of the role; a start without them refuses |
 * | names of statements         | prepared statements       | left out                                  |
 * | whether it is of a standby  | reported by PostgreSQL    | what PostgreSQL answers to a statement    |
 */
import type { DataSource } from 'typeorm';
import { CannotStart } from '../process/cannot-start.ts';

/** What PostgreSQL ends by itself, so that a request can be answered and no stopped node locks. */
export const serverTimeouts = (timeoutMs: number) => ({
  statement_timeout: Math.floor(timeoutMs * 0.7),
  idle_in_transaction_session_timeout: timeoutMs * 2,
});

/** The first argument of a query, without the name of its statement. */
export function withoutName(query: unknown): unknown {
  if (typeof query !== 'object' || query === null || !('name' in query)) return query;
  const { name: _name, ...rest } = query;
  return rest;
}

interface Timeout {
  readonly name: string;
  /** Milliseconds; 0 is none. */
  readonly setting: number;
  readonly role: string;
  readonly database: string;
}

/**
 * Throws CannotStart where statements may take longer, or stopped nodes hold locks for longer: a
 * pooler that ignores what it is told when it is connected to says nothing of that.
 */
export async function assertTimeouts(source: DataSource, timeoutMs: number): Promise<void> {
  const wanted: Readonly<Record<string, number>> = serverTimeouts(timeoutMs);
  const found = await source.query<Timeout[]>(
    `SELECT name, setting::int8, quote_ident(current_user) AS role, quote_ident(current_database()) AS database
     FROM pg_settings WHERE name = ANY($1) ORDER BY name DESC`,
    [Object.keys(wanted)],
  );
  const missing = found.filter(({ name, setting }) => setting === 0 || setting > wanted[name]!);
  if (missing.length === 0) return;
  const are = missing.map(({ name, setting }) => `${name} is ${setting}`);
  const remedies = missing.map(
    ({ name, role, database }) =>
      `ALTER ROLE ${role} IN DATABASE ${database} SET ${name} = ${wanted[name]};`,
  );
  throw new CannotStart(
    `Statements would not end in time: ${are.join(' and ')} in PostgreSQL, in milliseconds. Behind a pooler set DB_POOLER=true, run ${remedies.join(' ')} and have the pooler connect again (RECONNECT).`,
  );
}
