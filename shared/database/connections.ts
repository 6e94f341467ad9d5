/**
 * The connections of a node's pools, and to which server they lead.
 *
 * | Part        | Protects against                                      | Bounded by, degrades to                    |
 * |-------------|-------------------------------------------------------|--------------------------------------------|
 * | standby     | reading from a server that replays what another wrote | refused; isDatabaseOutage                  |
 * | read-only   | the pool preferring a connection to a demoted server  | ended after the first refusal              |
 * | same server | an owner reading from another server than its polls are answered by, such as a demoted one that is still up | ended once a poll is answered by another; a new one is refused until then |
 * | lifetime    | connections that stay where an address led before     | 15 minutes                                 |
 * | time-out    | handing out a connection that gave no answer in time  | ended                                      |
 *
 * Behind a pooler in transaction mode a connection has no server of its own: it is that which the
 * pooler had when it was made.
 */
import pg from 'pg';
import { noteOfCommit } from './failures.ts';
import { withoutName } from './pooler.ts';
import { leadToWritable } from './writable-host.ts';

/** SQLSTATE read_only_sql_transaction: what a hot standby answers to a write. */
const readOnlyTransaction = '25006';
/** SQLSTATE connection_does_not_exist, as of any connection that is lost. */
const connectionLost = '08003';
/** SQLSTATEs where `strata.cluster()` is not there: its schema or itself is not migrated yet. */
const notMigrated = new Set(['3F000', '42883']);

/** So that connections follow an address that has moved, also where nothing ended them. */
export const maxLifetimeSeconds = 15 * 60;

const failure = (code: string, message: string): Error =>
  Object.assign(new Error(message), { code });

/**
 * A client whose loss ends no process: while the pool hands a connection over, nobody listens to
 * it, and an error that nobody listens to ends Node. A server that shuts down ends connections in
 * the moment in which they are made.
 */
export class PooledClient extends pg.Client {
  /** `strata.cluster()` of the server; undefined until that is asked, and where it is not there. */
  cluster: string | undefined;
  #isOfStandby = false;

  constructor({ addresses, pooler, ...config }: PooledConfig) {
    super({ ...config, connectionString: addresses[0] });
    if (addresses.length > 1) leadToWritable(this, config, addresses);
    // Whoever uses the connection is told by its next query.
    this.on('error', () => {});
    // PostgreSQL says so before a connection takes its first query, and whenever it changes: manual,
    // "Asynchronous Operations" of the protocol.
    this.connection.on('parameterStatus', ({ parameterName, parameterValue }: ParameterStatus) => {
      // A pooler says what was so of the first of its connections.
      if (parameterName === 'in_hot_standby' && !pooler)
        this.#isOfStandby = parameterValue === 'on';
    });
    // `query` has many overloads, all of which are passed on as they are.
    const query = this.query.bind(this) as (...args: unknown[]) => unknown;
    const watched = (first: unknown, ...more: unknown[]): unknown => {
      const sent = query(pooler ? withoutName(first) : first, ...more);
      // Before whoever sent it hears of it.
      if (sent instanceof Promise)
        sent.catch((error: pg.DatabaseError) => {
          if (first === 'COMMIT') noteOfCommit(error);
          this.#endAfter(error);
        });
      return sent;
    };
    this.query = watched as typeof this.query;
  }

  /** pg destroys the socket of a query that timed out, and the pool hears of that only later. */
  #endAfter({ message, code }: pg.DatabaseError): void {
    if (message === 'Query read timeout' || code === readOnlyTransaction) void this.end();
  }

  /** Asks which server this is. Throws where what is read there may be older than what was written. */
  async identify(): Promise<void> {
    if (this.#isOfStandby)
      throw failure(
        readOnlyTransaction,
        'The address of the database leads to a standby, which cannot be written to.',
      );
    try {
      const { rows } = await this.query<{ cluster: string }>('SELECT strata.cluster() AS cluster');
      this.cluster = rows[0]!.cluster;
    } catch (error) {
      if (!notMigrated.has((error as pg.DatabaseError).code ?? '')) throw error;
    }
  }

  /** The pool removes it at once where it is idle, otherwise when it is given back. */
  abandon(): void {
    this.emit('error', failure(connectionLost, 'The database is another server than before.'));
    void this.end();
  }
}

interface PooledConfig extends pg.ClientConfig {
  /** Of the database on each of its servers. */
  readonly addresses: readonly string[];
  readonly pooler: boolean;
}

interface ParameterStatus {
  readonly parameterName: string;
  readonly parameterValue: string;
}

export class Connections {
  readonly #open = new Set<PooledClient>();
  #cluster: string | undefined;

  /**
   * To be called with `strata.cluster()` of each poll that was answered. Ends what leads to another
   * server.
   */
  follow(cluster: string): void {
    if (cluster === this.#cluster) return;
    this.#cluster = cluster;
    for (const client of this.#open) if (client.cluster !== cluster) client.abandon();
  }

  /**
   * To be called with each new client of a pool. Throws an outage where it leads to another server
   * than the last poll was answered by. The pool that polls `leads`: it has to reach a new one.
   */
  async admit(client: PooledClient, { leads }: { readonly leads: boolean }): Promise<void> {
    await client.identify();
    if (client.cluster === undefined) return;
    const isElsewhere = this.#cluster !== undefined && client.cluster !== this.#cluster;
    if (isElsewhere && !leads)
      throw failure(connectionLost, 'The change feed has not met this database server yet.');
    this.#open.add(client);
    client.once('end', () => this.#open.delete(client));
  }
}
