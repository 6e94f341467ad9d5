/**
 * A gateway as far as one configuration goes, whose answers a test can make late, old, doubtful or
 * wrong: GET effective with ETag, 304 and X-Min-Revision, and the stream of its changes.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

interface Revision {
  readonly tenant: number;
  readonly platform: number;
}
export interface Asked {
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  /** By the wall's clock, in milliseconds. */
  readonly at: number;
}

export interface EffectiveGateway {
  readonly url: string;
  readonly port: number;
  /** What it has been asked. */
  readonly asked: Asked[];
  /** JSON of the values, as it is sent. */
  values: string;
  revision: Revision;
  /** Answers of reads are marked so. */
  isStale: boolean;
  /** Whose requests are answered. */
  token: string;
  /** 200 where streams are given; else how they are refused, with `retryAfter` in seconds. */
  streams: number;
  retryAfter: number | undefined;
  heartbeatMs: number;
  /** What streams ask for as the first wait after their end. */
  retryMs: number;
  /** What a read answers instead of the values. */
  answer: ((response: ServerResponse) => void) | undefined;
  readonly open: () => number;
  /** A write: others values at the next revision, told on every stream. */
  readonly write: (values: object, scope?: keyof Revision) => Revision;
  /** Sends an event on every stream. */
  readonly notify: (event: string, revision: Revision, more?: object) => void;
  /** Ends every stream without a word. */
  readonly cut: () => void;
  readonly stop: () => Promise<void>;
  /** Serves on its port again. */
  readonly start: () => Promise<void>;
}

const idOf = ({ tenant, platform }: Revision): string => `${tenant}.${platform}`;

export async function startEffectiveGateway(): Promise<EffectiveGateway> {
  const open = new Set<ServerResponse>();
  let port = 0;
  const frame = (event: string, revision: Revision, more = {}): string =>
    `id: ${idOf(revision)}\nevent: ${event}\ndata: ${JSON.stringify({ revision, ...more })}\n\n`;

  const gateway: EffectiveGateway = {
    get url() {
      return `http://127.0.0.1:${port}`;
    },
    get port() {
      return port;
    },
    asked: [],
    values: '{}',
    revision: { tenant: 1, platform: 0 },
    isStale: false,
    token: 'good',
    streams: 200,
    retryAfter: undefined,
    heartbeatMs: 100,
    retryMs: 10,
    answer: undefined,
    open: () => open.size,
    write(values, scope = 'tenant') {
      gateway.values = JSON.stringify(values);
      gateway.revision = { ...gateway.revision, [scope]: gateway.revision[scope] + 1 };
      gateway.notify('effective.changed', gateway.revision, { keys: Object.keys(values) });
      return gateway.revision;
    },
    notify(event, revision, more) {
      for (const response of open) response.write(frame(event, revision, more));
    },
    cut() {
      for (const response of open) response.destroy();
    },
    stop: () =>
      new Promise((done) => {
        server.close(() => done());
        server.closeAllConnections();
      }),
    start: () =>
      new Promise((done) => {
        server.listen(port, '127.0.0.1', () => {
          ({ port } = server.address() as AddressInfo);
          done();
        });
      }),
  };

  function read(request: IncomingMessage, response: ServerResponse): void {
    const { revision, values } = gateway;
    const etag = `"${idOf(revision)}-env"`;
    response.setHeader('etag', etag);
    if (gateway.isStale) response.setHeader('x-config-stale', 'true');
    if (request.headers['if-none-match'] === etag) {
      response.writeHead(304).end();
      return;
    }
    const [tenant = 0, platform = 0] = String(request.headers['x-min-revision'] ?? '0')
      .split('.')
      .map(Number);
    if (tenant > revision.tenant || platform > revision.platform) {
      refuse(response, 503, 'service_unavailable');
      return;
    }
    const explain = Object.keys(JSON.parse(values) as object)
      .map((key) => [
        JSON.stringify(key),
        JSON.stringify({
          layer: 'global',
          source: `global_${key}`,
          path: '/config_value',
          revision: revision.platform,
          updated_by: 'somebody',
          updated_at: '2026-11-01T00:00:00Z',
          shadowed: [],
        }),
      ])
      .map((member) => member.join(':'));
    response.setHeader('content-type', 'application/json');
    response.end(
      `{"revision":${JSON.stringify(revision)},"values":${values},"explain":{${explain.join()}}}`,
    );
  }

  function stream(response: ServerResponse): void {
    if (gateway.streams !== 200) {
      if (gateway.retryAfter !== undefined)
        response.setHeader('retry-after', String(gateway.retryAfter));
      refuse(response, gateway.streams, 'rate_limited');
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(`retry: ${gateway.retryMs}\n\n${frame('ready', gateway.revision)}`);
    open.add(response);
    const heartbeats = setInterval(
      () => response.write(frame('heartbeat', gateway.revision)),
      gateway.heartbeatMs,
    );
    response.on('close', () => {
      clearInterval(heartbeats);
      open.delete(response);
    });
  }

  const server = createServer((request, response) => {
    const { url: path = '', headers } = request;
    gateway.asked.push({ path, headers, at: Date.now() });
    if (headers.authorization !== `Bearer ${gateway.token}`)
      refuse(response, 401, 'auth_token_expired');
    else if (path.includes('/config/effective/watch')) stream(response);
    else if (gateway.answer) gateway.answer(response);
    else read(request, response);
  });
  await gateway.start();
  return gateway;
}

export function refuse(response: ServerResponse, status: number, code: string): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ detail: { status: 'error', code, message: 'No.' } }));
}
