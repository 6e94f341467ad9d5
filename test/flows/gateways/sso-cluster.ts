/**
 * Single sign-on where its two halves meet different nodes, which share only Redis and the
 * database.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createHash, randomBytes } from 'node:crypto';
import { startHonestProvider, type HonestProvider } from '../../support/identity-providers.ts';
import { Client, createTenant, type TenantFixture } from '../../support/strata.ts';
import { cluster } from './cluster.ts';

const redirectUri = 'https://app.example.com/signed-in';
let tenant: TenantFixture;
let idp: HonestProvider;
let anyone: Client;
let provider: string;

beforeAll(async () => {
  idp = await startHonestProvider({
    client_id: 'strata',
    client_secret: 'a-client-secret',
    redirect_uris: [redirectUri],
  });
  anyone = new Client(cluster.platform.url);
  tenant = await createTenant(anyone.url, cluster.platform, 'Signs in elsewhere');
  const made = await cluster.platform.post('/auth/sso/providers', {
    name: 'Company login',
    issuer: idp.issuer,
    client_id: 'strata',
    client_secret: 'a-client-secret',
    tenant_id: tenant.id,
    domains: [{ domain: 'cluster.example', verified: true }],
    jit_enabled: true,
    default_roles: ['viewer'],
    redirect_uris: [redirectUri],
  });
  expect(made.status).toBe(201);
  provider = made.body.id;
});
afterAll(async () => {
  await idp?.close();
});

async function signedInThroughIt(sub: string): Promise<{ access_token: string }> {
  const verifier = randomBytes(32).toString('base64url');
  const { body: begun } = await anyone.post('/auth/login/sso/start', {
    provider_id: provider,
    redirect_uri: redirectUri,
    client_challenge: createHash('sha256').update(verifier).digest('base64url'),
  });
  const person = { sub, email: `${sub}@cluster.example`, email_verified: true };
  const back = await idp.authorize(begun.authorization_url, person);
  const { body } = await anyone.post('/auth/login/sso', {
    code: back.searchParams.get('code'),
    iss: back.searchParams.get('iss'),
    state: begun.state,
    client_verifier: verifier,
  });
  return body;
}

test("a session through a tenant's own provider goes nowhere else, on any gateway", async () => {
  const { access_token: token } = await signedInThroughIt('two');
  const home = await createTenant(anyone.url, cluster.platform, 'Elsewhere');
  const asked = { email: 'two@cluster.example', roles: ['tenant_admin'] };
  expect((await home.admin.post(`/tenants/${home.id}/users`, asked)).status).toBe(201);
  for (const { url } of cluster.gateways) {
    const session = new Client(url, token);
    const { body } = await session.get('/auth/sessions');
    expect(body.items[0]).toMatchObject({ method: 'sso', confined_to: tenant.id });
    expect((await session.get('/auth/invitations')).body.items).toEqual([]);
  }
});

test('keys that a password made are refused by every gateway once the change that ends them is answered', async () => {
  const strict = await createTenant(anyone.url, cluster.platform, 'Ends keys');
  const made = await strict.admin.post('/auth/api-key', { name: 'by password' });
  const statuses = (path: string, token: string) =>
    Promise.all(
      cluster.gateways.map(async ({ url }) => (await new Client(url, token).get(path)).status),
    );
  const path = `/tenants/${strict.id}/config/risk`;
  expect(await statuses(path, made.body.api_key)).toEqual([200, 200]);
  const change = { sign_in_policy: 'passkey_or_sso', end_password_keys: true };
  const { body } = await cluster.platform.patch(`/tenants/${strict.id}`, change);
  expect(body.password_keys).toMatchObject({ count: 1, ended: true });
  expect(await statuses(path, made.body.api_key)).toEqual([401, 401]);
  expect(await statuses(path, strict.admin.token!)).toEqual([403, 403]);
});

test('any node ends what another began, once', async () => {
  for (let round = 0; round < 6; round += 1) {
    const verifier = randomBytes(32).toString('base64url');
    const { body: begun } = await anyone.post('/auth/login/sso/start', {
      provider_id: provider,
      redirect_uri: redirectUri,
      client_challenge: createHash('sha256').update(verifier).digest('base64url'),
    });
    const back = await idp.authorize(begun.authorization_url, {
      sub: 'one',
      email: 'one@cluster.example',
      email_verified: true,
    });
    const body = {
      code: back.searchParams.get('code'),
      iss: back.searchParams.get('iss'),
      state: begun.state,
      client_verifier: verifier,
    };
    // Rounds differ in how many requests go ahead, so that both nodes get each half.
    const answers = await Promise.all(
      Array.from({ length: 4 + (round % 2) }, () => anyone.post('/auth/login/sso', body)),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    for (const answer of answers.filter(({ status }) => status !== 200))
      expect(answer.body.detail.code).toBe('auth_sso_state_invalid');
    const { access_token: token } = answers.find(({ status }) => status === 200)!.body;
    expect((await new Client(anyone.url, token).get('/auth/me')).body.tenant).toMatchObject({
      id: tenant.id,
      roles: ['viewer'],
    });
  }
});
