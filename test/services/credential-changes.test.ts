/**
 * What a change of credentials ends, how recent a sign-in it wants, and the mail that its owner
 * gets.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { createHash, generateKeyPairSync, randomBytes, randomUUID } from 'node:crypto';
import {
  accountNoticeMail,
  shownNetworkOf,
} from '../../services/auth/accounts/mail/account-notices.ts';
import { authScope } from '../../shared/contracts/revision-scopes.ts';
import { audited } from '../support/audit.ts';
import { newCredential } from '../support/browser.ts';
import { holdLock } from '../support/held-lock.ts';
import { startHonestProvider, type HonestProvider } from '../support/identity-providers.ts';
import { startMailServer, type MailServer, type ReceivedMail } from '../support/mail-server.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import { sendAround } from '../support/slow-clients.ts';
import {
  adminPassword,
  Client,
  createTenantWith,
  memberPassword,
  signIn,
  startStrata,
  type Answer,
  type Running,
  type TenantWith,
} from '../support/strata.ts';

const frontend = 'https://app.example.com';
const redirectUri = `${frontend}/signed-in`;
const newPassword = 'grapefruit lamp seventy';
let database: Database;
let smtp: MailServer;
let honest: HonestProvider;
let strata: Running;
let platform: Client;
let tenant: TenantWith<'viewer'>;
let providerId: string;
let tenantCount = 0;

beforeAll(async () => {
  [database, smtp, honest] = await Promise.all([
    strataDatabase(),
    startMailServer(),
    startHonestProvider({
      client_id: 'strata',
      client_secret: 'a secret of the provider',
      redirect_uris: [redirectUri],
    }),
  ]);
  strata = await startStrata({
    DATABASE_URL: database.url,
    SMTP_SERVER: '127.0.0.1',
    SMTP_PORT: String(smtp.port),
    SMTP_TLS_CA: smtp.certificate,
    FRONTEND_ORIGIN: frontend,
    TRUSTED_PROXIES: '127.0.0.1/32',
    WEBHOOK_ALLOWED_NETWORKS: '127.0.0.0/8',
    WEBHOOK_ALLOW_HTTP: 'true',
  });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  const provider = await platform.post('/auth/sso/providers', {
    name: 'Company & <Sons>',
    issuer: honest.issuer,
    client_id: 'strata',
    client_secret: 'a secret of the provider',
    domains: [{ domain: 'company.example', verified: true }],
    redirect_uris: [redirectUri],
  });
  providerId = provider.body.id;
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await Promise.all([smtp?.stop(), honest?.close(), database?.drop()]);
});

async function makeTenant(): Promise<void> {
  tenantCount += 1;
  tenant = await createTenantWith(strata.url, platform, `Credentials ${tenantCount}`, ['viewer']);
}

/** Where requests come from, by default. */
const home = { 'x-forwarded-for': '203.0.113.77' };
const anyone = (): Client => new Client(strata.url);
const outcome = ({ status, body }: Answer): string =>
  status < 300 ? String(status) : `${status} ${body.detail.code}`;

interface SignedIn {
  readonly client: Client;
  readonly sessionId: string;
}
async function signedIn(role = 'viewer', password = memberPassword): Promise<SignedIn> {
  const { body } = await anyone().post('/auth/login', { email: tenant.emails[role], password });
  return { client: new Client(strata.url, body.access_token), sessionId: body.session_id };
}
/** Signed in longer ago than what changes credentials wants. */
async function signedInLongAgo(role = 'viewer'): Promise<SignedIn> {
  const session = await signedIn(role);
  await database.query(
    `UPDATE auth.sessions SET authenticated_at = now() - interval '10 minutes 1 second' WHERE id = $1`,
    [session.sessionId],
  );
  return session;
}
async function madeKey(owner: Client): Promise<{ id: string; prefix: string; client: Client }> {
  const { status, body, text } = await owner.post('/auth/api-key', { name: 'ci' }, home);
  if (status !== 201) throw new Error(text);
  return { id: body.id, prefix: body.prefix, client: new Client(strata.url, body.api_key) };
}
const readsConfig = async (client: Client): Promise<string> =>
  outcome(await client.get(`/tenants/${tenant.id}/config/effective`));

/** Mails to a member other than the one with a reset link, once there are so many. */
const links = ['Reset your password', 'You are invited'];
async function noticesTo(role: string, count: number): Promise<ReceivedMail[]> {
  const isNotice = ({ to, mail }: ReceivedMail): boolean =>
    to[0] === tenant.emails[role] && !links.includes(mail.subject ?? '');
  for (;;) {
    const found = smtp.received.filter(isNotice);
    if (found.length >= count) return found;
    await smtp.mails(smtp.received.length + 1);
  }
}
async function resetToken(role = 'viewer'): Promise<string> {
  const isLink = ({ to, mail }: ReceivedMail): boolean =>
    to[0] === tenant.emails[role] && mail.subject === 'Reset your password';
  await anyone().post('/auth/password/forgot', { email: tenant.emails[role] });
  for (;;) {
    const found = smtp.received.find(isLink);
    if (found) return /#token=([\w-]{43})/.exec(found.mail.text!)![1]!;
    await smtp.mails(smtp.received.length + 1);
  }
}
const reset = (token: string): Promise<Answer> =>
  anyone().post('/auth/password/reset', { token, new_password: newPassword }, home);

/** The body that answers the options for a new passkey, from an authenticator made of software. */
async function newPasskey(client: Client): Promise<object> {
  const { body, status, text } = await client.post('/auth/webauthn/register/options', {});
  if (status !== 200) throw new Error(text);
  const { x, y } = generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey.export({
    format: 'jwk',
  });
  const coordinate = (text64: string | undefined) =>
    new Uint8Array(Buffer.from(text64!, 'base64url'));
  const publicKey = new Map<number, number | Uint8Array<ArrayBuffer>>([
    [1, 2],
    [3, -7],
    [-1, 1],
    [-2, coordinate(x)],
    [-3, coordinate(y)],
  ]);
  const { challenge } = body.publicKey;
  const credential = newCredential({
    challenge,
    origin: frontend,
    rpId: new URL(frontend).hostname,
    publicKey,
  });
  return { challenge_id: body.challenge_id, credential };
}
const finishPasskey = (client: Client, body: object): Promise<Answer> =>
  client.post('/auth/webauthn/register/verify', body, home);

/** Begins to link the provider and gives the last step, to be taken later. */
async function begunLink(client: Client): Promise<() => Promise<Answer>> {
  const verifier = randomBytes(32).toString('base64url');
  const started = await client.post('/auth/sso/link', {
    provider_id: providerId,
    redirect_uri: redirectUri,
    client_challenge: createHash('sha256').update(verifier).digest('base64url'),
  });
  const { searchParams } = await honest.authorize(started.body.authorization_url, {
    sub: randomUUID(),
    email: 'thief@company.example',
    email_verified: true,
  });
  const body = {
    state: started.body.state,
    client_verifier: verifier,
    code: searchParams.get('code'),
    iss: searchParams.get('iss'),
  };
  return () => anyone().post('/auth/login/sso', body, home);
}

describe('what ends', () => {
  beforeEach(makeTenant);

  test('a reset ends sessions and API keys, whichever tenant they are for', async () => {
    const { client } = await signedIn();
    const key = await madeKey(client);
    expect(await readsConfig(key.client)).toBe('200');
    expect(outcome(await reset(await resetToken()))).toBe('204');
    expect(await readsConfig(key.client)).toBe('401 auth_api_key_invalid');
    expect(outcome(await client.get('/auth/me'))).toBe('401 auth_session_revoked');
    const again = await signedIn('viewer', newPassword);
    expect((await again.client.get('/auth/api-keys')).body.items).toEqual([]);
    const { id } = (await again.client.get('/auth/me')).body.user;
    const isOwn = ({ target }: { target: string | null }): boolean => target === id;
    expect(await audited(platform, 'auth.password_reset', isOwn)).toMatchObject({
      payload: { sessions_ended: 2, api_keys_ended: 1 },
    });
  });

  test('a change ends other sessions, and API keys where it is told to', async () => {
    const { client } = await signedIn();
    const key = await madeKey(client);
    const first = { current_password: memberPassword, new_password: newPassword };
    expect(outcome(await client.post('/auth/password/change', first))).toBe('204');
    expect(await readsConfig(key.client)).toBe('200');
    const second = {
      current_password: newPassword,
      new_password: 'another good one 42',
      end_api_keys: true,
    };
    expect(outcome(await client.post('/auth/password/change', second))).toBe('204');
    expect(await readsConfig(key.client)).toBe('401 auth_api_key_invalid');
    expect(outcome(await client.get('/auth/me'))).toBe('200');
    const unclear = { ...second, end_api_keys: 'yes' };
    expect(outcome(await client.post('/auth/password/change', unclear))).toBe(
      '422 validation_failed',
    );
  });

  test('a key that is being made while a reset ends the session is not made', async () => {
    const { client } = await signedIn();
    const token = await resetToken();
    const lock = await holdLock(
      database,
      'SELECT revision FROM strata.revisions WHERE scope = $1 FOR UPDATE',
      [authScope],
    );
    const ending = reset(token);
    await lock.untilWaiting(1);
    const making = client.post('/auth/api-key', { name: 'too late' });
    await lock.untilWaiting(2);
    await lock.release();
    expect([outcome(await ending), outcome(await making)]).toEqual([
      '204',
      '401 auth_session_revoked',
    ]);
    const again = await signedIn('viewer', newPassword);
    expect((await again.client.get('/auth/api-keys')).body.items).toEqual([]);
  });

  test('a request whose body comes after its right has ended does nothing', async () => {
    const { id } = (await tenant.viewer.get('/auth/me')).body.user;
    const member = `/tenants/${tenant.id}/users/${id}`;
    await tenant.admin.patch(member, { roles: ['operator'] });
    const approvals = `/tenants/${tenant.id}/approvals`;
    // From here on it is known from memory who calls.
    expect((await tenant.viewer.get(approvals)).status).toBe(200);
    const late = await sendAround(
      strata.url + approvals,
      {
        method: 'POST',
        headers: { authorization: `Bearer ${tenant.viewer.token}` },
        body: { action: 'scale', risk_level: 'high', title: 'Too late' },
      },
      () => tenant.admin.patch(member, { roles: ['viewer'] }),
    );
    expect([late.status, late.text]).toEqual([403, expect.stringContaining('insufficient_role')]);
    expect((await tenant.admin.get(approvals)).body.items).toEqual([]);
  });

  test('a passkey that is being added while a reset ends the session is not added', async () => {
    const { client } = await signedIn();
    const token = await resetToken();
    const passkey = await newPasskey(client);
    const lock = await holdLock(database, 'SELECT id FROM auth.users WHERE email = $1 FOR UPDATE', [
      tenant.emails.viewer,
    ]);
    const ending = reset(token);
    await lock.untilWaiting(1);
    const adding = finishPasskey(client, passkey);
    await lock.untilWaiting(2);
    await lock.release();
    expect([outcome(await ending), outcome(await adding)]).toEqual([
      '204',
      '401 auth_session_revoked',
    ]);
  });

  test('a link to a provider that was begun before a reset is not finished after it', async () => {
    const { client } = await signedIn();
    const finish = await begunLink(client);
    expect(outcome(await reset(await resetToken()))).toBe('204');
    expect(outcome(await finish())).toBe('401 auth_session_revoked');
  });
});

describe('a sign-in of more than ten minutes ago', () => {
  beforeAll(makeTenant);

  const unknown = randomUUID();
  const changes: readonly [string, (client: Client) => Promise<Answer>][] = [
    ['make an API key', (client) => client.post('/auth/api-key', { name: 'ci' })],
    ['rotate an API key', (client) => client.post(`/auth/api-keys/${unknown}/rotate`)],
    ['begin a passkey', (client) => client.post('/auth/webauthn/register/options', {})],
    ['add a passkey', (client) => client.post('/auth/webauthn/register/verify', {})],
    ['remove a passkey', (client) => client.delete(`/auth/webauthn/credentials/${unknown}`)],
    ['link a provider', (client) => client.post('/auth/sso/link', {})],
    ['end another session', (client) => client.delete(`/auth/sessions/${unknown}`)],
    ['end all sessions', (client) => client.post('/auth/logout', { all: true })],
  ];

  test.each(changes)('cannot %s', async (...[, change]) => {
    const { client } = await signedInLongAgo();
    expect(outcome(await change(client))).toBe('403 auth_reauth_required');
    expect(outcome(await client.get('/auth/me'))).toBe('200');
  });

  test('can still end its own session, revoke an API key, and look', async () => {
    const [old, other] = [await signedInLongAgo(), await signedInLongAgo()];
    const recent = await signedIn();
    const key = await madeKey(recent.client);
    for (const path of ['/auth/sessions', '/auth/api-keys', '/auth/webauthn/credentials'])
      expect(outcome(await old.client.get(path))).toBe('200');
    expect(outcome(await old.client.delete(`/auth/api-keys/${key.id}`))).toBe('204');
    expect(outcome(await old.client.delete(`/auth/sessions/${old.sessionId}`))).toBe('204');
    expect(outcome(await other.client.post('/auth/logout', { all: false }))).toBe('204');
    expect(outcome(await other.client.get('/auth/me'))).toBe('401 auth_session_revoked');
    expect(outcome(await recent.client.get('/auth/me'))).toBe('200');
  });

  test('a key never ends all sessions of its owner', async () => {
    const { client } = await signedIn();
    const made = await client.post('/auth/api-key', { name: 'self', scopes: ['auth:self'] });
    const key = new Client(strata.url, made.body.api_key);
    expect(outcome(await key.post('/auth/logout', { all: true }))).toBe('403 auth_reauth_required');
    expect(outcome(await client.get('/auth/me'))).toBe('200');
  });
});

describe('the owner gets a mail', () => {
  const shown = ({ mail }: ReceivedMail): string[] =>
    mail
      .text!.trim()
      .replaceAll(/\d{4}-\d\d-\d\d \d\d:\d\d/g, 'DATE')
      .split('\n');
  const advice =
    'If it was you, there is nothing to do. If not, reset your password, look through your sessions, passkeys and API keys, and tell your administrator:';
  const textOf = (what: string, network = '203.0.113.0/24'): string[] => [
    `${what}.`,
    '',
    'When: DATE UTC',
    `From the network: ${network}`,
    '',
    advice,
    '',
    frontend,
  ];

  test('of each change, with what, when and from which network', async () => {
    await makeTenant();
    const { client, sessionId: own } = await signedIn();
    const key = await madeKey(client);
    await noticesTo('viewer', 1);
    await client.post(`/auth/api-keys/${key.id}/rotate`, undefined, home);
    await noticesTo('viewer', 2);
    const passkey = await finishPasskey(client, await newPasskey(client));
    expect(outcome(passkey)).toBe('201');
    await noticesTo('viewer', 3);
    // By a password alone nobody removes it.
    await database.query(`UPDATE auth.sessions SET method = 'passkey' WHERE id = $1`, [own]);
    await client.delete(`/auth/webauthn/credentials/${passkey.body.id}`, home);
    await noticesTo('viewer', 4);
    const finishLink = await begunLink(client);
    expect(outcome(await finishLink())).toBe('200');
    await noticesTo('viewer', 5);
    const { sessionId } = await signedIn();
    await client.delete(`/auth/sessions/${sessionId}`, home);
    await noticesTo('viewer', 6);
    const change = { current_password: memberPassword, new_password: newPassword };
    await client.post('/auth/password/change', change, home);
    await noticesTo('viewer', 7);
    await client.post('/auth/logout', { all: true }, home);
    await reset(await resetToken());
    const mails = await noticesTo('viewer', 8);
    expect(mails.map(shown)).toEqual(
      [
        `An API key was made for your account: ${key.prefix}`,
        `An API key of your account has a new secret: ${key.prefix}`,
        'A passkey was added to your account',
        'A passkey was removed from your account',
        'A sign-in provider was linked with your account: Company & <Sons>',
        'Other sessions of your account were ended',
        'Your password was changed',
        'Your password was reset',
      ].map((what) => textOf(what)),
    );
    expect(mails[4]!.mail.html).toContain('Company &amp; &lt;Sons&gt;');
    for (const { raw } of mails) {
      expect(raw).not.toContain('203.0.113.77');
      for (const secret of [memberPassword, newPassword]) expect(raw).not.toContain(secret);
    }
    const links = mails.flatMap(({ mail }) => [...mail.html!.matchAll(/href="([^"]*)"/g)]);
    expect(new Set(links.map(([, link]) => link))).toEqual(new Set([frontend]));
  });

  test('also where all sessions are ended; none where only the own one is', async () => {
    await makeTenant();
    const [first, second] = [await signedIn(), await signedIn()];
    await first.client.delete(`/auth/sessions/${first.sessionId}`);
    await second.client.post('/auth/logout', { all: true }, home);
    const mails = await noticesTo('viewer', 1);
    expect(mails.map(({ mail }) => mail.subject)).toEqual([
      'Other sessions of your account were ended',
    ]);
  });

  test.each([
    ['203.0.113.77', '203.0.113.0/24'],
    ['::ffff:203.0.113.77', '203.0.113.0/24'],
    ['2001:db8:1234:5678::1', '2001:db8:1234::/48'],
    ['nonsense', 'unknown'],
    [undefined, 'unknown'],
  ])('the network of %s is shown as %s', (ip, network) => {
    expect(shownNetworkOf(ip)).toBe(network);
  });

  test('nothing in it is markup, or a header', () => {
    const mail = accountNoticeMail(
      'a@example.com',
      { kind: 'provider_linked', which: '<a href="https://evil.example">' },
      { at: new Date(0), ip: undefined, frontendOrigin: frontend },
    );
    expect(mail.html).not.toContain('<a href="https://evil');
    expect(mail.subject).toBe('A sign-in provider was linked with your account');
  });
});

test('an account has so many passkeys and links to providers', async () => {
  await makeTenant();
  const { client, sessionId } = await signedIn();
  await database.query(`UPDATE auth.sessions SET method = 'passkey' WHERE id = $1`, [sessionId]);
  const { id } = (await client.get('/auth/me')).body.user;
  await database.query(
    `INSERT INTO auth.passkeys (id, user_id, credential_id, public_key, counter, aaguid, transports, backup_eligible, backed_up, created_at)
     SELECT gen_random_uuid(), $1::uuid, $1::uuid::text || n, '', 0, gen_random_uuid(), '{}', false, false, now() FROM generate_series(1, 19) n`,
    [id],
  );
  const add = async (): Promise<Answer> => finishPasskey(client, await newPasskey(client));
  expect(outcome(await add())).toBe('201');
  const refused = await add();
  expect([outcome(refused), refused.body.detail.message]).toEqual([
    '409 conflict',
    expect.stringContaining('(PASSKEYS_PER_PERSON)'),
  ]);

  await database.query(
    `INSERT INTO auth.sso_identities (issuer, subject, user_id, created_at)
     SELECT 'https://id.example', $1::uuid::text || n, $1::uuid, now() FROM generate_series(1, 20) n`,
    [id],
  );
  const link = await begunLink(client);
  const notLinked = await link();
  expect([outcome(notLinked), notLinked.body.detail.message]).toEqual([
    '409 conflict',
    expect.stringContaining('(PROVIDER_LINKS_PER_PERSON)'),
  ]);
});
