/**
 * Single sign-on where its two halves meet different nodes, which share only Redis and the
 * database.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createHash, randomBytes } from 'node:crypto';
import { startCluster, type Cluster } from '../support/cluster.ts';
import { startHonestProvider, type HonestProvider } from '../support/identity-providers.ts';
import { Client } from '../support/strata.ts';

const redirectUri = 'https://app.example.com/signed-in';
let cluster: Cluster;
let idp: HonestProvider;
let anyone: Client;
let provider: string;

beforeAll(async () => {
  idp = await startHonestProvider({
    client_id: 'strata',
    client_secret: 'a-client-secret',
    redirect_uris: [redirectUri],
  });
  cluster = await startCluster({
    gateways: 1,
    environment: { WEBHOOK_ALLOWED_NETWORKS: '127.0.0.0/8', WEBHOOK_ALLOW_HTTP: 'true' },
  });
  anyone = new Client(cluster.gateways[0]!.url);
  const made = await cluster.platform.post('/auth/sso/providers', {
    name: 'Company login',
    issuer: idp.issuer,
    client_id: 'strata',
    client_secret: 'a-client-secret',
    tenant_id: cluster.tenant.id,
    domains: [{ domain: 'cluster.example', verified: true }],
    jit_enabled: true,
    default_roles: ['viewer'],
    redirect_uris: [redirectUri],
  });
  expect(made.status).toBe(201);
  provider = made.body.id;
});
afterAll(async () => {
  await cluster?.stop();
  await idp?.close();
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
      id: cluster.tenant.id,
      roles: ['viewer'],
    });
  }
});
