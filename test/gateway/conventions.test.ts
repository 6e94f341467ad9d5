/**
 * HTTP as clients, browsers and proxies know it, on whatever path; and the OpenAPI document against
 * the answers themselves.
 */
import { beforeAll, describe, expect, test } from '@jest/globals';
import { validate } from '@scalar/openapi-validator';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { once } from 'node:events';
import { connect } from 'node:net';
import { gzipSync } from 'node:zlib';
import { eventually } from '../support/cluster.ts';
import { sharedStrata, type SharedStrata } from '../support/shared-strata.ts';
import {
  adminPassword,
  Client,
  createTenantWith,
  signIn,
  type Answer,
  type TenantWith,
} from '../support/strata.ts';

let strata: SharedStrata;
let platform: Client;
let tenant: TenantWith<'viewer'>;

beforeAll(async () => {
  strata = await sharedStrata();
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenantWith(strata.url, platform, 'Conventions', ['viewer']);
});

/** Sends bytes as they are and gives everything that comes back until the server hangs up. */
async function rawly(text: string): Promise<{
  head: string;
  body: { detail: { code: string; message: string }; request_id: string };
}> {
  const { hostname, port } = new URL(strata.url);
  const socket = connect(Number(port), hostname);
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  socket.setTimeout(120_000, () => socket.destroy());
  socket.write(text);
  await once(socket, 'close');
  const [head, body] = Buffer.concat(chunks).toString().split('\r\n\r\n') as [string, string];
  return { head, body: JSON.parse(body) };
}

describe('what is not a request', () => {
  test.each([
    ['a method that HTTP has not', 'FOO / HTTP/1.1\r\nHost: x\r\n\r\n'],
    ['no HTTP at all', 'hello\r\n\r\n'],
    [
      'headers of 32 KiB',
      `GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: ${'a'.repeat(32_768)}\r\n\r\n`,
    ],
    [
      'a length that is no number',
      'POST /auth/login HTTP/1.1\r\nHost: x\r\nContent-Length: 1e1\r\n\r\n{}',
    ],
  ])('%s is answered in the envelope', async (...[, text]) => {
    const { head, body } = await rawly(text);
    expect(head).toMatch(/^HTTP\/1\.1 400 .*\r\ncontent-type: application\/json\r\n/s);
    expect(head).toContain(`x-request-id: ${body.request_id}`);
    expect(head).toMatch(/\r\ncache-control: private, no-cache\r\n/);
    expect(body.detail).toEqual({
      status: 'error',
      code: 'invalid_request',
      message: expect.any(String),
    });
  });

  /** How many answers of this status no route gave. */
  async function countOf(status: number): Promise<number> {
    const { text } = await new Client(strata.url).get('/metrics');
    return text
      .split('\n')
      .filter((line) => /^strata_http_requests_total\{.*route="none"/.test(line))
      .filter((line) => line.includes(`status="${status}"`))
      .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
  }

  test.each([
    ['no HTTP', 400, 'hello\r\n\r\n'],
    ['no Host', 400, 'GET / HTTP/1.1\r\n\r\n'],
    ['CONNECT', 405, 'CONNECT a.example:443 HTTP/1.1\r\nHost: x\r\n\r\n'],
    ['an expectation', 417, 'GET / HTTP/1.1\r\nHost: x\r\nExpect: x\r\n\r\n'],
    ['no path', 404, 'GET /%zz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'],
  ])('%s is counted, and in the log under its request id', async (...[, status, text]) => {
    const before = await countOf(status);
    const { body } = await rawly(text);
    expect(await countOf(status)).toBe(before + 1);
    await eventually(async () =>
      expect(await strata.output()).toContain(`"request_id":"${body.request_id}"`),
    );
  });

  test('does not take the answer of the request before it, which was acted upon', async () => {
    const path = `/tenants/${tenant.id}/config/agents/followed`;
    const body = '{"default_region":"europe-west1"}';
    const headers = `Host: x\r\nAuthorization: Bearer ${tenant.admin.token}\r\nContent-Type: application/json`;
    const write = `PUT ${path} HTTP/1.1\r\n${headers}\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
    const { head } = await rawly(`${write}}\r\n\r\n`);
    const { status } = await tenant.admin.get(path);
    expect([head.slice(0, 12), status]).toEqual(['HTTP/1.1 201', 200]);
  });
});

test('an expectation that is not met is refused in the envelope', async () => {
  const { head, body } = await rawly(
    'POST /auth/login HTTP/1.1\r\nHost: x\r\nExpect: 200-maybe\r\nContent-Length: 2\r\n\r\n{}',
  );
  expect([head.slice(9, 12), body.detail.code]).toEqual(['417', 'expectation_failed']);
  expect(head.toLowerCase()).toContain(`x-request-id: ${body.request_id}`);
});

test('a client that hangs up in the middle of a body is no error of ours', async () => {
  const { hostname, port } = new URL(strata.url);
  const socket = connect(Number(port), hostname);
  const id = 'hangs-up-in-the-middle';
  socket.write(
    `POST /auth/login HTTP/1.1\r\nHost: x\r\nX-Request-ID: ${id}\r\nContent-Type: application/json\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n`,
  );
  // Its body is being read.
  await once(socket, 'data');
  socket.write('{"email":');
  socket.destroySoon();
  const line = await eventually(async () => {
    const output = await strata.output();
    const found = output.split('\n').filter((each) => each.includes(id));
    if (found.length === 0) throw new Error('nothing is logged');
    return found.join('\n');
  });
  expect(line).toContain('hung up');
  expect(line).not.toContain('unexpected error');
});

describe('the Host header', () => {
  test.each([
    ['none', 'GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n', 400],
    ['two', 'GET /healthz HTTP/1.1\r\nHost: a\r\nhOST: b\r\nConnection: close\r\n\r\n', 400],
    ['two that are the same', 'GET /healthz HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n', 400],
    ['two in HTTP/1.0', 'GET /healthz HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n', 400],
    ['none in HTTP/1.0', 'GET /healthz HTTP/1.0\r\n\r\n', 200],
    ['one', 'GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n', 200],
  ])('%s', async (...[, text, status]) => {
    const { head, body } = await rawly(text);
    expect(head).toMatch(new RegExp(`^HTTP/1\\.[01] ${status} `));
    if (status === 200) return;
    expect(body.detail).toMatchObject({ code: 'invalid_request' });
    expect(head.toLowerCase()).toContain(`x-request-id: ${body.request_id}`);
  });
});

describe('paths and methods', () => {
  const unknownMethods = [
    'PROPFIND',
    'QUERY',
    'TRACE',
    'MKCOL',
    'REPORT',
    'LOCK',
    'PURGE',
    'M-SEARCH',
  ];
  test.each(unknownMethods)('%s is taken by no path', async (method) => {
    const withoutBody = '';
    const withBody = 'Content-Type: application/json\r\nContent-Length: 2\r\n';
    for (const headers of [withoutBody, withBody]) {
      const ask = (path: string) =>
        rawly(
          `${method} ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${headers}\r\n${headers && '{}'}`,
        );
      const known = await ask('/tenants/x/config/risk');
      expect([known.head.slice(9, 12), known.body.detail.code]).toEqual([
        '405',
        'method_not_allowed',
      ]);
      expect(known.head.toLowerCase()).toContain('\r\nallow: get, put, patch\r\n');
      const unknown = await ask('/nowhere');
      expect([unknown.head.slice(9, 12), unknown.body.detail.code]).toEqual(['404', 'not_found']);
    }
  });

  test('CONNECT is refused: Strata is no proxy', async () => {
    const { head, body } = await rawly('CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n');
    expect([head.slice(9, 12), body.detail.code]).toEqual(['405', 'method_not_allowed']);
    expect(head.toLowerCase()).toContain('\r\nallow: get,');
  });

  test('If-Unmodified-Since is refused on a write, also a date to come, and nothing is written', async () => {
    const path = `/tenants/${tenant.id}/config/risk`;
    const before = await tenant.admin.get(path);
    const tag = before.headers.get('etag')!;
    const dates = ['Mon, 01 Jan 2024 00:00:00 GMT', 'Fri, 01 Jan 2100 00:00:00 GMT', 'no date'];
    for (const date of dates) {
      const headers = { 'if-unmodified-since': date };
      const answers = [
        await tenant.admin.put(path, {}, headers),
        await tenant.admin.patch(path, {}, headers),
        await tenant.admin.put(`${path}?dry_run=true`, {}, headers),
        await platform.send('POST', '/tenants', { body: { name: 'Never' }, headers }),
        await platform.delete('/config/global/never', headers),
      ];
      for (const { status, body } of answers)
        expect([status, body.detail.code]).toEqual([412, 'precondition_failed']);
      expect((await tenant.viewer.put(path, {}, headers)).status).toBe(403);
      // Beside If-Match it does not count (RFC 9110, section 13.1.4).
      const matched = await tenant.admin.put(
        `${path}?dry_run=true`,
        {},
        { ...headers, 'if-match': tag },
      );
      expect(matched.status).toBe(200);
    }
    expect((await tenant.admin.get(path)).headers.get('etag')).toBe(tag);
  });

  test.each([
    ['a name of 501 characters', `/config/global/${'a'.repeat(501)}`],
    ['a broken percent-encoding', '/config/global/a%ZZ'],
    ['bytes that are not UTF-8', '/config/global/a%ff'],
  ])('%s is nothing that there is', async (...[, path]) => {
    const answer = await platform.get(path);
    expect([answer.status, answer.body.detail.code, answer.headers.get('content-type')]).toEqual([
      404,
      'not_found',
      'application/json',
    ]);
  });

  test.each(['/config/watch', '/tenants/x/approvals/watch'])(
    'a stream has no HEAD: %s',
    async (path) => {
      const { status, headers } = await new Client(strata.url).send('HEAD', path);
      expect([status, headers.get('allow')]).toEqual([405, 'GET']);
    },
  );

  test.each([
    ['/tenants/x/config/risk', 'GET, PUT, PATCH'],
    ['/auth/login', 'POST'],
    ['/healthz', 'GET'],
    ['/readyz', 'GET'],
    ['/metrics', 'GET'],
    ['/openapi.json', 'GET'],
  ])('%s takes %s', async (...[path, allowed]) => {
    const refused = await new Client(strata.url).delete(path);
    expect([refused.status, refused.body.detail.code, refused.headers.get('allow')]).toEqual([
      405,
      'method_not_allowed',
      allowed,
    ]);
    const options = await new Client(strata.url).send('OPTIONS', path);
    expect([options.status, options.text, options.headers.get('allow')]).toEqual([
      204,
      '',
      allowed,
    ]);
  });

  test('a body that is compressed is refused, not misread', async () => {
    const path = `/tenants/${tenant.id}/config/agents/packed`;
    for (const raw of [gzipSync('{}'), '{}']) {
      const answer = await tenant.admin.send('PUT', path, {
        raw,
        headers: { 'content-encoding': 'gzip' },
      });
      expect([answer.status, answer.body.detail.code]).toEqual([415, 'unsupported_media_type']);
    }
    expect(
      (
        await tenant.admin.send('PUT', path, {
          raw: '{}',
          headers: { 'content-encoding': 'identity' },
        })
      ).status,
    ).toBe(201);
  });

  test('no browser or proxy keeps an answer past the next read, or for somebody else', async () => {
    for (const path of [
      `/tenants/${tenant.id}/config/risk`,
      `/tenants/${tenant.id}/config/effective`,
      '/nowhere',
    ]) {
      expect((await tenant.admin.get(path)).headers.get('cache-control')).toBe('private, no-cache');
    }
  });
});

describe('the OpenAPI document', () => {
  interface Operation {
    readonly responses: Record<
      string,
      {
        readonly content?: Record<string, { readonly schema: object }>;
      }
    >;
  }
  let paths: Record<string, Record<string, Operation>>;
  let components: object;
  // Formats of numbers and the like are OpenAPI's.
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  addFormats.default(ajv);
  ajv.addFormat('iana-time-zone', true);
  beforeAll(async () => {
    ({ paths, components } = (await platform.get('/openapi.json')).body);
  });

  test('is valid OpenAPI 3.1', async () => {
    expect(await validate((await platform.get('/openapi.json')).body)).toMatchObject({
      valid: true,
      version: '3.1',
    });
  });

  const successesOf = ({ responses }: Operation): string[] =>
    Object.keys(responses)
      .filter((status) => status.startsWith('2'))
      .toSorted();

  /**
   * Throws unless the document foretells this answer: its status, and a body of that schema or
   * none.
   */
  function foretold(method: string, path: string, answer: Answer): void {
    const known = paths[path]![method]!.responses[answer.status];
    if (!known)
      throw new Error(
        `${method} ${path} answered ${answer.status}, which the document does not have`,
      );
    if (!known.content) {
      expect(answer.text).toBe('');
      return;
    }
    const type = answer.headers.get('content-type')!;
    if (type === 'application/x-ndjson') return;
    const { schema } = known.content[type]!;
    expect(
      ajv.validate({ ...schema, components }, answer.body === undefined ? answer.text : answer.body)
        ? []
        : ajv.errors,
    ).toEqual([]);
  }

  test('foretells every status and body of a write', async () => {
    const path = '/tenants/{tenant_id}/services/{service_id}';
    const url = `/tenants/${tenant.id}/services/foretold`;
    const body = { service_type: 'cloud_run', min_instances: 1 };
    const send = async (method: string, query = '', sent?: unknown): Promise<Answer> => {
      const answer = await tenant.admin.send(
        method.toUpperCase(),
        url + query,
        sent === undefined ? {} : { body: sent },
      );
      foretold(method, path, answer);
      return answer;
    };
    const statuses = [
      await send('put', '?dry_run=true', body),
      await send('put', '', body),
      await send('put', '', body),
      await send('patch', '', { min_instances: 2 }),
      await send('get'),
      await send('delete', '?dry_run=true'),
      await send('delete'),
    ].map(({ status }) => status);
    expect(statuses).toEqual([200, 201, 200, 200, 200, 200, 204]);
    expect(successesOf(paths[path]!.delete!)).toEqual(['200', '202', '204']);
    expect(successesOf(paths['/config/reload']!.post!)).toEqual(['200', '207']);
  });

  test('foretells what is unchanged, null, undone or listed', async () => {
    const at = (path: string): string => path.replace('{tenant_id}', tenant.id);
    const get = async (path: string, headers?: Record<string, string>): Promise<Answer> => {
      const answer = await tenant.admin.get(at(path), headers);
      foretold('get', path, answer);
      return answer;
    };
    expect((await get('/tenants/{tenant_id}/config/notifications')).body).toBeNull();
    const risk = await get('/tenants/{tenant_id}/config/risk');
    expect(
      (
        await get('/tenants/{tenant_id}/config/risk', {
          'if-none-match': risk.headers.get('etag')!,
        })
      ).status,
    ).toBe(304);
    await get('/tenants/{tenant_id}/config/effective');
    await get('/tenants/{tenant_id}/config/history');
    expect(
      (await get('/audit/events', { accept: 'application/x-ndjson' })).headers.get('content-type'),
    ).toBe('application/x-ndjson');

    const path = '/tenants/{tenant_id}/config/rollback';
    const project = `/tenants/${tenant.id}/projects/undone/config`;
    const made = await tenant.admin.put(project, { name: 'first' });
    const gone = await tenant.admin.delete(project);
    for (const [to, status] of [
      [made, 201],
      [made, 200],
      [gone, 204],
    ] as const) {
      const answer = await tenant.admin.post(at(path), {
        revision: Number(to.headers.get('x-config-revision')),
      });
      expect(answer.status).toBe(status);
      foretold('post', path, answer);
    }
  });
});
