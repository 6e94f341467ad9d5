/**
 * A gateway that is cut off continues by what it knows for a while, and for no longer. It takes its
 * time, in which the stories before it run.
 */
import { beforeAll, expect, test } from '@jest/globals';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '../../support/cluster.ts';
import {
  addMember,
  adminPassword,
  Client,
  createTenant,
  joinTenant,
  signIn,
} from '../../support/strata.ts';
import { startWorkloadIssuer } from '../../support/workload-issuer.ts';
import { cluster, cuttable } from './cluster.ts';

const [, cutOff] = cuttable;
let outlived: Promise<void>;
beforeAll(() => {
  outlived = outliveTrust();
  outlived.catch(() => {});
});

async function outliveTrust(): Promise<void> {
  const { platform } = cluster;
  const { id, admin } = await createTenant(platform.url, platform, 'Trusted');
  const ttlSeconds = 30;
  // Only this gateway's own, so that the access tokens themselves outlive it.
  const own = { ACCESS_TOKEN_TTL_SECONDS: String(ttlSeconds), REQUEST_TIMEOUT_MS: '2500' };
  const gateway = await cluster.start(cutOff, ['gateway'], own);
  const { url } = gateway;
  const [path, keyPath] = [`/tenants/${id}/config/risk`, '/auth/api-key'];

  const made = await admin.post(keyPath, { name: 'revoked', scopes: ['config:read'] });
  const account = await admin.post(`/tenants/${id}/service-accounts`, {
    name: 'reader',
    roles: ['operator'],
  });
  const accountPath = `/tenants/${id}/service-accounts/${account.body.id}`;
  const ofAccount = await admin.post(`${accountPath}/api-keys`, {
    name: 'reader',
    scopes: ['config:read'],
  });
  const workload = await workloadOf(admin, accountPath);
  const { user_id: memberId, client: removed } = await addMember(admin, id, {
    email: 'removed@cut-off.example',
    roles: ['operator'],
  });
  const { client: ended } = await addMember(admin, id, {
    email: 'ended@cut-off.example',
    roles: ['operator'],
  });
  const given = await givenLater(url, admin, id);
  const visitor = await visitorOf(id);
  const tokens = [
    made.body.api_key,
    ofAccount.body.api_key,
    workload,
    removed.token,
    ended.token,
    visitor,
  ];
  const clients = tokens.map((token) => new Client(url, token));
  const said = () =>
    Promise.all(
      clients.map(async (client) => {
        const { status, headers, body } = await client.get(path);
        const marked = headers.get('x-config-stale') === 'true' ? ' stale' : '';
        return status === 200 ? `200${marked}` : body.detail.code;
      }),
    );
  const each = (answer: string): string[] => clients.map(() => answer);
  const misses = async (): Promise<string[] | null> =>
    (await new Client(url).get('/metrics')).text.match(/^strata_cache_misses_total.*$/gm);
  // Until it answers all of them from its memory.
  await eventually(async () => {
    const before = await misses();
    expect(await said()).toEqual(each('200'));
    expect(await given.said()).toEqual(['insufficient_role', 200, 'tenant_mismatch', 'not_found']);
    expect(await misses()).toEqual(before);
  });

  const began = performance.now();
  cluster.proxies[cutOff]!.cut();
  const revoked = await Promise.all([
    admin.delete(`/auth/api-keys/${made.body.id}`),
    admin.patch(accountPath, { status: 'disabled' }),
    admin.delete(`/tenants/${id}/users/${memberId}`),
    ended.post('/auth/logout'),
  ]);
  expect(revoked.map(({ status }) => status)).toEqual([204, 200, 204, 204]);
  // Nobody reaches it, so it cannot know.
  await eventually(async () => expect(await said()).toEqual(each('200 stale')));
  await given.give();
  // Nor is anybody refused by what it knew.
  expect(await given.said()).toEqual(Array(4).fill('service_unavailable'));
  const untilEnd = ttlSeconds * 1000 - (performance.now() - began);
  await delay(untilEnd - 6000);
  expect(await said()).toEqual(each('200 stale'));
  await delay(6000);
  expect(await said()).toEqual(each('service_unavailable'));

  cluster.proxies[cutOff]!.mend();
  await eventually(async () =>
    expect(await said()).toEqual([
      'auth_api_key_invalid',
      'auth_api_key_invalid',
      'auth_token_invalid',
      'tenant_mismatch',
      'auth_session_revoked',
      '200',
    ]),
  );
  expect(await given.said()).toEqual(Array(4).fill(200));
  await gateway.stop();
}

/** What the gateway knows that people, keys and documents are not, and what they become elsewhere. */
async function givenLater(url: string, admin: Client, id: string) {
  const { user_id: promotedId, client: promoted } = await addMember(admin, id, {
    email: 'promoted@cut-off.example',
    roles: ['viewer'],
  });
  const { user_id: returnedId, client: returned } = await addMember(admin, id, {
    email: 'returned@cut-off.example',
    roles: ['operator'],
  });
  const people = `/tenants/${id}/users`;
  expect((await admin.delete(`${people}/${returnedId}`)).status).toBe(204);
  const { body: key } = await admin.post('/auth/api-key', {
    name: 'rotated',
    scopes: ['config:read'],
  });
  const [risk, agent] = [`/tenants/${id}/config/risk`, `/tenants/${id}/config/agents/later`];
  let { api_key: secret } = key;
  return {
    said: () =>
      Promise.all(
        [
          new Client(url, promoted.token).get(risk),
          new Client(url, secret).get(risk),
          new Client(url, returned.token).get(risk),
          new Client(url, admin.token).get(agent),
        ].map(async (asked) => {
          const { status, body } = await asked;
          return status === 200 ? 200 : body.detail.code;
        }),
      ),
    async give() {
      expect((await admin.patch(`${people}/${promotedId}`, { roles: ['operator'] })).status).toBe(
        200,
      );
      const rotated = await admin.post(`/auth/api-keys/${key.id}/rotate`);
      secret = rotated.body.api_key;
      const member = { email: 'returned@cut-off.example', roles: ['operator'] };
      await joinTenant(admin, id, returned, member);
      expect((await admin.put(agent, { default_region: 'europe-west1' })).status).toBe(201);
    },
  };
}

async function visitorOf(tenantId: string): Promise<string> {
  const session = await signIn(cluster.platform.url, 'admin@example.com', adminPassword);
  const visit = { reason: 'Ticket 4711: what does it read?' };
  expect((await session.post(`/tenants/${tenantId}/visits`, visit)).status).toBe(201);
  const moved = await session.post('/auth/switch-tenant', { tenant_id: tenantId });
  return moved.body.access_token;
}

/** A token of the service account for a workload that it trusts. */
async function workloadOf(admin: Client, accountPath: string): Promise<string> {
  const issuer = await startWorkloadIssuer();
  try {
    const issuers = [{ issuer: issuer.issuer, jwks: { keys: issuer.keys } }];
    expect((await cluster.platform.put('/auth/workload-issuers', { issuers })).status).toBe(200);
    const rule = { issuer: issuer.issuer, subject: 'job', roles: ['operator'] };
    const audience = `${cluster.environment.BASE_URL}${accountPath}`;
    const rules = [{ ...rule, audience, scopes: ['config:read'] }];
    expect((await admin.put(`${accountPath}/trust`, { rules })).status).toBe(200);
    const asked = new URLSearchParams({
      grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
      subject_token: await issuer.sign({ sub: 'job', aud: audience }),
      subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
    });
    const given = await new Client(admin.url).send('POST', '/auth/token', {
      raw: asked.toString(),
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
    });
    if (given.status !== 200) throw new Error(given.text);
    return given.body.access_token;
  } finally {
    await issuer.close();
  }
}

test('a gateway that is cut off answers whom it knew, marked, for as long as an access token lives', async () => {
  await outlived;
});
