/**
 * Passkeys with a real browser: the ceremonies as people go through them, and each one tampered
 * with.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import jwt from 'jsonwebtoken';
import { generateKeyPairSync, randomBytes, randomUUID } from 'node:crypto';
import type { Browser } from 'playwright-core';
import {
  assertion,
  Device,
  flags,
  openBrowser,
  startSite,
  unknownId,
  type Assertion,
  type Site,
} from '../support/browser.ts';
import { audited, auditEvents, type AuditEvent } from '../support/audit.ts';
import { eventually } from '../support/cluster.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import { startRedis, type Process } from '../support/servers.ts';
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
let redis: Process;
let site: Site;
let elsewhere: Site;
let browser: Browser;
let strata: Running;
let platform: Client;
let tenant: TenantFixture;
let anyone: Client;

beforeAll(async () => {
  [database, redis, site, elsewhere, browser] = await Promise.all([
    strataDatabase(),
    startRedis(),
    startSite(),
    startSite(),
    openBrowser(),
  ]);
  strata = await startStrata({
    DATABASE_URL: database.url,
    REDIS_URL: redis.url,
    FRONTEND_ORIGIN: site.origin,
    CORS_ORIGINS: `${site.origin},${elsewhere.origin}`,
    NETWORK_RATE_LIMIT_PER_MINUTE: '1000',
  });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, 'Passkeys');
  anyone = new Client(strata.url);
});
afterAll(async () => {
  await browser?.close();
  await Promise.all([strata?.stop(), site?.stop(), elsewhere?.stop()]);
  await redis?.stop();
  await database?.drop();
});

interface Ceremony {
  readonly id: string;
  /** Options for the browser. */
  readonly publicKey: Record<string, unknown> & { readonly challenge: string };
}
async function begin(client: Client, ceremony: 'login' | 'register', body: object) {
  const answer = await client.post(`/auth/webauthn/${ceremony}/options`, body);
  const { challenge_id: id, publicKey } = answer.body;
  return { id, publicKey } as Ceremony;
}
const beginLogin = (body: object = {}): Promise<Ceremony> => begin(anyone, 'login', body);
const finishLogin = (id: string, credential: unknown, more: object = {}): Promise<Answer> =>
  anyone.post('/auth/webauthn/login/verify', { challenge_id: id, credential, ...more });
const beginAdding = (client: Client): Promise<Ceremony> => begin(client, 'register', {});
const finishAdding = (client: Client, id: string, credential: unknown): Promise<Answer> =>
  client.post('/auth/webauthn/register/verify', { challenge_id: id, credential });
const outcome = ({ status, body }: Pick<Answer, 'status' | 'body'>): [number, string] => [
  status,
  body.detail?.code ?? 'ok',
];
const refused = [401, 'auth_webauthn_verification_failed'];
const stale = [401, 'auth_webauthn_challenge_invalid'];

/**
 * A member who has signed in just now, and as strongly as adding a further passkey wants it: tests
 * enrol many for one account.
 */
async function signInAs(role: string): Promise<Client> {
  const client = await signIn(strata.url, tenant.emails[role]!, memberPassword);
  const { sid } = jwt.decode(client.token!) as { sid: string };
  await database.query(`UPDATE auth.sessions SET method = 'passkey' WHERE id = $1`, [sid]);
  return client;
}
const events = (action: string): Promise<AuditEvent[]> => auditEvents(platform, action);
const payloadsOf = async (action: string): Promise<unknown[]> =>
  (await events(action)).map(({ payload }) => payload);

/** A member with a passkey on a device of its own. */
async function enrol(role: string, options: { synchronized?: boolean } = {}) {
  const client = await signInAs(role);
  const device = await Device.open(browser, site.origin, options);
  const added = await device.call<Pick<Answer, 'status' | 'body'>>(
    'register',
    strata.url,
    client.token,
    `${role}'s laptop`,
  );
  if (added.status !== 201) throw new Error(`no passkey: ${JSON.stringify(added.body)}`);
  return { client, device, passkey: added.body };
}

describe('in the browser', () => {
  test('a passkey is added, signs in without a name typed, is listed and removed', async () => {
    const { client, device, passkey } = await enrol('tenant_admin');
    expect(passkey).toEqual({
      id: expect.any(String),
      name: "tenant_admin's laptop",
      aaguid: expect.any(String),
      transports: ['internal'],
      backup_eligible: false,
      backed_up: false,
      created_at: expect.any(String),
      last_used_at: null,
    });

    const { status, body } = await device.call<Answer>('signIn', strata.url);
    expect(status).toBe(200);
    expect(body).toMatchObject({
      token_type: 'Bearer',
      user: { email: tenant.emails.tenant_admin },
      tenant: { id: tenant.id, roles: ['tenant_admin'] },
    });
    const signedIn = new Client(strata.url, body.access_token);
    expect((await signedIn.get(`/tenants/${tenant.id}/config/risk`)).status).toBe(200);
    expect((await anyone.post('/auth/refresh', { refresh_token: body.refresh_token })).status).toBe(
      200,
    );

    const listed = await client.get('/auth/webauthn/credentials');
    expect(listed.body).toEqual({
      items: [{ ...passkey, last_used_at: expect.any(String) }],
      next_cursor: null,
    });
    expect((await tenant.viewer.get('/auth/webauthn/credentials')).body.items).toEqual([]);
    expect((await tenant.viewer.delete(`/auth/webauthn/credentials/${passkey.id}`)).status).toBe(
      404,
    );
    expect((await signedIn.delete(`/auth/webauthn/credentials/${passkey.id}`)).status).toBe(204);
    expect((await signedIn.get('/auth/webauthn/credentials')).body.items).toEqual([]);
    expect(outcome(await device.call('signIn', strata.url))).toEqual(refused);

    await eventually(async () => {
      for (const action of ['auth.passkey_registered', 'auth.passkey_removed']) {
        expect(await events(action)).toEqual([
          expect.objectContaining({
            target: body.user.id,
            payload: expect.objectContaining({ passkey_id: passkey.id }),
          }),
        ]);
      }
      expect(await payloadsOf('auth.login_succeeded')).toContainEqual({
        method: 'passkey',
        session_id: body.session_id,
      });
    });
  });

  test('an authenticator is added once; a passkey belongs to one account', async () => {
    const { client, device } = await enrol('operator');
    await expect(device.call('register', strata.url, client.token)).rejects.toThrow(
      'InvalidStateError',
    );
    const { id, publicKey } = await beginAdding(client);
    const another = await Device.open(browser, site.origin);
    const made = await another.call<{ id: string }>('create', publicKey);
    await database.query(
      `INSERT INTO auth.passkeys SELECT gen_random_uuid(), gen_random_uuid(), $1, public_key, 0, name, aaguid, transports, false, false, now(), NULL
       FROM auth.passkeys LIMIT 1`,
      [made.id],
    );
    expect(outcome(await finishAdding(client, id, made))).toEqual([409, 'conflict']);
  });

  test('a page of another origin gets nowhere, whichever ceremony', async () => {
    const { client, device } = await enrol('operator');
    await device.page.goto(elsewhere.origin);
    expect(outcome(await device.call('signIn', strata.url))).toEqual(refused);
    const phished = await Device.open(browser, elsewhere.origin);
    expect(outcome(await phished.call('register', strata.url, client.token))).toEqual(refused);
  });

  test('an authenticator that does not verify its user is refused', async () => {
    const client = await signInAs('operator');
    const device = await Device.open(browser, site.origin, { verifies: false });
    await expect(device.call('register', strata.url, client.token)).rejects.toThrow(
      'NotAllowedError',
    );
    const { id, publicKey } = await beginAdding(client);
    const made = await device.call('create', {
      ...publicKey,
      authenticatorSelection: { residentKey: 'discouraged', userVerification: 'discouraged' },
    });
    expect(outcome(await finishAdding(client, id, made))).toEqual(refused);
  });
});

describe('whoever knows the password alone', () => {
  const needsStronger = [403, 'auth_stronger_sign_in_required'];
  const fresh = async (): Promise<Client> => {
    const email = `${randomUUID()}@passkeys.example`;
    return (await addMember(tenant.admin, tenant.id, { email, roles: ['operator'] })).client;
  };

  test('adds the first passkey, and neither a second nor removes the first', async () => {
    const client = await fresh();
    const device = await Device.open(browser, site.origin);
    const added = await device.call<Answer>('register', strata.url, client.token);
    expect(added.status).toBe(201);
    const own = `/auth/webauthn/credentials/${added.body.id}`;
    expect(outcome(await client.post('/auth/webauthn/register/options', {}))).toEqual(
      needsStronger,
    );
    expect(outcome(await client.delete(own))).toEqual(needsStronger);

    const { body } = await device.call<Answer>('signIn', strata.url);
    const strong = new Client(strata.url, body.access_token);
    expect((await strong.post('/auth/webauthn/register/options', {})).status).toBe(200);
    expect((await strong.delete(own)).status).toBe(204);
  });

  test('two of them at once add one', async () => {
    const client = await fresh();
    const begun = [await beginAdding(client), await beginAdding(client)];
    const made: unknown[] = [];
    for (const { publicKey } of begun) {
      const device = await Device.open(browser, site.origin);
      made.push(await device.call('create', publicKey));
    }
    const added = await Promise.all(
      begun.map(({ id }, index) => finishAdding(client, id, made[index])),
    );
    expect(added.map(({ status }) => status).sort()).toEqual([201, 403]);
  });

  test('is helped by an administrator, who ends all that the account is entered with', async () => {
    const client = await fresh();
    const device = await Device.open(browser, site.origin);
    expect((await device.call<Answer>('register', strata.url, client.token)).status).toBe(201);
    const { body: me } = await client.get('/auth/me');
    const path = `/auth/users/${me.user.id}/recover`;
    expect(outcome(await tenant.admin.post(path, {}))).toEqual([403, 'insufficient_role']);
    expect((await platform.post(path)).status).toBe(204);
    expect((await client.get('/auth/me')).status).toBe(401);
    expect(outcome(await device.call('signIn', strata.url))).toEqual(refused);
    await eventually(async () =>
      expect(await events('auth.user_recovered')).toContainEqual(
        expect.objectContaining({
          target: me.user.id,
          payload: expect.objectContaining({ ended: expect.objectContaining({ passkeys: 1 }) }),
        }),
      ),
    );
  });
});

describe('an assertion that the right key has signed', () => {
  let sound: Omit<Assertion, 'challenge' | 'counter'>;
  let last: number;
  beforeAll(async () => {
    const { device } = await enrol('viewer');
    const { counter, ...stolen } = await device.steal();
    sound = {
      ...stolen,
      origin: site.origin,
      rpId: 'localhost',
      type: 'webauthn.get',
      flags: flags.present | flags.verified,
    };
    last = counter;
  });
  /** The assertion that the authenticator would make next for this challenge. */
  function nextAssertion(challenge: string, change: Partial<Assertion> = {}) {
    last += 1;
    return assertion({ ...sound, challenge, counter: last, ...change });
  }
  async function present(change: Partial<Assertion> = {}, begun?: Ceremony): Promise<Answer> {
    const { id, publicKey } = begun ?? (await beginLogin());
    return finishLogin(id, nextAssertion(publicKey.challenge, change));
  }
  const tamperings: readonly [string, () => Partial<Assertion>][] = [
    ['of another origin', () => ({ origin: elsewhere.origin })],
    ['of the same host over https', () => ({ origin: site.origin.replace('http:', 'https:') })],
    ['for another RP id', () => ({ rpId: 'example.com' })],
    ['for another challenge', () => ({ challenge: randomBytes(32).toString('base64url') })],
    ['of a registration', () => ({ type: 'webauthn.create' })],
    ['in a frame of another site', () => ({ crossOrigin: true })],
    ['without user verification', () => ({ flags: flags.present })],
    ['without anyone present', () => ({ flags: flags.verified })],
    ['from a key said to be synchronized', () => ({ flags: sound.flags | flags.backupEligible })],
    ['by a credential that is unknown', () => ({ id: unknownId() })],
    [
      'in the name of another user',
      () => ({ userHandle: Buffer.from(randomUUID()).toString('base64url') }),
    ],
    ['of no sense at all', () => ({ rpId: '', flags: 0xff })],
    ['by another key', () => ({ key: generateKeyPairSync('ed25519').privateKey })],
  ];

  test('signs in while it is sound', async () => {
    expect(outcome(await present())).toEqual([200, 'ok']);
  });

  test.each(tamperings)('is refused where it is %s', async (...[, change]) => {
    expect(outcome(await present(change()))).toEqual(refused);
    expect(outcome(await present())).toEqual([200, 'ok']);
  });

  test('is audited where it is refused, unless no one has such a passkey', async () => {
    const unknown = await present({ id: unknownId() });
    const tampered = await present({ origin: elsewhere.origin });
    const requestOf = ({ headers }: Answer) => headers.get('x-request-id');
    const recorded = await audited(
      platform,
      'auth.login_failed',
      (event) => event.request_id === requestOf(tampered),
    );
    expect(recorded).toMatchObject({ target: expect.any(String), payload: { method: 'passkey' } });
    const all = await events('auth.login_failed');
    expect(all.map((event) => event.request_id)).not.toContain(requestOf(unknown));
  });

  test('is refused, and audited, where its counter goes back or stands still', async () => {
    expect(outcome(await present())).toEqual([200, 'ok']);
    const stored = last;
    for (const presented of [stored, stored - 1, 0])
      expect(outcome(await present({ counter: presented }))).toEqual(refused);
    await eventually(async () =>
      expect(await payloadsOf('auth.passkey_counter_regressed')).toEqual(
        [stored, stored - 1, 0].map((presented) => ({
          passkey_id: expect.any(String),
          stored,
          presented,
          refused: true,
        })),
      ),
    );
    expect(outcome(await present())).toEqual([200, 'ok']);
  });

  test('is taken once', async () => {
    const { id, publicKey } = await beginLogin();
    const credential = nextAssertion(publicKey.challenge);
    const answers = await Promise.all(Array.from({ length: 5 }, () => finishLogin(id, credential)));
    expect(answers.map(outcome).sort()).toEqual([[200, 'ok'], stale, stale, stale, stale]);
    expect(outcome(await finishLogin(id, credential))).toEqual(stale);
  });

  test('is not tried again where it was wrong once', async () => {
    const begun = await beginLogin();
    expect(outcome(await present({ rpId: 'example.com' }, begun))).toEqual(refused);
    expect(outcome(await present({}, begun))).toEqual(stale);
  });

  test('answers only a challenge of a sign-in that was begun within five minutes', async () => {
    const unknown = { ...(await beginLogin()), id: randomUUID() };
    expect(outcome(await present({}, unknown))).toEqual(stale);
    const ofAdding = await beginAdding(await signInAs('viewer'));
    expect(outcome(await present({}, ofAdding))).toEqual(stale);
    const begun = await beginLogin();
    const connection = new Redis(redis.url);
    try {
      const key = `strata:webauthn:login:${begun.id}`;
      const left = await connection.ttl(key);
      expect(left).toBeGreaterThan(200);
      expect(left).toBeLessThanOrEqual(300);
      await connection.expire(key, 0);
    } finally {
      connection.disconnect();
    }
    expect(outcome(await present({}, begun))).toEqual(stale);
  });

  test('is for whom the challenge was asked, if for anyone', async () => {
    const presentFor = async (email: string) =>
      outcome(await present({}, await beginLogin({ email })));
    expect(await presentFor(tenant.emails.operator!)).toEqual(refused);
    expect(await presentFor('nobody@nowhere.example')).toEqual(refused);
    expect(await presentFor(tenant.emails.viewer!.toUpperCase())).toEqual([200, 'ok']);
  });

  test('enters the tenant asked for, and only as a member', async () => {
    const enter = async (tenantId: string): Promise<Answer> => {
      const { id, publicKey } = await beginLogin();
      return finishLogin(id, nextAssertion(publicKey.challenge), { tenant_id: tenantId });
    };
    expect((await enter(tenant.id)).body.tenant.id).toBe(tenant.id);
    expect(outcome(await enter(randomUUID()))).toEqual([403, 'auth_no_tenant_membership']);
  });

  test('does not tell a disabled account from an unknown passkey', async () => {
    const setStatus = (value: string) =>
      database.query('UPDATE auth.users SET status = $1 WHERE email = $2', [
        value,
        tenant.emails.viewer,
      ]);
    await setStatus('disabled');
    const [disabled, unknown] = [await present(), await present({ id: unknownId() })];
    await setStatus('active');
    expect(outcome(disabled)).toEqual(refused);
    expect(disabled.body.detail).toEqual(unknown.body.detail);
  });

  test('meets a database failure with its own code', async () => {
    await database.query('ALTER TABLE auth.passkeys RENAME TO gone');
    const answer = await present();
    await database.query('ALTER TABLE auth.gone RENAME TO passkeys');
    expect([...outcome(answer), answer.headers.get('retry-after')]).toEqual([
      503,
      'auth_webauthn_db_error',
      '2',
    ]);
  });
});

test('a synchronized passkey whose counter does not rise signs in, audited', async () => {
  const { device, passkey } = await enrol('operator', { synchronized: true });
  expect(passkey).toMatchObject({ backup_eligible: true, backed_up: true });
  const { counter, ...stolen } = await device.steal();
  const { id, publicKey } = await beginLogin();
  await database.query('UPDATE auth.passkeys SET counter = 1000 WHERE id = $1', [passkey.id]);
  const answer = await finishLogin(
    id,
    assertion({
      ...stolen,
      challenge: publicKey.challenge,
      origin: site.origin,
      rpId: 'localhost',
      type: 'webauthn.get',
      counter: counter + 1,
      flags: flags.present | flags.verified | flags.backupEligible | flags.backedUp,
    }),
  );
  expect(answer.status).toBe(200);
  await eventually(async () =>
    expect(await payloadsOf('auth.passkey_counter_regressed')).toContainEqual({
      passkey_id: passkey.id,
      stored: 1000,
      presented: counter + 1,
      refused: false,
    }),
  );
});

test('beginning to sign in says nothing about whether an address has an account', async () => {
  await enrol('operator');
  const bodies = [{}, { email: tenant.emails.operator }, { email: 'nobody@nowhere.example' }];
  const answers = await Promise.all(
    bodies.map((body) => anyone.post('/auth/webauthn/login/options', body)),
  );
  for (const { status, body } of answers) {
    expect(status).toBe(200);
    expect(body).toEqual({
      challenge_id: expect.any(String),
      expires_in: 300,
      publicKey: {
        challenge: expect.any(String),
        rpId: 'localhost',
        allowCredentials: [],
        timeout: 300_000,
        userVerification: 'required',
        extensions: {},
      },
    });
    expect(Buffer.from(body.publicKey.challenge, 'base64url')).toHaveLength(32);
  }
  expect(new Set(answers.map(({ body }) => body.publicKey.challenge)).size).toBe(3);
});

describe('adding a passkey', () => {
  test('asks for one that needs no user name and verifies its user', async () => {
    const { publicKey } = await beginAdding(await signInAs('viewer'));
    expect(publicKey).toMatchObject({
      rp: { id: 'localhost' },
      attestation: 'none',
      authenticatorSelection: {
        residentKey: 'required',
        requireResidentKey: true,
        userVerification: 'required',
      },
    });
    expect(Buffer.from(publicKey.challenge, 'base64url')).toHaveLength(32);
  });

  test('wants a sign-in of the last ten minutes', async () => {
    const { body } = await anyone.post('/auth/login', {
      email: tenant.emails.viewer,
      password: memberPassword,
    });
    await database.query(
      `UPDATE auth.sessions SET authenticated_at = now() - interval '10 minutes 1 second' WHERE id = $1`,
      [body.session_id],
    );
    const old = new Client(strata.url, body.access_token);
    expect(outcome(await old.post('/auth/webauthn/register/options', {}))).toEqual([
      403,
      'auth_reauth_required',
    ]);
    expect(outcome(await old.post('/auth/webauthn/register/verify', {}))).toEqual([
      403,
      'auth_reauth_required',
    ]);
    expect((await old.get('/auth/webauthn/credentials')).status).toBe(200);
    // A new token is no new sign-in.
    const { body: refreshed } = await anyone.post('/auth/refresh', {
      refresh_token: body.refresh_token,
    });
    const continued = new Client(strata.url, refreshed.access_token);
    expect(outcome(await continued.post('/auth/webauthn/register/options', {}))).toEqual([
      403,
      'auth_reauth_required',
    ]);
  });

  interface MadeCredential {
    readonly response: { readonly attestationObject: string; readonly clientDataJSON: string };
  }
  /** What a new device makes of these options. */
  async function make({ publicKey }: Ceremony, change: object = {}): Promise<MadeCredential> {
    const device = await Device.open(browser, site.origin);
    return device.call('create', { ...publicKey, ...change });
  }

  test('takes its own challenge, once, from the user who asked', async () => {
    const [mine, theirs] = [await signInAs('viewer'), await signInAs('operator')];
    const begun = await beginAdding(mine);
    const credential = await make(begun);
    expect(outcome(await finishAdding(theirs, begun.id, credential))).toEqual(stale);
    expect((await finishAdding(mine, begun.id, credential)).status).toBe(201);
    expect(outcome(await finishAdding(mine, begun.id, credential))).toEqual(stale);
    const ofLogin = await beginLogin();
    expect(outcome(await finishAdding(mine, ofLogin.id, credential))).toEqual(stale);

    const another = await beginAdding(mine);
    const withOldChallenge = await make(another, { challenge: begun.publicKey.challenge });
    expect(outcome(await finishAdding(mine, another.id, withOldChallenge))).toEqual(refused);
  });

  test('takes a credential only under its own id', async () => {
    const mine = await signInAs('viewer');
    const begun = await beginAdding(mine);
    const id = unknownId();
    const renamed = { ...(await make(begun)), id, rawId: id };
    expect(outcome(await finishAdding(mine, begun.id, renamed))).toEqual(refused);
  });

  test('takes none that was made in a frame of another site', async () => {
    const mine = await signInAs('viewer');
    const begun = await beginAdding(mine);
    const { response, ...rest } = await make(begun);
    const said = Buffer.from(response.clientDataJSON, 'base64url').toString();
    const framed = said.replace('"crossOrigin":false', '"crossOrigin":true');
    expect(framed).not.toBe(said);
    const clientDataJSON = Buffer.from(framed).toString('base64url');
    const answer = await finishAdding(mine, begun.id, {
      ...rest,
      response: { ...response, clientDataJSON },
    });
    expect(outcome(answer)).toEqual(refused);
  });

  test('takes no attestation of a form that it did not ask for', async () => {
    const mine = await signInAs('viewer');
    const begun = await beginAdding(mine);
    const { response, ...rest } = await make(begun);
    const cbor = Buffer.from(response.attestationObject, 'base64url').toString('latin1');
    // CBOR text: its length, then its characters.
    expect(cbor).toContain('\x64none');
    const ofTpm = Buffer.from(cbor.replace('\x64none', '\x63tpm'), 'latin1');
    const attestationObject = ofTpm.toString('base64url');
    const foreign = { ...rest, response: { ...response, attestationObject } };
    expect(outcome(await finishAdding(mine, begun.id, foreign))).toEqual(refused);
    await eventually(async () =>
      expect(strata.output().includes('attestation of the format tpm')).toBe(true),
    );
  });
});
