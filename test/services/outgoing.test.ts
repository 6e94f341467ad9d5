/**
 * The guard and the client over it, against real listeners on loopback: hostile addresses never
 * reach them.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import {
  connect,
  createServer as createTcpServer,
  type AddressInfo,
  type Server,
  type Socket,
} from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { createGuard } from '../../shared/outgoing/guard.ts';
import { createGuardedFetch } from '../../shared/outgoing/guarded-fetch.ts';
import { createHttpClient, type OutgoingRequest } from '../../shared/outgoing/http-client.ts';
import { OutgoingError } from '../../shared/outgoing/outgoing-error.ts';
import { createResolve, type Resolve } from '../../shared/outgoing/resolve.ts';

const canary = 'canary-k9Zr';
const settings = {
  webhook_allow_http: true,
  webhook_allowed_networks: [] as string[],
  http_client_timeout_seconds: 10,
  http_client_connect_timeout_seconds: 5,
};
const open = { ...settings, webhook_allowed_networks: ['127.0.0.0/8'] };
const answering = (...rounds: string[][]): Resolve => {
  let round = 0;
  return async () =>
    (rounds[Math.min(round++, rounds.length - 1)] ?? []).map((address) => ({
      address,
      family: address.includes(':') ? 6 : 4,
    }));
};
const loopback = answering(['127.0.0.1']);
const clientOf = (given: typeof settings, resolve?: Resolve) =>
  createHttpClient(
    createGuard(() => given, resolve),
    () => given,
  );

const refusalOf = async (work: Promise<unknown>): Promise<string> => {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof OutgoingError))
    throw new Error(`is not refused as it should be: ${error}`);
  expect(`${error.stack} ${JSON.stringify(error)}`).not.toContain(canary);
  expect(error.cause).toBeUndefined();
  return error.reason;
};

describe('what must not be reached', () => {
  let connections = 0;
  let port: number;
  const listeners: Server[] = [];
  beforeAll(async () => {
    const listen = async (host: string, at: number): Promise<Server> => {
      const server = createTcpServer((socket) => {
        connections += 1;
        socket.destroy();
      }).listen({ host, port: at, ipv6Only: host === '::' });
      await once(server, 'listening');
      listeners.push(server);
      return server;
    };
    port = ((await listen('0.0.0.0', 0)).address() as AddressInfo).port;
    await listen('::', port).catch(() => undefined);
  });
  afterAll(() => {
    for (const server of listeners) server.close();
  });

  const addresses = [
    '127.0.0.1',
    '127.1',
    '127.0.1',
    '2130706433',
    '0x7f000001',
    '0x7f.1',
    '017700000001',
    '0177.0.0.1',
    '0177.0.0.01',
    '127.0.0.1.',
    '127.255.255.254',
    '①②⑦.⓪.⓪.①',
    '%31%32%37.0.0.1',
    '0',
    '0.0.0.0',
    '00000000',
    '10.0.0.1',
    '172.16.0.1',
    '172.31.255.254',
    '192.168.1.1',
    '100.64.0.1',
    '168.63.129.16',
    '169.254.169.254',
    '2852039166',
    '0xA9FEA9FE',
    '192.0.0.192',
    '192.0.2.1',
    '192.88.99.1',
    '198.18.0.1',
    '198.51.100.1',
    '203.0.113.1',
    '224.0.0.1',
    '240.0.0.1',
    '255.255.255.255',
    '[::1]',
    '[0:0:0:0:0:0:0:1]',
    '[::]',
    '[::127.0.0.1]',
    '[::7f00:1]',
    '[::8.8.8.8]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[::ffff:8.8.8.8]',
    '[::ffff:0:127.0.0.1]',
    '[64:ff9b::7f00:1]',
    '[64:ff9b::8.8.8.8]',
    '[64:ff9b:1::1]',
    '[2002:7f00:1::]',
    '[2002:a9fe:a9fe::1]',
    '[2001:0:53aa:64c:0:7f:0:1]',
    '[fe80::1]',
    '[fec0::1]',
    '[fd00:ec2::254]',
    '[ff02::1]',
    '[100::1]',
    '[2001:db8::1]',
    '[3fff::1]',
    '[5f00::1]',
    '[4000::1]',
    '[2001:20::1]',
  ];
  test.each(addresses)('http://%s', async (host) => {
    const url = `http://${host}:${port}/${canary}`;
    expect(await refusalOf(clientOf(settings).send({ url, method: 'POST', body: '{}' }))).toBe(
      'address_refused',
    );
    expect(await refusalOf(createGuard(() => settings).checkUrl(url))).toBe('address_refused');
  });

  test.each([
    `http://${canary}@8.8.8.8/`,
    `http://u:${canary}@8.8.8.8/`,
    `http://8.8.8.8:80@127.0.0.1/${canary}`,
    `http://127.0.0.1#@8.8.8.8/${canary}`,
    `http:\\\\127.0.0.1\\${canary}`,
    `file:///etc/${canary}`,
    `gopher://8.8.8.8/${canary}`,
    `ftp://8.8.8.8/${canary}`,
    `unix:/var/run/${canary}`,
    `data:text/plain,${canary}`,
    canary,
    '',
    `http:///${canary}`,
  ])('the address %s', async (url) => {
    expect(['url_refused', 'address_refused', 'name_not_resolved']).toContain(
      await refusalOf(clientOf(settings, answering([])).send({ url, method: 'POST' })),
    );
  });

  test('a UNIX socket, as got writes it', async () => {
    expect(
      await refusalOf(
        clientOf(settings).send({ url: `http://unix:/var/run/${canary}:/x`, method: 'POST' }),
      ),
    ).toBe('connection_failed');
  });

  test('http, unless it is allowed', async () => {
    const strict = { ...settings, webhook_allow_http: false };
    expect(
      await refusalOf(clientOf(strict).send({ url: `http://8.8.8.8/${canary}`, method: 'POST' })),
    ).toBe('url_refused');
    expect(
      await refusalOf(createGuard(() => strict).checkUrl(`http://hooks.example/${canary}`)),
    ).toBe('url_refused');
  });

  const names: [string, string[]][] = [
    ['loopback', ['127.0.0.1']],
    ['IPv6 loopback', ['::1']],
    ['metadata', ['169.254.169.254']],
    ['private', ['10.1.2.3']],
    ['mapped', ['::ffff:127.0.0.1']],
    ['NAT64', ['64:ff9b::7f00:1']],
    ['with a zone', ['fe80::1%lo']],
    ['public and loopback', ['8.8.8.8', '127.0.0.1']],
    ['loopback and public', ['127.0.0.1', '2606:4700::1111']],
    ['no address at all', ['localhost']],
  ];
  test.each(names)('a name that stands for an address: %s', async (_name, found) => {
    const url = `http://hooks.example:${port}/${canary}`;
    expect(
      await refusalOf(clientOf(settings, answering(found)).send({ url, method: 'POST' })),
    ).toBe('address_refused');
    expect(await refusalOf(createGuard(() => settings, answering(found)).checkUrl(url))).toBe(
      'address_refused',
    );
  });

  test('localhost, as the system resolves it', async () => {
    expect(
      await refusalOf(
        clientOf(settings).send({ url: `http://localhost:${port}/${canary}`, method: 'POST' }),
      ),
    ).toBe('address_refused');
  });

  test('a name whose answer flips between check and connect', async () => {
    const guard = createGuard(() => settings, answering(['8.8.8.8'], ['127.0.0.1']));
    const url = `http://hooks.example:${port}/${canary}`;
    await guard.checkUrl(url);
    expect(
      await refusalOf(createHttpClient(guard, () => settings).send({ url, method: 'POST' })),
    ).toBe('address_refused');
  });

  test('nothing was reached, though it listens', async () => {
    expect(connections).toBe(0);
    const probe = connect(port, '127.0.0.1');
    await once(probe, 'close');
    expect(connections).toBe(1);
  });
});

describe('what may be saved', () => {
  test.each(['https://8.8.8.8/x', 'https://[2606:4700::1111]/x', 'https://1.1.1.1:8443/?q=1#f'])(
    '%s',
    async (url) => {
      expect((await createGuard(() => settings).checkUrl(url)).href).toBe(url);
    },
  );
  test('a public name', async () => {
    await createGuard(() => settings, answering(['8.8.8.8', '2606:4700::1111'])).checkUrl(
      'https://hooks.example',
    );
  });
  test('a name that does not resolve yet', async () => {
    const guard = createGuard(() => settings, answering([]));
    await guard.checkUrl('https://soon.example');
  });
  test('a name whose resolver hangs', async () => {
    const guard = createGuard(
      () => settings,
      () => new Promise(() => {}),
    );
    await guard.checkUrl('https://slow.example');
  });
  test('what is inside an allowed network, of its own family, from the moment of the setting', async () => {
    const live = { ...settings };
    const guard = createGuard(() => live);
    expect(await refusalOf(guard.checkUrl('http://127.0.0.1'))).toBe('address_refused');
    live.webhook_allowed_networks = ['127.0.0.0/8', 'fd00::/8'];
    await guard.checkUrl('http://127.0.0.1');
    await guard.checkUrl('http://[fd00::1]');
    expect(await refusalOf(guard.checkUrl('http://[::ffff:127.0.0.1]'))).toBe('address_refused');
    expect(await refusalOf(guard.checkUrl('http://[::1]'))).toBe('address_refused');
    expect(await refusalOf(guard.checkUrl('http://10.0.0.1'))).toBe('address_refused');
  });
});

describe('names', () => {
  /**
   * A name server: `silent.*` gets no answer, `flip.*` a public one first and loopback ever after,
   * other names are loopback; none has IPv6.
   */
  const server = createSocket('udp4');
  let resolve: Resolve;
  let flips = 0;
  beforeAll(async () => {
    server.on('message', (query, { port, address }) => {
      const end = query.indexOf(0, 12) + 5;
      const name = query.subarray(12, end).toString('latin1');
      if (name.includes('silent')) return;
      const four = query.readUInt16BE(end - 4) === 1 && !name.includes('unknown');
      const value = four && name.includes('flip') && flips++ === 0 ? [8, 8, 8, 8] : [127, 0, 0, 1];
      const answer = four
        ? Buffer.from([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, ...value])
        : Buffer.alloc(0);
      const head = Buffer.from([0, 0, 0x81, 0x80, 0, 1, 0, four ? 1 : 0, 0, 0, 0, 0]);
      query.copy(head, 0, 0, 2);
      server.send(Buffer.concat([head, query.subarray(12, end), answer]), port, address);
    });
    server.bind(0, '127.0.0.1');
    await once(server, 'listening');
    resolve = createResolve([`127.0.0.1:${server.address().port}`]);
  });
  afterAll(() => {
    server.close();
  });

  test('are asked of DNS; those without a dot of the system', async () => {
    expect(await resolve('hooks.example')).toEqual([{ address: '127.0.0.1', family: 4 }]);
    expect(await resolve('unknown.example')).toEqual([]);
    expect((await resolve('localhost')).map(({ address }) => address)).toEqual(
      expect.arrayContaining([expect.stringMatching(/^(127\.0\.0\.1|::1)$/)]),
    );
    expect(await resolve('nosuchname')).toEqual([]);
  });

  test('that flip between check and connect are refused', async () => {
    const guard = createGuard(() => settings, resolve);
    await guard.checkUrl(`http://flip.example/${canary}`);
    expect(
      await refusalOf(
        createHttpClient(guard, () => settings).send({
          url: `http://flip.example/${canary}`,
          method: 'POST',
        }),
      ),
    ).toBe('address_refused');
    expect(flips).toBe(2);
  });

  test('whose servers are silent delay neither other names nor what needs a thread', async () => {
    let silent = 50;
    const waiting = Array.from({ length: silent }, (_, n) =>
      resolve(`silent${n}.example`).finally(() => {
        silent -= 1;
      }),
    );
    expect(await resolve('healthy.example')).toHaveLength(1);
    expect(await resolve('localhost')).not.toHaveLength(0);
    expect(silent).toBe(50);
    expect((await Promise.all(waiting)).flat()).toEqual([]);
  });
});

describe('the client', () => {
  let reached: string[] = [];
  const sockets = new Set<Socket>();
  const paths: Record<string, RequestListener> = {
    '/echo': (request, response) => {
      let body = '';
      request.on('data', (chunk) => {
        body += chunk;
      });
      request.on('end', () =>
        response
          .setHeader('set-cookie', ['a=1', 'b=2'])
          .end(JSON.stringify({ method: request.method, headers: request.headers, body })),
      );
    },
    '/redirect': (_request, response) =>
      response.writeHead(302, { location: '/echo' }).end('moved'),
    '/none': (_request, response) => response.writeHead(204).end(),
    '/odd': (_request, response) => response.writeHead(999).end(),
    '/unavailable': (_request, response) =>
      response.writeHead(503, { 'retry-after': '7' }).end('later'),
    '/hang': () => undefined,
    '/reset': (request) => request.socket.resetAndDestroy(),
    '/garbage': (request) => request.socket.end('SSH-2.0-x\r\n'),
    '/upgrade': (request) =>
      request.socket.write(
        'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n',
      ),
    '/trickle': (_request, response) => {
      response.write('slow');
      const timer = setInterval(() => response.write('.'), 20);
      response.on('close', () => clearInterval(timer));
    },
    '/endless': (_request, response) => {
      const more = (): void => {
        while (!response.destroyed && response.write(Buffer.alloc(65_536, 'x')));
      };
      response.on('drain', more);
      more();
    },
    '/half': (_request, response) => {
      response
        .writeHead(200, { 'content-length': '100' })
        .write('half', () => response.socket?.resetAndDestroy());
    },
    '/headers': (request) => {
      request.socket.write('HTTP/1.1 200 OK\r\n');
      const timer = setInterval(() => request.socket.write('X-A: b\r\n'), 20);
      request.socket.on('close', () => clearInterval(timer));
    },
    '/early': (request) => {
      const timer = setInterval(() => request.socket.write('HTTP/1.1 103 Early Hints\r\n\r\n'), 20);
      request.socket.on('close', () => clearInterval(timer));
    },
    '/big': (_request, response) => response.end(Buffer.alloc(1024 * 1024, 'x')),
    '/bigger': (_request, response) => response.end(Buffer.alloc(1024 * 1024 + 1, 'x')),
  };
  const server = createServer((request, response) => {
    reached.push(request.url!);
    paths[request.url!]!(request, response);
  }).on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket)).on('error', () => {});
  });
  let base: string;
  beforeAll(async () => {
    await once(server.listen(0, '127.0.0.1'), 'listening');
    base = `http://hooks.example:${(server.address() as AddressInfo).port}`;
  });
  afterAll(() => {
    server.close();
    server.closeAllConnections();
  });

  const client = clientOf(open, loopback);
  const send = (path: string, request: Partial<OutgoingRequest> = {}) =>
    client.send({ url: base + path, method: 'POST', ...request });

  test('sends exact bytes and headers, and reads the answer', async () => {
    const body = Buffer.from('{"ä":1.0,  "b":"\\u0000"}');
    const answer = await send('/echo', {
      body,
      headers: { 'Content-Type': 'application/json', 'X-Team': 'ops' },
    });
    expect(answer).toMatchObject({ status: 200, cut: null });
    const { headers, ...seen } = JSON.parse(answer.body.toString());
    expect(seen).toEqual({ method: 'POST', body: body.toString() });
    expect(headers).toEqual({
      host: new URL(base).host,
      'user-agent': 'Strata',
      'content-type': 'application/json',
      'x-team': 'ops',
      'content-length': String(body.length),
      connection: 'close',
    });
  });

  test('each request has a connection of its own', async () => {
    let opened = 0;
    const count = (): void => {
      opened += 1;
    };
    server.on('connection', count);
    for (let n = 0; n < 3; n += 1) await send('/echo');
    server.off('connection', count);
    expect(opened).toBe(3);
  });

  test('does not follow a redirect', async () => {
    reached = [];
    expect(await send('/redirect')).toMatchObject({
      status: 302,
      headers: { location: '/echo' },
      body: Buffer.from('moved'),
    });
    expect(reached).toEqual(['/redirect']);
  });

  test('does not retry', async () => {
    reached = [];
    expect(await send('/unavailable', { method: 'GET' })).toMatchObject({
      status: 503,
      headers: { 'retry-after': '7' },
    });
    await refusalOf(send('/reset', { method: 'GET' }));
    expect(reached).toEqual(['/unavailable', '/reset']);
  });

  test.each(['/hang', '/headers', '/early'])('%s ends at the deadline', async (path) => {
    const headers = { authorization: `Bearer ${canary}` };
    const refused = refusalOf(send(path, { timeoutMs: 300, headers }));
    const never = delay(20_000, 'not for 20 s', { ref: false });
    expect(await Promise.race([refused, never])).toBe('timed_out');
  });

  test('a resolver that hangs ends at the time-out for connecting', async () => {
    const impatient = { ...open, http_client_connect_timeout_seconds: 0.1 };
    const hanging = clientOf(impatient, () => new Promise(() => {}));
    expect(
      await refusalOf(
        hanging.send({ url: `${base}/${canary}`, method: 'POST', timeoutMs: 120_000 }),
      ),
    ).toBe('timed_out');
  });

  test.each([
    ['/reset', 'connection_failed'],
    ['/garbage', 'answer_invalid'],
    // That its connection is closed is seen at the end of this file.
    ['/upgrade', 'answer_invalid'],
  ])('%s is %s', async (path, reason) => {
    expect(await refusalOf(send(path, { headers: { authorization: `Bearer ${canary}` } }))).toBe(
      reason,
    );
  });

  test('a port where nothing listens', async () => {
    const gone = createTcpServer().listen(0, '127.0.0.1');
    await once(gone, 'listening');
    const { port } = gone.address() as AddressInfo;
    gone.close();
    await once(gone, 'close');
    expect(
      await refusalOf(client.send({ url: `http://127.0.0.1:${port}/${canary}`, method: 'POST' })),
    ).toBe('connection_failed');
  });

  test('a header that HTTP cannot carry', async () => {
    expect(await refusalOf(send('/echo', { headers: { 'x-a': `${canary}\r\nx-b: c` } }))).toBe(
      'request_invalid',
    );
  });

  test('a name that does not resolve', async () => {
    expect(
      await refusalOf(
        clientOf(open, answering([])).send({ url: `${base}/${canary}`, method: 'POST' }),
      ),
    ).toBe('name_not_resolved');
  });

  test('once the headers are here the status stands, whatever becomes of the body', async () => {
    const trickle = await send('/trickle', { timeoutMs: 3000 });
    expect(trickle).toMatchObject({ status: 200, cut: 'timed_out' });
    expect(trickle.body.toString()).toMatch(/^slow\./);
    const endless = await send('/endless');
    expect(endless).toMatchObject({ status: 200, cut: 'answer_too_large' });
    expect(endless.body.length).toBe(4096);
    expect(await send('/half')).toMatchObject({ status: 200, cut: 'connection_failed' });
  });

  test('a caller can end a request', async () => {
    expect(await refusalOf(send('/hang', { signal: AbortSignal.timeout(50) }))).toBe('timed_out');
    expect(await refusalOf(send('/hang', { signal: AbortSignal.abort() }))).toBe('timed_out');
  });

  test('leaves no connection open', async () => {
    while (sockets.size > 0) await once([...sockets][0]!, 'close');
    expect(sockets.size).toBe(0);
  });

  describe('as fetch', () => {
    const fetch = createGuardedFetch(client);
    test('carries method, headers and body, and answers a Response', async () => {
      const response = await fetch(`${base}/echo`, {
        method: 'POST',
        headers: { accept: 'application/json' },
        body: new URLSearchParams({ a: 'b c' }),
      });
      expect(response.status).toBe(200);
      expect(response.headers.getSetCookie()).toEqual(['a=1', 'b=2']);
      expect(await response.json()).toMatchObject({
        method: 'POST',
        body: 'a=b+c',
        headers: {
          accept: 'application/json',
          'content-type': 'application/x-www-form-urlencoded;charset=UTF-8',
        },
      });
      expect(await (await fetch(`${base}/echo`)).json()).toMatchObject({ method: 'GET', body: '' });
      expect((await fetch(`${base}/none`)).status).toBe(204);
      expect((await fetch(`${base}/redirect`)).status).toBe(302);
    });
    test('reads up to 1 MiB, whole or not at all', async () => {
      expect((await (await fetch(`${base}/big`)).arrayBuffer()).byteLength).toBe(1024 * 1024);
      expect(await refusalOf(fetch(`${base}/bigger`))).toBe('answer_too_large');
      expect(await refusalOf(fetch(`${base}/half`))).toBe('connection_failed');
      expect(await refusalOf(fetch(`${base}/odd`))).toBe('answer_invalid');
      expect(await refusalOf(fetch(`${base}/hang`, { signal: AbortSignal.timeout(50) }))).toBe(
        'timed_out',
      );
      expect(await refusalOf(fetch(`http://[::1]/${canary}`))).toBe('address_refused');
    });
  });
});
