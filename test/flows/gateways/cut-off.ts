/**
 * A gateway that is cut off continues by what it knows for a while, and for no longer. It takes its
 * time, in which the stories before it run.
 */
import { beforeAll, expect, test } from '@jest/globals';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '../../support/cluster.ts';
import { addMember, Client, createTenant } from '../../support/strata.ts';
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
  const tokens = [made.body.api_key, ofAccount.body.api_key, workload, removed.token, ended.token];
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
    ]),
  );
  await gateway.stop();
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
