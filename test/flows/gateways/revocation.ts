/** Whatever ends a right is refused on every one of three gateways by the time it is answered. */
import { beforeAll, expect, test } from '@jest/globals';
import { invitationToken } from '../../support/mailboxes.ts';
import {
  addMember,
  Client,
  createTenant,
  memberPassword,
  signIn,
  type TenantFixture,
} from '../../support/strata.ts';
import { cluster, everywhere, third } from './cluster.ts';

let tenant: TenantFixture;
beforeAll(async () => {
  tenant = await createTenant(cluster.platform.url, cluster.platform, 'Revoked');
});

const atAllThree = (token: string | undefined): Client[] => [
  ...everywhere(token),
  new Client(third.url, token),
];
const member = async (email: string, roles: string[]): Promise<{ user_id: string }> => {
  const { id, admin } = tenant;
  return addMember(admin, id, { email, roles });
};
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
  return { clients: atAllThree(body.access_token), id: body.session_id as string };
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
      (await signIn(third.url, email, memberPassword)).post('/auth/logout', {
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
      return new Client(third.url).post('/auth/invitations/accept', accepting);
    },
  ],
  [
    'a role taken away',
    'insufficient_role',
    async (_email: string, _session: unknown, userId: string) =>
      tenant.admin.patch(`/tenants/${tenant.id}/users/${userId}`, {
        roles: ['viewer'],
      }),
  ],
  [
    'a membership removed',
    'tenant_mismatch',
    async (_email: string, _session: unknown, userId: string) =>
      tenant.admin.delete(`/tenants/${tenant.id}/users/${userId}`),
  ],
] as const)('%s', async (...[name, code, end]) => {
  const email = `${name.replaceAll(/[^a-z]/g, '-')}@revoked.example`;
  const { user_id: userId } = await member(email, ['operator']);
  const services = `/tenants/${tenant.id}/services`;
  const { clients, id } = await session(email);
  expect(await answers(clients, services)).toEqual([200, 200, 200]);
  expect((await end(email, { id }, userId)).status).toBeLessThan(300);
  expect(await answers(clients, services)).toEqual([code, code, code]);
});

test('an API key, rotated and revoked', async () => {
  const path = `/tenants/${tenant.id}/services`;
  const made = await tenant.admin.post('/auth/api-key', { name: 'three nodes' });
  const first = atAllThree(made.body.api_key);
  expect(await answers(first, path)).toEqual([200, 200, 200]);
  const rotated = await tenant.admin.post(`/auth/api-keys/${made.body.id}/rotate`);
  const invalid = Array(3).fill('auth_api_key_invalid');
  expect(await answers(first, path)).toEqual(invalid);
  const second = atAllThree(rotated.body.api_key);
  expect(await answers(second, path)).toEqual([200, 200, 200]);
  expect((await tenant.admin.delete(`/auth/api-keys/${made.body.id}`)).status).toBe(204);
  expect(await answers(second, path)).toEqual(invalid);
});

test('API keys that end with the password of their owner', async () => {
  const path = `/tenants/${tenant.id}/config/effective`;
  const made = await tenant.viewer.post('/auth/api-key', { name: 'three nodes' });
  const keys = atAllThree(made.body.api_key);
  expect(await answers(keys, path)).toEqual([200, 200, 200]);
  const changed = await tenant.viewer.post('/auth/password/change', {
    current_password: memberPassword,
    new_password: 'grapefruit lamp seventy',
    end_api_keys: true,
  });
  expect(changed.status).toBe(204);
  expect(await answers(keys, path)).toEqual(Array(3).fill('auth_api_key_invalid'));
});

test('a disabled tenant', async () => {
  const path = `/tenants/${tenant.id}/services`;
  const clients = atAllThree(tenant.admin.token);
  expect(await answers(clients, path)).toEqual([200, 200, 200]);
  expect(
    (await cluster.platform.patch(`/tenants/${tenant.id}`, { status: 'disabled' })).status,
  ).toBe(200);
  expect(await answers(clients, path)).toEqual(Array(3).fill('auth_tenant_disabled'));
});
