/**
 * The fast path: a read that was answered before is answered ahead of Fastify, with the same
 * response and after the same checks.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { IncomingMessage, ServerResponse } from 'node:http';
import { connect, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createFastPath, type FastPath } from '../../gateway/fast-path/fast-path.ts';
import { trustOf } from '../../gateway/http/client-address.ts';
import { createRateLimit } from '../../gateway/http/rate-limit.ts';
import { serviceCaller } from '../../shared/access.ts';
import { contractTable } from '../../shared/contracts/index.ts';
import { liveSettings } from '../../shared/settings/live-settings.ts';
import { loadSettings, type Settings } from '../../shared/settings/settings.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import { startRedis, type Process } from '../support/servers.ts';
import { inSoak, soakTest } from '../support/soak.ts';
import {
  addMember,
  adminPassword,
  Client,
  createTenant,
  memberPassword,
  signIn,
  startStrata,
  type Answer,
  type Running,
  type TenantFixture,
} from '../support/strata.ts';

let database: Database;
let strata: Running;
let platform: Client;
let tenant: TenantFixture;
let risk: string;
let folder: string;

const settings = {
  RATE_LIMIT_PER_MINUTE: '0',
  CORS_ORIGINS: 'https://app.example,https://other.example',
  BASE_URL: 'https://strata.example',
  TRUSTED_PROXIES: '127.0.0.0/8',
};
beforeAll(async () => {
  database = await strataDatabase();
  folder = mkdtempSync(join(tmpdir(), 'strata-fast-path-'));
  writeFileSync(join(folder, 'strata.env'), '');
  const own = { DATABASE_URL: database.url, ENV_FILE: join(folder, 'strata.env') };
  strata = await startStrata({ ...own, ...settings });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, 'FastPath');
  risk = `/tenants/${tenant.id}/config/risk`;
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await database?.drop();
  if (folder !== undefined) rmSync(folder, { recursive: true });
});

async function switchFastPath(isOn: boolean): Promise<void> {
  writeFileSync(join(folder, 'strata.env'), `FAST_PATH=${isOn}\n`);
  expect((await platform.post('/config/reload', { reload_env: true })).status).toBe(200);
}

/** Everything of a response but what belongs to one request or connection. */
function lasting({ status, headers, text }: Answer) {
  const ofOne = ['date', 'x-request-id', 'connection', 'keep-alive'];
  // Of a HEAD's 304 Fastify says that the 200 would have no body. The fast path says nothing, as it
  // must (RFC 9110, section 8.6), but it may have forgotten the response on a busy machine.
  if (status === 304) ofOne.push('content-length');
  return {
    status,
    text,
    headers: Object.fromEntries<string | undefined>(
      [...headers].filter(([name]) => !ofOne.includes(name)),
    ),
  };
}
/** Reads until the fast path knows the URL and who asks. */
async function readUntilFast(path: string, client: Client): Promise<Answer> {
  for (let time = 0; time < 3; time += 1) await client.get(path);
  return client.get(path);
}
const outcome = ({ status, body }: Answer): unknown => [
  status,
  (body as { detail?: { code: string } })?.detail?.code,
];

describe('a read that is repeated', () => {
  beforeAll(async () => {
    await tenant.admin.put(`/tenants/${tenant.id}/config/agents/cost`, {
      default_region: 'europe-west1',
    });
    await platform.put('/config/global/greeting', { config_value: 'Grüße, 世界', is_public: true });
  });

  test.each([
    ['a resource', () => risk],
    ['another', () => `/tenants/${tenant.id}/config/agents/cost`],
    ['a list', () => `/tenants/${tenant.id}/config/agents?limit=10`],
    [
      'effective configuration',
      () => `/tenants/${tenant.id}/config/effective?agent_type=cost&explain=true`,
    ],
    ['text beyond ASCII', () => '/config/global/greeting'],
    ['a path that names no tenant', () => '/configurations/'],
  ])('%s: the same answer, by GET and by HEAD', async (_what, path) => {
    const first = await tenant.admin.get(path());
    expect(first.status).toBe(200);
    for (let time = 0; time < 4; time += 1)
      expect(lasting(await tenant.admin.get(path()))).toEqual(lasting(first));
    const head = await tenant.admin.send('HEAD', path());
    expect(lasting(head)).toEqual({ ...lasting(first), text: '' });
  });

  test('each answer has its own request id, or the one that was sent', async () => {
    await readUntilFast(risk, tenant.admin);
    const ids = await Promise.all(
      Array.from({ length: 20 }, async () =>
        (await tenant.admin.get(risk)).headers.get('x-request-id'),
      ),
    );
    expect(new Set(ids).size).toBe(20);
    expect(
      (await tenant.admin.get(risk, { 'x-request-id': 'mine-1' })).headers.get('x-request-id'),
    ).toBe('mine-1');
    expect(
      (await tenant.admin.get(risk, { 'x-request-id': 'not sane' })).headers.get('x-request-id'),
    ).toMatch(/^[0-9a-f-]{36}$/);
  });

  test('each is counted', async () => {
    const route = '/tenants/:tenant_id/config/risk';
    const counted = async (): Promise<number> => {
      const { text } = await new Client(strata.url).get('/metrics');
      const labels = [`route="${route}"`, 'method="GET"', 'status="200"'];
      const sample = text
        .split('\n')
        .filter((line) => line.startsWith('strata_http_requests_total{'))
        .find((line) => labels.every((label) => line.includes(label)));
      return Number(sample?.split(' ')[1]);
    };
    await readUntilFast(risk, tenant.admin);
    const before = await counted();
    for (let time = 0; time < 5; time += 1) await tenant.admin.get(risk);
    expect((await counted()) - before).toBe(5);
  });

  test('what is written shows at once', async () => {
    const effective = `/tenants/${tenant.id}/config/effective`;
    await Promise.all([risk, effective].map((path) => readUntilFast(path, tenant.admin)));
    for (let limit = 10; limit < 20; limit += 1) {
      const written = await tenant.admin.put(risk, {
        global_settings: { max_cost_impact_auto: limit },
      });
      expect(lasting(await tenant.admin.get(risk))).toMatchObject({
        text: written.text,
        headers: { etag: written.headers.get('etag') },
      });
      for (let time = 0; time < 3; time += 1)
        expect((await tenant.admin.get(effective)).body.values.max_cost_impact_auto).toBe(limit);
    }
  });

  type Form = [what: string, headers: (tag: string) => Record<string, string>, status: number];
  const forms: Form[] = [
    ['with its entity tag', (tag) => ({ 'if-none-match': tag }), 304],
    ['with several tags', (tag) => ({ 'if-none-match': `"0", W/${tag}` }), 304],
    ['with any tag', () => ({ 'if-none-match': '*' }), 304],
    ['with another tag', () => ({ 'if-none-match': '"0"' }), 200],
    ['from a page', () => ({ origin: 'https://app.example' }), 200],
    ['from another page', () => ({ origin: 'https://other.example' }), 200],
    ['from a page that is not allowed', () => ({ origin: 'https://evil.example' }), 200],
    [
      'from a page that has it',
      (tag) => ({ origin: 'https://app.example', 'if-none-match': tag }),
      304,
    ],
  ];
  test('in each form of a request it is the same answer as with the fast path off', async () => {
    const paths = [risk, `/tenants/${tenant.id}/config/effective?agent_type=cost`];
    const answersTo = async ([what, headersFor, status]: Form) => {
      const all = [];
      for (const path of paths) {
        const tag = (await readUntilFast(path, tenant.admin)).headers.get('etag')!;
        for (const method of ['GET', 'HEAD']) {
          // What is known by now is of another page.
          await tenant.admin.get(path, { origin: 'https://app.example' });
          for (let time = 0; time < 3; time += 1) {
            const answer = await tenant.admin.send(method, path, { headers: headersFor(tag) });
            expect([what, answer.status]).toEqual([what, status]);
            all.push([what, lasting(answer)]);
          }
        }
      }
      return all;
    };
    const answers = async () => {
      const all = [];
      for (const form of forms) all.push(...(await answersTo(form)));
      return all;
    };
    const fast = await answers();
    await switchFastPath(false);
    const ordinary = await answers();
    await switchFastPath(true);
    expect(fast).toEqual(ordinary);
  });

  test('other forms of it are given where they are asked for', async () => {
    const known = await readUntilFast(risk, tenant.admin);
    const etag = known.headers.get('etag')!;
    const unchanged = await tenant.admin.get(risk, { 'if-none-match': etag });
    expect([unchanged.status, unchanged.text, unchanged.headers.get('etag')]).toEqual([
      304,
      '',
      etag,
    ]);
    expect(outcome(await tenant.admin.get(risk, { 'x-min-revision': '1000000' }))).toEqual([
      412,
      'precondition_failed',
    ]);
    expect(outcome(await tenant.admin.get(risk, { 'x-min-revision': 'soon' }))).toEqual([
      422,
      'validation_failed',
    ]);
    const agents = `/tenants/${tenant.id}/config/agents`;
    await readUntilFast(agents, tenant.admin);
    const lines = await tenant.admin.get(agents, { accept: 'application/x-ndjson' });
    expect(lines.headers.get('content-type')).toBe('application/x-ndjson');
    await readUntilFast(risk, tenant.admin);
    const allowed = await tenant.admin.get(risk, { origin: 'https://app.example' });
    expect([allowed.headers.get('access-control-allow-origin'), known.headers.get('vary')]).toEqual(
      ['https://app.example', 'Origin'],
    );
    expect(
      (await tenant.admin.get(risk, { origin: 'https://evil.example' })).headers.get(
        'access-control-allow-origin',
      ),
    ).toBeNull();
  });
});

describe('a read that another was allowed', () => {
  let other: TenantFixture;
  beforeAll(async () => {
    other = await createTenant(strata.url, platform, 'Neighbours');
  });
  beforeEach(() => readUntilFast(risk, tenant.admin));

  test('is refused to whom it is refused', async () => {
    const known = [other.admin, tenant.viewer, platform];
    for (const client of known) await readUntilFast('/auth/me', client);
    // As much the others' own: the gateway knows them as well.
    await readUntilFast(`/tenants/${other.id}/config/risk`, other.admin);
    await readUntilFast(`/tenants/${tenant.id}/config/effective`, tenant.viewer);
    await readUntilFast('/config/service-types', platform);
    expect(
      await Promise.all(
        [...known, new Client(strata.url)].map(async (client) => outcome(await client.get(risk))),
      ),
    ).toEqual([
      [403, 'tenant_mismatch'],
      [403, 'insufficient_role'],
      [403, 'tenant_mismatch'],
      [401, 'auth_token_missing'],
    ]);
  });

  test('is refused for a credential that only ends like theirs', async () => {
    const [head, payload, signature] = tenant.admin.token!.split('.') as [string, string, string];
    const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as Record<
      string,
      unknown
    >;
    const forged = Buffer.from(JSON.stringify({ ...claims, exp: Number(claims.exp) + 1 })).toString(
      'base64url',
    );
    for (const token of [`${head}.${forged}.${signature}`, `${tenant.admin.token!}x`, signature]) {
      expect(outcome(await new Client(strata.url, token).get(risk))).toEqual([
        401,
        'auth_token_invalid',
      ]);
    }
    expect(
      outcome(await new Client(strata.url).get(risk, { authorization: tenant.admin.token! })),
    ).toEqual([401, 'auth_token_invalid']);
    expect(
      outcome(
        await new Client(strata.url).get(risk, { 'x-api-key': `Bearer ${tenant.admin.token!}` }),
      ),
    ).toEqual([401, 'auth_api_key_invalid']);
  });

  test('is refused to them once they have signed out', async () => {
    const leaving = await signIn(strata.url, tenant.emails.tenant_admin!, memberPassword);
    await readUntilFast(risk, leaving);
    expect((await leaving.post('/auth/logout')).status).toBeLessThan(300);
    expect(outcome(await leaving.get(risk))).toEqual([401, 'auth_session_revoked']);
  });

  test('is refused to them once their role is another, and their key is revoked', async () => {
    const email = 'promoted@fast-path.example';
    const { user_id: userId, client: member } = await addMember(tenant.admin, tenant.id, {
      email,
      roles: ['operator'],
    });
    const { body: key } = await member.post('/auth/api-key', {
      name: 'reader',
      scopes: ['config:read'],
    });
    const byKey = new Client(strata.url, (key as { api_key: string }).api_key);
    for (const client of [member, byKey])
      expect((await readUntilFast(risk, client)).status).toBe(200);
    expect(
      (await tenant.admin.patch(`/tenants/${tenant.id}/users/${userId}`, { roles: ['viewer'] }))
        .status,
    ).toBe(200);
    for (const client of [member, byKey])
      expect(outcome(await client.get(risk))).toEqual([403, 'insufficient_role']);
    await tenant.admin.patch(`/tenants/${tenant.id}/users/${userId}`, { roles: ['operator'] });
    for (const client of [member, byKey])
      expect((await readUntilFast(risk, client)).status).toBe(200);
    expect((await member.delete(`/auth/api-keys/${(key as { id: string }).id}`)).status).toBe(204);
    expect(outcome(await byKey.get(risk))).toEqual([401, 'auth_api_key_invalid']);
  });
});

describe.each(['memory', 'Redis'] as const)('a rate limit that is counted in %s', (where) => {
  // What does not depend on where is tried there.
  const anywhere = where === 'memory' ? test : soakTest;
  const perMinute = 5;
  const page = 'https://app.example';
  let redis: Process | undefined;
  let limited: Running;
  let file: string;
  let member: Client;
  let operator: Client;
  /** Each has a minute of its own. */
  let addresses = 0;
  const newAddress = (): string => {
    addresses += 1;
    return `192.0.2.${addresses}`;
  };

  const write = (text: string): void => writeFileSync(file, text);
  async function limitTo(requests: number): Promise<void> {
    write(`RATE_LIMIT_PER_MINUTE=${requests}\n`);
    const headers = { 'x-forwarded-for': newAddress() };
    const { status } = await operator.post('/config/reload', { reload_env: true }, headers);
    expect(status).toBe(200);
  }
  const ask = (from: string, headers: Record<string, string> = {}, method = 'GET') =>
    member.send(method, risk, {
      headers: { 'x-forwarded-for': from, 'x-request-id': 'same', ...headers },
    });
  /** A parameter in a header is none that the fast path knows. */
  const pastFastPath = { 'x-min-revision': '0' };
  /** With the URL known, and who asks, also from the page. */
  async function makeKnown(): Promise<void> {
    const from = newAddress();
    for (const headers of [undefined, { origin: page }]) {
      await ask(from, headers);
      await ask(from, headers);
    }
  }
  const standing = ({ status, headers }: Answer): unknown => [
    status,
    headers.get('x-ratelimit-limit'),
    headers.get('x-ratelimit-remaining'),
  ];

  beforeAll(async () => {
    file = join(folder, where === 'memory' ? 'strata.env' : 'redis.env');
    limited = strata;
    if (where === 'Redis') {
      redis = await startRedis();
      write('');
      const own = { DATABASE_URL: database.url, ENV_FILE: file, REDIS_URL: redis.url };
      limited = await startStrata({ ...own, ...settings });
    }
    member = new Client(limited.url, tenant.admin.token);
    operator = new Client(limited.url, platform.token);
    await limitTo(perMinute);
  });
  afterAll(async () => {
    await limitTo(0);
    if (where === 'Redis') await limited.stop();
    await redis?.stop('SIGKILL');
  });

  type Form = [what: string, headers: (tag: string) => Record<string, string>, method: string];
  const forms: Form[] = [
    ['a plain read', () => ({}), 'GET'],
    ['a HEAD', () => ({}), 'HEAD'],
    ['with its entity tag', (tag) => ({ 'if-none-match': tag }), 'GET'],
    ['from a page', () => ({ origin: page }), 'GET'],
  ];
  const tried = where === 'memory' || inSoak ? forms : forms.slice(0, 1);
  test.each(tried)(
    '%s: the same answers as from Fastify, up to the limit and beyond',
    async (...row) => {
      const [, headersFor, method] = row;
      const [known, other] = [newAddress(), newAddress()];
      await makeKnown();
      const tag = (await ask(newAddress())).headers.get('etag')!;
      const headers = headersFor(tag);
      const statuses: number[] = [];
      for (let time = 0; time < perMinute + 2; time += 1) {
        const fast = lasting(await ask(known, headers, method));
        const slow = lasting(await ask(other, { ...headers, ...pastFastPath }, method));
        for (const answer of [fast, slow]) {
          for (const name of ['x-ratelimit-reset', 'retry-after']) {
            const seconds = answer.headers[name];
            if (seconds === undefined) continue;
            expect(Number(seconds)).toBeGreaterThan(0);
            expect(Number(seconds)).toBeLessThanOrEqual(60);
            answer.headers[name] = 'seconds';
          }
        }
        // Fastify says of a HEAD and of a 304 how long a body it does not have is, where it must say
        // nothing or that of a GET.
        if (slow.text === '') {
          delete fast.headers['content-length'];
          delete slow.headers['content-length'];
        }
        expect(fast).toEqual(slow);
        expect(Object.keys(fast.headers)).toContain('x-ratelimit-reset');
        expect(fast.headers['x-ratelimit-remaining']).toBe(
          String(Math.max(0, perMinute - 1 - time)),
        );
        expect('retry-after' in fast.headers).toBe(fast.status === 429);
        statuses.push(fast.status);
      }
      const allowed = 'if-none-match' in headers ? 304 : 200;
      expect(statuses).toEqual([...Array<number>(perMinute).fill(allowed), 429, 429]);
    },
  );

  test('whoever answers, all requests of an address are counted together', async () => {
    await makeKnown();
    const from = newAddress();
    const anonymous = new Client(limited.url);
    const answers = [
      await ask(from),
      await ask(from, pastFastPath),
      await anonymous.get(risk, { 'x-forwarded-for': from }),
      await ask(from, { origin: page }),
      await anonymous.get('/nowhere', { 'x-forwarded-for': from }),
      await ask(from),
      await ask(from, pastFastPath),
      await anonymous.get(risk, { 'x-forwarded-for': from }),
    ];
    expect(answers.map(standing)).toEqual([
      [200, '5', '4'],
      [200, '5', '3'],
      [401, '5', '2'],
      [200, '5', '1'],
      [404, '5', '0'],
      [429, '5', '0'],
      [429, '5', '0'],
      [429, '5', '0'],
    ]);
    expect(standing(await ask(newAddress()))).toEqual([200, '5', '4']);
  });

  test('requests that come at once have a number each', async () => {
    await makeKnown();
    const from = newAddress();
    const answers = await Promise.all(
      Array.from({ length: 12 }, (_each, index) => ask(from, index % 2 ? {} : pastFastPath)),
    );
    const passed = answers.filter(({ status }) => status === 200);
    const left = passed.map(({ headers }) => headers.get('x-ratelimit-remaining'));
    expect(left.toSorted()).toEqual(['0', '1', '2', '3', '4']);
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(7);
  });

  anywhere('what is refused is counted in the metrics', async () => {
    await makeKnown();
    const from = newAddress();
    const refused = async (): Promise<number> => {
      const { text } = await member.get('/metrics', { 'x-forwarded-for': newAddress() });
      const labels = ['route="/tenants/:tenant_id/config/risk"', 'method="GET"', 'status="429"'];
      const sample = text
        .split('\n')
        .filter((line) => line.startsWith('strata_http_requests_total{'))
        .find((line) => labels.every((label) => line.includes(label)));
      return Number(sample?.split(' ')[1] ?? 0);
    };
    const before = await refused();
    for (let time = 0; time < perMinute + 3; time += 1) await ask(from);
    expect((await refused()) - before).toBe(3);
  });

  anywhere('a limit counts them, too, from when it is set, and as it is changed', async () => {
    await limitTo(0);
    await makeKnown();
    const from = newAddress();
    const unlimited = await ask(from);
    expect(standing(unlimited)).toEqual([200, null, null]);
    await limitTo(3);
    await makeKnown();
    const three = [await ask(from), await ask(from), await ask(from), await ask(from)];
    expect(three.map(standing)).toEqual([
      [200, '3', '2'],
      [200, '3', '1'],
      [200, '3', '0'],
      [429, '3', '0'],
    ]);
    // What was counted stays counted.
    await limitTo(6);
    await makeKnown();
    expect([await ask(from), await ask(from), await ask(from)].map(standing)).toEqual([
      [200, '6', '1'],
      [200, '6', '0'],
      [429, '6', '0'],
    ]);
    await limitTo(0);
    await makeKnown();
    expect(lasting(await ask(from))).toEqual(lasting(unlimited));
    await limitTo(perMinute);
  });
});

describe('a fast path whose reads are taught by hand', () => {
  const contract = contractTable['tenant-config.risk.get'];
  const caller = serviceCaller('test');
  const [before, after] = [loadSettings({}, { roles: [] }), loadSettings({}, { roles: [] })];
  let current: Settings;
  let fastPath: FastPath;
  beforeEach(() => {
    current = before;
    const live = {
      ...liveSettings(before, {}, []),
      get current() {
        return current;
      },
    };
    fastPath = createFastPath({
      authenticator: { known: () => ({ caller, stale: false }), find: async () => undefined },
      settings: live,
      rateLimit: createRateLimit(live, trustOf([])),
      requestIdOf: () => 'id',
      record: () => undefined,
    });
  });

  /** Returns how to outdate it. */
  function learn(url: string, settings = current, document: object = {}): () => void {
    const value = {
      document,
      revision: 1,
      updated_by: 'x',
      updated_at: '2026-01-01T00:00:00Z',
    };
    let isFresh = true;
    const entry = { value, asOf: {}, isFresh: () => isFresh, recordHit: () => undefined };
    const read = { contract, route: '/', params: { tenant_id: 'a' }, entry, settings };
    fastPath.learn(url, { ...read, origin: undefined, hookHeaders: {} });
    return () => {
      isFresh = false;
    };
  }
  /** Returns how it stands with the request now. */
  function ask(url: string): () => 'answered' | 'given to Fastify' {
    const request = new IncomingMessage(new Socket());
    Object.assign(request, { method: 'GET', url });
    const response = new ServerResponse(request);
    let given = 0;
    fastPath.answer(request, response, () => {
      given += 1;
    });
    return () => {
      expect(given + Number(response.headersSent)).toBe(1);
      return given > 0 ? 'given to Fastify' : 'answered';
    };
  }

  test('headers that a hook set before a reload are not learned after it', () => {
    learn('/a');
    expect(ask('/a')()).toBe('answered');
    current = after;
    learn('/a', before);
    expect(ask('/a')()).toBe('given to Fastify');
    learn('/a', after);
    expect(ask('/a')()).toBe('answered');
  });

  test('where it is switched off Fastify answers everything', () => {
    learn('/a');
    current = { ...before, fast_path: false };
    learn('/a');
    expect(ask('/a')()).toBe('given to Fastify');
  });

  test('a long answer is sent from the same bytes to all, a short one as text', () => {
    const end = jest.spyOn(ServerResponse.prototype, 'end');
    learn('/long', current, { text: 'a'.repeat(100_000) });
    learn('/short');
    for (const url of ['/long', '/long', '/short']) expect(ask(url)()).toBe('answered');
    const [first, second, short] = end.mock.calls.map(([body]: unknown[]) => body);
    end.mockRestore();
    expect([Buffer.isBuffer(first), second === first]).toEqual([true, true]);
    expect(short).toBe('{}');
  });

  test('what is outdated is given to Fastify', () => {
    const outdate = learn('/a');
    expect(ask('/a')()).toBe('answered');
    outdate();
    expect(ask('/a')()).toBe('given to Fastify');
  });
});

test('very many that ask at once after a write are all given what was written', async () => {
  const effective = `/tenants/${tenant.id}/config/effective`;
  for (let limit = 20; limit < 24; limit += 1) {
    await Promise.all([risk, effective].map((path) => readUntilFast(path, tenant.admin)));
    const written = await tenant.admin.put(risk, {
      global_settings: { max_cost_impact_auto: limit },
    });
    const burst = (path: string) =>
      Promise.all(Array.from({ length: 60 }, () => tenant.admin.get(path)));
    const [ofRisk, ofEffective] = await Promise.all([burst(risk), burst(effective)]);
    const first = lasting(ofRisk[0]!);
    expect([first.text, first.headers.etag]).toEqual([written.text, written.headers.get('etag')]);
    for (const each of ofRisk) expect(lasting(each)).toEqual(first);
    for (const each of ofEffective) expect(lasting(each)).toEqual(lasting(ofEffective[0]!));
    expect(ofEffective[0]!.body.values.max_cost_impact_auto).toBe(limit);
  }
});

test('a request that announces a type but no body is answered', async () => {
  const { hostname, port } = new URL(strata.url);
  for (const [request, status] of [
    [
      `POST /auth/logout HTTP/1.1\r\nAuthorization: Bearer ${(await signIn(strata.url, tenant.emails.operator!, memberPassword)).token}\r\n`,
      204,
    ],
    ['POST /auth/login HTTP/1.1\r\n', 422],
    [`PUT ${risk} HTTP/1.1\r\nAuthorization: Bearer ${tenant.admin.token}\r\n`, 400],
  ] as const) {
    const socket = connect(Number(port), hostname);
    // One that is never answered must not outlive the test.
    socket.setTimeout(120_000, () => socket.destroy());
    socket.write(
      `${request}Host: x\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n`,
    );
    const chunks: Buffer[] = [];
    socket.on('data', (chunk: Buffer) => chunks.push(chunk));
    await once(socket, 'close');
    expect(Buffer.concat(chunks).toString()).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
  }
});
