/** HOST may be a name that stands for several addresses. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { eventually } from '../support/cluster.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import { Client, startStrata, type Running } from '../support/strata.ts';

/**
 * What `localhost` stands for here, whatever the machine says. Not every Linux has `::1`, and no
 * macOS has the other.
 */
const addresses = ['127.0.0.1', process.platform === 'darwin' ? '::1' : '127.0.0.2'];
const inUrl = (address: string): string => (address.includes(':') ? `[${address}]` : address);
const preload = `
  import dns from 'node:dns/promises';
  import { syncBuiltinESMExports } from 'node:module';
  const { lookup } = dns;
  const found = ${JSON.stringify(addresses)}.map((address) => ({ address }));
  dns.lookup = async (host, options) => (host === 'localhost' ? found : lookup(host, options));
  syncBuiltinESMExports();`;

let database: Database;
let strata: Running;

beforeAll(async () => {
  database = await strataDatabase();
  strata = await startStrata({
    DATABASE_URL: database.url,
    HOST: 'localhost',
    NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(preload)}`,
  });
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await database?.drop();
});

const portOf = (): number => Number(new URL(strata.url).port);

test('with HOST=localhost, every address of localhost answers', async () => {
  for (const address of addresses) {
    const answer = await new Client(`http://${inUrl(address)}:${portOf()}`).get('/healthz');
    expect([address, answer.status]).toEqual([address, 200]);
  }
});

test('over http no one is told to come by https alone', async () => {
  const { headers } = await new Client(strata.url).get('/healthz');
  expect(headers.has('strict-transport-security')).toBe(false);
});

const body = JSON.stringify({ email: 'nobody@example.com', password: 'a-wrong-password' });

interface BegunRequest {
  readonly socket: Socket;
  readonly closed: Promise<unknown>;
  readonly received: () => string;
}

/** A connection over which all of a request but its last byte was sent. */
async function begunRequest(address: string): Promise<BegunRequest> {
  const socket = connect(portOf(), address);
  const closed = once(socket, 'close');
  let text = '';
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString();
  });
  await once(socket, 'connect');
  socket.write(
    `POST /auth/login HTTP/1.1\r\nHost: ${inUrl(address)}\r\nContent-Type: application/json\r\n` +
      `Expect: 100-continue\r\nContent-Length: ${body.length}\r\n\r\n${body.slice(0, -1)}`,
  );
  // What the gateway says once it has read the headers.
  await eventually(async () => expect(text).toMatch(/^HTTP\/1\.1 100 /));
  return { socket, closed, received: () => text };
}

/** What becomes of a connection that is made now. */
const outcomeOfConnecting = (address: string): Promise<string | undefined> =>
  new Promise((resolve) => {
    const socket = connect(portOf(), address, () => {
      socket.destroy();
      resolve('connected');
    });
    socket.once('error', ({ code }: NodeJS.ErrnoException) => resolve(code));
  });

test('a stop ends what was begun at every address, and takes nothing more at any', async () => {
  const begun = await Promise.all(addresses.map(begunRequest));
  const stopped = strata.stop();
  for (const address of addresses)
    await eventually(async () => expect(await outcomeOfConnecting(address)).toBe('ECONNREFUSED'));
  for (const { socket, closed, received } of begun) {
    socket.write(body.slice(-1));
    await closed;
    expect(received()).toMatch(/^HTTP\/1\.1 401 /m);
    // Said by an answer to a request that had begun before the stop, too: its connection would stay
    // open for another.
    expect(received()).toMatch(/^connection: close\r$/im);
  }
  await stopped;
  expect(strata.process.exitCode).toBe(0);
});
