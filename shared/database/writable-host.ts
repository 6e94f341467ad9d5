/**
 * Of several servers in DATABASE_URL, the one that takes writes. pg knows one host for a client, so
 * each connection is preceded by one to every host, which asks. After a failover the next
 * connection finds the new primary; those that were made before are ended by the server, or by
 * their pool (connections.ts).
 */
import { setTimeout as delay } from 'node:timers/promises';
import { callbackify } from 'node:util';
import pg from 'pg';
import { messageOf } from '../process/cannot-start.ts';

/** SQLSTATE sqlclient_unable_to_establish_sqlconnection. */
const cannotConnect = '08001';

type HostAddress = Pick<pg.Client, 'host' | 'port'>;

/** Where a client has no time-out of its own for its connection. */
const defaultTimeoutMs = 10_000;

/** SQLSTATE read_only_sql_transaction. */
const readOnlyTransaction = '25006';

/**
 * Has `connect` of the client, by promise and by callback, lead to the server of these addresses
 * that can be written to.
 */
export function leadToWritable(
  client: pg.Client,
  config: pg.ClientConfig,
  addresses: readonly string[],
): void {
  const connect = client.connect.bind(client) as () => Promise<pg.Client>;
  const led = async (): Promise<pg.Client> => {
    // pg has read both from its configuration and reads neither before it connects.
    Object.assign(client, await writableOf(addresses, config));
    return connect();
  };
  const withCallback = callbackify(led);
  client.connect = ((callback?: (error: Error) => void) =>
    callback ? withCallback(callback) : led()) as typeof client.connect;
}

/**
 * How much longer than the first that can be written to those before it have. Two such servers are a
 * failover that went wrong, and then all connections should reach the same one.
 */
const graceMs = 250;

/** All are asked at once, because one that is gone answers nothing. */
async function writableOf(
  addresses: readonly string[],
  config: pg.ClientConfig,
): Promise<HostAddress> {
  const asked = addresses.map((address) => addressIfWritable(address, config));
  const first = await Promise.any(asked).catch(({ errors }: AggregateError) => {
    throw noneIsWritable(addresses, errors);
  });
  const grace = delay(graceMs, undefined, { ref: false });
  for (const each of asked) {
    const place = await Promise.race([each.catch(() => undefined), grace]);
    if (place) return place;
  }
  return first;
}

async function addressIfWritable(address: string, config: pg.ClientConfig): Promise<HostAddress> {
  const { connectionTimeoutMillis = defaultTimeoutMs } = config;
  const client = new pg.Client({
    ...config,
    connectionString: address,
    // The other half is for the connection itself.
    connectionTimeoutMillis: connectionTimeoutMillis / 2,
  });
  // The query tells of a loss.
  client.on('error', () => {});
  try {
    await client.connect();
    const { rows } = await client.query<{ is_on: boolean }>(
      "SELECT current_setting('transaction_read_only')::bool AS is_on",
    );
    if (rows[0]!.is_on)
      throw Object.assign(new Error('it cannot be written to'), { code: readOnlyTransaction });
    return { host: client.host, port: client.port };
  } finally {
    void client.end();
  }
}

/**
 * Says of each what it answered. The code is that of an outage where one is only a standby, or where
 * none is given, as for a server that hangs up while it is killed.
 */
function noneIsWritable(addresses: readonly string[], errors: readonly Error[]): Error {
  const codes = errors.map((error) => (error as { code?: string }).code);
  const said = errors.map((error, place) => `${hostOf(addresses[place]!)}: ${messageOf(error)}`);
  const code =
    codes.find((each) => each === readOnlyTransaction) ??
    codes.find((each) => each !== undefined) ??
    cannotConnect;
  return Object.assign(new Error(said.join(', ')), { code });
}

const hostOf = (address: string): string => new URL(address).host;
