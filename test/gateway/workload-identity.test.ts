/**
 * Workload identity: a token of a real issuer becomes one of a service account, by rules, on two
 * nodes of a cluster; forty-odd hostile tokens become none; and what was given ends on both
 * nodes when its rule, its issuer or its account has.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Client as McpClient, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { exportSPKI, generateKeyPair, exportJWK, importJWK, type CryptoKey } from 'jose';
import { createHmac, randomUUID } from 'node:crypto';
import { audited, auditEvents } from '../support/audit.ts';
import { runPasted } from '../support/pasted.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import { startNats, startRedis, type Process } from '../support/servers.ts';
import {
  addMember,
  adminPassword,
  Client,
  createTenant,
  signIn,
  startStrata,
  type Answer,
  type Running,
  type TenantFixture,
} from '../support/strata.ts';
import { startWorkloadIssuer, type WorkloadIssuer } from '../support/workload-issuer.ts';

const base = 'http://strata.test';
const grant = 'urn:ietf:params:oauth:grant-type:token-exchange';
const jwtType = 'urn:ietf:params:oauth:token-type:jwt';
const github = 'https://token.actions.githubusercontent.com';

let database: Database;
let nats: Process;
let redis: Process;
let nodes: Running[];
let platform: Client;
let tenant: TenantFixture;
let other: TenantFixture;
let issuer: WorkloadIssuer;
/** Listed with pasted keys, and reachable by nobody. */
let walled: WorkloadIssuer;
let account: string;

beforeAll(async () => {
  [database, nats, redis, issuer, walled] = await Promise.all([
    strataDatabase(),
    startNats(),
    startRedis(),
    startWorkloadIssuer(),
    startWorkloadIssuer(),
  ]);
  const environment = {
    DATABASE_URL: database.url,
    NATS_URL: nats.url,
    REDIS_URL: redis.url,
    BASE_URL: base,
    // Shares of it are not whole milliseconds.
    REQUEST_TIMEOUT_MS: '60001',
    WEBHOOK_ALLOW_HTTP: 'true',
    WEBHOOK_ALLOWED_NETWORKS: '127.0.0.0/8',
    NETWORK_RATE_LIMIT_PER_MINUTE: '1000',
    TRUSTED_PROXIES: '127.0.0.0/8',
  };
  nodes = await Promise.all(
    ['one', 'two'].map((id) => startStrata({ ...environment, NODE_ID: id })),
  );
  platform = await signIn(nodes[0]!.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(nodes[0]!.url, platform, 'Pipelines');
  other = await createTenant(nodes[0]!.url, platform, 'Other pipelines');
  await allow();
  account = await newAccount();
});
afterAll(async () => {
  await Promise.all(nodes?.map((node) => node.stop('SIGKILL')) ?? []);
  await Promise.all([issuer?.close(), walled?.close()]);
  await Promise.all([nats?.stop('SIGKILL'), redis?.stop('SIGKILL')]);
  await database?.drop();
});

const unreachable = 'https://kubernetes.default.svc.cluster.local';
const allowed = () => [
  { issuer: issuer.issuer },
  { issuer: unreachable, jwks: { keys: [walled.publicKey] } },
  { issuer: github },
];
async function allow(issuers: readonly object[] = allowed()): Promise<void> {
  const put = await platform.put('/auth/workload-issuers', { issuers });
  if (put.status !== 200) throw new Error(put.text);
}
const accounts = (id = tenant.id): string => `/tenants/${id}/service-accounts`;
const trustOf = (id = account): string => `${accounts()}/${id}/trust`;
const addressOf = (id = account): string => `${base}${accounts()}/${id}`;
async function newAccount(roles: readonly string[] = ['operator']): Promise<string> {
  const { body } = await tenant.admin.post(accounts(), { name: 'pipeline', roles });
  return body.id;
}
const rule = (more: object = {}) => ({
  issuer: issuer.issuer,
  subject: 'repo:acme/shop:ref:refs/heads/main',
  claims: { repository_owner_id: '1234' },
  roles: ['operator'],
  scopes: ['config:read', 'config:write', 'auth:self'],
  ...more,
});
async function trust(rules: readonly object[] = [rule()], id = account): Promise<Answer> {
  const put = await tenant.admin.put(trustOf(id), { rules });
  if (put.status !== 200) throw new Error(put.text);
  return put;
}
const claims = (more: object = {}) => ({
  aud: addressOf(),
  sub: 'repo:acme/shop:ref:refs/heads/main',
  repository_owner_id: '1234',
  ...more,
});
const exchange = (token: string, more: Record<string, string> = {}, node = 0): Promise<Answer> =>
  new Client(nodes[node]!.url).send('POST', '/auth/token', {
    raw: new URLSearchParams({
      grant_type: grant,
      subject_token: token,
      subject_token_type: jwtType,
      ...more,
    }).toString(),
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
  });
async function given(more: object = {}): Promise<string> {
  const answer = await exchange(await issuer.sign(claims(more)));
  if (answer.status !== 200) throw new Error(answer.text);
  return answer.body.access_token;
}
const risk = (): string => `/tenants/${tenant.id}/config/risk`;
const asOn = (node: number, token: string): Client => new Client(nodes[node]!.url, token);
async function onBoth(token: string): Promise<string[]> {
  const answers = await Promise.all([0, 1].map((node) => asOn(node, token).get(risk())));
  return answers.map(({ status, body }) => (status === 200 ? '200' : body.detail.code));
}

test("a pipeline's token becomes one of the account, within rule and scopes, on every node", async () => {
  const put = await trust();
  expect(put.body).toEqual({
    revision: expect.any(Number),
    rules: [
      {
        ...rule(),
        id: expect.any(String),
        audience: addressOf(),
        max_ttl: 900,
        made_by: expect.any(String),
        created_at: expect.any(String),
      },
    ],
  });
  expect((await tenant.admin.get(trustOf())).body).toEqual(put.body);
  const answer = await exchange(await issuer.sign(claims()), {}, 1);
  expect([answer.status, answer.body]).toEqual([
    200,
    {
      access_token: expect.any(String),
      issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
      token_type: 'Bearer',
      expires_in: 900,
      scope: 'config:read config:write auth:self',
    },
  ]);
  expect(answer.headers.get('cache-control')).toBe('no-store');
  const token = answer.body.access_token;
  expect(await onBoth(token)).toEqual(['200', '200']);
  const me = await asOn(0, token).get('/auth/me');
  expect(me.body.service_account).toEqual({ id: account, name: 'pipeline' });
  const service = `/tenants/${tenant.id}/services/checkout`;
  expect((await asOn(1, token).put(service, { service_type: 'cloud_run' })).status).toBe(201);
  for (const [path, code] of [
    [`/tenants/${tenant.id}/users`, 'insufficient_role'],
    [`/tenants/${tenant.id}/approvals`, 'insufficient_scope'],
    [`/tenants/${other.id}/config/risk`, 'tenant_mismatch'],
  ] as const)
    expect((await asOn(0, token).get(path)).body.detail.code).toBe(code);
  const event = await audited(tenant.admin, 'auth.workload_signed_in', () => true);
  expect(event).toMatchObject({
    actor: { type: 'service', id: account },
    target: account,
    payload: { issuer: issuer.issuer, subject: claims().sub, rule_id: put.body.rules[0].id },
  });
  const metrics = await new Client(nodes[1]!.url).get('/metrics');
  expect(metrics.text).toContain('strata_workload_exchanges_total{result="issued"} 1');
});

test('scopes can be fewer, and are never more; roles are those of the rule', async () => {
  const admin = await newAccount(['tenant_admin', 'viewer']);
  await trust([rule({ roles: ['viewer'], scopes: ['config:read', 'members:read'] })], admin);
  const sign = () => issuer.sign(claims({ aud: addressOf(admin) }));
  const fewer = await exchange(await sign(), { scope: 'config:read config:read' });
  expect([fewer.status, fewer.body.scope]).toEqual([200, 'config:read']);
  const client = asOn(0, fewer.body.access_token);
  expect((await client.get(`/tenants/${tenant.id}/users`)).body.detail.code).toBe(
    'insufficient_role',
  );
  const more = await exchange(await sign(), { scope: 'config:read config:write' });
  expect([more.status, more.body.error]).toEqual([400, 'invalid_scope']);
});

test('a narrow rule gives narrow tokens, and one that is narrowed is another', async () => {
  await trust();
  const wide = await given();
  const narrowed_to = { service_ids: ['checkout'] };
  const put = await trust([rule({ narrowed_to })]);
  expect(put.body.rules[0].narrowed_to).toEqual(narrowed_to);
  expect(await onBoth(wide)).toEqual(['auth_token_invalid', 'auth_token_invalid']);
  const narrow = await given();
  expect(await onBoth(narrow)).toEqual(['insufficient_scope', 'insufficient_scope']);
  const effective = `/tenants/${tenant.id}/config/effective?service_id=checkout`;
  expect((await asOn(1, narrow).get(effective)).status).toBe(200);
  const elsewhere = { documents: [`/tenants/${other.id}/config/risk`] };
  const rules = [rule({ narrowed_to: elsewhere })];
  const refused = await tenant.admin.put(trustOf(), { rules });
  expect([refused.status, refused.body.errors[0].path]).toEqual([
    422,
    '/rules/0/narrowed_to/documents/0',
  ]);
  await trust();
});

test('what was given ends on every node with its rule, its issuer or its account', async () => {
  const path = `${accounts()}/${account}`;
  const ways: Record<string, { end: () => Promise<unknown>; again: () => Promise<unknown> }> = {
    removed: { end: () => tenant.admin.delete(trustOf()), again: () => trust() },
    'removed and made again': { end: () => trust([]).then(() => trust()), again: async () => 0 },
    'narrowed roles': { end: () => trust([rule({ max_ttl: 60 })]), again: () => trust() },
    'another subject': {
      end: () => trust([rule({ subject: 'repo:acme/x' })]),
      again: () => trust(),
    },
    disabled: {
      end: () => tenant.admin.patch(path, { status: 'disabled' }),
      again: () => tenant.admin.patch(path, { status: 'active' }),
    },
    'no such issuer': {
      end: () => allow(allowed().slice(1)),
      again: () => allow(),
    },
  };
  for (const [way, { end, again }] of Object.entries(ways)) {
    await trust();
    const token = await given();
    expect([way, ...(await onBoth(token))]).toEqual([way, '200', '200']);
    await end();
    const after = await onBoth(token);
    expect([way, ...after]).toEqual([way, 'auth_token_invalid', 'auth_token_invalid']);
    await again();
  }
  // A rule that stays as it is keeps its tokens, whatever comes beside it.
  await trust();
  const token = await given();
  await trust([rule({ subject: 'repo:acme/other' }), rule()]);
  expect(await onBoth(token)).toEqual(['200', '200']);
  await tenant.admin.patch(path, { roles: ['viewer'] });
  expect(await onBoth(token)).toEqual(['insufficient_role', 'insufficient_role']);
  await tenant.admin.patch(path, { roles: ['operator'] });
});

test('an agent that is a workload calls tools within its scopes, until its rule ends', async () => {
  await trust([rule({ scopes: ['config:read'] })]);
  const agent = new McpClient(
    { name: 'test', version: '1' },
    { versionNegotiation: { mode: 'auto' } },
  );
  const token = await given();
  const authorization = `Bearer ${token}`;
  const url = new URL('/mcp', nodes[1]!.url);
  await agent.connect(
    new StreamableHTTPClientTransport(url, { requestInit: { headers: { authorization } } }),
  );
  const decide = {
    name: 'decide',
    arguments: { action: 'scale', risk_level: 'low', cost_impact: 1 },
  };
  const start = { ...decide, name: 'start_automation' };
  try {
    const { isError, structuredContent } = await agent.callTool(decide);
    expect([isError ?? false, structuredContent]).toEqual([
      false,
      expect.objectContaining({ decision: expect.any(String) }),
    ]);
    const refused = await agent.callTool(start);
    expect(refused.structuredContent).toMatchObject({ detail: { code: 'insufficient_scope' } });
    await tenant.admin.delete(trustOf());
    await expect(agent.callTool(decide)).rejects.toThrow();
    expect(await onBoth(token)).toEqual(['auth_token_invalid', 'auth_token_invalid']);
  } finally {
    await agent.close();
  }
});

test('removing the account ends what it trusted', async () => {
  const id = await newAccount();
  await trust([rule()], id);
  const token = await given({ aud: addressOf(id) });
  await tenant.admin.delete(`${accounts()}/${id}`);
  expect(await onBoth(token)).toEqual(['auth_token_invalid', 'auth_token_invalid']);
  expect(
    await database.query(`SELECT 1 FROM auth.workload_trust WHERE account_id = '${id}'`),
  ).toEqual([]);
});

test('a token with a jti is exchanged once over all nodes, however many ask at once', async () => {
  await trust();
  const token = await issuer.sign(claims());
  const answers = await Promise.all(
    Array.from({ length: 12 }, (_each, index) => exchange(token, {}, index % 2)),
  );
  const statuses = answers.map(({ status }) => status).sort();
  expect(statuses).toEqual([200, ...Array.from({ length: 11 }, () => 400)]);
  const without = await issuer.sign(claims({ jti: undefined }));
  expect((await exchange(without)).status).toBe(200);
  expect((await exchange(without, {}, 1)).status).toBe(200);
});

test('an issuer behind a firewall is verified by its pasted keys', async () => {
  await trust([
    rule({ issuer: unreachable, subject: 'system:serviceaccount:shop:*', claims: undefined }),
  ]);
  const sub = 'system:serviceaccount:shop:deployer';
  const token = await walled.sign({ iss: unreachable, aud: [addressOf()], sub });
  expect((await exchange(token)).status).toBe(200);
  expect(walled.asked()).toBe(0);
});

test('an audience of the whole Strata needs the account to be named', async () => {
  await trust([rule({ audience: base })]);
  const token = () => issuer.sign(claims({ aud: base }));
  expect((await exchange(await token())).body.error).toBe('invalid_target');
  expect((await exchange(await token(), { audience: addressOf() })).status).toBe(200);
  for (const audience of [addressOf(randomUUID()), `${base}${accounts(other.id)}/${account}`])
    expect((await exchange(await token(), { audience })).body.error).toBe('invalid_grant');
});

/** What an attacker makes of what everybody may read, and of tokens of the issuer for others. */
async function hostileTokens(): Promise<Record<string, string>> {
  const good = claims();
  const sign = (more: object, header?: object, key?: CryptoKey | Uint8Array) =>
    issuer.sign({ ...good, ...more }, header, key);
  const now = Math.floor(Date.now() / 1000);
  const stranger = await generateKeyPair('RS256', { extractable: true });
  const strangerKey = await exportJWK(stranger.publicKey);
  const mine = stranger.privateKey;
  const encode = (value: object | string): string =>
    Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url');
  const usual = { ...good, iss: issuer.issuer, iat: now, exp: now + 300, jti: randomUUID() };
  const pem = await exportSPKI((await importJWK(issuer.publicKey, 'RS256')) as CryptoKey);
  const hmac = (key: string | Buffer, header: object): string => {
    const text = `${encode(header)}.${encode(usual)}`;
    return `${text}.${createHmac('sha256', key).update(text).digest('base64url')}`;
  };
  /** Signed by the issuer's own key, whatever the payload's text is. */
  const raw = async (payload: string, header: object = {}): Promise<string> => {
    const { CompactSign } = await import('jose');
    return new CompactSign(new TextEncoder().encode(payload))
      .setProtectedHeader({ alg: 'RS256', kid: 'of-the-issuer', ...header })
      .sign(issuer.privateKey);
  };
  const real = await sign({});
  const [head, body, signature] = real.split('.') as [string, string, string];
  const sub = good.sub;
  return {
    'no token': 'garbage',
    'two parts': `${head}.${body}`,
    'four parts': `${real}.${signature}`,
    'five parts': `${head}.${body}.${signature}.a.b`,
    unsigned: `${head}.${body}.`,
    'alg none': `${encode({ alg: 'none', kid: 'of-the-issuer' })}.${encode(usual)}.`,
    'alg None with a signature': `${encode({ alg: 'None', kid: 'of-the-issuer' })}.${encode(usual)}.${signature}`,
    'no alg': `${encode({ kid: 'of-the-issuer' })}.${encode(usual)}.${signature}`,
    'HS256 with the public key as PEM': hmac(pem, { alg: 'HS256', kid: 'of-the-issuer' }),
    'HS256 with the modulus': hmac(Buffer.from(issuer.publicKey.n!, 'base64url'), {
      alg: 'HS256',
      kid: 'of-the-issuer',
    }),
    'HS256 with an empty key': hmac(Buffer.alloc(1), { alg: 'HS256', kid: 'of-the-issuer' }),
    "a stranger's key": await sign({}, {}, mine),
    'a kid that is not there': await sign({}, { kid: 'unknown' }),
    'no kid': await sign({}, { kid: undefined }),
    'a kid that is a path': await sign({}, { kid: '../../../../dev/null' }, mine),
    'a jwk of its own': await sign({}, { jwk: strangerKey }, mine),
    'a jku of its own': await sign({}, { jku: `${walled.issuer}/keys` }, mine),
    'a jku beside a good signature': await sign({}, { jku: `${walled.issuer}/keys` }),
    'an x5u of its own': await sign({}, { x5u: `${walled.issuer}/keys` }, mine),
    'an x5c of its own': await sign({}, { x5c: ['MIIB'] }, mine),
    crit: `${encode({ alg: 'RS256', kid: 'of-the-issuer', crit: ['exp'], exp: now })}.${body}.${signature}`,
    'the type of our own tokens': await sign({}, { typ: 'at+jwt' }),
    'the type of workload tokens': await sign({}, { typ: 'strata-workload+jwt' }),
    'a type that is no text': await sign({}, { typ: { toString: 'JWT' } as unknown as string }),
    'another payload': `${head}.${encode({ ...usual, exp: now + 200 })}.${signature}`,
    'another header': `${encode({ alg: 'RS256', kid: 'of-the-issuer', a: 1 })}.${body}.${signature}`,
    'a cut signature': real.slice(0, -4),
    padding: `${head}.${body}.${signature}=`,
    'white space': `${head}.${body}.${signature} `,
    expired: await sign({ exp: now - 60 }),
    'no exp': await sign({ exp: undefined }),
    'exp as text': await sign({ exp: String(now + 300) }),
    'exp in two days': await sign({ exp: now + 2 * 86_400 }),
    'nbf in the future': await sign({ nbf: now + 120 }),
    'iat in the future': await sign({ iat: now + 120 }),
    'no audience': await sign({ aud: undefined }),
    'another audience': await sign({ aud: 'sts.amazonaws.com' }),
    "another account's audience": await sign({ aud: addressOf(randomUUID()) }),
    'an audience with a slash at its end': await sign({ aud: `${addressOf()}/` }),
    'an audience in capitals': await sign({ aud: addressOf().toUpperCase() }),
    'an audience that goes around': await sign({
      aud: `${base}/tenants/x/..${accounts()}/${account}`,
    }),
    'two audiences': await sign({ aud: [addressOf(), 'sts.amazonaws.com'] }),
    'the audience twice': await sign({ aud: [addressOf(), addressOf()] }),
    'an audience in an audience': await sign({ aud: [[addressOf()]] }),
    'an audience that is an object': await sign({ aud: { 0: addressOf() } }),
    'an empty list of audiences': await sign({ aud: [] }),
    'no issuer': await sign({ iss: undefined }),
    'an issuer with a slash at its end': await sign({ iss: `${issuer.issuer}/` }),
    'an issuer on another host': await sign({
      iss: issuer.issuer.replace('127.0.0.1', 'localhost'),
    }),
    'an issuer with user and host': await sign({
      iss: issuer.issuer.replace('http://', 'http://token@'),
    }),
    'an issuer that is listed, and that no rule names': await sign({ iss: github }),
    "another listed issuer's key": await walled.sign(good),
    'an issuer that is a list': await sign({ iss: [issuer.issuer] }),
    'no subject': await sign({ sub: undefined }),
    'a subject that begins alike': await sign({ sub: `${sub}-evil` }),
    'a subject that ends alike': await sign({ sub: `x${sub}` }),
    'a pull request': await sign({ sub: 'repo:acme/shop:pull_request' }),
    'a subject in capitals': await sign({ sub: sub.toUpperCase() }),
    'a subject with a star': await sign({ sub: 'repo:acme/*' }),
    'a subject with a zero-width space': await sign({ sub: `${sub}\u200b` }),
    'a subject with Cyrillic letters': await sign({ sub: sub.replace('a', '\u0430') }),
    'a subject with full-width letters': await sign({ sub: sub.replace('m', '\uff4d') }),
    'a subject with a line end': await sign({ sub: `${sub}\n` }),
    'a subject with a NUL': await sign({ sub: `${sub}\u0000` }),
    'a subject that is a list': await sign({ sub: [sub] }),
    'a subject that is no text': await sign({ sub: { toString: sub } }),
    'a renamed repository': await sign({ repository_owner_id: '9999' }),
    'no owner id': await sign({ repository_owner_id: undefined }),
    'an owner id with more digits': await sign({ repository_owner_id: '12345' }),
    'an owner id with a space': await sign({ repository_owner_id: ' 1234' }),
    'an owner id as a list': await sign({ repository_owner_id: ['1234'] }),
    'an owner id as a fraction': await sign({ repository_owner_id: 1234.5 }),
    'a claim given twice': await raw(
      JSON.stringify(usual).replace('{', '{"repository_owner_id":"1",'),
    ),
    'a subject given twice': await raw(
      JSON.stringify(usual).replace('{', '{"sub":"repo:evil/shop",'),
    ),
    'claims of a prototype': await raw(
      JSON.stringify({ ...usual, repository_owner_id: undefined, jti: 'p' }).replace(
        '{',
        '{"__proto__":{"repository_owner_id":"1234"},',
      ),
    ),
    'a payload that is a list': await raw(JSON.stringify([usual])),
    'a payload that is no JSON': await raw('sub=repo'),
    'a payload with a byte-order mark': await raw(`\ufeff${JSON.stringify(usual)}`),
    'a jti that is a number': await sign({ jti: 7 }),
    'an empty jti': await sign({ jti: '' }),
    'a token of 20 KiB': await sign({ padding: 'x'.repeat(20_000) }),
    'deep nesting': await sign({ deep: JSON.parse(`${'['.repeat(100)}${']'.repeat(100)}`) }),
    'an encrypted token': `${encode({ alg: 'RSA-OAEP', enc: 'A256GCM', kid: 'of-the-issuer' })}.a.b.c.d`,
  };
}

test('more than forty hostile tokens are exchanged for nothing', async () => {
  await trust();
  const calls = walled.asked();
  const tokens = await hostileTokens();
  const names = Object.keys(tokens);
  expect(names.length).toBeGreaterThan(60);
  for (const name of names) {
    const { status, body, text } = await exchange(tokens[name]!, {}, names.indexOf(name) % 2);
    expect([name, status, Object.keys(body).sort()]).toEqual([
      name,
      400,
      ['error', 'error_description'],
    ]);
    expect(['invalid_grant', 'invalid_target', 'invalid_request']).toContain(body.error);
    // It says nothing of the rules.
    expect(text).not.toContain('1234');
  }
  // Nor was anybody called whom a token named.
  expect(walled.asked()).toBe(calls);
  const replayed = await issuer.sign(claims());
  expect((await exchange(replayed)).status).toBe(200);
  expect((await exchange(replayed, {}, 1)).body.error).toBe('invalid_grant');
  // The same, once more as another text of the same signature.
  const [head, body, signature] = replayed.split('.') as [string, string, string];
  const last = signature.slice(-1);
  const twin = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  const next = twin[(twin.indexOf(last) + 1) % 64]!;
  expect((await exchange(`${head}.${body}.${signature.slice(0, -1)}${next}`)).status).toBe(400);
  // A real token that no rule trusts is told to the tenant's administrators, once a minute.
  await audited(tenant.admin, 'auth.workload_refused', () => true);
  const refusals = await auditEvents(tenant.admin, 'auth.workload_refused');
  expect(refusals.length).toBeGreaterThan(0);
  expect(refusals.length).toBeLessThanOrEqual(2);
});

test('keys that an issuer takes back verify nothing once they are asked again, and are asked seldom', async () => {
  const rotating = await startWorkloadIssuer('/group');
  try {
    await allow([...allowed(), { issuer: rotating.issuer }]);
    await trust([rule({ issuer: rotating.issuer })]);
    for (let time = 0; time < 5; time += 1)
      expect((await exchange(await rotating.sign(claims()))).status).toBe(200);
    expect(rotating.asked()).toBe(1);
    // Made-up key ids have it asked no more than once in half a minute.
    for (let time = 0; time < 5; time += 1)
      await exchange(await rotating.sign(claims(), { kid: `made up ${time}` }));
    expect(rotating.asked()).toBeLessThanOrEqual(2);
    // Nor do they where it cannot answer.
    const failing = await startWorkloadIssuer();
    failing.keysStatus = 500;
    await allow([...allowed(), { issuer: failing.issuer }]);
    await trust([rule({ issuer: failing.issuer })]);
    for (let time = 0; time < 5; time += 1) {
      const answer = await exchange(await failing.sign(claims(), { kid: `made up ${time}` }));
      expect([answer.status, answer.body.error]).toEqual([502, 'temporarily_unavailable']);
    }
    expect(failing.asked()).toBe(1);
    await failing.close();
    for (const metadata of [{ issuer: issuer.issuer }, { jwks_uri: 'no address' }]) {
      const lying = await startWorkloadIssuer();
      lying.metadata = metadata;
      await allow([...allowed(), { issuer: lying.issuer }]);
      await trust([rule({ issuer: lying.issuer })]);
      const answer = await exchange(await lying.sign(claims()));
      expect([answer.status, answer.body.error]).toEqual([502, 'temporarily_unavailable']);
      expect(lying.asked()).toBe(0);
      await lying.close();
    }
  } finally {
    await rotating.close();
    await allow();
  }
});

test('a request that is none is refused in the words of OAuth', async () => {
  const post = (raw: string | Buffer, type = 'application/x-www-form-urlencoded') =>
    new Client(nodes[0]!.url).send('POST', '/auth/token', {
      raw,
      headers: { 'content-type': type },
    });
  const form = (more: Record<string, string>) =>
    new URLSearchParams({
      grant_type: grant,
      subject_token: 'x.y.z',
      subject_token_type: jwtType,
      ...more,
    }).toString();
  const cases: [Answer, string][] = [
    [await post('{}', 'application/json'), 'invalid_request'],
    [await post(''), 'invalid_request'],
    [await post(form({ grant_type: 'client_credentials' })), 'unsupported_grant_type'],
    [await post(form({ subject_token_type: 'urn:x' })), 'invalid_request'],
    [await post(form({ requested_token_type: 'urn:x' })), 'invalid_request'],
    [await post(form({ actor_token: 'x.y.z' })), 'invalid_request'],
    [await post(`${form({})}&subject_token=again`), 'invalid_request'],
    [await post(form({ subject_token: '' })), 'invalid_request'],
    [await post(Buffer.from([0xff, 0xfe])), 'invalid_request'],
    [await post(`subject_token=${'x'.repeat(2_000_000)}`), 'invalid_request'],
    // What RFC 6749 does not know is ignored.
    [await post(form({ client_id: 'somebody' })), 'invalid_grant'],
  ];
  const [[json]] = cases as [[Answer, string]];
  expect(json.body.error_description).toBe('Send application/x-www-form-urlencoded.');
  for (const [{ status, body, headers }, error] of cases) {
    expect([status, body]).toEqual([400, { error, error_description: expect.any(String) }]);
    expect(body.error_description).toMatch(/^[\x20-\x21\x23-\x5b\x5d-\x7e]+$/);
    expect([headers.get('content-type'), headers.get('cache-control')]).toEqual([
      'application/json',
      'no-store',
    ]);
  }
});

test('a rule that trusts too many is refused, and says why', async () => {
  const cases: [object, string][] = [
    [{ issuer: 'https://unlisted.example' }, '/rules/0/issuer'],
    [{ issuer: 'https://constructor' }, '/rules/0/issuer'],
    [{ issuer: `${github}/`, claims: { repository_id: '1' } }, '/rules/0/issuer'],
    [{ audience: 'sts.amazonaws.com' }, '/rules/0/audience'],
    [{ audience: addressOf(randomUUID()) }, '/rules/0/audience'],
    [{ roles: ['tenant_admin'] }, '/rules/0/roles'],
    [{ subject: undefined, claims: undefined }, '/rules/0'],
    [{ subject: undefined, claims: {} }, '/rules/0'],
    [{ subject: '*' }, '/rules/0/subject'],
    [{ subject: 'repo:acme*' }, '/rules/0/subject'],
    [{ subject: 'repo:*/shop' }, '/rules/0/subject'],
    [{ subject: 'repo:acme/**' }, '/rules/0/subject'],
    [{ claims: { iss: 'x' } }, '/rules/0/claims/iss'],
    [{ max_ttl: 901 }, '/rules/0/max_ttl'],
    [{ scopes: ['everything'] }, '/rules/0/scopes/0'],
    // Names on GitHub can be taken by others, ids cannot.
    [{ issuer: github, claims: undefined }, '/rules/0/claims'],
    [{ issuer: github, claims: { repository_owner: 'acme' } }, '/rules/0/claims'],
    [
      { issuer: github, claims: { repository_owner_id: '12*' } },
      '/rules/0/claims/repository_owner_id',
    ],
    [{ issuer: github, claims: { repository_id: 'acme' } }, '/rules/0/claims/repository_id'],
  ];
  for (const [more, path] of cases) {
    const { status, body } = await tenant.admin.put(trustOf(), { rules: [rule(more)] });
    expect([more, status, body.errors?.[0].path]).toEqual([more, 422, path]);
  }
  const twice = await tenant.admin.put(trustOf(), { rules: [rule(), rule()] });
  expect([twice.status, twice.body.errors[0].path]).toEqual([422, '/rules/1']);
  const many = Array.from({ length: 21 }, (_each, at) => rule({ subject: `repo:acme/${at}` }));
  expect((await tenant.admin.put(trustOf(), { rules: many })).status).toBe(422);
  const { body } = await trust();
  const stale = await tenant.admin.put(trustOf(), { rules: [], revision: body.revision - 1 });
  expect([stale.status, stale.body.detail.code]).toEqual([412, 'precondition_failed']);
  const read = await tenant.admin.put(trustOf(), { rules: [], revision: body.revision });
  expect(read.status).toBe(200);
});

test('an issuer that gives secrets, or leads inside, is not listed', async () => {
  const privateKey = { ...(await exportJWK(issuer.privateKey)), kid: 'a' };
  const given = { kty: 'RSA', kid: 'a', n: 'x', e: 'AQAB' };
  const cases: [object, string][] = [
    [{ issuer: 'https://a.example', jwks: { keys: [privateKey] } }, '/issuers/0/jwks/keys/0'],
    [
      { issuer: 'https://a.example', jwks: { keys: [{ kty: 'oct', kid: 'a', k: 'c2VjcmV0' }] } },
      '/issuers/0/jwks/keys/0/kty',
    ],
    [
      { issuer: 'https://a.example', jwks: { keys: [{ ...given, kid: undefined }] } },
      '/issuers/0/jwks/keys/0/kid',
    ],
    [{ issuer: 'https://a.example', jwks: { keys: [] } }, '/issuers/0/jwks/keys'],
    [{ issuer: 'https://a.example/?x=1' }, '/issuers/0/issuer'],
    [{ issuer: 'ftp://a.example' }, '/issuers/0/issuer'],
    [{ issuer: 'https://10.0.0.1' }, '/issuers/0/issuer'],
    [{ issuer: 'https://user@a.example' }, '/issuers/0/issuer'],
    [{ issuer: 'https://[::1]/' }, '/issuers/0/issuer'],
  ];
  for (const [each, path] of cases) {
    const { status, body } = await platform.put('/auth/workload-issuers', { issuers: [each] });
    expect([each, status, body.errors?.[0].path]).toEqual([each, 422, path]);
  }
  expect((await tenant.admin.get('/auth/workload-issuers')).body.detail.code).toBe(
    'insufficient_role',
  );
});

test('a subject that is cut for people ends in whole characters', async () => {
  const id = await newAccount();
  const host = new URL(issuer.issuer).host;
  // GitHub's environments and branches are called what people like.
  const sub = `${'x'.repeat(99 - host.length - 1)}🚀 production`;
  await trust([rule({ subject: sub, scopes: ['approvals:write'] })], id);
  const aud = addressOf(id);
  const good = await exchange(await issuer.sign(claims({ aud, sub })));
  const asked = await asOn(0, good.body.access_token).post(`/tenants/${tenant.id}/approvals`, {
    action: 'scale',
    risk_level: 'low',
    title: 'Scale up',
  });
  expect([asked.status, asked.text]).toEqual([202, expect.any(String)]);
  const stranger = await issuer.sign(claims({ aud, sub: `${'y'.repeat(299)}🚀` }));
  expect((await exchange(stranger)).body.error).toBe('invalid_grant');
  const event = await audited(tenant.admin, 'auth.workload_refused', ({ target }) => target === id);
  expect(event.payload.subject).toBe(`${'y'.repeat(299)}\ufffd`);
});

test('the maker of a rule does not approve what its workload asks for', async () => {
  await trust([rule({ scopes: ['approvals:write', 'approvals:read', 'approvals:decide'] })]);
  const token = await given();
  const asked = await asOn(0, token).post(`/tenants/${tenant.id}/approvals`, {
    action: 'scale',
    risk_level: 'low',
    title: 'Scale up',
  });
  expect(asked.status).toBe(202);
  const path = `/tenants/${tenant.id}/approvals/${asked.body.id}/decision`;
  const own = await tenant.admin.post(path, { decision: 'approve' });
  expect([own.status, own.body.detail.code]).toEqual([403, 'approval_own_request']);
});

test('what a workload approved counts beside others as long as its rule is there', async () => {
  const approvals = `/tenants/${tenant.id}/approvals`;
  const policy = { approval_policy: { required: { high: 2 }, machines: true } };
  const set = await tenant.admin.put(`/tenants/${tenant.id}/config/notifications`, policy);
  expect(set.status).toBe(200);
  const email = 'second@workloads.example';
  const second = await addMember(tenant.admin, tenant.id, { email, roles: ['reviewer'] });
  for (const [ends, state] of [
    [false, 'approved'],
    [true, 'pending'],
  ]) {
    await trust([rule({ scopes: ['approvals:decide'] })]);
    const asked = await tenant.operator.post(approvals, {
      action: 'scale',
      risk_level: 'high',
      title: 'Scale',
    });
    const decide = (by: Client) =>
      by.post(`${approvals}/${asked.body.id}/decision`, { decision: 'approve' });
    const first = await decide(asOn(0, await given()));
    expect(first.body).toMatchObject({ state: 'pending', approved_by: [{ by: account }] });
    if (ends) expect((await tenant.admin.delete(trustOf())).status).toBe(204);
    expect((await decide(second.client)).body.state).toBe(state);
  }
});

test('a workload decides by the roles of its rule, and by no other of its account', async () => {
  const saved = await tenant.admin.put(`/tenants/${tenant.id}/config/notifications`, {
    approval_policy: { machines: true },
    approver_groups: { action_overrides: { haunted: ['ghosts'] } },
  });
  expect(saved.status).toBe(200);
  const id = await newAccount(['tenant_admin', 'operator']);
  const asked = await tenant.operator.post(`/tenants/${tenant.id}/approvals`, {
    action: 'haunted',
    risk_level: 'low',
    title: 'Scale',
  });
  expect([asked.status, asked.text]).toEqual([202, expect.any(String)]);
  for (const [role, state] of [
    ['operator', 'pending'],
    ['tenant_admin', 'approved'],
  ] as const) {
    await trust([rule({ roles: [role], scopes: ['approvals:decide'] })], id);
    const token = await issuer.sign(claims({ aud: addressOf(id) }));
    const by = asOn(0, (await exchange(token)).body.access_token);
    const path = `/tenants/${tenant.id}/approvals/${asked.body.id}`;
    const decided = await by.post(`${path}/decision`, { decision: 'approve' });
    const now = (await tenant.admin.get(path)).body.state;
    expect([role, decided.text, now]).toEqual([role, expect.any(String), state]);
  }
});

test('a stream ends with the rule that opened it', async () => {
  await trust();
  const token = await given();
  const response = await fetch(`${nodes[1]!.url}/tenants/${tenant.id}/config/watch`, {
    headers: { authorization: `Bearer ${token}` },
  });
  expect(response.status).toBe(200);
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  await reader.read();
  await trust([]);
  let seen = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    seen += value;
  }
  expect(seen).toContain('auth_token_invalid');
});

test('the example of the documentation runs as pasted', async () => {
  const output = runPasted('docs/operations/workloads.md', 'Workload identity', {
    STRATA: nodes[0]!.url,
    ADMIN: platform.token,
    TOKEN: tenant.admin.token,
    TENANT: tenant.id,
    ACCOUNT: account,
    ISSUER: issuer.issuer,
    SUBJECT_TOKEN: await issuer.sign(claims()),
  });
  expect(output.at(-1)).toBe('pipeline');
  await allow();
});
