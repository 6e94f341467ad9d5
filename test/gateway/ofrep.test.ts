/** OpenFeature's Remote Evaluation Protocol: by the SDK's own provider, and request by request. */
import { OFREPProvider } from '@openfeature/ofrep-provider';
import { OpenFeature } from '@openfeature/server-sdk';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { EventSource } from 'eventsource';
import { eventually } from '../support/cluster.ts';
import { runPasted } from '../support/pasted.ts';
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
let at: string;

const flags = (path = '') => `${at}/ofrep/v1/evaluate/flags${path}`;
const ofCheckout = { context: { targetingKey: 'checkout', user: 'ignored' } };

beforeAll(async () => {
  strata = await sharedStrata();
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenantWith(strata.url, platform, 'Flags', ['viewer']);
  at = `/tenants/${tenant.id}`;
  await tenant.admin.put(`${at}/services/checkout`, {
    service_type: 'cloud_run',
    max_instances: 7,
    monitoring_enabled: true,
    custom_thresholds: { latency_ms: 250 },
  });
});
afterAll(async () => {
  await OpenFeature.close();
});

async function keyOf(scopes: readonly string[], narrowed_to?: object): Promise<string> {
  const body = { name: 'flags', scopes, ...(narrowed_to && { narrowed_to }) };
  return (await tenant.admin.post('/auth/api-key', body)).body.api_key;
}

test("the SDK's provider reads flags of every type, of the context it is given", async () => {
  const key = await keyOf(['config:read'], { service_ids: ['checkout'] });
  const provider = new OFREPProvider({
    baseUrl: strata.url + at,
    headers: [['authorization', `Bearer ${key}`]],
  });
  await OpenFeature.setProviderAndWait(provider);
  const client = OpenFeature.getClient();
  const { context } = ofCheckout;
  expect(await client.getNumberDetails('max_instances', 1, context)).toMatchObject({
    value: 7,
    variant: 'service_instance',
    reason: 'TARGETING_MATCH',
    flagMetadata: { layer: 'service_instance', revision: expect.any(Number) },
  });
  expect(await client.getBooleanValue('monitoring_enabled', false, context)).toBe(true);
  expect(await client.getObjectValue('custom_thresholds', {}, context)).toEqual({
    latency_ms: 250,
  });
  expect(await client.getStringDetails('max_instances', 'x', context)).toMatchObject({
    value: 'x',
    errorCode: 'TYPE_MISMATCH',
  });
  expect(await client.getNumberDetails('no_such_key', 3, context)).toMatchObject({
    value: 3,
    errorCode: 'FLAG_NOT_FOUND',
  });
  // What is outside of a narrow key is the default of the code.
  const elsewhere = await client.getNumberDetails('max_instances', 1, { targetingKey: 'search' });
  expect(elsewhere).toMatchObject({ value: 1, reason: 'ERROR' });
});

test('all flags of a context have a tag of the revisions and of the context', async () => {
  const all = await tenant.viewer.post(flags(), ofCheckout);
  expect(all.status).toBe(200);
  expect(Object.keys(all.body).sort()).toEqual(['eventStreams', 'flags', 'metadata']);
  expect(all.body.flags).toContainEqual({
    key: 'max_instances',
    value: 7,
    reason: 'TARGETING_MATCH',
    variant: 'service_instance',
    metadata: {
      layer: 'service_instance',
      source: `service_instance_${tenant.id}_checkout`,
      revision: expect.any(Number),
    },
  });
  const tag = { 'if-none-match': all.headers.get('etag')! };
  const again = (body: object): Promise<Answer> => tenant.viewer.post(flags(), body, tag);
  const same = await again({ context: { serviceId: 'checkout' } });
  expect([same.status, same.text]).toEqual([304, '']);
  expect((await again({})).status).toBe(200);
  expect((await again({ context: { agent_type: 'checkout' } })).status).toBe(200);
  await tenant.admin.patch(`${at}/services/checkout`, { max_instances: 8 });
  const changed = await again(ofCheckout);
  expect(changed.status).toBe(200);
  const found = changed.body.flags.find(({ key }: { key: string }) => key === 'max_instances');
  expect(found.value).toBe(8);
});

describe('the stream in the answer', () => {
  interface Listening {
    readonly received: MessageEvent[];
    readonly codes: (number | undefined)[];
    readonly source: EventSource;
  }
  const opened: EventSource[] = [];
  afterAll(() => opened.forEach((source) => source.close()));

  async function streamOf(client: Client, asked: object = ofCheckout): Promise<URL> {
    const { body } = await client.post(flags(), asked);
    expect(body.eventStreams).toEqual([
      { type: 'sse', url: expect.any(String), inactivityDelaySec: 120 },
    ]);
    const { pathname, search } = new URL(body.eventStreams[0].url);
    return new URL(pathname + search, strata.url);
  }
  /** As a browser would: by the address alone. */
  async function listen(url: URL, lastEventId?: string): Promise<Listening> {
    const resumed: typeof fetch = (input, init) =>
      fetch(input, { ...init, headers: { ...init?.headers, 'last-event-id': lastEventId! } });
    const source = new EventSource(url, lastEventId === undefined ? {} : { fetch: resumed });
    opened.push(source);
    const received: MessageEvent[] = [];
    const codes: (number | undefined)[] = [];
    source.addEventListener('message', (event) => received.push(event));
    source.addEventListener('error', ({ code }) => codes.push(code));
    await eventually(async () => {
      if (source.readyState === source.CONNECTING) throw new Error('not yet');
    });
    return { received, codes, source };
  }
  const most = (count: number): Promise<Answer> =>
    tenant.admin.patch(`${at}/services/checkout`, { max_instances: count });

  test('says at first and then when to evaluate them again, and nothing of what changes none', async () => {
    const url = await streamOf(tenant.viewer);
    // Since the evaluation that has the address they may have changed: they are evaluated again.
    await most(10);
    const { received, source } = await listen(url);
    expect(source.readyState).toBe(source.OPEN);
    await eventually(async () => expect(received).toHaveLength(1));
    await tenant.admin.put(`${at}/services/search`, { service_type: 'cloud_run' });
    await most(11);
    await eventually(async () => expect(received).toHaveLength(2));
    const { body } = await tenant.viewer.post(flags(), ofCheckout);
    const { tenant_revision: revision, platform_revision: platform } = body.metadata;
    expect(received.map(({ data, lastEventId }) => [JSON.parse(data), lastEventId])).toEqual([
      [{ type: 'refetchEvaluation' }, `${revision - 2}.${platform}`],
      [{ type: 'refetchEvaluation' }, `${revision}.${platform}`],
    ]);
    // Whoever comes back from before is told at once.
    const before = await listen(await streamOf(tenant.viewer), `${revision - 1}.${platform}`);
    await eventually(async () => expect(before.received).toHaveLength(1));
    source.close();
    before.source.close();
  });

  test('is at the same address for a while, and opens nothing else', async () => {
    const url = await streamOf(tenant.viewer);
    expect(url.href).toBe((await streamOf(tenant.viewer)).href);
    const statusOf = async (change: (url: URL) => void): Promise<unknown> => {
      const other = new URL(url);
      change(other);
      const answer = await fetch(other);
      const body = (await answer.json()) as { code?: string; detail?: { code: string } };
      return [answer.status, body.code ?? body.detail?.code];
    };
    const refused = [401, 'auth_token_invalid'];
    expect(await statusOf((to) => to.searchParams.set('service_id', 'search'))).toEqual(refused);
    expect(await statusOf((to) => to.searchParams.delete('service_id'))).toEqual(refused);
    expect(await statusOf((to) => to.searchParams.set('ticket', 'x'))).toEqual(refused);
    const elsewhere = await createTenantWith(strata.url, platform, 'Flags elsewhere');
    expect(
      await statusOf((to) => {
        to.pathname = to.pathname.replace(tenant.id, elsewhere.id);
      }),
    ).toEqual(refused);
    expect(
      await statusOf((to) => {
        to.pathname = `${at}/config/effective`;
      }),
    ).toEqual([401, 'auth_token_missing']);
    const asToken = new Client(strata.url, url.searchParams.get('ticket')!);
    expect((await asToken.get('/auth/me')).status).toBe(401);
    expect((await asToken.post(flags(), ofCheckout)).status).toBe(401);
  });

  test('is another one for another credential, which the tag of the first does not keep it from', async () => {
    const other = new Client(strata.url, await keyOf(['config:read']));
    const first = await tenant.viewer.post(flags(), ofCheckout);
    const tag = { 'if-none-match': first.headers.get('etag')! };
    expect((await tenant.viewer.post(flags(), ofCheckout, tag)).status).toBe(304);
    const next = await other.post(flags(), ofCheckout, tag);
    expect([next.status, next.body.flags]).toEqual([200, first.body.flags]);
    expect(next.body.eventStreams[0].url).not.toBe(first.body.eventStreams[0].url);
  });

  test('ends with the key that evaluated, which is in no answer', async () => {
    const made = await tenant.admin.post('/auth/api-key', { name: 's', scopes: ['config:read'] });
    const key = new Client(strata.url, made.body.api_key);
    const url = await streamOf(key);
    expect(url.href).not.toContain(key.token);
    const { codes, source } = await listen(url);
    expect(source.readyState).toBe(source.OPEN);
    expect((await tenant.admin.delete(`/auth/api-keys/${made.body.id}`)).status).toBe(204);
    // It is ended, and refused where it comes back.
    await eventually(async () => expect(codes).toContain(401));
    expect(source.readyState).toBe(source.CLOSED);
  });
});

test('without a context flags are static, and a guardrail says that it decided', async () => {
  const plain = await tenant.viewer.post(flags('/automation_enabled'));
  expect(plain.body).toMatchObject({ key: 'automation_enabled', reason: 'STATIC' });
  const stop = { automation_enabled: { const: false, reason: 'incident 7' } };
  await tenant.admin.patch(`${at}/config/bounds`, stop);
  const { body } = await tenant.viewer.post(flags('/automation_enabled'), ofCheckout);
  expect(body).toMatchObject({ value: false, metadata: { enforced: true } });
  await tenant.admin.delete(`${at}/config/bounds`);
});

test.each([
  ['a context that is none', { context: 'checkout' }, 400, 'INVALID_CONTEXT'],
  ['a name that is none', { context: { targetingKey: 'no name' } }, 400, 'INVALID_CONTEXT'],
  [
    'another type than that of the service',
    { context: { targetingKey: 'checkout', service_type: 'x' } },
    400,
    'INVALID_CONTEXT',
  ],
])('%s is an error of the protocol', async (_what, sent, status, errorCode) => {
  const one = await tenant.viewer.post(flags('/max_instances'), sent);
  expect([one.status, one.body]).toEqual([
    status,
    {
      key: 'max_instances',
      errorCode,
      errorDetails: expect.any(String),
      code: 'validation_failed',
      request_id: expect.any(String),
    },
  ]);
  const all = await tenant.viewer.post(flags(), sent);
  expect([all.status, all.body.errorCode, all.body.key]).toEqual([status, errorCode, undefined]);
});

/** As their sources build them (open-feature/python-sdk-contrib and go-sdk-contrib, providers/*ofrep). */
describe('the requests of the providers for', () => {
  interface Recorded {
    readonly base: () => string;
    readonly headers: Readonly<Record<string, string>>;
    readonly context: object;
  }
  const recorded: readonly (readonly [string, Recorded])[] = [
    [
      // urljoin(base_url, "/ofrep/…") keeps nothing of the path of its base.
      'Python',
      {
        base: () => '',
        headers: { 'user-agent': 'python-requests/2.32.3', accept: '*/*' },
        context: { targetingKey: 'checkout', user: 'ignored', tenure: 3 },
      },
    ],
    [
      'Go',
      {
        base: () => at,
        headers: { 'user-agent': 'Go-http-client/1.1', 'accept-encoding': 'gzip' },
        context: { targetingKey: 'checkout', user: 'ignored' },
      },
    ],
  ];

  test.each(recorded)('%s are answered', async (_name, { base, headers, context }) => {
    const client = new Client(strata.url, await keyOf(['config:read']));
    const ask = (key: string, body: object): Promise<Answer> =>
      client.post(`${base()}/ofrep/v1/evaluate/flags/${key}`, body, headers);
    const found = await ask('max_instances', { context });
    expect([found.status, found.body]).toEqual([
      200,
      {
        key: 'max_instances',
        value: expect.any(Number),
        reason: 'TARGETING_MATCH',
        variant: 'service_instance',
        metadata: expect.any(Object),
      },
    ]);
    // Without a context Python sends no member, and Go an empty one.
    for (const body of [{}, { context: {} }])
      expect((await ask('max_cost_impact_auto', body)).body).toMatchObject({ reason: 'STATIC' });
    const missing = await ask('no_such_key', { context });
    expect([missing.status, missing.body]).toMatchObject([
      404,
      { errorCode: 'FLAG_NOT_FOUND', errorDetails: expect.any(String) },
    ]);
  });

  test('its own tenant are those of the credential, and of no one else', async () => {
    const narrow = new Client(
      strata.url,
      await keyOf(['config:read'], { service_ids: ['checkout'] }),
    );
    const own = '/ofrep/v1/evaluate/flags';
    const all = await narrow.post(own, ofCheckout);
    expect(all.body.flags).toContainEqual(
      expect.objectContaining({ key: 'max_instances', variant: 'service_instance' }),
    );
    expect((await narrow.post(own, {})).body.code).toBe('insufficient_scope');
    const other = await createTenantWith(strata.url, platform, 'Other flags', ['viewer']);
    const theirs = await other.viewer.post(`${own}/max_instances`, ofCheckout);
    expect([theirs.status, theirs.body.errorCode]).toEqual([404, 'FLAG_NOT_FOUND']);
    const named = await other.viewer.post(
      `${own}/max_instances?tenant_id=${tenant.id}`,
      ofCheckout,
    );
    expect([named.status, named.body.errorCode]).toEqual([400, 'INVALID_CONTEXT']);
    expect((await new Client(strata.url).post(own, {})).status).toBe(401);
    const got = await narrow.get(own);
    expect([got.status, got.headers.get('allow')]).toEqual([405, 'POST']);
  });
});

test('no JSON, no one and others are refused in its form', async () => {
  const raw = await tenant.viewer.send('POST', flags('/a'), { raw: '{' });
  expect([raw.status, raw.body.errorCode]).toEqual([400, 'PARSE_ERROR']);
  const anonymous = await new Client(strata.url).post(flags('/a'), {});
  expect([anonymous.status, anonymous.body.errorCode]).toEqual([401, 'GENERAL']);
  const key = new Client(strata.url, await keyOf(['config:read'], { service_ids: ['checkout'] }));
  const outside = await key.post(flags(), {});
  expect([outside.status, outside.body.code]).toEqual([403, 'insufficient_scope']);
  const secret = await tenant.viewer.post(flags('/__proto__'), {});
  expect([secret.status, secret.body.errorCode]).toEqual([404, 'FLAG_NOT_FOUND']);
});

test('the example of the documentation runs as pasted', () => {
  const output = runPasted('docs/operations/openfeature.md', 'Feature flags', {
    STRATA: strata.url,
    TOKEN: tenant.admin.token,
    TENANT: tenant.id,
  });
  expect(output).toEqual(['tenant_risk', 'FLAG_NOT_FOUND', '304']);
});
