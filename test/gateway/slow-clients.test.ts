/**
 * G7: clients that stall, drip or stay silent are told so and cut off. By the times of Strata
 * itself: `test/soak/minutes.test.ts`.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import type { Server, ServerResponse } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { createGatewayServer } from '../../gateway/http/server.ts';
import { eventually } from '../support/cluster.ts';
import { lastAnswer, open, slowClients, type Connection } from '../support/slow-clients.ts';

describe('with short times', () => {
  const times = { headersMs: 300, requestMs: 900, takeMs: 900, keepAliveMs: 900, checkMs: 50 };
  /** More than the kernel's buffers of a connection hold. */
  const largeAnswer = Buffer.alloc(32 * 1024 * 1024);
  let server: Server;
  beforeAll(async () => {
    const gateway = createGatewayServer(
      {
        learn: () => {},
        answer: (request, response, fastify) => fastify(request, response),
      },
      () => 'an-id',
      () => {},
      times,
    );
    server = gateway.create((request, response) => {
      const answer = (): void => {
        response.end('{}');
      };
      request.on('error', () => {});
      if (request.method === 'POST') request.resume().once('end', answer);
      else if (request.url === '/large') response.end(largeAnswer);
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

  test('a client that takes nothing of its answer is cut off', async () => {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
    socket.pause().write('GET /large HTTP/1.1\r\nHost: x\r\n\r\n');
    const [, response] = (await once(server, 'request')) as [unknown, ServerResponse];
    await once(response, 'close');
    expect(response.writableFinished).toBe(false);
    socket.destroy();
  });

  test('one that takes it slowly is not', async () => {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
    socket.write('GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
    let taken = 0;
    const began = performance.now();
    // Twice as long as a client may wait with the next part.
    for await (const chunk of socket) {
      taken += (chunk as Buffer).length;
      const due = (taken / largeAnswer.length) * 2 * times.takeMs;
      await delay(Math.max(0, due - (performance.now() - began)));
    }
    expect(taken).toBeGreaterThan(largeAnswer.length);
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
