/** Single sign-on against a real OpenID provider, and against one that forges. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { createHash, createSecretKey, randomBytes, randomUUID } from 'node:crypto';
import jwt from 'jsonwebtoken';
import { audited, auditEvents, type AuditEvent } from '../support/audit.ts';
import { eventually } from '../support/cluster.ts';
import { holdLock } from '../support/held-lock.ts';
import {
  startHonestProvider,
  startRogueProvider,
  type HonestProvider,
  type Person,
  type RogueProvider,
} from '../support/identity-providers.ts';
import { fakeClockLibrary, strataDatabase, type Database } from '../support/postgres.ts';
import {
  addMember,
  adminPassword,
  Client,
  createTenant,
  createTenantWith,
  memberPassword,
  signIn,
  startStrata,
  type Answer,
  type Running,
  type TenantFixture,
} from '../support/strata.ts';

const redirectUri = 'https://app.example.com/signed-in';
const clientSecret = 'CANARY-client-secret-of-the-provider';
const domain = 'sso-tenant.example';

let database: Database;
let environment: Record<string, string>;
let strata: Running;
let platform: Client;
let anyone: Client;
let tenant: TenantFixture;
let honest: HonestProvider;
let rogue: RogueProvider;
/** Ids of providers that may provision: one whose issuer is honest, one whose issuer forges. */
let honestId: string;
let rogueId: string;

const provider = (fields: Record<string, unknown>) => ({
  name: 'Company login',
  issuer: honest.issuer,
  client_id: 'strata',
  client_secret: clientSecret,
  tenant_id: tenant.id,
  domains: [{ domain, verified: true }],
  redirect_uris: [redirectUri],
  ...fields,
});
async function addProvider(fields: Record<string, unknown> = {}): Promise<string> {
  const { status, body, text } = await platform.post('/auth/sso/providers', provider(fields));
  if (status !== 201) throw new Error(text);
  return body.id;
}

beforeAll(async () => {
  honest = await startHonestProvider({
    client_id: 'strata',
    client_secret: clientSecret,
    redirect_uris: [redirectUri],
  });
  rogue = await startRogueProvider();
  database = await strataDatabase();
  environment = {
    DATABASE_URL: database.url,
    WEBHOOK_ALLOWED_NETWORKS: '127.0.0.0/8',
    WEBHOOK_ALLOW_HTTP: 'true',
    HTTP_CLIENT_TIMEOUT_SECONDS: '5',
    NETWORK_RATE_LIMIT_PER_MINUTE: '1000',
  };
  strata = await startStrata(environment);
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  anyone = new Client(strata.url);
  tenant = await createTenant(strata.url, platform, 'Sso tenant');
  honestId = await addProvider({ jit_enabled: true, default_roles: ['viewer'] });
  rogueId = await addProvider({
    name: 'Forger',
    issuer: rogue.issuer,
    jit_enabled: true,
    default_roles: ['viewer'],
  });
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await Promise.all([honest?.close(), rogue?.close()]);
  await database?.drop();
});

interface Started {
  readonly url: URL;
  readonly state: string;
  readonly verifier: string;
}
/** The first half of a sign-in, of a client whose challenge is not looked at. */
const tryToStart = (fields: Record<string, unknown>) =>
  anyone.post('/auth/login/sso/start', {
    redirect_uri: redirectUri,
    client_challenge: 'c'.repeat(43),
    ...fields,
  });
/**
 * The first half of a sign-in, or of linking where `path` says so; throws unless it is answered
 * with 200.
 */
async function start(
  providerId: string,
  client = anyone,
  path = '/auth/login/sso/start',
): Promise<Started> {
  const verifier = randomBytes(32).toString('base64url');
  const { status, body, text } = await client.post(path, {
    provider_id: providerId,
    redirect_uri: redirectUri,
    client_challenge: createHash('sha256').update(verifier).digest('base64url'),
  });
  if (status !== 200) throw new Error(text);
  expect(body).toEqual({
    authorization_url: expect.any(String),
    state: expect.any(String),
    expires_in: 600,
  });
  return { url: new URL(body.authorization_url), state: body.state, verifier };
}
const startLinking = (client: Client): Promise<Started> =>
  start(honestId, client, '/auth/sso/link');

/** The second half. `fields` are what the provider sent back: code and iss. */
const finish = (
  { state, verifier }: Pick<Started, 'state' | 'verifier'>,
  fields: Record<string, unknown>,
) => anyone.post('/auth/login/sso', { state, client_verifier: verifier, ...fields });

/** Continues as a browser does: through the honest provider and back. */
async function goOn(started: Started, person: Person) {
  const { searchParams } = await honest.authorize(started.url.href, person);
  return finish(started, { code: searchParams.get('code'), iss: searchParams.get('iss') });
}
/** A whole sign-in. */
async function visit(person: Person, providerId = honestId) {
  return goOn(await start(providerId), person);
}
/** The code with which the honest provider sends `person` back. */
async function codeFor({ url }: Pick<Started, 'url'>, person = somebody()): Promise<string | null> {
  const back = await honest.authorize(url.href, person);
  return back.searchParams.get('code');
}

let count = 0;
const somebody = (fields: Partial<Person> = {}): Person => {
  count += 1;
  return {
    sub: `sub-${count}`,
    email: `person${count}@${domain}`,
    email_verified: true,
    name: `Person ${count}`,
    ...fields,
  };
};
const codeOf = ({ status, body }: { status: number; body: { detail?: { code: string } } }) => [
  status,
  body.detail?.code,
];

/** Log lines come through a pipe, soon. */
const logged = (text: string): Promise<void> =>
  eventually(async () => {
    if (!strata.output().includes(text)) throw new Error(`not logged: ${text}`);
  });
const nowSeconds = (): number => Math.floor(Date.now() / 1000);

describe('signing in', () => {
  test('provisions an account with membership, then knows it', async () => {
    const person = somebody();
    const first = await visit(person);
    expect(first.status).toBe(200);
    expect(first.headers.get('cache-control')).toBe('no-store');
    expect(first.body).toMatchObject({
      token_type: 'Bearer',
      user: { email: person.email, display_name: person.name, platform_roles: [] },
      tenant: { id: tenant.id, roles: ['viewer'] },
      memberships: [{ tenant_id: tenant.id }],
    });
    const { id } = first.body.user;
    expect(
      (await new Client(strata.url, first.body.access_token).get('/auth/me')).body.user.id,
    ).toBe(id);
    const again = await visit({ ...person, email: 'moved@elsewhere.example' });
    expect([again.status, again.body.user]).toEqual([200, first.body.user]);
    const requestId = first.headers.get('x-request-id');
    const chains = {
      'auth.user_provisioned': null,
      'auth.sso_linked': null,
      'auth.login_succeeded': tenant.id,
    };
    for (const [action, chain] of Object.entries(chains)) {
      expect(
        await audited(platform, action, (event) => event.request_id === requestId),
      ).toMatchObject({
        target: id,
        tenant_id: chain,
      });
    }
    const linked = await database.query(
      'SELECT issuer, subject FROM auth.sso_identities WHERE user_id = $1',
      [id],
    );
    expect(linked).toEqual([{ issuer: honest.issuer, subject: person.sub }]);
  });

  test('tokens end by the clock of the database, where that of the node is two hours ahead', async () => {
    const ahead = await startStrata({
      ...environment,
      LD_PRELOAD: fakeClockLibrary(),
      FAKETIME: '+2h',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
      // The share of it that a provider may take is not whole milliseconds.
      HTTP_CLIENT_TIMEOUT_SECONDS: '30',
      REQUEST_TIMEOUT_MS: '10001',
    });
    try {
      anyone = new Client(ahead.url);
      expect((await visit(somebody())).status).toBe(200);
    } finally {
      anyone = new Client(strata.url);
      await ahead.stop('SIGKILL');
    }
  });

  test('asks the provider with PKCE, state and nonce, and only for a redirect_uri of its list', async () => {
    const { url, state } = await start(honestId);
    expect(Object.fromEntries(url.searchParams)).toEqual({
      client_id: 'strata',
      response_type: 'code',
      scope: 'openid email profile',
      redirect_uri: redirectUri,
      state,
      nonce: expect.stringMatching(/^.{43}$/),
      code_challenge: expect.stringMatching(/^.{43}$/),
      code_challenge_method: 'S256',
      max_age: '2592000',
    });
    const elsewhere = await tryToStart({
      provider_id: honestId,
      redirect_uri: `${redirectUri}/x`,
    });
    expect([elsewhere.status, elsewhere.body.errors[0].path]).toEqual([422, '/redirect_uri']);
    const both = await tryToStart({ provider_id: honestId, email: `a@${domain}` });
    expect(both.status).toBe(422);
    const email = `Who@${domain.toUpperCase()}`;
    const byEmail = await tryToStart({ email });
    const authorizationUrl = new URL(byEmail.body.authorization_url);
    expect(authorizationUrl.searchParams.get('login_hint')).toBe(email);
    const unknown = await tryToStart({ email: 'who@nowhere.example' });
    expect(codeOf(unknown)).toEqual([404, 'auth_sso_provider_not_found']);
    expect(codeOf(await tryToStart({ provider_id: randomUUID() }))).toEqual([
      404,
      'auth_sso_provider_not_found',
    ]);
  });

  test('many first sign-ins of one person at once make one account', async () => {
    const person = somebody();
    const started = await Promise.all(Array.from({ length: 5 }, () => start(honestId)));
    const backs: URL[] = [];
    for (const each of started) backs.push(await honest.authorize(each.url.href, person));
    const answers = await Promise.all(
      started.map((each, index) =>
        finish(each, { code: backs[index]!.searchParams.get('code'), iss: honest.issuer }),
      ),
    );
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
    expect(new Set(answers.map(({ body }) => body.user.id)).size).toBe(1);
  });

  test('a member who was removed is not made one again', async () => {
    const person = somebody();
    const { body } = await visit(person);
    expect((await tenant.admin.delete(`/tenants/${tenant.id}/users/${body.user.id}`)).status).toBe(
      204,
    );
    expect(codeOf(await visit(person))).toEqual([403, 'auth_no_tenant_membership']);
  });

  test('nor one who was removed before they came, or whose account was recovered since', async () => {
    const person = somebody();
    const users = `/tenants/${tenant.id}/users`;
    const { email } = person;
    const added = await tenant.admin.post(users, { email, roles: ['viewer'] });
    expect(added.body.status).toBe('active');
    const { user_id: id } = added.body;
    expect((await tenant.admin.delete(`${users}/${id}`)).status).toBe(204);
    expect(codeOf(await visit(person))).toEqual([403, 'auth_no_tenant_membership']);
    const back = await tenant.admin.post(users, { email, roles: ['viewer'] });
    expect(back.status).toBe(201);
    expect((await visit(person)).status).toBe(200);
    expect((await tenant.admin.delete(`${users}/${id}`)).status).toBe(204);
    expect((await platform.post(`/auth/users/${id}/recover`)).status).toBe(204);
    expect(codeOf(await visit(person))).toEqual([403, 'auth_no_tenant_membership']);
  });

  test('whom the directory deprovisioned before they came is not made a member', async () => {
    const person = somebody();
    const users = `/tenants/${tenant.id}/scim/v2/Users`;
    const { body } = await tenant.admin.post(users, { userName: person.email, active: false });
    expect(body).toMatchObject({ active: false });
    expect((await tenant.admin.delete(`${users}/${body.id}`)).status).toBe(204);
    expect(codeOf(await visit(person))).toEqual([403, 'auth_no_tenant_membership']);
  });

  test('a disabled account stays out', async () => {
    const person = somebody();
    const { body } = await visit(person);
    await database.query(`UPDATE auth.users SET status = 'disabled' WHERE id = $1`, [body.user.id]);
    expect(codeOf(await visit(person))).toEqual([403, 'auth_sso_account_not_provisioned']);
  });
});

describe('linking', () => {
  /** With a password, as accounts have that were made before addresses were proved. */
  async function member(verified: boolean): Promise<{ email: string; id: string }> {
    const email = somebody().email!;
    const { body } = await tenant.admin.post(`/tenants/${tenant.id}/users`, {
      email,
      roles: ['operator'],
    });
    expect(body.status).toBe('active');
    await database.query(
      `UPDATE auth.users SET email_verified = $2,
         password_hash = (SELECT password_hash FROM auth.users WHERE email = $3) WHERE id = $1`,
      [body.user_id, verified, tenant.emails.viewer],
    );
    return { email, id: body.user_id };
  }

  test('an address that the provider has verified identifies its account', async () => {
    const { email, id } = await member(true);
    const answer = await visit(somebody({ email: email.toUpperCase() }));
    expect([answer.status, answer.body.user?.id, answer.body.tenant?.roles]).toEqual([
      200,
      id,
      ['operator'],
    ]);
    await audited(platform, 'auth.sso_linked', (event) => event.target === id);
  });

  test('the first proof of an address ends what was planted before it', async () => {
    const { email, id } = await member(false);
    const planted = await signIn(strata.url, email, memberPassword);
    const elsewhere = await startLinking(planted);
    const forged = somebody({ email, email_verified: false });
    expect((await goOn(await startLinking(planted), forged)).status).toBe(200);
    const owner = await visit(somebody({ email }));
    expect([owner.status, owner.body.user?.id]).toEqual([200, id]);
    await audited(
      platform,
      'auth.address_proved',
      (event) => event.target === id && event.payload.proof === 'sso',
    );
    expect(codeOf(await planted.get('/auth/me'))).toEqual([401, 'auth_session_revoked']);
    const login = await anyone.post('/auth/login', { email, password: memberPassword });
    expect(codeOf(login)).toEqual([401, 'auth_invalid_credentials']);
    // Neither the identity that was linked, nor a link that had been begun.
    expect(codeOf(await visit(forged))).toEqual([409, 'auth_sso_link_required']);
    expect(codeOf(await goOn(elsewhere, somebody()))).toEqual([401, 'auth_session_revoked']);
    expect(
      await database.query('SELECT 1 FROM auth.sso_identities WHERE user_id = $1', [id]),
    ).toHaveLength(1);
  });

  test('an invitation is accepted by whoever proves its address, and by no other identity', async () => {
    const { email, id } = await member(true);
    const invitedAgain = () =>
      database.query(
        `UPDATE tenant_config.members SET status = 'invited', roles = '{tenant_admin}' WHERE user_id = $1`,
        [id],
      );
    const session = await signIn(strata.url, email, memberPassword);
    await invitedAgain();
    const colleague = await goOn(await startLinking(session), somebody());
    expect(codeOf(colleague)).toEqual([403, 'auth_no_tenant_membership']);
    const owner = await visit(somebody({ email }));
    expect([owner.status, owner.body.tenant?.roles]).toEqual([200, ['tenant_admin']]);
  });

  test('not one that the provider has not verified', async () => {
    const { email, id } = await member(true);
    expect(codeOf(await visit(somebody({ email, email_verified: false })))).toEqual([
      409,
      'auth_sso_link_required',
    ]);
    expect(
      await database.query('SELECT 1 FROM auth.sso_identities WHERE user_id = $1', [id]),
    ).toEqual([]);
  });

  test('an address that anybody may claim links, and makes no one a member', async () => {
    const { emails } = await createTenantWith(strata.url, platform, `Claims ${randomUUID()}`);
    const outsider = await signIn(strata.url, emails.tenant_admin!, memberPassword);
    const claimed = somebody({ email_verified: false });
    const linked = await goOn(await startLinking(outsider), claimed);
    expect(codeOf(linked)).toEqual([403, 'auth_no_tenant_membership']);
    const proven = { ...claimed, email_verified: true };
    const member = await goOn(await startLinking(outsider), proven);
    expect([member.status, member.body.tenant?.roles]).toEqual([200, ['viewer']]);
  });

  test('a session whose provider is disabled or deleted ends, and none begins meanwhile', async () => {
    const id = await addProvider({ jit_enabled: true, default_roles: ['viewer'] });
    const person = somebody();
    const [ended, other] = [await visit(person, id), await visit(somebody())];
    const asking = ({ body }: Answer) => new Client(strata.url, body.access_token).get('/auth/me');
    expect((await asking(ended)).status).toBe(200);

    const lock = await holdLock(database, 'SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [
      `strata account ${ended.body.user.id}`,
    ]);
    const begun = visit(person, id);
    await lock.untilWaiting(1);
    const disabled = provider({ jit_enabled: true, default_roles: ['viewer'], enabled: false });
    expect((await platform.put(`/auth/sso/providers/${id}`, disabled)).status).toBe(200);
    await lock.release();
    expect(codeOf(await begun)).toEqual([404, 'auth_sso_provider_not_found']);
    expect(codeOf(await asking(ended))).toEqual([401, 'auth_session_revoked']);
    const { refresh_token } = ended.body;
    expect(codeOf(await anyone.post('/auth/refresh', { refresh_token }))).toEqual([
      401,
      'auth_refresh_invalid',
    ]);
    const said = ({ target, payload }: AuditEvent) => target === id && payload.sessions_ended === 1;
    await audited(platform, 'auth.sso_provider_updated', said);

    await platform.put(`/auth/sso/providers/${id}`, { ...disabled, enabled: true });
    const again = await visit(person, id);
    expect((await asking(again)).status).toBe(200);
    await platform.delete(`/auth/sso/providers/${id}`);
    expect(codeOf(await asking(again))).toEqual([401, 'auth_session_revoked']);
    expect((await asking(other)).status).toBe(200);
  });

  test('a session whose provider is given to another tenant or issuer ends, and none begins meanwhile', async () => {
    const admitting = { jit_enabled: true, default_roles: ['viewer'] };
    const id = await addProvider(admitting);
    const person = somebody();
    const other = await createTenant(strata.url, platform, `Other ${randomUUID()}`);
    const domains = [{ domain: `${randomUUID()}.example`, verified: true }];
    const moves = [
      { tenant_id: null, domains },
      { tenant_id: other.id, domains },
      { ...admitting, issuer: rogue.issuer },
    ];
    for (const move of moves) {
      await platform.put(`/auth/sso/providers/${id}`, provider(admitting));
      const ended = await visit(person, id);
      const asking = () => new Client(strata.url, ended.body.access_token).get('/auth/me');
      expect((await asking()).status).toBe(200);
      await platform.put(`/auth/sso/providers/${id}`, provider({ ...admitting, name: 'Renamed' }));
      expect((await asking()).status).toBe(200);
      const lock = await holdLock(
        database,
        'SELECT pg_advisory_xact_lock(hashtextextended($1, 0))',
        [`strata account ${ended.body.user.id}`],
      );
      const begun = visit(person, id);
      await lock.untilWaiting(1);
      const moved = await platform.put(`/auth/sso/providers/${id}`, provider(move));
      await lock.release();
      expect([moved.status, codeOf(await begun)]).toEqual([200, [401, 'auth_sso_state_invalid']]);
      expect(codeOf(await asking())).toEqual([401, 'auth_session_revoked']);
    }
    await platform.delete(`/auth/sso/providers/${id}`);
  });

  test('an issuer without a provider any more is no way into an account', async () => {
    const { email, id } = await member(true);
    const client = await signIn(strata.url, email, memberPassword);
    const isKnownAt = (issuer: string) =>
      database.query(`INSERT INTO auth.sso_identities VALUES ($1, 'a subject', $2, now())`, [
        issuer,
        id,
      ]);
    const registering = () => client.post('/auth/webauthn/register/options');
    await isKnownAt('https://gone.example');
    expect((await registering()).status).toBe(200);
    const { body } = await platform.get(`/auth/users/${id}`);
    expect(body.signs_in_with.providers).toEqual([]);
    await isKnownAt(`${honest.issuer}/`);
    expect(codeOf(await registering())).toEqual([403, 'auth_stronger_sign_in_required']);
  });

  test('whoever is signed in links the provider, and signs in with it from then on', async () => {
    const { email, id } = await member(false);
    const person = somebody({ email, email_verified: false });
    const client = await signIn(strata.url, email, memberPassword);
    const linked = await goOn(await startLinking(client), person);
    expect([linked.status, linked.body.user?.id]).toEqual([200, id]);
    expect((await visit(person)).body.user.id).toBe(id);
    const other = await signIn(strata.url, (await member(false)).email, memberPassword);
    expect(codeOf(await goOn(await startLinking(other), person))).toEqual([409, 'conflict']);
    // Of a session that no node has in memory yet.
    const again = await signIn(strata.url, email, memberPassword);
    await database.query(
      `UPDATE auth.sessions SET authenticated_at = now() - interval '11 minutes' WHERE user_id = $1`,
      [id],
    );
    const late = await again.post('/auth/sso/link', {
      provider_id: honestId,
      redirect_uri: redirectUri,
      client_challenge: 'c'.repeat(43),
    });
    expect(codeOf(late)).toEqual([403, 'auth_reauth_required']);
  });
});

describe("a tenant's own provider", () => {
  /** An administrator of another tenant who is a guest of this one, and has linked its provider. */
  async function guest() {
    const home = await createTenantWith(strata.url, platform, `Home ${randomUUID()}`);
    const email = `${randomUUID()}@elsewhere.example`;
    const { client } = await addMember(home.admin, home.id, { email, roles: ['tenant_admin'] });
    const asked = { email, roles: ['viewer'] };
    const { body: member } = await tenant.admin.post(`/tenants/${tenant.id}/users`, asked);
    const { body: invitations } = await client.get('/auth/invitations');
    await client.post(`/auth/invitations/${invitations.items[0].id}/accept`);
    const person = somebody({ email_verified: true });
    const linked = await goOn(await startLinking(client), person);
    expect(linked.status).toBe(200);
    return { home, email, person, userId: member.user_id as string };
  }
  const needsStronger = [403, 'auth_stronger_sign_in_required'];

  test('signs in to that tenant and goes nowhere else', async () => {
    const { home, person } = await guest();
    const { body } = await visit(person);
    expect(body.tenant.id).toBe(tenant.id);
    const session = new Client(strata.url, body.access_token);
    const gone = await session.post('/auth/switch-tenant', { tenant_id: home.id });
    expect(codeOf(gone)).toEqual(needsStronger);
    expect((await session.get(`/tenants/${home.id}/config/risk`)).status).toBe(403);
    const sessions = await session.get('/auth/sessions');
    const own = sessions.body.items.find(({ current }: { current: boolean }) => current);
    expect([own.method, own.confined_to]).toEqual(['sso', tenant.id]);
    const again = await anyone.post('/auth/refresh', { refresh_token: body.refresh_token });
    const continued = new Client(strata.url, again.body.access_token);
    expect(codeOf(await continued.post('/auth/switch-tenant', { tenant_id: home.id }))).toEqual(
      needsStronger,
    );
  });

  test('sees and ends nothing that is good elsewhere', async () => {
    const { home, email, person } = await guest();
    const strong = await signIn(strata.url, email, memberPassword);
    await strong.post('/auth/switch-tenant', { tenant_id: home.id });
    const { body: key } = await strong.post('/auth/api-key', { name: 'at home' });
    const third = await createTenantWith(strata.url, platform, `Third ${randomUUID()}`);
    await third.admin.post(`/tenants/${third.id}/users`, { email, roles: ['viewer'] });
    const { body: invitations } = await strong.get('/auth/invitations');
    const invitation = `/auth/invitations/${invitations.items[0].id}`;
    const { body: sessions } = await strong.get('/auth/sessions');
    const own = sessions.items.find(({ current }: { current: boolean }) => current);

    const { body } = await visit(person);
    const session = new Client(strata.url, body.access_token);
    const { body: ownKey } = await session.post('/auth/api-key', {
      name: 'here',
      scopes: ['auth:self'],
    });
    const byKey = new Client(strata.url, ownKey.api_key);
    expect((await strong.get('/auth/me')).body.memberships).toHaveLength(2);
    const shown = [body, (await session.get('/auth/me')).body, (await byKey.get('/auth/me')).body];
    for (const { memberships, user } of shown) {
      expect(memberships).toEqual([expect.objectContaining({ tenant_id: tenant.id })]);
      expect(user.platform_roles).toEqual([]);
    }
    await session.delete(`/auth/api-keys/${ownKey.id}`);
    for (const path of ['/auth/invitations', '/auth/api-keys'])
      expect([path, (await session.get(path)).body.items]).toEqual([path, []]);
    const { body: seen } = await session.get('/auth/sessions');
    expect(seen.items.map(({ confined_to: id }: { confined_to: string }) => id)).toEqual(
      seen.items.map(() => tenant.id),
    );
    const { body: activity } = await session.get('/auth/activity');
    for (const event of activity.items) expect(event.tenant_id).toBe(tenant.id);
    for (const answer of [
      await session.delete(`/auth/sessions/${own.id}`),
      await session.delete(`/auth/api-keys/${key.id}`),
      await session.post(`${invitation}/decline`),
      await session.post(`${invitation}/accept`),
    ])
      expect(codeOf(answer)).toEqual(needsStronger);
    expect((await session.post('/auth/logout', { all: true })).status).toBe(204);
    expect(codeOf(await session.get('/auth/me'))).toEqual([401, 'auth_session_revoked']);
    expect((await strong.get('/auth/me')).status).toBe(200);
    const atHome = new Client(strata.url, key.api_key);
    expect((await atHome.get(`/tenants/${home.id}/config/risk`)).status).toBe(200);
  });

  test("gives a platform administrator none of the platform's rights, by session or key", async () => {
    const [admin] = await database.query<{ id: string }>(
      `SELECT id FROM auth.users WHERE email = 'admin@example.com'`,
    );
    const asked = { email: 'admin@example.com', roles: ['viewer'] };
    await tenant.admin.post(`/tenants/${tenant.id}/users`, asked);
    const { body: invitations } = await platform.get('/auth/invitations');
    await platform.post(`/auth/invitations/${invitations.items[0].id}/accept`);
    const person = somebody({ email_verified: true });
    expect((await goOn(await startLinking(platform), person)).status).toBe(200);
    const { body } = await visit(person);
    expect([body.user.id, body.user.platform_roles]).toEqual([admin!.id, []]);
    const session = new Client(strata.url, body.access_token);
    expect(codeOf(await session.get('/tenants'))).toEqual([403, 'insufficient_role']);
    const made = await session.post('/auth/api-key', { name: 'k', scopes: ['platform:read'] });
    const key = new Client(strata.url, made.body.api_key);
    expect(codeOf(await key.get('/tenants'))).toEqual([403, 'insufficient_role']);
    const other = await start(honestId);
    await goOn(other, person);
    const linking = await session.post('/auth/sso/link', {
      provider_id: await addProvider({ name: "The platform's", tenant_id: null, domains: [] }),
      redirect_uri: redirectUri,
      client_challenge: 'c'.repeat(43),
    });
    expect(codeOf(linking)).toEqual(needsStronger);
  });
});

describe('a step that wants a recent sign-in', () => {
  test('has the provider ask its person again', async () => {
    const { body } = await tryToStart({ provider_id: honestId, max_age: 0 });
    const { searchParams } = new URL(body.authorization_url);
    expect([searchParams.get('max_age'), searchParams.get('prompt')]).toEqual(['0', 'login']);
  });
});

describe('refused', () => {
  test('people that the provider may not bring', async () => {
    const rows: [Partial<Person>, number, string][] = [
      [{ email: 'someone@elsewhere.example' }, 403, 'auth_sso_domain_not_allowed'],
      [{ email: `someone@sub.${domain}` }, 403, 'auth_sso_domain_not_allowed'],
      [{ email_verified: false }, 403, 'auth_sso_account_not_provisioned'],
    ];
    for (const [fields, ...expected] of rows)
      expect(codeOf(await visit(somebody(fields)))).toEqual(expected);
    const { id } = await createTenantWith(strata.url, platform, 'Disabled of sso');
    await platform.patch(`/tenants/${id}`, { status: 'disabled' });
    const closed = await addProvider({
      tenant_id: id,
      jit_enabled: true,
      default_roles: ['viewer'],
      domains: [{ domain: 'closed.example', verified: true }],
    });
    expect(codeOf(await visit(somebody({ email: 'new@closed.example' }), closed))).toEqual([
      403,
      'auth_tenant_disabled',
    ]);
    expect(
      await database.query(`SELECT 1 FROM auth.users WHERE email = 'new@closed.example'`),
    ).toEqual([]);
    const strict = await addProvider({ jit_enabled: false });
    const refused = await visit(somebody(), strict);
    expect(codeOf(refused)).toEqual([403, 'auth_sso_account_not_provisioned']);
    expect(
      await audited(
        platform,
        'auth.login_failed',
        (event) => event.request_id === refused.headers.get('x-request-id'),
      ),
    ).toMatchObject({
      payload: { method: 'sso', code: 'auth_sso_account_not_provisioned', provider_id: strict },
    });
  });

  test("a state used twice, made up, or brought with another client's verifier", async () => {
    const started = await start(honestId);
    const code = await codeFor(started);
    expect((await finish(started, { code, iss: honest.issuer })).status).toBe(200);
    expect(codeOf(await finish(started, { code, iss: honest.issuer }))).toEqual([
      401,
      'auth_sso_state_invalid',
    ]);
    const madeUp = await finish({ ...started, state: 'made-up' }, { code });
    expect(codeOf(madeUp)).toEqual([401, 'auth_sso_state_invalid']);

    const [mine, theirs] = [await start(honestId), await start(honestId)];
    const stolen = await codeFor(mine);
    const intercepted = await finish(
      { state: mine.state, verifier: theirs.verifier },
      { code: stolen, iss: honest.issuer },
    );
    expect(codeOf(intercepted)).toEqual([401, 'auth_sso_state_invalid']);
    expect(codeOf(await finish(mine, { code: stolen, iss: honest.issuer }))).toEqual([
      401,
      'auth_sso_state_invalid',
    ]);
    const crossed = await codeFor(await start(honestId));
    expect(codeOf(await finish(theirs, { code: crossed, iss: honest.issuer }))).toEqual([
      401,
      'auth_sso_exchange_failed',
    ]);

    // A state that nobody was given costs no row, since anyone can make up any number of them.
    const requestOf = ({ headers }: Answer) => headers.get('x-request-id');
    const isOf = (answer: Answer) => (event: AuditEvent) => event.request_id === requestOf(answer);
    await audited(platform, 'auth.login_failed', isOf(intercepted));
    expect((await auditEvents(platform, 'auth.login_failed')).some(isOf(madeUp))).toBe(false);
  });

  test('an answer that another provider gave, before its code goes anywhere', async () => {
    const started = await start(rogueId);
    const redirected = new URL((await start(honestId)).url);
    redirected.searchParams.set('state', started.state);
    const code = await codeFor({ url: redirected });
    rogue.asked.length = 0;
    expect(codeOf(await finish(started, { code, iss: honest.issuer }))).toEqual([
      401,
      'auth_sso_state_invalid',
    ]);
    expect(rogue.asked).not.toContain('/token');
  });

  test('an answer without iss from a provider that sends it', async () => {
    const started = await start(honestId);
    const code = await codeFor(started);
    expect(codeOf(await finish(started, { code }))).toEqual([401, 'auth_sso_state_invalid']);
  });

  test('a sign-in whose provider was changed or disabled meanwhile', async () => {
    const id = await addProvider();
    const started = await start(id);
    const code = await codeFor(started);
    await platform.put(`/auth/sso/providers/${id}`, provider({ client_id: 'another' }));
    expect(codeOf(await finish(started, { code, iss: honest.issuer }))).toEqual([
      401,
      'auth_sso_state_invalid',
    ]);
    const second = await start(id);
    await platform.put(
      `/auth/sso/providers/${id}`,
      provider({ client_id: 'another', enabled: false }),
    );
    expect(codeOf(await finish(second, { code, iss: honest.issuer }))).toEqual([
      404,
      'auth_sso_provider_not_found',
    ]);
    expect(codeOf(await tryToStart({ provider_id: id }))).toEqual([
      404,
      'auth_sso_provider_not_found',
    ]);
  });
});

describe('a provider that forges', () => {
  interface Forgery {
    readonly claims?: Record<string, unknown>;
    readonly sign?: (claims: object) => string;
  }
  const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');
  const honestly = (claims: object): string =>
    jwt.sign(claims, rogue.privateKey, { algorithm: 'RS256', keyid: 'k1' });
  const pem = (): Buffer => Buffer.from(rogue.publicKey.export({ format: 'pem', type: 'spki' }));
  /** What the provider answers while no test has changed it. */
  const spare: Record<string, RogueProvider['answers'][string]> = {};
  beforeAll(() => {
    Object.assign(spare, rogue.answers);
  });
  beforeEach(() => {
    Object.assign(rogue.answers, spare);
  });

  /**
   * What an honest provider would put into the ID token; undefined in `fields` leaves a claim out.
   */
  function claimsFor({ url }: Started, fields: Record<string, unknown>) {
    const now = nowSeconds();
    return {
      iss: rogue.issuer,
      aud: 'strata',
      iat: now,
      exp: now + 60,
      nonce: url.searchParams.get('nonce'),
      ...fields,
    };
  }
  const tokenAnswer = (idToken: string, fields: Record<string, unknown> = {}) =>
    rogue.json({ access_token: 'a', token_type: 'Bearer', id_token: idToken, ...fields });

  /** Signs in where the token endpoint answers with this ID token. */
  async function attempt(
    { claims = {}, sign = honestly }: Forgery,
    tokenResponse: Record<string, unknown> = {},
  ) {
    const started = await start(rogueId);
    const { sub, email } = somebody();
    const token = sign(claimsFor(started, { sub, email, email_verified: true, ...claims }));
    rogue.answers['/token'] = tokenAnswer(token, tokenResponse);
    return finish(started, { code: 'code' });
  }

  test('signs in while it forges nothing', async () => {
    expect((await attempt({})).status).toBe(200);
  });

  test.each([
    ['an hour ago', () => nowSeconds() - 3600, 403],
    ['at no time that it tells', () => undefined, 403],
    ['a minute ago', () => nowSeconds() - 60, 200],
    ['in an hour', () => nowSeconds() + 3600, 200],
  ])('a person who signed in there %s has a recent sign-in or not', async (_when, at, status) => {
    const { body } = await attempt({ claims: { auth_time: at() } });
    const session = new Client(strata.url, body.access_token);
    const linking = await session.post('/auth/sso/link', {
      provider_id: rogueId,
      redirect_uri: redirectUri,
      client_challenge: 'c'.repeat(43),
    });
    expect(linking.status).toBe(status);
    if (status === 403) expect(linking.body.detail.code).toBe('auth_reauth_required');
  });

  test('an address that is none counts as no address; a name that cannot be stored as no name; a boolean may be text', async () => {
    for (const email of [`a\0b@${domain}`, `a b@${domain}`, `${'x'.repeat(250)}@${domain}`, 7]) {
      expect(codeOf(await attempt({ claims: { email } }))).toEqual([
        403,
        'auth_sso_domain_not_allowed',
      ]);
    }
    const { status, body } = await attempt({ claims: { name: 'a\0b', email_verified: 'true' } });
    expect([status, body.user?.display_name]).toEqual([200, null]);
  });

  test.each<[string, () => Forgery]>([
    ['of another issuer', () => ({ claims: { iss: honest.issuer } })],
    ['for another audience', () => ({ claims: { aud: 'somebody-else' } })],
    [
      'for several audiences, the party another',
      () => ({ claims: { aud: ['strata', 'other'], azp: 'other' } }),
    ],
    ['with another nonce', () => ({ claims: { nonce: 'another' } })],
    ['without a nonce', () => ({ claims: { nonce: undefined } })],
    ['that has expired', () => ({ claims: { iat: nowSeconds() - 600, exp: nowSeconds() - 120 } })],
    ['not valid yet', () => ({ claims: { nbf: nowSeconds() + 600 } })],
    ['without a subject', () => ({ claims: { sub: undefined } })],
    ['that is unsigned', () => ({ sign: (claims) => `${part({ alg: 'none' })}.${part(claims)}.` })],
    [
      'signed HS256 with the public key',
      () => ({
        sign: (claims) =>
          jwt.sign(claims, createSecretKey(pem()), { algorithm: 'HS256', keyid: 'k1' }),
      }),
    ],
    [
      'signed HS256 with the client secret',
      () => ({
        sign: (claims) =>
          jwt.sign(claims, createSecretKey(Buffer.from(clientSecret)), { algorithm: 'HS256' }),
      }),
    ],
    ['whose signature was cut', () => ({ sign: (claims) => honestly(claims).slice(0, -8) })],
    [
      'with claims exchanged after signing',
      () => ({
        sign(claims) {
          const [header, , signature] = honestly(claims).split('.');
          return [header, part({ ...claims, sub: 'someone-else' }), signature].join('.');
        },
      }),
    ],
    [
      'signed by a key that is not published',
      () => ({
        sign: (claims) => jwt.sign(claims, rogue.privateKey, { algorithm: 'RS256', keyid: 'k2' }),
      }),
    ],
    ['whose subject cannot be stored', () => ({ claims: { sub: 'a\0b' } })],
    ['whose subject is too long', () => ({ claims: { sub: 'x'.repeat(256) } })],
    ['that is no token', () => ({ sign: () => 'not-a-token' })],
  ])('a token %s', async (...[, forgery]) => {
    expect(codeOf(await attempt(forgery()))).toEqual([401, 'auth_sso_token_invalid']);
  });

  test('an answer without an ID token, and userinfo of somebody else', async () => {
    expect(codeOf(await attempt({}, { id_token: undefined }))).toEqual([
      401,
      'auth_sso_token_invalid',
    ]);
    const other = await addProvider({
      name: 'Forger of userinfo',
      issuer: rogue.issuer,
      client_id: 'strata',
    });
    rogue.answers['/.well-known/openid-configuration'] = rogue.json({
      ...rogue.metadata,
      userinfo_endpoint: `${rogue.issuer}/userinfo`,
    });
    rogue.answers['/userinfo'] = rogue.json({
      sub: 'another',
      email: `x@${domain}`,
      email_verified: true,
    });
    const started = await start(other);
    const token = honestly(claimsFor(started, { sub: 'me' }));
    rogue.answers['/token'] = tokenAnswer(token);
    expect(codeOf(await finish(started, { code: 'code' }))).toEqual([
      401,
      'auth_sso_token_invalid',
    ]);
  });

  test('refusals and failures of its token endpoint', async () => {
    const rows: [RogueProvider['answers'][string], number, string][] = [
      [rogue.json({ error: 'invalid_grant' }, 400), 401, 'auth_sso_exchange_failed'],
      [rogue.json({ error: 'invalid_client' }, 401), 502, 'auth_sso_provider_error'],
      [rogue.json({ error: 'server_error' }, 500), 502, 'auth_sso_provider_error'],
      [
        (response) => {
          response.writeHead(200, { 'content-type': 'text/html' }).end('<html>');
        },
        502,
        'auth_sso_provider_error',
      ],
      [
        (response) => {
          response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end();
        },
        502,
        'auth_sso_provider_error',
      ],
      [
        (response) => {
          response.destroy();
        },
        502,
        'auth_sso_provider_error',
      ],
      [() => {}, 504, 'auth_sso_provider_timeout'],
    ];
    for (const [answer, ...expected] of rows) {
      const started = await start(rogueId);
      rogue.answers['/token'] = answer;
      expect(codeOf(await finish(started, { code: 'code' }))).toEqual(expected);
    }
  });

  test('a provider that is slow at every step gets one time-out for all of them', async () => {
    const slowly =
      (answer: RogueProvider['answers'][string]): RogueProvider['answers'][string] =>
      (response) => {
        setTimeout(() => answer(response), 2700);
      };
    const started = await start(await addProvider({ issuer: rogue.issuer }));
    const token = honestly(claimsFor(started, { sub: 'slow' }));
    rogue.answers['/token'] = slowly(tokenAnswer(token));
    rogue.answers['/jwks'] = slowly(spare['/jwks']!);
    expect(codeOf(await finish(started, { code: 'code' }))).toEqual([
      504,
      'auth_sso_provider_timeout',
    ]);
  });

  test('discovery that fails, hangs, lies about its issuer or points into the network', async () => {
    const discovery = '/.well-known/openid-configuration';
    const rows: [RogueProvider['answers'][string], number, string][] = [
      [rogue.json({}, 500), 502, 'auth_sso_provider_error'],
      [() => {}, 504, 'auth_sso_provider_timeout'],
      [rogue.json({ ...rogue.metadata, issuer: honest.issuer }), 502, 'auth_sso_provider_error'],
      [
        rogue.json({ ...rogue.metadata, authorization_endpoint: 'javascript:alert(1)' }),
        502,
        'auth_sso_provider_error',
      ],
    ];
    for (const [answer, ...expected] of rows) {
      const id = await addProvider({ issuer: rogue.issuer });
      rogue.answers[discovery] = answer;
      expect(codeOf(await tryToStart({ provider_id: id }))).toEqual(expected);
    }
    // A list of ways that is none counts as one way.
    const odd = await addProvider({ issuer: rogue.issuer });
    const ways = { token_endpoint_auth_methods_supported: 7 };
    rogue.answers[discovery] = rogue.json({ ...rogue.metadata, ...ways });
    expect((await tryToStart({ provider_id: odd })).status).toBe(200);
    const inward = await addProvider({ issuer: rogue.issuer });
    rogue.answers[discovery] = rogue.json({
      ...rogue.metadata,
      token_endpoint: 'http://10.0.0.1/latest',
    });
    expect(codeOf(await finish(await start(inward), { code: 'code' }))).toEqual([
      502,
      'auth_sso_provider_error',
    ]);
    await logged('is not a public address');
    const gone = await startRogueProvider();
    await gone.close();
    expect(
      codeOf(await tryToStart({ provider_id: await addProvider({ issuer: gone.issuer }) })),
    ).toEqual([502, 'auth_sso_provider_error']);
  });

  test('nothing that it sent is in the log', async () => {
    await attempt({ claims: { email: 'CANARY-claim@x.example', nonce: 'other' } });
    const last = await attempt({ sign: () => 'CANARY.token.here' });
    await logged(last.headers.get('x-request-id')!);
    for (const canary of ['CANARY', clientSecret]) expect(strata.output()).not.toContain(canary);
  });
});

test("failures of ours have the route's codes", async () => {
  const id = await addProvider();
  const [first, second] = [await start(id), await start(id)];
  await database.query('ALTER TABLE auth.sso_providers RENAME TO hidden');
  const away = await finish(first, { code: 'code' });
  await database.query('ALTER TABLE auth.hidden RENAME TO sso_providers');
  expect([...codeOf(away), away.headers.has('retry-after')]).toEqual([
    503,
    'auth_sso_db_error',
    true,
  ]);
  await database.query(
    `UPDATE auth.sso_providers SET client_secret = 'cannot be opened' WHERE id = $1`,
    [id],
  );
  expect(codeOf(await finish(second, { code: 'code' }))).toEqual([500, 'auth_sso_internal_error']);
});

describe('providers', () => {
  test('the secret is sealed, never shown, kept by the mask and only for its issuer', async () => {
    const id = await addProvider();
    const path = `/auth/sso/providers/${id}`;
    const read = await platform.get(path);
    expect(read.body).toMatchObject({
      client_secret: '********',
      issuer: honest.issuer,
      enabled: true,
      jit_enabled: false,
    });
    const stored = async () =>
      (
        await database.query<{ client_secret: string }>(
          'SELECT client_secret FROM auth.sso_providers WHERE id = $1',
          [id],
        )
      )[0]!.client_secret;
    const before = await stored();
    expect(before).toMatch(/^strata\.sealed\./);
    const kept = await platform.put(path, provider({ name: 'Renamed', client_secret: '********' }));
    expect([kept.status, kept.body.name, await stored()]).toEqual([200, 'Renamed', before]);
    const moved = await platform.put(
      path,
      provider({ issuer: `${honest.issuer}/realm`, client_secret: '********' }),
    );
    expect([moved.status, moved.body.errors]).toEqual([
      422,
      [expect.objectContaining({ path: '/client_secret' })],
    ]);
    expect(
      (await platform.post('/auth/sso/providers', provider({ client_secret: '********' }))).status,
    ).toBe(422);
    await platform.put(path, provider({ client_secret: 'CANARY-replaced' }));
    expect(await stored()).not.toBe(before);
    const updated = await audited(
      platform,
      'auth.sso_provider_updated',
      ({ target, payload }) => target === id && payload.secret_replaced === true,
    );
    expect(updated.tenant_id).toBe(tenant.id);
    expect((await platform.delete(path)).status).toBe(204);
    expect(codeOf(await platform.get(path))).toEqual([404, 'auth_sso_provider_not_found']);
    expect(codeOf(await platform.delete(path))).toEqual([404, 'auth_sso_provider_not_found']);
    const created = await audited(
      platform,
      'auth.sso_provider_created',
      ({ target }) => target === id,
    );
    await audited(platform, 'auth.sso_provider_deleted', ({ target }) => target === id);
    expect(JSON.stringify([updated, created])).not.toContain('CANARY');
    for (const [table, column] of [
      ['strata.outbox', 'event'],
      ['audit.events', 'payload'],
    ]) {
      expect(
        await database.query(`SELECT 1 FROM ${table} WHERE ${column}::text LIKE '%CANARY%'`),
      ).toEqual([]);
    }
  });

  test('a domain belongs to one tenant', async () => {
    const other = await createTenantWith(strata.url, platform, 'Other of sso');
    expect(
      codeOf(await platform.post('/auth/sso/providers', provider({ tenant_id: other.id }))),
    ).toEqual([409, 'conflict']);
    expect(
      codeOf(await platform.post('/auth/sso/providers', provider({ tenant_id: null }))),
    ).toEqual([409, 'conflict']);
    const free = await addProvider({
      tenant_id: other.id,
      domains: [{ domain: 'free.example', verified: false }],
    });
    expect(
      codeOf(await platform.put(`/auth/sso/providers/${free}`, provider({ tenant_id: other.id }))),
    ).toEqual([409, 'conflict']);
  });

  test('an address is asked for publicly and answers by its domain only', async () => {
    await addProvider({
      name: 'Public',
      tenant_id: tenant.id,
      domains: [{ domain: 'public.example', verified: true }],
    });
    await addProvider({
      name: 'Off',
      enabled: false,
      domains: [{ domain: 'public.example', verified: true }],
    });
    const path = '/auth/sso/providers?email=';
    for (const client of [anyone, new Client(strata.url, 'garbage'), tenant.viewer, platform]) {
      const { status, body } = await client.get(`${path}somebody@PUBLIC.example`);
      expect([status, body]).toEqual([
        200,
        { items: [{ id: expect.any(String), name: 'Public' }], next_cursor: null },
      ]);
    }
    expect((await anyone.get(`${path}a@nowhere.example`)).body).toEqual({
      items: [],
      next_cursor: null,
    });
    expect((await anyone.get(path)).status).toBe(422);
    expect(codeOf(await anyone.get('/auth/sso/providers'))).toEqual([401, 'auth_token_missing']);
    expect(codeOf(await tenant.admin.get('/auth/sso/providers'))).toEqual([
      403,
      'insufficient_role',
    ]);
    const all = await platform.get('/auth/sso/providers?limit=1');
    expect([
      all.body.items.length,
      all.body.items[0].client_secret,
      typeof all.body.next_cursor,
    ]).toEqual([1, '********', 'string']);
  });

  test.each<[string, Record<string, unknown>, string]>([
    ['a private address', { issuer: 'http://169.254.169.254' }, '/issuer'],
    ['an issuer with a query', { issuer: 'https://idp.example/?x=1' }, '/issuer'],
    ['an unknown tenant', { tenant_id: randomUUID() }, '/tenant_id'],
    [
      'provisioning without a tenant',
      { jit_enabled: true, tenant_id: null, default_roles: ['viewer'], domains: [] },
      '/tenant_id',
    ],
    ['provisioning without a role', { jit_enabled: true }, '/default_roles'],
    [
      'a domain in capitals',
      { domains: [{ domain: 'Acme.example', verified: true }] },
      '/domains/0/domain',
    ],
    [
      'a domain named twice',
      {
        domains: [
          { domain: 'a.example', verified: true },
          { domain: 'a.example', verified: false },
        ],
      },
      '/domains',
    ],
    ['a redirect over http', { redirect_uris: ['http://app.example.com/'] }, '/redirect_uris/0'],
    [
      'a redirect with a fragment',
      { redirect_uris: ['https://app.example.com/#x'] },
      '/redirect_uris/0',
    ],
    [
      'a redirect in another spelling',
      { redirect_uris: ['https://app.example.com'] },
      '/redirect_uris/0',
    ],
    ['no redirect', { redirect_uris: [] }, '/redirect_uris'],
    ['an unknown field', { secret: 'x' }, '/secret'],
  ])('%s is refused', async (...[, fields, path]) => {
    const { status, body } = await platform.post('/auth/sso/providers', provider(fields));
    expect([status, body.errors?.map((problem: { path: string }) => problem.path)]).toEqual([
      422,
      [path],
    ]);
  });
});
