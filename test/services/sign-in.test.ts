/** Signing in with a password, and the refresh tokens that follow. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import jwt from 'jsonwebtoken';
import { audited } from '../support/audit.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import { soakTest } from '../support/soak.ts';
import {
  adminPassword,
  Client,
  createTenant,
  memberPassword,
  secretKey,
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
let anyone: Client;
beforeAll(async () => {
  database = await strataDatabase();
  strata = await startStrata({ DATABASE_URL: database.url, TRUSTED_PROXIES: '127.0.0.0/8' });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, 'Sign in');
  anyone = new Client(strata.url);
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await database?.drop();
});

const login = (email = tenant.emails.tenant_admin!, password = memberPassword) =>
  anyone.post('/auth/login', { email, password });
const refresh = (token: string) => anyone.post('/auth/refresh', { refresh_token: token });
const codeOf = ({ body }: Answer): string => body.detail.code;
const whoAmI = (accessToken: string) => new Client(strata.url, accessToken).get('/auth/me');
/**
 * Moves a moment in the session's refresh tokens into the past; tokens without that moment stay.
 */
const backdate = (sessionId: string, column: 'created_at' | 'used_at', interval: string) =>
  database.query(
    `UPDATE auth.refresh_tokens SET ${column} = now() - $2::interval WHERE session_id = $1 AND ${column} IS NOT NULL`,
    [sessionId, interval],
  );

test('a TokenResponse has exactly its fields, and is not stored by caches', async () => {
  const { status, body, headers } = await login();
  expect([status, headers.get('cache-control')]).toEqual([200, 'no-store']);
  expect(body).toEqual({
    access_token: expect.any(String),
    token_type: 'Bearer',
    expires_in: 900,
    refresh_token: expect.stringMatching(/^strr_/),
    refresh_expires_in: 604_800,
    session_id: expect.any(String),
    user: {
      id: expect.any(String),
      email: tenant.emails.tenant_admin,
      display_name: null,
      platform_roles: [],
    },
    tenant: { id: tenant.id, name: 'Sign in', roles: ['tenant_admin'] },
    memberships: [{ tenant_id: tenant.id, name: 'Sign in', roles: ['tenant_admin'] }],
  });
});

test('unknown user and wrong password answer alike', async () => {
  const [unknown, wrong] = [
    await login('nobody@nowhere.example'),
    await login(undefined, 'wrong-password-123'),
  ];
  expect([unknown.status, unknown.body.detail]).toEqual([401, wrong.body.detail]);
  expect(wrong.body.detail.code).toBe('auth_invalid_credentials');
});

test('a tenant that one is no member of is refused at sign-in', async () => {
  const { status, body } = await anyone.post('/auth/login', {
    email: tenant.emails.viewer,
    password: memberPassword,
    tenant_id: '00000000-0000-4000-8000-000000000000',
  });
  expect([status, body.detail.code]).toEqual([403, 'auth_no_tenant_membership']);
});

test('fifty refreshes of one token at once get one successor; so does a retry', async () => {
  const {
    body: { refresh_token: first },
  } = await login();
  const answers = await Promise.all(Array.from({ length: 50 }, () => refresh(first)));
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  const successors = new Set(answers.map(({ body }) => body.refresh_token));
  expect(successors.size).toBe(1);
  expect((await refresh(first)).body.refresh_token).toBe([...successors][0]);
});

test('an answer that was lost logs no one out: within 10 s of its time-out the token gives the same successor, which continues', async () => {
  const { body } = await login();
  const lost = await refresh(body.refresh_token);
  // Who waited for the answer as long as a request may take begins here.
  await backdate(body.session_id, 'used_at', '12 seconds');
  const again = await refresh(body.refresh_token);
  expect(again.body.refresh_token).toBe(lost.body.refresh_token);
  expect((await refresh(again.body.refresh_token)).status).toBe(200);
});

soakTest(
  'also after a rotation of SECRET_KEY; a node that lacks the key asks for another try',
  async () => {
    const { body } = await login();
    const lost = await refresh(body.refresh_token);
    const newKey = 'another-secret-key-of-at-least-32-bytes';
    const [rotated, unaware] = await Promise.all([
      startStrata({
        DATABASE_URL: database.url,
        SECRET_KEY: newKey,
        SECRET_KEY_PREVIOUS: secretKey,
      }),
      startStrata({ DATABASE_URL: database.url, SECRET_KEY: newKey }),
    ]);
    const refreshOn = ({ url }: Running, token: string): Promise<Answer> =>
      new Client(url).post('/auth/refresh', { refresh_token: token });
    try {
      // Their start has taken some of the time.
      await backdate(body.session_id, 'used_at', '1 second');
      const early = await refreshOn(unaware, body.refresh_token);
      expect([early.status, codeOf(early)]).toEqual([503, 'service_unavailable']);
      const again = await refreshOn(rotated, body.refresh_token);
      expect(again.body.refresh_token).toBe(lost.body.refresh_token);
      expect((await refreshOn(rotated, again.body.refresh_token)).status).toBe(200);
    } finally {
      await Promise.all([rotated.stop(), unaware.stop()]);
    }
  },
);

test('later than that it is a theft, also where its successor was never used', async () => {
  const { body } = await login();
  const { body: next } = await refresh(body.refresh_token);
  await backdate(body.session_id, 'used_at', '21 seconds');
  expect(codeOf(await refresh(body.refresh_token))).toBe('auth_refresh_reused');
  expect(codeOf(await refresh(next.refresh_token))).toBe('auth_refresh_invalid');
  expect(codeOf(await whoAmI(next.access_token))).toBe('auth_session_revoked');
});

soakTest('two nodes give one successor', async () => {
  const second = await startStrata({ DATABASE_URL: database.url });
  try {
    const { body } = await login();
    const nodes = [anyone, new Client(second.url)];
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_each, index) =>
        nodes[index % 2]!.post('/auth/refresh', { refresh_token: body.refresh_token }),
      ),
    );
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    expect(new Set(answers.map((answer) => answer.body.refresh_token)).size).toBe(1);
  } finally {
    await second.stop();
  }
});

test('more sign-ins of a network at once than can be hashed are refused with 503, others succeed', async () => {
  const flood = Promise.all(
    Array.from({ length: 200 }, (_each, index) =>
      anyone.post(
        '/auth/login',
        { email: `no one-${index}@example.com`, password: memberPassword },
        { 'x-forwarded-for': '192.0.2.1' },
      ),
    ),
  );
  expect((await login()).status).toBe(200);
  const answers = await flood;
  const refused = answers.filter(({ status }) => status === 503);
  // 429 are those whose turn to be hashed came after thirty of the network had failed.
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([401, 429, 503]));
  expect(refused.length).toBeGreaterThan(50);
  expect([refused[0]!.body.detail.code, refused[0]!.headers.has('retry-after')]).toEqual([
    'service_unavailable',
    true,
  ]);
  expect((await login()).status).toBe(200);
});

test('a token used again after its successor ends the session everywhere, and is audited', async () => {
  const { body: first } = await login();
  const sessionId = first.session_id;
  const { body: second } = await refresh(first.refresh_token);
  expect((await refresh(second.refresh_token)).status).toBe(200);
  const reused = await refresh(first.refresh_token);
  expect([reused.status, codeOf(reused)]).toEqual([401, 'auth_refresh_reused']);
  expect(codeOf(await whoAmI(second.access_token))).toBe('auth_session_revoked');
  expect(codeOf(await refresh(second.refresh_token))).toBe('auth_refresh_invalid');
  await audited(platform, 'auth.refresh_reused', ({ payload }) => payload.session_id === sessionId);
});

test('an idle token and an old session expire; garbage is invalid', async () => {
  const { body } = await login();
  await backdate(body.session_id, 'created_at', '8 days');
  expect(codeOf(await refresh(body.refresh_token))).toBe('auth_refresh_expired');
  expect(codeOf(await refresh('strr_garbage'))).toBe('auth_refresh_invalid');
});

test('no access token outlives its session', async () => {
  const { body } = await login();
  await database.query(
    `UPDATE auth.sessions SET expires_at = now() + interval '100 seconds' WHERE id = $1`,
    [body.session_id],
  );
  const last = await refresh(body.refresh_token);
  expect(last.body.expires_in).toBeLessThanOrEqual(100);
  const { exp, iat } = jwt.decode(last.body.access_token) as jwt.JwtPayload;
  expect(exp! - iat!).toBe(last.body.expires_in);
});

test('logging out of everything ends every session', async () => {
  const signInAgain = () => signIn(strata.url, tenant.emails.operator!, memberPassword);
  const sessions = [await signInAgain(), await signInAgain(), await signInAgain()];
  expect((await sessions[0]!.post('/auth/logout', { all: true })).status).toBe(204);
  for (const client of sessions)
    expect(codeOf(await client.get('/auth/me'))).toBe('auth_session_revoked');
});

test('only hashes of passwords and refresh tokens are stored', async () => {
  const { body } = await login();
  const users = await database.query<{ password_hash: string }>(
    'SELECT password_hash FROM auth.users',
  );
  for (const { password_hash: hash } of users)
    expect(hash).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/);
  const tokens = await database.query<{ row: string }>(
    'SELECT t::text AS row FROM auth.refresh_tokens t',
  );
  for (const { row } of tokens) expect(row).not.toContain(body.refresh_token);
});
