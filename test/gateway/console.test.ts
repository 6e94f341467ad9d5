/**
 * The console over HTTP: its page and files, and the session whose refresh token no script sees.
 * What browsers make of it: `test/browser`.
 */
import { beforeAll, describe, expect, test } from '@jest/globals';
import got from 'got';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { invitationToken } from '../support/mailboxes.ts';
import { sharedStrata, type SharedStrata } from '../support/shared-strata.ts';
import {
  addMember,
  adminPassword,
  Client,
  createTenant,
  memberPassword,
  signIn,
  type Answer,
  type TenantFixture,
} from '../support/strata.ts';

let strata: SharedStrata;
let platform: Client;
let tenant: TenantFixture;
let anyone: Client;
/** Of the port that the tests' Strata is on. */
let cookieName: string;

beforeAll(async () => {
  strata = await sharedStrata();
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, 'Console');
  anyone = new Client(strata.url);
  cookieName = `__Host-strata-${new URL(strata.url).port}`;
});

const asPage = { 'sec-fetch-site': 'same-origin' };
const session = '/console/session';
const credentials = (email = tenant.emails.tenant_admin!) => ({ email, password: memberPassword });

/**
 * The cookie that an answer sets, as a browser would send it back; undefined where it sets none.
 */
function cookieOf({ headers }: Answer): string | undefined {
  const [cookie] = headers.getSetCookie();
  return cookie?.split(';')[0];
}
const refresh = (cookie: string | undefined, body: object = {}, headers: object = asPage) =>
  anyone.post(`${session}/refresh`, body, { ...headers, ...(cookie && { cookie }) });

describe('its files', () => {
  const pageAt = (path: string): Promise<Answer> => anyone.get(path, { accept: 'text/html' });

  test('whoever types the name of the host in a browser comes to the console, programs learn that there is nothing', async () => {
    const answer = await fetch(strata.url, {
      headers: { accept: 'text/html' },
      redirect: 'manual',
    });
    expect([answer.status, answer.headers.get('location')]).toEqual([303, '/console']);
    const asked = await anyone.get('/', { accept: 'application/json' });
    expect([asked.status, asked.body.detail.code]).toEqual([404, 'not_found']);
  });

  test('every address of the console is the page, whose policy allows nothing from elsewhere and nothing inline', async () => {
    const page = await pageAt('/console');
    const deep = await pageAt(`/console/tenants/${tenant.id}/effective?agent_type=x`);
    expect([page.status, page.headers.get('content-type')]).toEqual([
      200,
      'text/html; charset=utf-8',
    ]);
    expect([deep.status, deep.text]).toEqual([200, page.text]);
    expect(page.headers.get('content-security-policy')?.split('; ')).toEqual([
      "default-src 'none'",
      "script-src 'self'",
      "style-src 'self'",
      "img-src 'self'",
      "connect-src 'self'",
      "form-action 'none'",
      "base-uri 'none'",
      "frame-ancestors 'none'",
      "require-trusted-types-for 'script'",
      "trusted-types 'none'",
    ]);
    expect(page.headers.get('cache-control')).toBe('no-cache');
    expect(page.headers.get('x-content-type-options')).toBe('nosniff');
  });

  test('what the page names is there, kept for good, as JavaScript without types', async () => {
    const { text } = await pageAt('/console');
    const named = [...text.matchAll(/(?:href|src)="([^"]+)"/g)].map(([, path]) => path!);
    expect(named).toHaveLength(3);
    for (const path of new Set(named)) {
      const { status, headers, text: file } = await anyone.get(path);
      expect([path, status]).toEqual([path, 200]);
      expect(headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
      if (path.endsWith('.js'))
        expect(headers.get('content-type')).toBe('text/javascript; charset=utf-8');
      // The icons of the styles are files: the policy knows no data: addresses.
      if (path.endsWith('.css')) expect(file).not.toContain('url("data:');
    }
    const style = named.find((path) => path.endsWith('.css'))!;
    const { text: styles } = await anyone.get(style);
    const icons = [...styles.matchAll(/url\("?([^")]*)"?\)/g)].map(([, name]) => name!);
    expect(icons.length).toBeGreaterThan(5);
    for (const name of icons) {
      const { headers, text: icon } = await anyone.get(style.replace(/[^/]+$/, name));
      expect(headers.get('content-type')).toBe('image/svg+xml');
      expect(icon).toMatch(/^<svg .*<\/svg>$/s);
    }
    expect((await anyone.get('/console/a/main-00000000.js')).status).toBe(404);
    expect((await anyone.get(named[1]!.replace(/[^/]+$/, '..%2f..%2fpackage.json'))).status).toBe(
      404,
    );
  });

  test('the whole is small, compressed as the browser asks', async () => {
    const { text } = await pageAt('/console');
    const paths = new Set([...text.matchAll(/(?:href|src)="([^"]+)"/g)].map(([, path]) => path!));
    let bytes = 0;
    for (const path of ['/console', ...paths]) {
      const get = async (coding: string): Promise<Buffer> => {
        // Not fetch, which takes the coding off.
        const answer = got(strata.url + path, {
          decompress: false,
          headers: { 'accept-encoding': coding },
        });
        return answer.buffer();
      };
      const [plain, gzip, brotli] = await Promise.all(['identity', 'gzip', 'gzip, br'].map(get));
      expect(gunzipSync(gzip!).equals(plain!)).toBe(true);
      expect(brotliDecompressSync(brotli!).equals(plain!)).toBe(true);
      bytes += brotli!.length;
    }
    expect(bytes).toBeLessThan(150_000);
  });

  test('a page takes GET alone', async () => {
    const answer = await anyone.post('/console/tenants');
    expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'GET']);
    expect((await anyone.get(session)).headers.get('allow')).toBe('POST, DELETE');
  });
});

test('the names to ask for are there for every role, those of the own tenant alone', async () => {
  const other = await createTenant(strata.url, platform, 'Console contexts');
  for (const { admin, id, name } of [
    { ...tenant, name: 'own' },
    { ...other, name: 'foreign' },
  ]) {
    await admin.put(`/tenants/${id}/config/agents/${name}`, {});
    await admin.put(`/tenants/${id}/services/${name}`, { service_type: 'cloud_run' });
  }
  const named = { service_type: 'cloud_sql', service_name: 'Orders' };
  await tenant.admin.put(`/tenants/${tenant.id}/services/orders`, named);
  for (const client of [tenant.admin, tenant.operator, tenant.viewer]) {
    const { status, body } = await client.get(`/tenants/${tenant.id}/contexts`);
    expect([status, body]).toEqual([
      200,
      {
        agent_types: ['own'],
        services: [
          { service_id: 'orders', ...named },
          { service_id: 'own', service_name: null, service_type: 'cloud_run' },
        ],
        service_types: expect.arrayContaining(['cloud_run', 'cloud_sql']),
        complete: true,
      },
    ]);
  }
});

describe('its session', () => {
  test('signing in gives everything but the refresh token, which is in a cookie for this origin alone', async () => {
    const answer = await anyone.post(session, credentials(), asPage);
    expect(answer.status).toBe(200);
    expect(answer.headers.get('cache-control')).toBe('no-store');
    expect(answer.body).toMatchObject({ tenant: { id: tenant.id }, token_type: 'Bearer' });
    expect(answer.body).not.toHaveProperty('refresh_token');
    const [cookie, ...others] = answer.headers.getSetCookie();
    expect(others).toEqual([]);
    const [pair, ...attributes] = cookie!.split('; ');
    expect(pair).toMatch(new RegExp(`^${cookieName}=[\\w-]{40,}$`));
    expect(attributes).toEqual([
      'Path=/',
      `Max-Age=${answer.body.refresh_expires_in}`,
      'HttpOnly',
      'Secure',
      'SameSite=Strict',
    ]);
    expect(answer.text).not.toContain(pair!.split('=')[1]);
    expect((await new Client(strata.url, answer.body.access_token).get('/auth/me')).status).toBe(
      200,
    );
  });

  test.each([
    ['strata.example', '__Host-strata'],
    ['strata.example:443', '__Host-strata'],
    ['strata.example:8443', '__Host-strata-8443'],
    ['[::1]:9090', '__Host-strata-9090'],
  ])('at %s the cookie is %s', async (host, name) => {
    const answer = await got.post(strata.url + session, { json: credentials(), headers: { host } });
    expect(answer.headers['set-cookie']![0]).toMatch(new RegExp(`^${name}=`));
  });

  test('the cookie continues in the session, and is a new one each time', async () => {
    const signedIn = await anyone.post(session, credentials(), asPage);
    const renewed = await refresh(cookieOf(signedIn));
    expect(renewed.status).toBe(200);
    expect(renewed.body.session_id).toBe(signedIn.body.session_id);
    expect(renewed.body).not.toHaveProperty('refresh_token');
    expect(cookieOf(renewed)).not.toBe(cookieOf(signedIn));
    expect((await refresh(cookieOf(renewed))).status).toBe(200);
  });

  test('two tabs that refresh at once stay signed in', async () => {
    const cookie = cookieOf(await anyone.post(session, credentials(), asPage));
    const tabs = await Promise.all(Array.from({ length: 4 }, () => refresh(cookie)));
    expect(tabs.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    expect(new Set(tabs.map(cookieOf)).size).toBe(1);
    expect((await refresh(cookieOf(tabs[0]!))).status).toBe(200);
  });

  test.each([
    ['no Sec-Fetch-Site', {}],
    ['a page of another port', { 'sec-fetch-site': 'same-site' }],
    ['a page of elsewhere', { 'sec-fetch-site': 'cross-site' }],
    ['an address that somebody typed', { 'sec-fetch-site': 'none' }],
  ])('a refresh with %s is refused, and the cookie stays good', async (_what, headers) => {
    const cookie = cookieOf(await anyone.post(session, credentials(), asPage));
    const answer = await refresh(cookie, {}, headers);
    expect([answer.status, answer.body.detail.code]).toEqual([403, 'auth_cross_site_request']);
    expect(answer.headers.getSetCookie()).toEqual([]);
    expect((await refresh(cookie)).status).toBe(200);
  });

  test.each(['same-site', 'cross-site'])(
    'no one is signed in or out from a page that is %s',
    async (site) => {
      const cookie = cookieOf(await anyone.post(session, credentials(), asPage))!;
      const headers = { 'sec-fetch-site': site };
      expect((await anyone.post(session, credentials(), headers)).status).toBe(403);
      expect((await anyone.delete(session, { ...headers, cookie })).status).toBe(403);
      expect((await refresh(cookie)).status).toBe(200);
    },
  );

  test('without a cookie there is nothing to continue with, and nothing wrong', async () => {
    const answer = await refresh(undefined);
    expect([answer.status, answer.text]).toEqual([204, '']);
    const other = await refresh(`__Host-strata=abc; ${cookieName}x=abc`);
    expect(other.status).toBe(204);
  });

  test('a cookie that is invalid is refused and dropped', async () => {
    const answer = await refresh(`${cookieName}=${'x'.repeat(43)}`);
    expect([answer.status, answer.body.detail.code]).toEqual([401, 'auth_refresh_invalid']);
    expect(answer.headers.getSetCookie()[0]).toMatch(new RegExp(`^${cookieName}=; .*Max-Age=0;`));
  });

  test('no other route takes the cookie', async () => {
    const cookie = cookieOf(await anyone.post(session, credentials(), asPage))!;
    for (const path of ['/auth/me', `/tenants/${tenant.id}/config/effective`]) {
      const answer = await anyone.get(path, { ...asPage, cookie });
      expect([answer.status, answer.body.detail.code]).toEqual([401, 'auth_token_missing']);
    }
  });

  test('signing out ends the session on the server, drops the cookie, and can be repeated', async () => {
    const signedIn = await anyone.post(session, credentials(), asPage);
    const cookie = cookieOf(signedIn)!;
    const out = await anyone.delete(session, { ...asPage, cookie });
    expect(out.status).toBe(204);
    expect(out.headers.getSetCookie()[0]).toMatch(/; Max-Age=0;/);
    const me = await new Client(strata.url, signedIn.body.access_token).get('/auth/me');
    expect([me.status, me.body.detail.code]).toEqual([401, 'auth_session_revoked']);
    expect((await anyone.delete(session, { ...asPage, cookie })).status).toBe(204);
    expect((await anyone.delete(session, asPage)).status).toBe(204);
  });

  test('a refresh may continue in another tenant of the person, and in no other', async () => {
    const second = await createTenant(strata.url, platform, 'Console two');
    const email = 'both@console.example';
    await addMember(tenant.admin, tenant.id, { email, roles: ['operator'] });
    const person = await signIn(strata.url, email, memberPassword);
    await second.admin.post(`/tenants/${second.id}/users`, { email, roles: ['viewer'] });
    const { body } = await person.get('/auth/invitations');
    await person.post(`/auth/invitations/${body.items[0].id}/accept`);
    const signedIn = await anyone.post(session, { ...credentials(email), tenant_id: tenant.id });
    const moved = await refresh(cookieOf(signedIn), { tenant_id: second.id });
    expect([moved.status, moved.body.tenant]).toMatchObject([
      200,
      { id: second.id, roles: ['viewer'] },
    ]);
    expect(moved.body).not.toHaveProperty('refresh_token');
    const other = await createTenant(strata.url, platform, 'Console three');
    const refused = await refresh(cookieOf(moved), { tenant_id: other.id });
    expect([refused.status, refused.body.detail.code]).toEqual([403, 'auth_no_tenant_membership']);
    // The token was exchanged before the refusal: its successor must not be lost.
    expect((await refresh(cookieOf(refused))).body.tenant.id).toBe(second.id);
  });

  test('an invitation with a new password signs in; one without has the person sign in', async () => {
    const email = 'invited@console.example';
    await tenant.admin.post(`/tenants/${tenant.id}/users`, { email, roles: ['viewer'] });
    const token = await invitationToken(email, 1);
    const accepted = await anyone.post(session, { token, password: memberPassword }, asPage);
    expect([accepted.status, accepted.body.user.email]).toEqual([200, email]);
    expect((await refresh(cookieOf(accepted))).status).toBe(200);

    const again = await createTenant(strata.url, platform, 'Console four');
    await again.admin.post(`/tenants/${again.id}/users`, { email, roles: ['viewer'] });
    const second = await anyone.post(session, { token: await invitationToken(email, 2) }, asPage);
    expect([second.status, second.body]).toMatchObject([200, { sign_in_required: true, email }]);
    expect(second.headers.getSetCookie()).toEqual([]);
  });

  test('what is wrong is said with the codes of the way that was taken, and sets no cookie', async () => {
    const passkey = { id: 'AA', rawId: 'AA', type: 'public-key', clientExtensionResults: {} };
    const assertion = {
      clientDataJSON: 'AA',
      authenticatorData: 'AA',
      signature: 'AA',
      userHandle: 'AA',
    };
    const uuid = '00000000-0000-4000-8000-000000000000';
    const rows: [object, number, string][] = [
      [{ ...credentials(), password: 'wrong' }, 401, 'auth_invalid_credentials'],
      [
        { challenge_id: uuid, credential: { ...passkey, response: assertion } },
        401,
        'auth_webauthn_challenge_invalid',
      ],
      [{ code: 'c', state: 's', client_verifier: 'v'.repeat(43) }, 401, 'auth_sso_state_invalid'],
      [{ token: 't' }, 401, 'auth_invitation_invalid'],
      [{}, 422, 'validation_failed'],
      [{ ...credentials(), remember: true }, 422, 'validation_failed'],
      [{ email: 1, password: 'x' }, 422, 'validation_failed'],
    ];
    for (const [body, status, code] of rows) {
      const answer = await anyone.post(session, body, asPage);
      expect([answer.status, answer.body.detail.code]).toEqual([status, code]);
      expect(answer.headers.getSetCookie()).toEqual([]);
    }
  });

  test('guessing a password is slowed as at /auth/login, and counts together with it, whatever one claims to come from', async () => {
    // Of no trusted proxy.
    const from = (count: number) => ({ 'x-forwarded-for': `192.0.${count}.1` });
    const guess = { email: 'guessed@console.example', password: 'wrong-password' };
    const answers: Answer[] = [];
    for (let count = 0; count < 12; count += 1)
      answers.push(await anyone.post(count % 2 ? '/auth/login' : session, guess, from(count)));
    expect(answers.slice(0, 10).map(({ status }) => status)).toEqual(Array(10).fill(401));
    expect(answers.slice(-2).map(({ status }) => status)).toEqual([429, 429]);
    expect(answers.at(-1)!.headers.get('retry-after')).toMatch(/^\d+$/);
  });
});
