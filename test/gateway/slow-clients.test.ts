/** G7: clients that stall, drip or stay silent are told so and cut off; honest ones next to them notice nothing. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import type { Server } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { createGatewayServer } from '../../gateway/server.ts';
import { createDatabase, type Database } from '../support/postgres.ts';
import {
  adminPassword,
  Client,
  createTenant,
  signIn,
  startStrata,
  type Running,
  type TenantFixture,
} from '../support/strata.ts';

const body = '{"email":"a@b.example","password":"not-the-password"}';
const head = (length: number): string =>
  `POST /auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`;

/** What a client sends, and what it goes on sending, a piece at a time, for ever. */
interface SlowClient {
  readonly sends: string;
  readonly drips?: string;
  /** Whether it hears of its fate: one that has been answered already does not. */
  readonly isTold: boolean;
}
const slowClients: Readonly<Record<string, SlowClient>> = {
  'a connection without a request': { sends: '', isTold: true },
  'half the headers': { sends: 'POST /auth/login HTTP/1.1\r\nHost: x\r\nX-Half', isTold: true },
  'headers that drip': { sends: 'GET /healthz HTTP/1.1\r\nX-Long: ', drips: 'a', isTold: true },
  'a body that stalls': { sends: `${head(100)}{"email"`, isTold: true },
  'a body that drips': { sends: `${head(100_000)}{"email":"`, drips: 'a', isTold: true },
  'a request, and nothing after its answer': {
    sends: 'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n',
    isTold: false,
  },
  'an answered request whose body stalls': {
    sends: 'PUT /config/global/x HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{',
    isTold: false,
  },
};

interface Connection {
  readonly received: () => string;
  /** Milliseconds from the connection to its end; undefined while it is open. */
  readonly endedAfter: () => number | undefined;
}

/** Half-open: it never closes its own side, whatever the server does. */
function open({ sends, drips }: SlowClient, port: number, host: string): Connection {
  const began = performance.now();
  let received = '';
  let ended: number | undefined;
  const socket: Socket = connect({ port, host, allowHalfOpen: true });
  socket.on('data', (chunk: Buffer) => {
    received += chunk.toString();
  });
  const end = (): void => {
    ended ??= performance.now() - began;
    clearInterval(drip);
  };
  const drip = setInterval(() => {
    if (drips !== undefined && socket.writable) socket.write(drips);
  }, 500);
  socket.on('end', end);
  socket.on('error', end);
  socket.on('close', end);
  if (sends !== '') socket.write(sends);
  return { received: () => received, endedAfter: () => ended };
}

/** The last answer that the connection was given. */
function lastAnswer(received: string): { status: number; code: string | undefined } {
  const start = received.lastIndexOf('HTTP/1.1 ');
  const status = Number(received.slice(start + 9, start + 12));
  const text = received.slice(received.indexOf('\r\n\r\n', start) + 4);
  const { detail } = JSON.parse(text) as { detail?: { code: string } };
  return { status, code: detail?.code };
}

describe('with short times', () => {
  const times = { headersMs: 300, requestMs: 900, keepAliveMs: 900, checkMs: 50 };
  let server: Server;
  beforeAll(async () => {
    const gateway = createGatewayServer(
      { learn: () => {}, tryAnswer: () => false },
      () => 'an-id',
      times,
    );
    server = gateway.create((request, response) => {
      const answer = (): void => {
        response.end('{}');
      };
      request.on('error', () => {});
      if (request.method === 'POST') request.resume().once('end', answer);
      else setTimeout(answer, request.url === '/long' ? 1500 : 0);
    });
    server.on('clientError', gateway.refuse);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
  });
  afterAll(() => {
    server.closeAllConnections();
    server.close();
  });

  const connections = new Map<string, Connection>();
  let longAnswer: Response;
  beforeAll(async () => {
    const { port } = server.address() as AddressInfo;
    for (const [name, client] of Object.entries(slowClients))
      connections.set(name, open(client, port, '127.0.0.1'));
    longAnswer = await fetch(`http://127.0.0.1:${port}/long`);
    await delay(1000);
  });

  test.each(Object.entries(slowClients))('%s is cut off', async (name, { isTold }) => {
    const { endedAfter, received } = connections.get(name)!;
    expect(endedAfter()).toBeLessThan(2400);
    if (isTold) expect(lastAnswer(received())).toEqual({ status: 408, code: 'request_timeout' });
  });

  test('an answer that takes longer is not', async () => {
    expect(await longAnswer.text()).toBe('{}');
  });

  test('no half-open connection is left', async () => {
    // The one of the long answer may still be there.
    const [count] = await Promise.all([
      promisify(server.getConnections.bind(server))(),
      delay(100),
    ]);
    expect(count).toBeLessThanOrEqual(1);
  });
});

describe('Strata itself', () => {
  let database: Database;
  let strata: Running;
  let tenant: TenantFixture;
  beforeAll(async () => {
    database = await createDatabase();
    strata = await startStrata({ DATABASE_URL: database.url, LOG_LEVEL: 'warn' });
    const platform = await signIn(strata.url, 'admin@example.com', adminPassword);
    tenant = await createTenant(strata.url, platform, 'Slow clients');
  });
  afterAll(async () => {
    await strata?.stop();
    await database?.drop();
  });

  test('400 slow, silent and half-open clients are gone within 70 s, and a stream goes on', async () => {
    const { hostname, port } = new URL(strata.url);
    const kinds = Object.values(slowClients);
    const connections = Array.from({ length: 400 }, (_each, index) => {
      const client = kinds[index % kinds.length]!;
      return { client, ...open(client, Number(port), hostname) };
    });
    const stream = await fetch(`${strata.url}/tenants/${tenant.id}/config/watch`, {
      headers: { authorization: `Bearer ${tenant.admin.token}` },
    });
    const events = stream.body!.getReader();
    await events.read();

    const honest: number[] = [];
    const until = performance.now() + 70_000;
    while (performance.now() < until) {
      const began = performance.now();
      const { status } = await new Client(strata.url).post('/auth/login', JSON.parse(body));
      honest.push(performance.now() - began);
      expect([401, 429]).toContain(status);
      const isOver = connections.every(({ endedAfter }) => endedAfter() !== undefined);
      if (isOver) break;
      await delay(1000);
    }
    expect(Math.max(...honest)).toBeLessThan(5000);
    const open70 = connections.filter(({ endedAfter }) => endedAfter() === undefined);
    expect(open70).toEqual([]);
    const told = connections.filter(({ client }) => client.isTold);
    for (const { received } of told)
      expect(lastAnswer(received())).toEqual({ status: 408, code: 'request_timeout' });

    const [change] = await Promise.all([
      events.read(),
      tenant.admin.patch(`/tenants/${tenant.id}/config/risk`, {
        global_settings: { max_cost_impact_auto: 7 },
      }),
    ]);
    expect(change.done).toBe(false);
    await events.cancel();
  }, 100_000);
});
