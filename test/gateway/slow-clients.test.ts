/**
 * G7: clients that stall, drip or stay silent are told so and cut off. By the times of Strata
 * itself: `test/soak/minutes.test.ts`.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { promisify } from 'node:util';
import { createGatewayServer } from '../../gateway/http/server.ts';
import { eventually } from '../support/cluster.ts';
import { lastAnswer, open, slowClients, type Connection } from '../support/slow-clients.ts';

describe('with short times', () => {
  const times = { headersMs: 300, requestMs: 900, keepAliveMs: 900, checkMs: 50 };
  let server: Server;
  beforeAll(async () => {
    const gateway = createGatewayServer(
      {
        learn: () => {},
        answer: (request, response, fastify) => fastify(request, response),
      },
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
    await eventually(async () => {
      const open = [...connections.values()].filter(({ endedAfter }) => endedAfter() === undefined);
      expect(open).toHaveLength(0);
    });
  });

  test.each(Object.entries(slowClients))('%s is cut off', async (name, { isAnswered }) => {
    const { endedAfter, received } = connections.get(name)!;
    // By the times of Node's own it would be minutes.
    expect(endedAfter()).toBeLessThan(45_000);
    if (isAnswered)
      expect(lastAnswer(received())).toEqual({ status: 408, code: 'request_timeout' });
  });

  test('an answer that takes longer is not', async () => {
    expect(await longAnswer.text()).toBe('{}');
  });

  test('no half-open connection is left', async () => {
    // The one of the long answer may still be there.
    const count = promisify(server.getConnections.bind(server));
    await eventually(async () => expect(await count()).toBeLessThanOrEqual(1));
  });
});
