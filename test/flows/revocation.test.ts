/**
 * Whatever ends a right is refused on every one of three gateways by the time it is answered; a
 * gateway that is cut off continues by what it knows for a while, and for no longer.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually, startCluster, type Cluster } from '../support/cluster.ts';
import { invitationToken } from '../support/mailboxes.ts';
import { addMember, Client, memberPassword, signIn } from '../support/strata.ts';

const cutOff = 'gateway-cut-off';
let cluster: Cluster;
/** Takes its time, in which the other tests run. */
let outlived: Promise<void>;
beforeAll(async () => {
  cluster = await startCluster({ gateways: 3, once: true, cuttable: [cutOff] });
  outlived = outliveTrust();
  outlived.catch(() => {});
});
afterAll(() => cluster?.stop());

const member = async (email: string, roles: string[]): Promise<{ user_id: string }> => {
  const {
    tenant: { id, admin },
  } = cluster;
  return addMember(admin, id, { email, roles });
};
const everywhere = (token: string | undefined): Client[] =>
  cluster.gateways.map(({ url }) => new Client(url, token));
const answers = async (clients: readonly Client[], path: string) =>
  Promise.all(
    clients.map(async (client) => {
      const { status, body } = await client.get(path);
      return status === 200 ? 200 : body.detail.code;
    }),
  );
const session = async (email: string) => {
  const { body } = await new Client(cluster.gateways[0]!.url).post('/auth/login', {
    email,
    password: memberPassword,
  });
  return { clients: everywhere(body.access_token), id: body.session_id as string };
};

test.each([
  [
    'a session that its owner ends elsewhere',
    'auth_session_revoked',
    async (email: string, { id }: { id: string }) => {
      const other = await signIn(cluster.gateways[1]!.url, email, memberPassword);
      return other.delete(`/auth/sessions/${id}`);
    },
  ],
  [
    'all sessions, by signing out everywhere',
    'auth_session_revoked',
    async (email: string) =>
      (await signIn(cluster.gateways[2]!.url, email, memberPassword)).post('/auth/logout', {
        all: true,
      }),
  ],
  [
    'a disabled account',
    'auth_session_revoked',
    async (email: string) => {
      const {
        body: {
          items: [account],
        },
      } = await cluster.platform.get(`/auth/users?email=${email}`);
      return cluster.platform.patch(`/auth/users/${account.id}`, { status: 'disabled' });
    },
  ],
  [
    'what was there before the first proof of an address',
    'auth_session_revoked',
    async (email: string) => {
      const unproved = 'UPDATE auth.users SET email_verified = false WHERE email = $1';
      await cluster.database.query(unproved, [email]);
      await cluster.platform.post('/tenants', { name: 'Proving', admin: { email } });
      const token = await invitationToken(email, 2);
      const accepting = { token, password: 'grapefruit lamp seventy' };
      return new Client(cluster.gateways[2]!.url).post('/auth/invitations/accept', accepting);
    },
  ],
  [
    'a role taken away',
    'insufficient_role',
    async (_email: string, _session: unknown, userId: string) =>
      cluster.tenant.admin.patch(`/tenants/${cluster.tenant.id}/users/${userId}`, {
        roles: ['viewer'],
      }),
  ],
  [
    'a membership removed',
    'tenant_mismatch',
    async (_email: string, _session: unknown, userId: string) =>
      cluster.tenant.admin.delete(`/tenants/${cluster.tenant.id}/users/${userId}`),
  ],
] as const)('%s', async (...[name, code, end]) => {
  const email = `${name.replaceAll(/[^a-z]/g, '-')}@revoked.example`;
  const { user_id: userId } = await member(email, ['operator']);
  const services = `/tenants/${cluster.tenant.id}/services`;
  const { clients, id } = await session(email);
  expect(await answers(clients, services)).toEqual([200, 200, 200]);
  expect((await end(email, { id }, userId)).status).toBeLessThan(300);
  expect(await answers(clients, services)).toEqual([code, code, code]);
});

test('an API key, rotated and revoked', async () => {
  const path = `/tenants/${cluster.tenant.id}/services`;
  const made = await cluster.tenant.admin.post('/auth/api-key', { name: 'three nodes' });
  const first = everywhere(made.body.api_key);
  expect(await answers(first, path)).toEqual([200, 200, 200]);
  const rotated = await cluster.tenant.admin.post(`/auth/api-keys/${made.body.id}/rotate`);
  const invalid = Array(3).fill('auth_api_key_invalid');
  expect(await answers(first, path)).toEqual(invalid);
  const second = everywhere(rotated.body.api_key);
  expect(await answers(second, path)).toEqual([200, 200, 200]);
  expect((await cluster.tenant.admin.delete(`/auth/api-keys/${made.body.id}`)).status).toBe(204);
  expect(await answers(second, path)).toEqual(invalid);
});

test('API keys that end with the password of their owner', async () => {
  const path = `/tenants/${cluster.tenant.id}/config/effective`;
  const made = await cluster.tenant.viewer.post('/auth/api-key', { name: 'three nodes' });
  const keys = everywhere(made.body.api_key);
  expect(await answers(keys, path)).toEqual([200, 200, 200]);
  const changed = await cluster.tenant.viewer.post('/auth/password/change', {
    current_password: memberPassword,
    new_password: 'grapefruit lamp seventy',
    end_api_keys: true,
  });
  expect(changed.status).toBe(204);
  expect(await answers(keys, path)).toEqual(Array(3).fill('auth_api_key_invalid'));
});

async function outliveTrust(): Promise<void> {
  const {
    tenant: { id, admin },
  } = cluster;
  const ttlSeconds = 30;
  // Only this gateway's own, so that the access tokens themselves outlive it.
  const own = { ACCESS_TOKEN_TTL_SECONDS: String(ttlSeconds), REQUEST_TIMEOUT_MS: '2500' };
  const { url } = await cluster.start(cutOff, ['gateway'], own);
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
  const { user_id: memberId, client: removed } = await addMember(admin, id, {
    email: 'removed@cut-off.example',
    roles: ['operator'],
  });
  const { client: ended } = await addMember(admin, id, {
    email: 'ended@cut-off.example',
    roles: ['operator'],
  });
  const tokens = [made.body.api_key, ofAccount.body.api_key, removed.token, ended.token];
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
      'tenant_mismatch',
      'auth_session_revoked',
    ]),
  );
}

test('a gateway that is cut off answers whom it knew, marked, for as long as an access token lives', async () => {
  await outlived;
});

test('a disabled tenant', async () => {
  const path = `/tenants/${cluster.tenant.id}/services`;
  const clients = everywhere(cluster.tenant.admin.token);
  expect(await answers(clients, path)).toEqual([200, 200, 200]);
  expect(
    (await cluster.platform.patch(`/tenants/${cluster.tenant.id}`, { status: 'disabled' })).status,
  ).toBe(200);
  expect(await answers(clients, path)).toEqual(Array(3).fill('auth_tenant_disabled'));
});
