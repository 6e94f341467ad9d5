/**
 * Webhooks and chat on the wire, against real HTTP and HTTPS receivers: what they are sent, what
 * every answer means, what is kept of it.
 */
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  jest,
  test,
} from '@jest/globals';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders, type RequestListener } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { createServer as createTcpServer, type AddressInfo } from 'node:net';
import { promisify } from 'node:util';
import { Webhook } from 'standardwebhooks';
import Stripe from 'stripe';
import { chatChannel } from '../../services/notifier/channels/chat.ts';
import { teamsChannel } from '../../services/notifier/channels/teams.ts';
import type { Outcome } from '../../shared/outgoing/send-result.ts';
import { sendWebhook, type WebhookRequest } from '../../shared/outgoing/webhook.ts';
import { synchronizeClock } from '../../shared/process/synchronized-clock.ts';
import { createGuard } from '../../shared/outgoing/guard.ts';
import { createHttpClient } from '../../shared/outgoing/http-client.ts';
import { loadSettings } from '../../shared/settings/settings.ts';

const settings = {
  webhook_allow_http: true,
  webhook_allowed_networks: ['127.0.0.0/8'],
  http_client_timeout_seconds: 10,
  http_client_connect_timeout_seconds: 5,
};
const client = createHttpClient(
  createGuard(
    () => settings,
    async () => [{ address: '127.0.0.1', family: 4 }],
  ),
  () => settings,
);
const asPeopleReachIt = loadSettings({ BASE_URL: 'https://app.example' });
const linking = { http: client, settings: () => asPeopleReachIt };
const chat = chatChannel(linking);
const teams = teamsChannel(linking);

const canaries = {
  path: 'canaryPath7Tq',
  secret: 'canary "secret" & <é>',
  previous: 'canaryPrevious1x',
  token: 'canaryToken/+=2z',
  password: 'canary:password 3ä',
  key: 'canaryKey4w',
  header: 'canaryHeader5v',
  chatKey: 'canaryChatKey6u',
  chatToken: 'canaryChatToken8t%2F',
  teamsKey: 'canaryTeamsKey9s',
};
const noCanary = (outcome: Outcome): Outcome => {
  const text = JSON.stringify(outcome);
  expect(text).not.toMatch(/canary/i);
  for (const canary of Object.values(canaries))
    expect(text).not.toContain(Buffer.from(canary).toString('base64'));
  expect(text).not.toContain(Buffer.from(`ops:${canaries.password}`).toString('base64'));
  return outcome;
};

interface Seen {
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}
let seen: Seen[] = [];
/** How the receiver responds to the next requests. */
let answer: RequestListener;
const receive: RequestListener = (request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    seen.push({
      url: request.url!,
      headers: request.headers,
      body: Buffer.concat(chunks).toString(),
    });
    answer(request, response);
  });
};
const server = createServer(receive);
const portOf = (listening: { address: () => unknown }): number =>
  (listening.address() as AddressInfo).port;
let url: string;
beforeAll(async () => {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  url = `http://hooks.example:${portOf(server)}/${canaries.path}?q=${canaries.path}`;
});
afterAll(() => {
  server.close();
  server.closeAllConnections();
});
beforeEach(() => {
  seen = [];
  answer = (_request, response) => response.end('ok');
});
afterEach(() => {
  jest.restoreAllMocks();
});

const id = 'ntf_01JD9ZP1V7Q2M3K4N5P6Q7R8S9';
const body = `{"type":"approval.requested","id":"${id}","timestamp":"2025-10-09T08:53:20.000Z","data":{"approval_id":"apr_1","title":"ä 鍵"}}`;
const post = async (endpoint: Partial<WebhookRequest['endpoint']> = {}): Promise<Outcome> =>
  noCanary(
    await sendWebhook(client, { id, body, endpoint: { url, timeout_seconds: 10, ...endpoint } }),
  );
/** An endpoint with a secret wherever one may be. */
const withSecrets = {
  headers: { 'X-Team': 'ops', 'X-Vault-Token': canaries.header },
  secret: canaries.secret,
  previous_secret: canaries.previous,
};

describe('what a webhook is sent', () => {
  test('exact bytes, extra headers, nothing else', async () => {
    await post({ headers: { 'X-Team': 'ops', 'User-Agent': 'ours' } });
    expect(seen).toEqual([
      {
        url: `/${canaries.path}?q=${canaries.path}`,
        body,
        headers: {
          host: new URL(url).host,
          connection: 'close',
          'content-length': String(Buffer.byteLength(body)),
          'content-type': 'application/json',
          'user-agent': 'ours',
          'x-team': 'ops',
        },
      },
    ]);
  });

  test.each([
    [{ type: 'bearer', token: canaries.token }, 'authorization', `Bearer ${canaries.token}`],
    [
      { type: 'basic', username: 'ops', password: canaries.password },
      'authorization',
      `Basic ${Buffer.from(`ops:${canaries.password}`).toString('base64')}`,
    ],
    [{ type: 'api_key', api_key: canaries.key }, 'x-api-key', canaries.key],
    [{ type: 'api_key', api_key: canaries.key, header_name: 'X-Ours' }, 'x-ours', canaries.key],
  ] as const)('auth %j', async (auth, header, value) => {
    await post({ auth });
    expect(seen[0]!.headers[header]).toBe(value);
  });

  test.each([
    'constructor',
    'toString',
    '__defineGetter__',
    'X-Prototype',
    'Set-Cookie',
    'Range',
    'Accept-Encoding',
    'Content-Encoding',
    'Forwarded',
    '0',
    "!#$%&'*+.^_`|~-",
  ])('every header that may be saved is sent: %s', async (name) => {
    await post({ headers: { [name]: 'as sent' } });
    await post({ auth: { type: 'api_key', api_key: 'as-sent', header_name: name } });
    expect(seen.map(({ headers }) => [headers[name.toLowerCase()]].flat())).toEqual([
      ['as sent'],
      ['as-sent'],
    ]);
  });

  test('reserved headers stay ours', async () => {
    await post({
      secret: canaries.secret,
      auth: { type: 'bearer', token: 't' },
      headers: {
        Host: 'evil.example',
        Authorization: 'x',
        'Content-Type': 'text/plain',
        'Content-Length': '1',
        'Transfer-Encoding': 'chunked',
        'X-Service-Signature': 'x',
        'Webhook-Id': 'x',
        'WEBHOOK-SIGNATURE': 'x',
      },
    });
    expect(seen[0]).toMatchObject({
      body,
      headers: {
        host: new URL(url).host,
        authorization: 'Bearer t',
        'content-type': 'application/json',
        'webhook-id': id,
      },
    });
    new Webhook(Buffer.from(canaries.secret), { format: 'raw' }).verify(
      body,
      seen[0]!.headers as Record<string, string>,
    );
  });

  test('no signature without a secret; with two, receivers verify with either', async () => {
    await post();
    expect(Object.keys(seen[0]!.headers).filter((name) => /signature|webhook/.test(name))).toEqual(
      [],
    );
    await post(withSecrets);
    const { headers, body: received } = seen[1]!;
    for (const secret of [canaries.secret, canaries.previous]) {
      new Stripe('sk_test_unused').webhooks.constructEvent(
        received,
        headers['x-service-signature'] as string,
        secret,
      );
      new Webhook(Buffer.from(secret), { format: 'raw' }).verify(
        received,
        headers as Record<string, string>,
      );
    }
  });

  test("each attempt is signed afresh under the same id, with the database's time", async () => {
    await post(withSecrets);
    const now = Date.now();
    const later = now + 600_000;
    jest.spyOn(Date, 'now').mockImplementation(() => later + 3_600_000);
    synchronizeClock(later, Date.now(), Date.now());
    await post(withSecrets);
    jest.mocked(Date.now).mockRestore();
    synchronizeClock(now, now, now);
    const [first, second] = seen.map(({ headers }) => headers);
    expect(Number(second!['webhook-timestamp'])).toBe(Math.floor(later / 1000));
    expect(second!['webhook-id']).toBe(first!['webhook-id']);
    expect(second!['x-service-signature']).not.toBe(first!['x-service-signature']);
  });
});

describe('what an answer means', () => {
  const table: [number, Record<string, string>, Partial<Outcome> & object][] = [
    [200, {}, { result: 'delivered', error: null }],
    [201, {}, { result: 'delivered' }],
    [202, {}, { result: 'delivered' }],
    [204, {}, { result: 'delivered', answer: '' }],
    [299, {}, { result: 'delivered' }],
    [300, {}, { result: 'final' }],
    [301, { location: '/elsewhere' }, { result: 'final' }],
    [302, { location: 'http://127.0.0.1/' }, { result: 'final' }],
    [303, { location: '/' }, { result: 'final' }],
    [304, {}, { result: 'final' }],
    [307, { location: '/' }, { result: 'final' }],
    [308, { location: '/', 'retry-after': '1' }, { result: 'final' }],
    [400, {}, { result: 'final' }],
    [401, { 'www-authenticate': 'Basic' }, { result: 'final' }],
    [403, {}, { result: 'final' }],
    [404, {}, { result: 'final' }],
    [405, {}, { result: 'final' }],
    [408, {}, { result: 'retry' }],
    [409, {}, { result: 'final' }],
    [410, {}, { result: 'final', gone: true }],
    [413, {}, { result: 'final' }],
    [422, {}, { result: 'final' }],
    [425, {}, { result: 'retry' }],
    [429, { 'retry-after': '7' }, { result: 'retry', retry_after_ms: 7000 }],
    [429, { 'retry-after': '86400' }, { result: 'retry', retry_after_ms: 3_600_000 }],
    [451, {}, { result: 'final' }],
    [500, {}, { result: 'retry' }],
    [501, {}, { result: 'retry' }],
    [502, {}, { result: 'retry' }],
    [503, { 'retry-after': '0' }, { result: 'retry', retry_after_ms: 0 }],
    [504, {}, { result: 'retry' }],
    [599, {}, { result: 'retry' }],
    [600, {}, { result: 'final' }],
    [999, {}, { result: 'final' }],
  ];
  test.each(table)('%d %j', async (...[status, headers, expected]) => {
    answer = (_request, response) =>
      response.writeHead(status, headers).end([204, 304].includes(status) ? undefined : 'said');
    const outcome = await post({ timeout_seconds: 60 });
    expect(outcome).toMatchObject({ status, ...expected });
    if (outcome.result !== 'delivered') expect(outcome.error).toContain(`answered ${status}`);
    expect('gone' in outcome).toBe(status === 410);
    expect(seen).toHaveLength(1);
  });

  test('Retry-After as a date', async () => {
    const now = Date.parse('2030-01-01T00:00:00Z');
    jest.spyOn(Date, 'now').mockImplementation(() => now);
    answer = (_request, response) =>
      response.writeHead(503, { 'retry-after': new Date(now + 90_000).toUTCString() }).end();
    expect(await post()).toMatchObject({ result: 'retry', retry_after_ms: 90_000 });
  });

  const faults: [string, RequestListener, RegExp][] = [
    [
      'a reset',
      (request) => request.socket.resetAndDestroy(),
      /^http:\/\/hooks\.example:\d+ cannot be reached, or hung up \(ECONNRESET\)$/,
    ],
    ['a hang-up', (request) => request.socket.end(), /cannot be reached, or hung up/],
    ['silence', () => undefined, /^http:\/\/hooks\.example:\d+ did not answer in time/],
    [
      'another protocol',
      (request) => request.socket.end('+OK ready\r\n'),
      /did not answer with HTTP/,
    ],
  ];
  test.each(faults)('%s is retried', async (what, listener, error) => {
    answer = listener;
    const outcome = await post({ ...withSecrets, timeout_seconds: what === 'silence' ? 1 : 60 });
    expect(outcome).toMatchObject({
      result: 'retry',
      status: null,
      answer: null,
      error: expect.stringMatching(error),
    });
  });

  test('a refused connection is retried', async () => {
    const gone = createTcpServer().listen(0, '127.0.0.1');
    await once(gone, 'listening');
    const port = portOf(gone);
    gone.close();
    await once(gone, 'close');
    expect(await post({ url: `http://127.0.0.1:${port}/${canaries.path}` })).toMatchObject({
      result: 'retry',
      status: null,
      error: expect.stringMatching(/\(ECONNREFUSED\)$/),
    });
  });

  test('what the guard refuses is final', async () => {
    expect(await post({ url: `http://10.0.0.1/${canaries.path}` })).toMatchObject({
      result: 'final',
      status: null,
      error: expect.stringMatching(/^http:\/\/10\.0\.0\.1 is not a public address/),
    });
  });

  test('a body that trickles or never ends does not undo the status', async () => {
    answer = (_request, response) => {
      response.writeHead(201).write('slow');
      const timer = setInterval(() => response.write('.'), 50);
      response.on('close', () => clearInterval(timer));
    };
    expect(await post({ timeout_seconds: 3 })).toMatchObject({
      result: 'delivered',
      status: 201,
      answer: expect.stringMatching(/^slow\.+$/),
    });
    answer = (_request, response) => {
      const more = (): void => {
        while (!response.destroyed && response.write(Buffer.alloc(65_536, 'x')));
      };
      response.writeHead(503).on('drain', more);
      more();
    };
    const endless = await post();
    expect(endless).toMatchObject({ result: 'retry', status: 503 });
    expect(endless.answer).toBe('x'.repeat(4096));
  });
});

describe('TLS', () => {
  const file = (name: string): string =>
    new URL(`../support/tls/${name}`, import.meta.url).pathname;
  const listen = async (certificate: string) => {
    const tls = createTlsServer(
      { key: readFileSync(file('server.key')), cert: readFileSync(file(certificate)) },
      receive,
    );
    await once(tls.listen(0, '127.0.0.1'), 'listening');
    return tls;
  };
  const servers: Awaited<ReturnType<typeof listen>>[] = [];
  beforeAll(async () => {
    servers.push(await listen('valid.pem'), await listen('expired.pem'));
  });
  afterAll(() => {
    for (const each of servers) {
      each.close();
      each.closeAllConnections();
    }
  });

  test('an unknown authority is refused', async () => {
    expect(
      await post({
        ...withSecrets,
        url: `https://hooks.example:${portOf(servers[0]!)}/${canaries.path}`,
      }),
    ).toMatchObject({
      result: 'retry',
      status: null,
      error: expect.stringContaining('no TLS that can be trusted'),
    });
    expect(seen).toEqual([]);
  });

  test('plain HTTP where TLS is expected is refused', async () => {
    expect(
      await post({
        ...withSecrets,
        url: `https://hooks.example:${portOf(server)}/${canaries.path}`,
      }),
    ).toMatchObject({
      result: 'retry',
      status: null,
      error: expect.stringContaining('no TLS that can be trusted'),
    });
  });

  /**
   * A process that knows the authority, and whose environment asks for a proxy and for no
   * verification.
   */
  test('name and time are checked, whatever the environment says; a good certificate passes, and no session is resumed', async () => {
    const resumed: boolean[] = [];
    servers[0]!.on('secureConnection', (socket) => resumed.push(socket.isSessionReused()));
    const script = `
      const at = ${JSON.stringify(new URL('../..', import.meta.url).href)};
      const { createGuard } = await import(at + 'shared/outgoing/guard.ts');
      const { createHttpClient } = await import(at + 'shared/outgoing/http-client.ts');
      const { sendWebhook } = await import(at + 'shared/outgoing/webhook.ts');
      const settings = () => (${JSON.stringify(settings)});
      const client = createHttpClient(createGuard(settings, async () => [{ address: '127.0.0.1', family: 4 }]), settings);
      const outcomes = [];
      for (const url of process.argv.slice(1)) outcomes.push(await sendWebhook(client, { id: 'ntf_1', body: '{}', endpoint: { url, timeout_seconds: 10 } }));
      console.log(JSON.stringify(outcomes));`;
    const [valid, expired] = servers.map(portOf);
    const proxy = `http://127.0.0.1:${portOf(server)}`;
    const { stdout } = await promisify(execFile)(
      process.execPath,
      [
        '--disable-warning=ExperimentalWarning',
        '--input-type=module',
        '-e',
        script,
        `https://hooks.example:${valid}/`,
        `https://hooks.example:${valid}/`,
        `https://other.example:${valid}/`,
        `https://hooks.example:${expired}/`,
      ],
      {
        env: {
          ...process.env,
          NODE_EXTRA_CA_CERTS: file('ca.pem'),
          NODE_TLS_REJECT_UNAUTHORIZED: '0',
          NODE_USE_ENV_PROXY: '1',
          HTTP_PROXY: proxy,
          HTTPS_PROXY: proxy,
        },
      },
    );
    expect(JSON.parse(stdout)).toMatchObject([
      { result: 'delivered', status: 200 },
      { result: 'delivered', status: 200 },
      {
        result: 'retry',
        status: null,
        error: expect.stringContaining('ERR_TLS_CERT_ALTNAME_INVALID'),
      },
      { result: 'retry', status: null, error: expect.stringContaining('CERT_HAS_EXPIRED') },
    ]);
    expect(seen.map(({ url }) => url)).toEqual(['/', '/']);
    expect(new Set(resumed)).toEqual(new Set([false]));
  });
});

describe('what is kept of an answer', () => {
  const auths: WebhookRequest['endpoint']['auth'][] = [
    { type: 'bearer', token: canaries.token },
    { type: 'basic', username: 'ops', password: canaries.password },
    { type: 'api_key', api_key: canaries.key },
  ];
  const echoes: [string, (text: string) => string][] = [
    ['as it is', (text) => text],
    ['in JSON', (text) => JSON.stringify({ text })],
    ['in a URL', encodeURIComponent],
    ['in a form', (text) => new URLSearchParams({ text }).toString()],
    ['in base64', (text) => Buffer.from(text).toString('base64')],
    [
      'in HTML',
      (text) =>
        text
          .replaceAll('&', '&amp;')
          .replaceAll('<', '&lt;')
          .replaceAll('>', '&gt;')
          .replaceAll('"', '&quot;'),
    ],
  ];
  test.each(echoes)('no secret that the receiver says back %s', async (_name, echo) => {
    for (const auth of auths) {
      for (const canary of Object.values(canaries).slice(0, 7)) {
        const sent = canary === canaries.path ? url : canary;
        const known =
          canary === canaries.path ||
          [withSecrets.secret, withSecrets.previous_secret, canaries.header].includes(canary) ||
          Object.values(auth!).includes(canary);
        answer = (_request, response) =>
          response.end(`before ${echo(known ? sent : 'nothing')} after`);
        expect((await post({ ...withSecrets, auth })).answer).toMatch(/^before .+ after$/);
      }
    }
  });

  test('no header and no address that the receiver says back', async () => {
    for (const auth of auths) {
      answer = (request, response) =>
        response.writeHead(404).end(`Cannot POST ${request.url} ${request.rawHeaders.join('\n')}`);
      expect((await post({ ...withSecrets, auth })).answer).toMatch(/^Cannot POST \*{8} /);
    }
  });

  test('no beginning of a secret where the answer is cut', async () => {
    for (let room = 0; room <= canaries.token.length; room += 1) {
      answer = (_request, response) =>
        response.end(`${'.'.repeat(4096 - room)}${canaries.token}${'.'.repeat(99)}`);
      expect((await post({ auth: { type: 'bearer', token: canaries.token } })).answer).toMatch(
        /^\.{4079,4096}(\*{0,8})$/,
      );
    }
  });

  test('text of at most 4 KiB that PostgreSQL takes', async () => {
    answer = (_request, response) => response.end(Buffer.from([0x61, 0x00, 0xff, 0x62]));
    expect((await post()).answer).toBe('a\uFFFD\uFFFDb');
    answer = (_request, response) => response.end('xy'.repeat(2000));
    expect((await post({ secret: 'x' })).answer).toMatch(/^[*y]{4096}$/);
    answer = (_request, response) => response.end('.'.repeat(4095) + '\u{1F600}');
    expect((await post()).answer!.isWellFormed()).toBe(true);
  });
});

describe('chat', () => {
  const data = {
    tenant_id: 'tnt_1',
    approval_id: 'apr_1',
    title: 'Scale <users/all>',
    description: '<https://evil.example|click>',
    action: 'scale_min_instances',
    risk_level: 'high',
    hop: 1,
    max_hops: 2,
    current_group: 'sre',
    cost_impact: 12.5,
    expires_at: '2025-10-09T08:53:20.000Z',
    decision: null,
  };
  const link = '<https://app.example/console/tenants/tnt_1/approvals/apr_1|Open>';
  interface Said {
    readonly type?: string;
    readonly include_links?: boolean;
    readonly decision?: { decision: 'approve' | 'deny'; by: string; comment?: string };
    readonly webhook_url?: string;
    /** Instead of what the approval says otherwise. */
    readonly asked?: Partial<typeof data>;
  }
  /** Sends a notice to the space and answers how that went. */
  async function say(given: Said = {}): Promise<Outcome> {
    const secrets = `key=${canaries.chatKey}&token=${canaries.chatToken}`;
    const spaceUrl = `http://hooks.example:${portOf(server)}/v1/spaces/A/messages?${secrets}`;
    const { type = 'approval.requested', webhook_url = spaceUrl, include_links } = given;
    const notice = {
      id,
      channel: 'chat',
      place: 'google_chat',
      target: new URL(spaceUrl).origin,
      endpoint_key: 'chat',
      body: JSON.stringify({
        type,
        data: { ...data, ...given.asked, decision: given.decision ?? null },
      }),
      expires_at: new Date(data.expires_at),
    } as const;
    const space = { webhook_url, ...(include_links === undefined ? {} : { include_links }) };
    const outcome = await chat.send(notice, {
      webhook: { endpoints: [] },
      email: { approval_recipients: [], default_recipients: [], from_email: '' },
      chat: { google_chat: space },
    });
    return noCanary(outcome);
  }
  const message = (): { text: string; thread: unknown } => JSON.parse(seen.at(-1)!.body);

  test('a message in the thread of the approval', async () => {
    expect(await say()).toMatchObject({ result: 'delivered', status: 200, answer: 'ok' });
    expect(seen[0]).toMatchObject({
      url: `/v1/spaces/A/messages?key=${canaries.chatKey}&token=${canaries.chatToken}&messageReplyOption=REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD`,
      headers: { 'content-type': 'application/json; charset=UTF-8' },
    });
    expect(message().thread).toEqual({ threadKey: 'apr_1' });
  });

  test('links only where the space wants them', async () => {
    await say();
    await say({ include_links: false });
    for (const { body } of seen) expect(body).not.toContain('app.example');
    await say({ include_links: true });
    expect(message().text).toContain(link);
  });

  test('what was asked neither mentions people nor poses as a link', async () => {
    await say({ include_links: true });
    expect(message().text.replace(link, '')).not.toMatch(/[<>]/);
  });

  test.each([
    ['approval.requested', 'Approval needed'],
    ['approval.escalated', 'Still needs approval (escalation 1 of 2)'],
    ['approval.decided', 'Denied'],
    ['approval.expired', 'Expired: no one decided in time'],
    ['approval.exhausted', 'No one decided, and no one is left to ask'],
    ['approval.withdrawn', 'Withdrawn: no one needs it any more'],
  ])('%s', async (type, heading) => {
    await say({
      type,
      ...(type === 'approval.decided'
        ? { decision: { decision: 'deny', by: 'ada', comment: 'too dear' } }
        : {}),
    });
    expect(message().text).toMatch(
      new RegExp(`^\\*${heading.replaceAll(/[()]/g, '\\$&')}\\*\nScale ‹users/all›\n`),
    );
    expect(message().text.includes('by ada: too dear')).toBe(type === 'approval.decided');
  });

  test('no message is longer than Google Chat takes, and it still says until when and where', async () => {
    const asked = {
      title: 't'.repeat(300),
      action: 'a'.repeat(100),
      current_group: 'g'.repeat(64),
      cost_impact: 1e20,
      description: '𝄞<'.repeat(3333),
    };
    const decision = {
      decision: 'deny',
      by: `${'b'.repeat(242)}@example.com`,
      comment: 'c'.repeat(2000),
    } as const;
    for (const said of [
      { type: 'approval.escalated' },
      { type: 'approval.decided', decision, include_links: true },
    ]) {
      await say({ ...said, asked });
      const { text } = message();
      expect([text.length <= 4096, text.isWellFormed(), text.includes('…')]).toEqual([
        true,
        true,
        true,
      ]);
    }
    await say({ asked, include_links: true });
    expect(message().text).toMatch(/\nUntil \S+\n<https:\/\/app\.example\S+\|Open>$/);
  });

  test('its key and token stay secret, whatever comes back', async () => {
    answer = (request, response) =>
      response
        .writeHead(429, { 'retry-after': '3' })
        .end(
          `${request.url} http://${request.headers.host}${request.url} ${decodeURIComponent(request.url!)}`,
        );
    expect(await say()).toMatchObject({ result: 'retry', status: 429, retry_after_ms: 3000 });
    answer = (request) => request.socket.resetAndDestroy();
    expect(await say()).toMatchObject({
      result: 'retry',
      status: null,
      error: expect.stringMatching(/^http:\/\/hooks\.example:\d+ cannot/),
    });
    expect(await say({ webhook_url: `canary ${canaries.chatKey}` })).toMatchObject({
      result: 'final',
    });
  });
});

test('teams: the address of a workflow stays secret, whatever comes back', async () => {
  const workflow = `http://hooks.example:${portOf(server)}/workflows/1?sig=${canaries.teamsKey}`;
  const notice = {
    id,
    channel: 'teams',
    place: 'teams',
    target: new URL(workflow).origin,
    endpoint_key: 'teams',
    body: JSON.stringify({
      type: 'approval.requested',
      data: { tenant_id: 'tnt_1', approval_id: 'apr_1', title: 'Scale', current_group: null },
    }),
    expires_at: null,
  } as const;
  const config = {
    webhook: { endpoints: [] },
    email: { approval_recipients: [], default_recipients: [], from_email: '' },
    teams: { webhook_url: workflow },
  };
  const outcomes: Outcome[] = [];
  for (const status of [202, 429, 401]) {
    answer = (request, response) => response.writeHead(status).end(`at ${request.url}`);
    outcomes.push(noCanary(await teams.send(notice, config)));
  }
  expect(outcomes).toMatchObject([
    { result: 'delivered', status: 202, answer: 'at /workflows/1?sig=********' },
    { result: 'retry', status: 429 },
    { result: 'final', status: 401 },
  ]);
});
