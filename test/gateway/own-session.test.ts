/**
 * `GET /auth/watch`: somebody who is signed in hears at once that their session ended or their
 * memberships changed.
 */
import { beforeAll, describe, expect, test } from '@jest/globals';
import { polledAgain } from '../support/cluster.ts';
import { watch, type StreamEvent, type WatchStream } from '../support/event-stream.ts';
import { sharedStrata, type SharedStrata } from '../support/shared-strata.ts';
import {
  addMember,
  adminPassword,
  Client,
  createTenant,
  memberPassword,
  signIn,
  type TenantFixture,
} from '../support/strata.ts';

let strata: SharedStrata;
let platform: Client;
let tenant: TenantFixture;
let other: TenantFixture;

beforeAll(async () => {
  strata = await sharedStrata();
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, 'Own session');
  other = await createTenant(strata.url, platform, 'Other session');
});

const isCalled =
  (name: string) =>
  ({ event }: StreamEvent): boolean =>
    event === name;
const namesOf = ({ events }: WatchStream): string[] => events.map(({ event }) => event);

async function begun(client: Client): Promise<WatchStream> {
  const stream = await watch(client, '/auth/watch');
  await stream.until(isCalled('ready'));
  return stream;
}

describe('a session that ends', () => {
  test('is told of within a second, and other sessions hear nothing', async () => {
    const email = tenant.emails.viewer!;
    const [ended, ending] = [
      await signIn(strata.url, email, memberPassword),
      await signIn(strata.url, email, memberPassword),
    ];
    const streams = [await begun(ended), await begun(ending), await begun(tenant.operator)];
    const { body: me } = await ended.get('/auth/me');
    await ending.delete(`/auth/sessions/${me.session_id}`);
    const began = performance.now();
    const received = await streams[0]!.until(isCalled('session.ended'));
    // With room for a busy machine; the rights of all streams are looked at every 15 s.
    expect(performance.now() - began).toBeLessThan(12_000);
    expect(received.data).toEqual({ code: 'auth_session_revoked' });
    await streams[0]!.ended;
    expect(namesOf(streams[0]!)).toEqual(['ready', 'session.ended', 'closed']);
    expect(streams.slice(1).map(namesOf)).toEqual([['ready'], ['ready']]);
    for (const stream of streams) stream.leave();
  });

  test('is told of where a person’s account is disabled', async () => {
    const email = 'disabled@session.example';
    const { user_id: id, client } = await addMember(tenant.admin, tenant.id, {
      email,
      roles: ['viewer'],
    });
    const stream = await begun(client);
    await platform.patch(`/auth/users/${id}`, { status: 'disabled' });
    await stream.until(isCalled('session.ended'));
    stream.leave();
  });
});

describe('memberships', () => {
  test('that change, end, or are of a tenant that is disabled are told of, with the tenant and to their person alone', async () => {
    const { user_id: id, client } = await addMember(tenant.admin, tenant.id, {
      email: 'moves@session.example',
      roles: ['viewer'],
    });
    const [own, others] = [await begun(client), await begun(tenant.viewer)];
    const path = `/tenants/${tenant.id}/users/${id}`;
    await tenant.admin.patch(path, { roles: ['operator'] });
    const received = await own.until(isCalled('memberships.changed'));
    expect(received.data).toEqual({ tenant_id: tenant.id });
    await tenant.admin.delete(path);
    await own.until(() => namesOf(own).length === 3);
    expect(namesOf(others)).toEqual(['ready']);
    await platform.patch(`/tenants/${tenant.id}`, { status: 'disabled' });
    await others.until(isCalled('memberships.changed'));
    // Whoever acts in a tenant that was disabled stays signed in, and so does the stream.
    await platform.patch(`/tenants/${tenant.id}`, { status: 'active' });
    await others.until(() => namesOf(others).length === 3);
    expect(namesOf(own)).toEqual(['ready', 'memberships.changed', 'memberships.changed']);
    for (const stream of [own, others]) stream.leave();
  });

  test('are told of once, though the feed tells of a change again that the broadcast has told of', async () => {
    const { user_id: id, client } = await addMember(tenant.admin, tenant.id, {
      email: 'once@session.example',
      roles: ['viewer'],
    });
    const stream = await begun(client);
    const path = `/tenants/${tenant.id}/users/${id}`;
    for (const [turn, roles] of [['operator'], ['viewer'], ['operator']].entries()) {
      await tenant.admin.patch(path, { roles });
      await stream.until(() => namesOf(stream).length === turn + 2);
      await polledAgain(platform);
      expect(namesOf(stream)).toHaveLength(turn + 2);
    }
    stream.leave();
  });

  test('that somebody accepts elsewhere are told of', async () => {
    const email = tenant.emails.operator!;
    await other.admin.post(`/tenants/${other.id}/users`, { email, roles: ['viewer'] });
    const stream = await begun(tenant.operator);
    const elsewhere = await signIn(strata.url, email, memberPassword, tenant.id);
    const { body } = await elsewhere.get('/auth/invitations');
    await elsewhere.post(`/auth/invitations/${body.items[0].id}/accept`);
    const received = await stream.until(isCalled('memberships.changed'));
    expect(received.data).toEqual({ tenant_id: other.id });
    stream.leave();
  });

  test('elsewhere are told of to no session that is good for one tenant alone', async () => {
    const email = 'confined@session.example';
    const { user_id: id } = await addMember(tenant.admin, tenant.id, { email, roles: ['viewer'] });
    const confined = await signIn(strata.url, email, memberPassword, tenant.id);
    await strata.database.query(
      'UPDATE auth.sessions SET confined_to = tenant_id WHERE user_id = $1',
      [id],
    );
    const stream = await begun(confined);
    await other.admin.post(`/tenants/${other.id}/users`, { email, roles: ['viewer'] });
    await tenant.admin.patch(`/tenants/${tenant.id}/users/${id}`, { roles: ['operator'] });
    const received = await stream.until(isCalled('memberships.changed'));
    expect(received.data).toEqual({ tenant_id: tenant.id });
    stream.leave();
  });
});

test('it is for sessions: an API key has none, and no one is no one', async () => {
  const made = await tenant.admin.post('/auth/api-key', { name: 'all', scopes: ['auth:self'] });
  const key = new Client(strata.url, made.body.api_key);
  const refused = await key.get('/auth/watch');
  expect([refused.status, refused.body.detail.code]).toEqual([403, 'insufficient_scope']);
  expect((await new Client(strata.url).get('/auth/watch')).status).toBe(401);
});
