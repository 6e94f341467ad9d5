/** The fast path: a read that was answered before is answered ahead of Fastify, with the same response and after the same checks. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { strataDatabase, type Database } from '../support/postgres.ts';
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

const settings = {
  RATE_LIMIT_PER_MINUTE: '0',
  CORS_ORIGINS: 'https://app.example,https://other.example',
  BASE_URL: 'https://strata.example',
};
beforeAll(async () => {
  database = await strataDatabase();
  strata = await startStrata({ DATABASE_URL: database.url, ...settings });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, 'FastPath');
  risk = `/tenants/${tenant.id}/config/risk`;
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await database?.drop();
});

/** Everything of a response but what belongs to one request or connection. */
function lasting({ status, headers, text }: Answer) {
  return {
    status,
    text,
    headers: Object.fromEntries<string | undefined>(
      [...headers].filter(
        ([name]) => !['date', 'x-request-id', 'connection', 'keep-alive'].includes(name),
      ),
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

  test.each<[what: string, headers: (tag: string) => Record<string, string>, status: number]>([
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
  ])('%s: the same answer as from Fastify', async (_what, headersFor, status) => {
    for (const path of [risk, `/tenants/${tenant.id}/config/effective?agent_type=cost`]) {
      const tag = (await readUntilFast(path, tenant.admin)).headers.get('etag')!;
      const headers = headersFor(tag);
      for (const method of ['GET', 'HEAD']) {
        const ask = (more: object = {}) =>
          tenant.admin.send(method, path, { headers: { ...headers, ...more } });
        // A parameter in a header is none that the fast path knows.
        const fromFastify = await ask({ 'x-min-revision': '0' });
        expect(fromFastify.status).toBe(status);
        // What is known by now is of another page.
        await tenant.admin.get(path, { origin: 'https://app.example' });
        const expected = lasting(fromFastify);
        // Fastify says of a HEAD that the 200 would have no body, where it must say nothing (RFC 9110, section 8.6).
        if (status === 304) delete expected.headers['content-length'];
        for (let time = 0; time < 3; time += 1) expect(lasting(await ask())).toEqual(expected);
      }
    }
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

test('a limit counts them, too, from when it is set', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'strata-fast-path-'));
  const file = join(folder, 'env');
  const limitTo = (requests: number): void =>
    writeFileSync(file, `RATE_LIMIT_PER_MINUTE=${requests}\n`);
  limitTo(0);
  const { BASE_URL } = settings;
  const limited = await startStrata({ DATABASE_URL: database.url, BASE_URL, ENV_FILE: file });
  try {
    const client = new Client(limited.url, tenant.admin.token);
    const operator = new Client(limited.url, platform.token);
    const reads = async (): Promise<Answer[]> => {
      const answers: Answer[] = [];
      for (let time = 0; time < 30; time += 1) answers.push(await client.get(risk));
      return answers;
    };
    expect((await reads()).every(({ status }) => status === 200)).toBe(true);
    limitTo(20);
    expect((await operator.post('/config/reload', { reload_env: true })).status).toBe(200);
    const counted = await reads();
    expect(counted.at(-1)!.status).toBe(429);
    expect(counted[0]!.headers.has('x-ratelimit-limit')).toBe(true);
  } finally {
    await limited.stop();
    rmSync(folder, { recursive: true });
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
