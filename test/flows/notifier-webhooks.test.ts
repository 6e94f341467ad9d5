/**
 * Webhooks through the whole service: what is sent and when, what each answer does to a delivery,
 * and what is refused where.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { mkdtempSync, writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '../support/cluster.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import { startReceiver, type Received, type Receiver } from '../support/receiver.ts';
import {
  adminPassword,
  createTenant,
  signIn,
  startStrata,
  type Client,
  type Running,
  type TenantFixture,
} from '../support/strata.ts';

const envFile = join(mkdtempSync(join(tmpdir(), 'strata-webhooks-')), 'env');
const loopback = 'WEBHOOK_ALLOWED_NETWORKS=127.0.0.0/8\n';
let database: Database;
let strata: Running;
let platform: Client;
let tenant: TenantFixture;
const receivers: Receiver[] = [];
const receiver = async (
  answer?: (n: number, response: ServerResponse) => void,
): Promise<Receiver> => {
  const started = await startReceiver(answer);
  receivers.push(started);
  return started;
};

beforeAll(async () => {
  database = await strataDatabase();
  writeFileSync(envFile, loopback);
  strata = await startStrata({
    DATABASE_URL: database.url,
    WEBHOOK_ALLOW_HTTP: 'true',
    ENV_FILE: envFile,
  });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, 'Webhooks');
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await Promise.all(receivers.map(({ close }) => close()));
  await database?.drop();
});

const save = (webhook: object, of = tenant) =>
  of.admin.put(`/tenants/${of.id}/config/notifications`, { webhook });
async function configure(webhook: object, of = tenant): Promise<void> {
  const saved = await save(webhook, of);
  expect([saved.status, saved.text]).toEqual([200, expect.any(String)]);
}
async function ask(of = tenant): Promise<string> {
  const made = await of.operator.post(`/tenants/${of.id}/approvals`, {
    action: 'scale',
    risk_level: 'low',
    title: 'Scale up',
  });
  expect([made.status, made.text]).toEqual([202, expect.any(String)]);
  return made.body.id;
}
interface Delivery {
  id: string;
  target: string;
  state: string;
  attempts: number;
  reason: string | null;
  type: string;
  webhook_id: string;
}
const deliveries = async (approval: string, of = tenant): Promise<Delivery[]> =>
  (
    await of.admin.get(
      `/tenants/${of.id}/notifications/deliveries?approval_id=${approval}&limit=200`,
    )
  ).body.items;
const detail = async (id: string) =>
  (await tenant.admin.get(`/tenants/${tenant.id}/notifications/deliveries/${id}`)).body;
/** The deliveries that the audit says have failed, newest first, each with its reason. */
async function auditedFailures(): Promise<[id: string, reason: string][]> {
  const audit = await tenant.admin.get('/audit/events?action=approval.delivery_failed&limit=200');
  const payloads: { delivery_id: string; reason: string }[] = audit.body.items.map(
    ({ payload }: { payload: unknown }) => payload,
  );
  return payloads.map(({ delivery_id: id, reason }): [string, string] => [id, reason]).toReversed();
}
/** The deliveries of an approval once none is on its way. */
async function settled(approval: string): Promise<Delivery[]> {
  for (;;) {
    const all = await deliveries(approval);
    if (all.length > 0 && all.every(({ state }) => state !== 'pending')) return all;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
const gaps = (received: readonly Received[]): number[] =>
  received.slice(1).map(({ at }, index) => at - received[index]!.at);

test('a test of what hangs says so before the request itself is late', async () => {
  const { url } = await receiver(() => {});
  await configure({ url });
  const destination = { url, secret: 'a raw secret', paused: true };
  const path = `/tenants/${tenant.id}`;
  await tenant.admin.put(`${path}/config/event-destinations`, { siem: destination });
  const [notice, events] = await Promise.all([
    tenant.admin.post(`${path}/notifications/test`, { channel: 'webhook' }),
    tenant.admin.post(`${path}/event-destinations/siem/test`),
  ]);
  expect([notice.status, events.status]).toEqual([200, 200]);
  const hung = { delivered: false, status: null, error: expect.stringMatching(/^did not answer/) };
  expect(notice.body.results).toEqual([expect.objectContaining(hung)]);
  expect(events.body).toMatchObject(hung);
}, 20_000);

describe('defaults and caps', () => {
  const url = 'https://hooks.example/h';
  const full = {
    url,
    timeout_seconds: 11,
    retry_attempts: 4,
    backoff: { initial_seconds: 2, factor: 3, max_seconds: 20 },
  };
  const { backoff } = full;
  const used = { ...full, headers: {} };
  type Row = readonly [what: string, endpoint: object, effective: object];
  test.each<Row>([
    ['everything given', full, used],
    [
      'no timeout_seconds',
      { ...full, timeout_seconds: undefined },
      { ...used, timeout_seconds: 30 },
    ],
    ['no retry_attempts', { ...full, retry_attempts: undefined }, { ...used, retry_attempts: 3 }],
    [
      'no initial_seconds',
      { ...full, backoff: { ...backoff, initial_seconds: undefined } },
      { ...used, backoff: { ...backoff, initial_seconds: 1 } },
    ],
    [
      'no factor',
      { ...full, backoff: { ...backoff, factor: undefined } },
      { ...used, backoff: { ...backoff, factor: 2 } },
    ],
    [
      'no max_seconds',
      { ...full, backoff: { ...backoff, max_seconds: undefined } },
      { ...used, backoff: { ...backoff, max_seconds: 8 } },
    ],
    [
      'no backoff',
      { ...full, backoff: undefined },
      { ...used, backoff: { initial_seconds: 1, factor: 2, max_seconds: 8 } },
    ],
    [
      'the address alone',
      { url },
      {
        url,
        headers: {},
        timeout_seconds: 30,
        retry_attempts: 3,
        backoff: { initial_seconds: 1, factor: 2, max_seconds: 8 },
      },
    ],
    ['too long a time-out', { ...full, timeout_seconds: 121 }, { ...used, timeout_seconds: 120 }],
    ['too many retries', { ...full, retry_attempts: 11 }, { ...used, retry_attempts: 10 }],
    [
      'too long a first wait',
      { ...full, backoff: { ...backoff, initial_seconds: 301 } },
      { ...used, backoff: { ...backoff, initial_seconds: 300 } },
    ],
    [
      'too long a longest wait',
      { ...full, backoff: { ...backoff, max_seconds: 301 } },
      { ...used, backoff: { ...backoff, max_seconds: 300 } },
    ],
    [
      'at the caps',
      { ...full, timeout_seconds: 120, retry_attempts: 10 },
      { ...used, timeout_seconds: 120, retry_attempts: 10 },
    ],
  ])('%s', async (...[, endpoint, effective]) => {
    for (const webhook of [endpoint, { endpoints: [endpoint, endpoint] }]) {
      await configure(webhook);
      const read = await tenant.admin.get(`/tenants/${tenant.id}/config/notifications/effective`);
      expect(read.body.webhook.endpoints).toEqual(
        'endpoints' in webhook ? [effective, effective] : [effective],
      );
    }
  });

  test('one endpoint more than the cap is refused', async () => {
    expect((await save({ endpoints: Array.from({ length: 20 }, () => ({ url })) })).status).toBe(
      200,
    );
    const refused = await save({ endpoints: Array.from({ length: 21 }, () => ({ url })) });
    expect([refused.status, refused.body.errors[0].path]).toEqual([422, '/webhook/endpoints']);
  });
});

describe('on the wire', () => {
  test('the default endpoint gets four attempts, 1, 2 and 4 s apart, then the delivery has failed', async () => {
    const down = await receiver((_n, response) => {
      response.writeHead(503).end();
    });
    await configure({ url: down.url });
    const id = await ask();
    const attempts = await down.wait(() => true, 4);
    const [delivery] = await settled(id);
    expect(delivery).toMatchObject({ state: 'failed', attempts: 4, reason: 'answered 503' });
    expect(
      new Set(attempts.map(({ headers, text }) => `${headers['webhook-id']} ${text}`)).size,
    ).toBe(1);
    for (const [n, gap] of gaps(attempts).entries()) {
      expect(gap).toBeGreaterThan(1000 * 2 ** n - 5);
      // What a busy machine adds is no part of the wait.
      expect(gap).toBeLessThan(1000 * 2 ** n + 30_000);
    }
    expect(down.received).toHaveLength(4);
    await eventually(async () =>
      expect(await auditedFailures()).toEqual([[delivery!.id, 'answered 503']]),
    );
  });

  const status =
    (code: number, headers: Record<string, string> = {}) =>
    (_n: number, response: ServerResponse): void => {
      response.writeHead(code, headers).end();
    };
  const outcomes = {
    200: [status(200), 'delivered', [200]],
    204: [status(204), 'delivered', [204]],
    302: [status(302, { location: 'http://127.0.0.1:1/' }), 'failed', [302]],
    404: [status(404), 'failed', [404]],
    503: [status(503), 'failed', [503, 503]],
    reset: [
      (_n: number, { req }: ServerResponse) => {
        req.socket.resetAndDestroy();
      },
      'failed',
      [null, null],
    ],
    hang: [() => {}, 'failed', [null, null]],
    'then well': [
      (n: number, response: ServerResponse) => {
        response.writeHead(n === 0 ? 500 : 201).end();
      },
      'delivered',
      [500, 201],
    ],
  } as const;
  test('what each answer does to its delivery', async () => {
    const all = await Promise.all(
      Object.entries(outcomes).map(async ([name, [answer, state, statuses]]) => ({
        name,
        state,
        statuses,
        at: await receiver(answer),
      })),
    );
    const retries = {
      retry_attempts: 1,
      backoff: { initial_seconds: 0, factor: 1, max_seconds: 0 },
    };
    await configure({
      endpoints: all.map(({ name, at: { url } }) => ({
        url,
        // An answer may take its time on a busy machine.
        timeout_seconds: name === 'hang' ? 1 : 60,
        ...retries,
      })),
    });
    const found = await settled(await ask());
    const logs = await Promise.all(
      all.map(async ({ name, at }) => {
        const delivery = found.find(({ target }) => at.url.startsWith(`${target}/`))!;
        const { log } = (await detail(delivery.id)) as { log: { status: number | null }[] };
        return [name, delivery.state, log.map((attempt) => attempt.status), at.received.length];
      }),
    );
    expect(logs).toEqual(
      all.map(({ name, state, statuses }) => [name, state, [...statuses], statuses.length]),
    );
  });

  test('Retry-After lengthens a wait', async () => {
    const busy = await receiver((n, response) => {
      response.writeHead(n === 0 ? 429 : 204, { 'retry-after': '2' }).end();
    });
    await configure({ url: busy.url, backoff: { initial_seconds: 0 } });
    const [delivery] = await settled(await ask());
    expect(delivery).toMatchObject({ state: 'delivered', attempts: 2 });
    expect(gaps(busy.received)[0]).toBeGreaterThan(1995);
  });

  test('410 pauses the endpoint until the configuration is saved, or a notice is replayed', async () => {
    let gone = true;
    const left = await receiver((_n, response) => {
      response.writeHead(gone ? 410 : 204).end();
    });
    await configure({ url: left.url });
    const [first] = await settled(await ask());
    const others = await settled(await ask());
    const second = others.find(({ target }) => target === first!.target);
    // Where nobody else would hear, the administrators do.
    expect(others).toHaveLength(2);
    expect(others).toContainEqual(
      expect.objectContaining({ target: tenant.emails.tenant_admin, state: 'delivered' }),
    );
    expect([first, second]).toMatchObject([
      { state: 'failed', attempts: 1 },
      { state: 'failed', attempts: 0, reason: expect.stringContaining('paused') },
    ]);
    expect(left.received).toHaveLength(1);
    await eventually(async () => {
      const failures = await auditedFailures();
      const reasonsOf = (id: string) => failures.filter(([of]) => of === id).map(([, why]) => why);
      expect(reasonsOf(first!.id)).toEqual(['answered 410: gone']);
      expect(reasonsOf(second!.id)).toEqual([expect.stringContaining('paused')]);
    });

    gone = false;
    const replay = (id: string) =>
      tenant.admin.post(`/tenants/${tenant.id}/notifications/deliveries/${id}/replay`);
    expect((await replay(second!.id)).status).toBe(202);
    const [replayed] = await left.wait(({ body }) => body.id === second!.webhook_id);
    expect(replayed!.body.type).toBe('approval.requested');
    const [third] = await settled(await ask());
    expect(third!.state).toBe('delivered');

    gone = true;
    await settled(await ask());
    gone = false;
    await configure({ url: left.url, timeout_seconds: 20 });
    const [last] = await settled(await ask());
    expect(last).toMatchObject({ state: 'delivered', attempts: 1 });
  });

  test('auth in its three shapes, extra headers; reserved headers are refused when saved', async () => {
    const well = await receiver();
    const endpoints = [
      {
        url: `${well.url}&n=0`,
        auth: { type: 'bearer', token: 'b' },
        headers: { 'X-Team': 'ops' },
      },
      { url: `${well.url}&n=1`, auth: { type: 'basic', username: 'u', password: 'p' } },
      { url: `${well.url}&n=2`, auth: { type: 'api_key', api_key: 'k' } },
      { url: `${well.url}&n=3`, auth: { type: 'api_key', api_key: 'k', header_name: 'X-Ours' } },
    ];
    await configure({ endpoints });
    const found = await settled(await ask());
    expect(found.map(({ state }) => state)).toEqual(Array(4).fill('delivered'));
    const sent = (header: string): unknown[] =>
      well.received
        .map(({ headers }) => headers[header])
        .filter((value) => value !== undefined)
        .sort();
    expect([sent('authorization'), sent('x-api-key'), sent('x-ours'), sent('x-team')]).toEqual([
      [`Basic ${btoa('u:p')}`, 'Bearer b'],
      ['k'],
      ['k'],
      ['ops'],
    ]);
    for (const name of [
      'Host',
      'content-type',
      'Authorization',
      'X-Service-Signature',
      'Webhook-Id',
      'Transfer-Encoding',
    ]) {
      const refused = await save({ endpoints: [{ url: well.url, headers: { [name]: 'x' } }] });
      expect([refused.status, refused.body.errors[0].path]).toEqual([
        422,
        `/webhook/endpoints/0/headers/${name}`,
      ]);
    }
  });

  test('a decision cancels what waits for a retry, and tells an endpoint that may have been reached', async () => {
    const down = await receiver((n, response) => {
      response.writeHead(n === 0 ? 503 : 204).end();
    });
    await configure({ url: down.url, backoff: { initial_seconds: 60, max_seconds: 60 } });
    const id = await ask();
    await down.wait(() => true);
    expect(
      (
        await tenant.admin.post(`/tenants/${tenant.id}/approvals/${id}/decision`, {
          decision: 'deny',
        })
      ).status,
    ).toBe(200);
    await down.wait(({ body }) => body.type === 'approval.decided');
    const states = Object.fromEntries((await settled(id)).map(({ type, state }) => [type, state]));
    expect(states).toEqual({ 'approval.requested': 'cancelled', 'approval.decided': 'delivered' });
  });
});

describe('addresses that are not public', () => {
  const hostile = [
    'https://127.0.0.1/h',
    'https://[::1]/h',
    'https://169.254.169.254/latest',
    'https://10.1.2.3/h',
    'https://[::ffff:7f00:1]/h',
    'https://localhost/h',
    'https://0x7f.1/h',
  ];
  /** What was allowed when it was saved stands for a name that answers another address later. */
  const allow = async (allowed: boolean): Promise<void> => {
    writeFileSync(envFile, allowed ? loopback : 'WEBHOOK_ALLOWED_NETWORKS=\n');
    expect((await platform.post('/config/reload', { reload_env: true })).status).toBe(200);
  };
  afterAll(() => allow(true));

  test('are refused when saved, when tested and when sent', async () => {
    const well = await receiver();
    await configure({ url: well.url });
    await allow(false);
    for (const url of hostile) {
      const refused = await save({ url });
      expect([url, refused.status, refused.body.errors?.[0].path]).toEqual([
        url,
        422,
        '/webhook/url',
      ]);
    }
    const chat = await tenant.admin.put(`/tenants/${tenant.id}/config/notifications`, {
      chat: { google_chat: { webhook_url: 'https://127.0.0.1/v1?key=k' } },
    });
    expect([chat.status, chat.body.errors[0].path]).toEqual([422, '/chat/google_chat/webhook_url']);

    const { body } = await tenant.admin.post(`/tenants/${tenant.id}/notifications/test`, {
      channel: 'webhook',
    });
    expect(body.results).toMatchObject([
      { delivered: false, status: null, error: expect.stringContaining('is not a public address') },
    ]);
    const [delivery] = await settled(await ask());
    expect(delivery).toMatchObject({
      state: 'failed',
      attempts: 1,
      reason: expect.stringContaining('is not a public address'),
    });
    expect(well.received).toEqual([]);
  });
});
