/** One's own sessions, continuing in another tenant, and accounts that are disabled. */
import { beforeAll, describe, expect, test } from '@jest/globals';
import { fakeClockLibrary } from '../support/postgres.ts';
import { sharedStrata, type SharedStrata } from '../support/shared-strata.ts';
import {
  adminPassword,
  Client,
  createTenant,
  joinTenant,
  memberPassword,
  signIn,
  startStrata,
  type Answer,
  type TenantFixture,
} from '../support/strata.ts';

let strata: SharedStrata;
let platform: Client;
let first: TenantFixture;
let second: TenantFixture;
beforeAll(async () => {
  strata = await sharedStrata();
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  first = await createTenant(strata.url, platform, 'Account first');
  second = await createTenant(strata.url, platform, 'Account second');
  await joinTenant(second.admin, second.id, first.operator, {
    email: first.emails.operator!,
    roles: ['viewer'],
  });
});

const as = (token: string): Client => new Client(strata.url, token);
const anyone = (): Client => new Client(strata.url);
const login = async (email: string, tenant?: string): Promise<Answer> =>
  anyone().post(
    '/auth/login',
    { email, password: memberPassword, ...(tenant ? { tenant_id: tenant } : {}) },
    { 'user-agent': 'account test' },
  );
const refresh = (token: string): Promise<Answer> =>
  anyone().post('/auth/refresh', { refresh_token: token });
const outcome = ({ status, body }: Answer): string =>
  status < 300 ? String(status) : `${status} ${body.detail.code}`;

/** All items of a list, asked for one by one. */
async function itemsPageByPage(client: Client, path: string): Promise<unknown[]> {
  const items: unknown[] = [];
  let query = '?limit=1';
  for (;;) {
    const { body } = await client.get(path + query);
    items.push(...body.items);
    if (body.next_cursor === null) return items;
    query = `?limit=1&cursor=${body.next_cursor}`;
  }
}

describe('sessions', () => {
  test("mine are listed newest first, page by page, with where they come from; others' are not", async () => {
    const {
      body: { access_token: token, session_id: current },
    } = await login(first.emails.viewer!);
    await login(first.emails.viewer!);
    const { body } = await as(token).get('/auth/sessions');
    expect(body.items).toHaveLength(3);
    expect(body.items[1]).toEqual({
      id: current,
      method: 'password',
      confined_to: null,
      tenant_id: first.id,
      created_at: expect.any(String),
      last_used_at: expect.any(String),
      expires_at: expect.any(String),
      ip: '127.0.0.1',
      user_agent: 'account test',
      current: true,
    });
    expect(body.items.map((session: { current: boolean }) => session.current)).toEqual([
      false,
      true,
      false,
    ]);
    expect(await itemsPageByPage(as(token), '/auth/sessions')).toEqual(body.items);
  });

  test("one of mine can be ended, once; another's does not exist for me", async () => {
    const {
      body: { access_token: token, session_id: id, refresh_token: rotating },
    } = await login(first.emails.viewer!);
    const mine = await login(first.emails.viewer!);
    expect(outcome(await second.viewer.delete(`/auth/sessions/${id}`))).toBe('404 not_found');
    expect(outcome(await as(mine.body.access_token).delete(`/auth/sessions/${id}`))).toBe('204');
    expect(outcome(await as(token).get('/auth/me'))).toBe('401 auth_session_revoked');
    expect(outcome(await refresh(rotating))).toBe('401 auth_refresh_invalid');
    expect(outcome(await as(mine.body.access_token).delete(`/auth/sessions/${id}`))).toBe(
      '404 not_found',
    );
  });
});

describe('another tenant', () => {
  const effective = (tenant: TenantFixture): string => `/tenants/${tenant.id}/config/effective`;

  test('the session continues there at once, also with the token from before', async () => {
    const { body: before } = await login(first.emails.operator!, first.id);
    expect(outcome(await as(before.access_token).get(effective(first)))).toBe('200');
    const switched = await as(before.access_token).post('/auth/switch-tenant', {
      tenant_id: second.id,
    });
    expect(switched.body).toMatchObject({
      session_id: before.session_id,
      tenant: { id: second.id, roles: ['viewer'] },
    });
    for (const token of [before.access_token, switched.body.access_token]) {
      expect(outcome(await as(token).get(effective(second)))).toBe('200');
      expect(outcome(await as(token).get(effective(first)))).toBe('403 tenant_mismatch');
    }
    expect((await refresh(switched.body.refresh_token)).body.tenant.id).toBe(second.id);
  });

  test('a lost answer logs no one out; continuing from both tokens is a theft', async () => {
    const { body: before } = await login(first.emails.operator!, first.id);
    const { body: lost } = await as(before.access_token).post('/auth/switch-tenant', {
      tenant_id: second.id,
    });
    const next = await refresh(before.refresh_token);
    expect(next.body.tenant.id).toBe(second.id);
    expect(outcome(await refresh(next.body.refresh_token))).toBe('200');
    expect(outcome(await refresh(lost.refresh_token))).toBe('401 auth_refresh_reused');
    expect(outcome(await as(before.access_token).get('/auth/me'))).toBe('401 auth_session_revoked');
  });

  test('a node whose clock is ahead knows a retry, and makes no session that counts as recent for longer', async () => {
    const ahead = await startStrata({
      DATABASE_URL: strata.database.url,
      LD_PRELOAD: fakeClockLibrary(),
      FAKETIME: '+2h',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
    });
    try {
      const { body: before } = await login(first.emails.operator!, first.id);
      const next = await refresh(before.refresh_token);
      const retry = await new Client(ahead.url).post('/auth/refresh', {
        refresh_token: before.refresh_token,
      });
      expect([retry.status, retry.body.refresh_token]).toEqual([200, next.body.refresh_token]);
      const made = await new Client(ahead.url).post('/auth/login', {
        email: first.emails.operator!,
        password: memberPassword,
      });
      const [session] = await strata.database.query(
        `SELECT authenticated_at <= now() AS authenticated, last_used_at <= now() AS used,
           expires_at <= now() + interval '30 days' AS expires FROM auth.sessions WHERE id = $1`,
        [made.body.session_id],
      );
      expect(session).toEqual({ authenticated: true, used: true, expires: true });
    } finally {
      await ahead.stop('SIGKILL');
    }
  });

  test('only tenants of mine, and only active ones', async () => {
    const {
      body: { access_token: token },
    } = await login(first.emails.viewer!);
    expect(outcome(await as(token).post('/auth/switch-tenant', { tenant_id: second.id }))).toBe(
      '403 auth_no_tenant_membership',
    );
    const {
      body: { access_token: both },
    } = await login(first.emails.operator!, first.id);
    await platform.patch(`/tenants/${second.id}`, { status: 'disabled' });
    expect(outcome(await as(both).post('/auth/switch-tenant', { tenant_id: second.id }))).toBe(
      '403 auth_tenant_disabled',
    );
    await platform.patch(`/tenants/${second.id}`, { status: 'active' });
    expect(outcome(await as(both).get(effective(first)))).toBe('200');
  });
});

describe('a sign-in without a tenant', () => {
  const email = (): string => first.emails.operator!;
  const landing = async (): Promise<string | null> => {
    const { status, body, text } = await login(email());
    if (status !== 200) throw new Error(text);
    return body.tenant?.id ?? null;
  };

  test('lands where its person was last: signed in, switched to, or refreshed', async () => {
    const { body: inFirst } = await login(email(), first.id);
    expect(await landing()).toBe(first.id);
    const { body: inSecond } = await login(email(), second.id);
    expect(await landing()).toBe(second.id);
    const { body: elsewhere } = await login(email(), second.id);
    await as(elsewhere.access_token).post('/auth/switch-tenant', { tenant_id: first.id });
    expect(await landing()).toBe(first.id);
    await refresh(inSecond.refresh_token);
    expect(await landing()).toBe(second.id);
    await refresh(inFirst.refresh_token);
    expect(await landing()).toBe(first.id);
  });

  test('lands in none of several that were never used, and from there continues in one', async () => {
    const { id } = (await login(email())).body.user;
    await strata.database.query('DELETE FROM auth.sessions WHERE user_id = $1', [id]);
    const { body } = await login(email());
    expect([body.tenant, body.memberships.length]).toEqual([null, 2]);
    const client = as(body.access_token);
    expect((await client.get('/auth/me')).body.tenant).toBeNull();
    expect(outcome(await client.get(`/tenants/${first.id}/config/effective`))).toBe(
      '403 tenant_mismatch',
    );
    const switched = await client.post('/auth/switch-tenant', { tenant_id: second.id });
    expect(switched.body.tenant.id).toBe(second.id);
    expect(await landing()).toBe(second.id);
  });

  test('lands in the only one; in no disabled one, which is refused where it is asked for', async () => {
    await login(email(), second.id);
    await platform.patch(`/tenants/${second.id}`, { status: 'disabled' });
    try {
      expect(await landing()).toBe(first.id);
      expect(outcome(await login(email(), second.id))).toBe('403 auth_tenant_disabled');
      expect(outcome(await login(second.emails.viewer!))).toBe('403 auth_tenant_disabled');
    } finally {
      await platform.patch(`/tenants/${second.id}`, { status: 'active' });
    }
    expect((await login(second.emails.viewer!)).body.tenant.id).toBe(second.id);
  });
});

describe('in a tenant that is disabled', () => {
  test('a session can look at itself, refresh, end and go elsewhere, and nothing else', async () => {
    const [{ body: leaving }, { body: ending }] = [
      await login(first.emails.operator!, second.id),
      await login(first.emails.operator!, second.id),
    ];
    const { body: signedInBefore } = await login(second.emails.viewer!);
    const key = await as(leaving.access_token).post('/auth/api-key', { name: 'ci' });
    const config = `/tenants/${second.id}/config/effective`;
    await platform.patch(`/tenants/${second.id}`, { status: 'disabled' });
    try {
      const client = as(leaving.access_token);
      for (const path of ['/auth/me', '/auth/sessions'])
        expect(outcome(await client.get(path))).toBe('200');
      for (const path of [config, '/auth/api-keys', '/auth/webauthn/credentials', '/tenants'])
        expect(outcome(await client.get(path))).toBe('403 auth_tenant_disabled');
      expect(outcome(await as(key.body.api_key).get(config))).toBe('403 auth_tenant_disabled');
      expect(outcome(await client.post('/auth/api-key', { name: 'ci' }))).toBe(
        '403 auth_tenant_disabled',
      );
      expect(outcome(await client.delete(`/auth/sessions/${ending.session_id}`))).toBe('204');
      const { body: refreshed } = await refresh(leaving.refresh_token);
      const switched = await as(refreshed.access_token).post('/auth/switch-tenant', {
        tenant_id: first.id,
      });
      expect(switched.body.tenant.id).toBe(first.id);
      expect(outcome(await client.get(`/tenants/${first.id}/config/effective`))).toBe('200');
      const { body: viewer } = await anyone().post('/auth/refresh', {
        refresh_token: signedInBefore.refresh_token,
      });
      expect(outcome(await as(viewer.access_token).post('/auth/logout', {}))).toBe('204');
      expect(outcome(await as(viewer.access_token).get('/auth/me'))).toBe(
        '401 auth_session_revoked',
      );
    } finally {
      await platform.patch(`/tenants/${second.id}`, { status: 'active' });
    }
  });
});

describe('accounts', () => {
  const find = async (email: string): Promise<{ id: string; status: string }> =>
    (await platform.get(`/auth/users?email=${email}`)).body.items[0];

  test('are listed for platform admins', async () => {
    expect(await find(first.emails.viewer!)).toEqual({
      id: expect.any(String),
      email: first.emails.viewer,
      display_name: null,
      platform_roles: [],
      email_verified: true,
      status: 'active',
      created_at: expect.any(String),
    });
    expect((await platform.get('/auth/users?limit=2')).body.items).toHaveLength(2);
  });

  test('are found by a part of their name as it is written, whatever the database knows of case', async () => {
    const { id } = await find(first.emails.viewer!);
    const name = (called: string | null): Promise<unknown> =>
      strata.database.query('UPDATE auth.users SET display_name = $2 WHERE id = $1', [id, called]);
    await name('Élodie İNCE');
    for (const part of ['Élodie', 'élodie', 'İNCE', 'İnce']) {
      const { body } = await platform.get(`/auth/users?q=${encodeURIComponent(part)}`);
      expect(body.items).toMatchObject([{ id }]);
    }
    await name(null);
  });

  test('a disabled one has no session left and cannot sign in, like an unknown one; enabling does not bring sessions back', async () => {
    const {
      body: { access_token: token, refresh_token: rotating },
    } = await login(second.emails.viewer!);
    expect(outcome(await as(token).get('/auth/me'))).toBe('200');
    const { id } = await find(second.emails.viewer!);
    expect((await platform.patch(`/auth/users/${id}`, { status: 'disabled' })).body).toMatchObject({
      id,
      status: 'disabled',
    });
    expect(outcome(await as(token).get('/auth/me'))).toBe('401 auth_session_revoked');
    expect(outcome(await refresh(rotating))).toBe('401 auth_refresh_invalid');
    const [disabled, unknown] = [
      await login(second.emails.viewer!),
      await login('nobody@example.com'),
    ];
    expect([disabled.status, disabled.body.detail]).toEqual([401, unknown.body.detail]);
    await platform.patch(`/auth/users/${id}`, { status: 'active' });
    expect(outcome(await as(token).get('/auth/me'))).toBe('401 auth_session_revoked');
    expect(outcome(await login(second.emails.viewer!))).toBe('200');
    const { body } = await platform.get('/auth/me');
    expect(
      outcome(await platform.patch(`/auth/users/${body.user.id}`, { status: 'disabled' })),
    ).toBe('409 conflict');
    expect(
      outcome(
        await platform.patch('/auth/users/00000000-0000-4000-8000-000000000000', {
          status: 'disabled',
        }),
      ),
    ).toBe('404 not_found');
  });
});
