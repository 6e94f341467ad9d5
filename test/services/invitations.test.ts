/** Invitations: nobody becomes a member, or loses what is theirs, by another's word. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { audited } from '../support/audit.ts';
import { eventually } from '../support/cluster.ts';
import { holdLock } from '../support/held-lock.ts';
import { invitationToken, invitationTokens, mailsTo } from '../support/mailboxes.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import {
  addMember,
  adminPassword,
  Client,
  createTenant,
  createTenantWith,
  memberPassword,
  signIn,
  startStrata,
  type Answer,
  type Running,
  type TenantFixture,
  type TenantWith,
} from '../support/strata.ts';

const password = 'grapefruit lamp seventy';
/** One of PLATFORM_ADMIN_EMAILS, without an account to begin with. */
const futureAdmin = 'future@platform.example';
let database: Database;
let strata: Running;
let platform: Client;
let first: TenantFixture;
let second: TenantWith<never>;
beforeAll(async () => {
  database = await strataDatabase();
  strata = await startStrata({
    DATABASE_URL: database.url,
    PLATFORM_ADMIN_EMAILS: `admin@example.com,${futureAdmin},listed@platform.example,leaver@platform.example,late@platform.example`,
  });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  first = await createTenant(strata.url, platform, 'First');
  second = await createTenantWith(strata.url, platform, 'Second');
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await database?.drop();
});

const anyone = (): Client => new Client(strata.url);
const outcome = ({ status, body }: Answer): string =>
  status < 300 ? String(status) : `${status} ${body.detail.code}`;
let people = 0;
const somebody = (domain = 'people.example'): string => {
  people += 1;
  return `person${people}@${domain}`;
};
const invite = (
  email: string,
  tenant: TenantWith<never> = first,
  fields: object = {},
): Promise<Answer> =>
  tenant.admin.post(`/tenants/${tenant.id}/users`, { email, roles: ['operator'], ...fields });
const accept = (token: string, given?: string): Promise<Answer> =>
  anyone().post('/auth/invitations/accept', {
    token,
    ...(given === undefined ? {} : { password: given }),
  });
const login = (email: string, given: string, tenantId?: string): Promise<Answer> =>
  anyone().post('/auth/login', {
    email,
    password: given,
    ...(tenantId === undefined ? {} : { tenant_id: tenantId }),
  });
const memberOf = async (tenant: TenantWith<never>, userId: string) => {
  const { body } = await tenant.admin.get(`/tenants/${tenant.id}/users?limit=200`);
  return body.items.find((member: { user_id: string }) => member.user_id === userId);
};
/** The account as it was when somebody else could still choose its password. */
const plantPassword = (userId: string): Promise<unknown> =>
  database.query(
    'UPDATE auth.users SET password_hash = (SELECT password_hash FROM auth.users WHERE email = $2) WHERE id = $1',
    [userId, first.emails.viewer],
  );

describe('an invitation', () => {
  test('shows what was sent in, gives no right, and makes a member once it is accepted', async () => {
    const email = somebody();
    const invited = await invite(email.toUpperCase(), first, { groups: ['sre'] });
    expect([invited.status, invited.body]).toEqual([
      201,
      {
        user_id: expect.any(String),
        email,
        display_name: null,
        roles: ['operator'],
        groups: ['sre'],
        status: 'invited',
        account_status: null,
        can_act: false,
        added_at: expect.any(String),
        by_directory: { roles: [], groups: [] },
        managed_by: null,
      },
    ]);
    const { user_id: userId } = invited.body;
    expect(await memberOf(first, userId)).toEqual(invited.body);
    expect(outcome(await invite(email))).toBe('409 conflict');
    const token = await invitationToken(email);
    const stored = await database.query('SELECT * FROM auth.invitations');
    expect(JSON.stringify(stored)).not.toContain(token);

    const accepted = await accept(token, password);
    expect(accepted.headers.get('cache-control')).toBe('no-store');
    expect([accepted.status, accepted.body]).toEqual([
      200,
      expect.objectContaining({
        access_token: expect.any(String),
        user: expect.objectContaining({ id: userId, email }),
        tenant: { id: first.id, name: 'First', roles: ['operator'] },
        memberships: [{ tenant_id: first.id, name: 'First', roles: ['operator'] }],
      }),
    ]);
    expect(await memberOf(first, userId)).toMatchObject({ status: 'active', roles: ['operator'] });
    const client = new Client(strata.url, accepted.body.access_token);
    expect(outcome(await client.get(`/tenants/${first.id}/services`))).toBe('200');
    expect(outcome(await login(email, password))).toBe('200');
    await audited(first.admin, 'tenant.member_invited', (event) => event.target === userId);
    expect(
      await audited(first.admin, 'tenant.member_joined', (event) => event.target === userId),
    ).toMatchObject({ actor: { type: 'user', id: userId } });
    expect(
      await audited(platform, 'auth.address_proved', (event) => event.target === userId),
    ).toMatchObject({ tenant_id: null, payload: { proof: 'invitation' } });
  });

  test('is good once, for seven days, and ends with the next one', async () => {
    const email = somebody();
    const { body } = await invite(email);
    const again = `/tenants/${first.id}/users/${body.user_id}/invite`;
    const sent = await first.admin.post(again);
    expect([sent.status, sent.body.status]).toEqual([202, 'invited']);
    const latest = await invitationToken(email, 2);
    const [earlier] = await invitationTokens(email);
    expect(outcome(await accept(earlier!, password))).toBe('401 auth_invitation_invalid');

    const [row] = await database.query<{ days: number }>(
      `SELECT extract(epoch FROM expires_at - now()) / 86400 AS days FROM auth.invitations WHERE user_id = $1`,
      [body.user_id],
    );
    expect(Number(row!.days)).toBeGreaterThan(6.9);
    expect(Number(row!.days)).toBeLessThanOrEqual(7);
    const moveEnd = (interval: string) =>
      database.query(
        'UPDATE auth.invitations SET expires_at = now() + $2::interval WHERE user_id = $1',
        [body.user_id, interval],
      );
    await moveEnd('-1 second');
    expect(outcome(await accept(latest, password))).toBe('401 auth_invitation_invalid');
    await moveEnd('1 minute');
    const both = await Promise.all([accept(latest, password), accept(latest, password)]);
    expect(both.map(outcome).sort()).toEqual(['200', '401 auth_invitation_invalid']);
    expect(outcome(await accept(latest, password))).toBe('401 auth_invitation_invalid');
    expect(outcome(await accept('unknown', password))).toBe('401 auth_invitation_invalid');
    expect(outcome(await first.admin.post(again))).toBe('409 conflict');
  });

  test('asks whoever has no way in for a good password, and the link stays good meanwhile', async () => {
    const email = somebody();
    await invite(email);
    const token = await invitationToken(email);
    const without = await accept(token);
    expect([outcome(without), without.body.errors[0].path]).toEqual([
      '422 validation_failed',
      '/password',
    ]);
    expect(outcome(await accept(token, 'short'))).toBe('422 auth_password_too_short');
    for (const guessed of ['Administrator1!', `${email.split('@')[0]}-in-the-garden`])
      expect(outcome(await accept(token, guessed))).toBe('422 auth_password_breached');
    expect(outcome(await accept(token, password))).toBe('200');
  });

  test('leaves the password of an account alone, and is no sign-in to it', async () => {
    const email = somebody();
    await addMember(first.admin, first.id, { email, roles: ['viewer'] });
    const { body } = await invite(email, second);
    expect(body).toMatchObject({ email, display_name: null, status: 'invited' });
    const token = await invitationToken(email, 2);
    const withPassword = await accept(token, password);
    expect([outcome(withPassword), withPassword.body.errors[0].path]).toEqual([
      '422 validation_failed',
      '/password',
    ]);
    const accepted = await accept(token);
    expect([accepted.status, accepted.body]).toEqual([
      200,
      {
        sign_in_required: true,
        email,
        tenant: { id: second.id, name: 'Second', roles: ['operator'] },
      },
    ]);
    expect(outcome(await login(email, password))).toBe('401 auth_invalid_credentials');
    expect(outcome(await login(email, memberPassword, second.id))).toBe('200');
  });

  test('sets no password of an account that was recovered after it was mailed', async () => {
    const email = somebody();
    const { user_id: id } = await addMember(first.admin, first.id, { email, roles: ['viewer'] });
    await invite(email, second);
    const token = await invitationToken(email, 2);
    expect(outcome(await platform.post(`/auth/users/${id}/recover`))).toBe('204');
    expect(outcome(await accept(token, password))).toBe('401 auth_invitation_invalid');
    await second.admin.post(`/tenants/${second.id}/users/${id}/invite`);
    expect(outcome(await accept(await invitationToken(email, 3), password))).toBe('200');
  });

  test('puts no password beside the passkey or the provider of an account', async () => {
    await database.query(
      `INSERT INTO auth.sso_providers
       VALUES (gen_random_uuid(), 'Own', 'https://own.example', 'strata', '', NULL, '[]', false, '{}', '{}', true, now(), now())`,
    );
    for (const credential of [
      `INSERT INTO auth.passkeys SELECT gen_random_uuid(), id, 'own ' || id, '\\x00', 0, NULL, gen_random_uuid(), '{}', false, false, now(), NULL FROM auth.users WHERE id = $1`,
      `INSERT INTO auth.sso_identities SELECT 'https://own.example', id::text, id, now() FROM auth.users WHERE id = $1`,
    ]) {
      const email = somebody();
      const member = { email, roles: ['viewer'] };
      const { user_id: id } = await addMember(first.admin, first.id, member);
      await database.query(credential, [id]);
      await database.query('UPDATE auth.users SET password_hash = NULL WHERE id = $1', [id]);
      await invite(email, second);
      const token = await invitationToken(email, 2);
      expect(outcome(await accept(token, password))).toBe('422 validation_failed');
      expect((await accept(token)).body).toMatchObject({ sign_in_required: true, email });
      expect(outcome(await login(email, password))).toBe('401 auth_invalid_credentials');
    }
  });

  test('is listed, accepted and declined signed in, by its owner alone', async () => {
    const email = somebody();
    const { client } = await addMember(first.admin, first.id, { email, roles: ['viewer'] });
    const { body: member } = await invite(email, second);
    const listed = await client.get('/auth/invitations');
    const [invitation] = listed.body.items;
    expect(listed.body).toEqual({
      items: [
        {
          id: expect.any(String),
          tenant: { id: second.id, name: 'Second' },
          roles: ['operator'],
          created_at: expect.any(String),
          expires_at: expect.any(String),
        },
      ],
      next_cursor: null,
    });
    const path = `/auth/invitations/${invitation.id}`;
    expect((await first.viewer.get('/auth/invitations')).body.items).toEqual([]);
    expect(outcome(await first.viewer.post(`${path}/accept`))).toBe('404 not_found');
    expect(outcome(await first.viewer.post(`${path}/decline`))).toBe('404 not_found');

    expect(outcome(await client.post(`${path}/decline`))).toBe('204');
    expect(await memberOf(second, member.user_id)).toBeUndefined();
    expect(outcome(await client.post(`${path}/accept`))).toBe('404 not_found');
    await audited(
      second.admin,
      'tenant.member_declined',
      (event) => event.target === member.user_id,
    );

    expect(outcome(await invite(email, second))).toBe('201');
    const token = await invitationToken(email, 3);
    const again = (await client.get('/auth/invitations')).body.items[0];
    const joined = await client.post(`/auth/invitations/${again.id}/accept`);
    expect([joined.status, joined.body]).toEqual([
      200,
      { id: second.id, name: 'Second', roles: ['operator'] },
    ]);
    expect(outcome(await accept(token))).toBe('401 auth_invitation_invalid');
    expect(outcome(await client.post('/auth/switch-tenant', { tenant_id: second.id }))).toBe('200');
  });

  test('that was used by a request which died before the membership is accepted signed in', async () => {
    const email = somebody();
    const { client, user_id: userId } = await addMember(first.admin, first.id, {
      email,
      roles: ['viewer'],
    });
    await invite(email, second);
    const token = await invitationToken(email, 2);
    await database.query('UPDATE auth.invitations SET used_at = now() WHERE user_id = $1', [
      userId,
    ]);
    expect(outcome(await accept(token))).toBe('401 auth_invitation_invalid');
    const [{ id }] = (await client.get('/auth/invitations')).body.items;
    expect(outcome(await client.post(`/auth/invitations/${id}/accept`))).toBe('200');
    expect(await memberOf(second, userId)).toMatchObject({ status: 'active' });
  });

  test('ends when it is taken back, and its roles are those of the moment it is accepted', async () => {
    const email = somebody();
    const { body } = await invite(email);
    const path = `/tenants/${first.id}/users/${body.user_id}`;
    const token = await invitationToken(email);
    expect(outcome(await first.admin.delete(path))).toBe('204');
    expect(outcome(await accept(token, password))).toBe('401 auth_invitation_invalid');
    expect(outcome(await first.admin.post(`${path}/invite`))).toBe('404 not_found');
    await invite(email);
    const changed = await first.admin.patch(path, { roles: ['viewer'], groups: ['leads'] });
    expect([changed.status, changed.body]).toEqual([
      200,
      expect.objectContaining({ status: 'invited', roles: ['viewer'], groups: ['leads'] }),
    ]);
    const accepted = await accept(await invitationToken(email, 2), password);
    expect(accepted.body.tenant.roles).toEqual(['viewer']);
  });

  test('that is taken back while its password is being set sets none, and proves nothing', async () => {
    const email = somebody();
    const { body } = await invite(email);
    const token = await invitationToken(email);
    const counter = "SELECT FROM strata.revisions WHERE scope = 'auth' FOR UPDATE";
    const lock = await holdLock(database, counter);
    const accepting = accept(token, password);
    try {
      await lock.untilWaiting(1);
      const path = `/tenants/${first.id}/users/${body.user_id}`;
      expect(outcome(await first.admin.delete(path))).toBe('204');
    } finally {
      await lock.release();
    }
    expect(outcome(await accepting)).toBe('401 auth_invitation_invalid');
    const account = 'SELECT email_verified, password_hash FROM auth.users WHERE id = $1';
    expect(await database.query(account, [body.user_id])).toEqual([
      { email_verified: false, password_hash: null },
    ]);
  });

  test('waits while the tenant or the account is disabled', async () => {
    const tenant = await createTenantWith(strata.url, platform, 'Waiting');
    const email = somebody();
    const { body } = await invite(email, tenant);
    const token = await invitationToken(email);
    await platform.patch(`/tenants/${tenant.id}`, { status: 'disabled' });
    expect(outcome(await accept(token, password))).toBe('403 auth_tenant_disabled');
    await platform.patch(`/tenants/${tenant.id}`, { status: 'active' });
    await platform.patch(`/auth/users/${body.user_id}`, { status: 'disabled' });
    expect(outcome(await accept(token, password))).toBe('401 auth_invitation_invalid');
    await platform.patch(`/auth/users/${body.user_id}`, { status: 'active' });
    expect(outcome(await accept(token, password))).toBe('200');
  });
});

describe('an address of a domain', () => {
  const addProvider = (
    tenantId: string | null,
    domain: string,
    verified: boolean,
    enabled = true,
  ) =>
    database.query(
      `INSERT INTO auth.sso_providers VALUES (gen_random_uuid(), 'P', 'https://idp.example', 'c', 's',
         $1, $2, false, '{}', '{}', $3, now(), now())`,
      [tenantId, JSON.stringify([{ domain, verified }]), enabled],
    );
  const statusOf = async (email: string, tenant: TenantWith<never>): Promise<string> =>
    (await invite(email, tenant)).body.status;

  test("is a member at once where the tenant's own provider is known to own it, and nowhere else", async () => {
    await addProvider(first.id, 'owned.example', true);
    await addProvider(first.id, 'claimed.example', false);
    await addProvider(first.id, 'disabled.example', true, false);
    await addProvider(null, 'platform-owned.example', true);
    const email = somebody('owned.example');
    expect(await statusOf(email, first)).toBe('active');
    expect(await invitationTokens(email)).toEqual([]);
    expect(await statusOf(email, second)).toBe('invited');
    for (const domain of [
      'claimed.example',
      'disabled.example',
      'platform-owned.example',
      'sub.owned.example',
      'owned.example.elsewhere.example',
    ])
      expect([domain, await statusOf(somebody(domain), first)]).toEqual([domain, 'invited']);
    // The provider lets them in, so nothing has to be set. What a link may set, another may not.
    expect(outcome(await accept(await invitationToken(email)))).toBe('200');
  });

  test('loses what another had planted, before its owner is made a member', async () => {
    const email = somebody('later-owned.example');
    const { body } = await invite(email, second);
    await plantPassword(body.user_id);
    const planted = await login(email, memberPassword);
    expect(planted.status).toBe(200);
    await addProvider(first.id, 'later-owned.example', true);
    expect(await statusOf(email, first)).toBe('active');
    const session = new Client(strata.url, planted.body.access_token);
    expect(outcome(await session.get('/auth/me'))).toBe('401 auth_session_revoked');
    expect(outcome(await login(email, memberPassword, first.id))).toBe(
      '401 auth_invalid_credentials',
    );
  });
});

describe('whoever is only invited', () => {
  test('has no right: not to sign in there, to continue there, or to keep the tenant alive', async () => {
    const tenant = await createTenantWith(strata.url, platform, 'Inviting');
    const email = somebody();
    const { client } = await addMember(first.admin, first.id, { email, roles: ['viewer'] });
    const { body } = await invite(email, tenant, { roles: ['tenant_admin'], groups: ['sre'] });
    expect(outcome(await login(email, memberPassword, tenant.id))).toBe(
      '403 auth_no_tenant_membership',
    );
    expect(outcome(await client.post('/auth/switch-tenant', { tenant_id: tenant.id }))).toBe(
      '403 auth_no_tenant_membership',
    );
    expect((await login(email, memberPassword)).body).toMatchObject({
      tenant: { id: first.id },
      memberships: [{ tenant_id: first.id }],
    });
    expect((await client.get('/auth/me')).body.memberships).toHaveLength(1);
    expect(outcome(await client.get(`/tenants/${tenant.id}/users`))).toBe('403 tenant_mismatch');
    // As the gateway asks it, of a session that somebody moved to the tenant.
    await database.query('UPDATE auth.sessions SET tenant_id = $2 WHERE user_id = $1', [
      body.user_id,
      tenant.id,
    ]);
    const moved = await login(email, memberPassword);
    await database.query('UPDATE auth.sessions SET tenant_id = $2 WHERE id = $1', [
      moved.body.session_id,
      tenant.id,
    ]);
    expect(
      outcome(
        await new Client(strata.url, moved.body.access_token).get(`/tenants/${tenant.id}/users`),
      ),
    ).toBe('403 tenant_mismatch');
    const [me] = (await tenant.admin.get(`/tenants/${tenant.id}/users`)).body.items.filter(
      (member: { email: string }) => member.email === tenant.emails.tenant_admin,
    );
    const self = `/tenants/${tenant.id}/users/${me.user_id}`;
    expect(outcome(await tenant.admin.patch(self, { roles: ['viewer'] }))).toBe('409 conflict');
    expect(outcome(await tenant.admin.delete(self))).toBe('409 conflict');
    expect(outcome(await tenant.admin.delete(`/tenants/${tenant.id}/users/${body.user_id}`))).toBe(
      '204',
    );
  });

  test('is not asked for approvals, by group or as an administrator', async () => {
    const tenant = await createTenantWith(strata.url, platform, 'Asking');
    const email = somebody();
    await invite(email, tenant, { roles: ['operator', 'tenant_admin'], groups: ['sre'] });
    await invitationToken(email);
    const config = { approver_groups: { risk_levels: { high: ['sre'] } } };
    await tenant.admin.put(`/tenants/${tenant.id}/config/notifications`, config);
    const approval = { action: 'scale', risk_level: 'high', title: 'Scale checkout to 6' };
    expect(outcome(await tenant.admin.post(`/tenants/${tenant.id}/approvals`, approval))).toBe(
      '202',
    );
    await eventually(async () => {
      const asked = await mailsTo(tenant.emails.tenant_admin!);
      expect(asked.join()).toContain('Scale checkout to 6');
    });
    expect(await mailsTo(email)).toHaveLength(1);
  });

  test('is not known by name', async () => {
    const email = somebody();
    await addMember(first.admin, first.id, { email, roles: ['viewer'] });
    await database.query(`UPDATE auth.users SET display_name = 'Ada Secret' WHERE email = $1`, [
      email,
    ]);
    const invited = await invite(email, second);
    expect(invited.text).not.toContain('Ada Secret');
    const again = await second.admin.post(
      `/tenants/${second.id}/users/${invited.body.user_id}/invite`,
    );
    expect(again.text).not.toContain('Ada Secret');
    expect((await memberOf(second, invited.body.user_id)).display_name).toBeNull();
    expect((await memberOf(first, invited.body.user_id)).display_name).toBe('Ada Secret');
  });
});

describe('an address that no one had proved', () => {
  /**
   * An account as another made it, with a password of theirs, entered before its owner proves the
   * address.
   */
  async function planted(email: string) {
    const { body } = await invite(email, first);
    await database.query(`UPDATE tenant_config.members SET status = 'active' WHERE user_id = $1`, [
      body.user_id,
    ]);
    await plantPassword(body.user_id);
    const signedIn = await login(email, memberPassword);
    const session = new Client(strata.url, signedIn.body.access_token);
    const made = await session.post('/auth/api-key', { name: 'planted', scopes: ['auth:self'] });
    expect(made.status).toBe(201);
    const key = new Client(strata.url, made.body.api_key);
    expect([outcome(await session.get('/auth/me')), outcome(await key.get('/auth/me'))]).toEqual([
      '200',
      '200',
    ]);
    for (const statement of [
      `INSERT INTO auth.passkeys SELECT gen_random_uuid(), id, 'planted ' || id, '\\x00', 0, NULL, gen_random_uuid(), '{}', false, false, now(), NULL FROM auth.users WHERE id = $1`,
      `INSERT INTO auth.sso_identities SELECT 'https://planted.example', id::text, id, now() FROM auth.users WHERE id = $1`,
    ])
      await database.query(statement, [body.user_id]);
    return { userId: body.user_id as string, session, key };
  }
  const isLeft = async (userId: string): Promise<string[]> => {
    const [row] = await database.query<Record<string, number>>(
      `SELECT (SELECT count(*) FROM auth.passkeys WHERE user_id = $1) AS passkeys,
        (SELECT count(*) FROM auth.sso_identities WHERE user_id = $1) AS links,
        (SELECT count(*) FROM auth.api_keys WHERE user_id = $1) AS keys`,
      [userId],
    );
    return Object.keys(row!).filter((each) => Number(row![each]) > 0);
  };

  test('is entered with nothing that another had planted, once an invitation is accepted', async () => {
    const email = somebody();
    const { userId, session, key } = await planted(email);
    await invite(email, second, { roles: ['tenant_admin'] });
    // The session of whoever planted it neither sees nor takes what the owner is asked.
    expect((await session.get('/auth/invitations')).body.items).toEqual([]);
    const [{ id }] = (await database.query<{ id: string }>(
      'SELECT id FROM auth.invitations WHERE user_id = $1 AND tenant_id = $2',
      [userId, second.id],
    )) as [{ id: string }];
    for (const answer of ['accept', 'decline'])
      expect(outcome(await session.post(`/auth/invitations/${id}/${answer}`))).toBe(
        '403 auth_address_unproved',
      );

    const accepted = await accept(await invitationToken(email, 2), password);
    expect([accepted.status, accepted.body.tenant.id]).toEqual([200, second.id]);
    expect(outcome(await session.get('/auth/me'))).toBe('401 auth_session_revoked');
    expect(outcome(await key.get('/auth/me'))).toBe('401 auth_api_key_invalid');
    expect(outcome(await login(email, memberPassword))).toBe('401 auth_invalid_credentials');
    expect(outcome(await login(email, memberPassword, second.id))).toBe(
      '401 auth_invalid_credentials',
    );
    expect(await isLeft(userId)).toEqual([]);
    expect(
      (await audited(platform, 'auth.address_proved', (event) => event.target === userId)).payload,
    ).toEqual({
      proof: 'invitation',
      ended: { passwords: 1, sessions: 1, api_keys: 1, passkeys: 1, provider_links: 1 },
    });
    // What its owner makes now stays: the next proof is not the first.
    const owner = new Client(strata.url, accepted.body.access_token);
    const own = await owner.post('/auth/api-key', { name: 'mine', scopes: ['auth:self'] });
    const third = await createTenantWith(strata.url, platform, `Third ${people}`);
    await invite(email, third);
    expect(outcome(await accept(await invitationToken(email, 3)))).toBe('200');
    expect(outcome(await new Client(strata.url, own.body.api_key).get('/auth/me'))).toBe('200');
    expect(outcome(await owner.get('/auth/me'))).toBe('200');
  });

  test("never administers the platform, and its owner's proof ends what was planted", async () => {
    const { session, key } = await planted(futureAdmin);
    for (const client of [session, key]) {
      const { body } = await client.get('/auth/me');
      expect(body.user.platform_roles).toEqual([]);
    }
    expect(outcome(await session.get('/tenants'))).toBe('403 insufficient_role');
    await invite(futureAdmin, second);
    const accepted = await accept(await invitationToken(futureAdmin, 2), password);
    expect(accepted.body.user.platform_roles).toEqual(['platform_admin']);
    const owner = new Client(strata.url, accepted.body.access_token);
    expect(outcome(await owner.get('/tenants'))).toBe('200');
    expect(outcome(await session.get('/tenants'))).toBe('401 auth_session_revoked');
    expect(outcome(await key.get('/auth/me'))).toBe('401 auth_api_key_invalid');
  });
});

describe('a tenant_admin', () => {
  test('who is none any more when their change comes to its turn gives and takes nothing', async () => {
    const tenant = await createTenantWith(strata.url, platform, 'Turns');
    const users = `/tenants/${tenant.id}/users`;
    const added = (roles: string[]) =>
      addMember(tenant.admin, tenant.id, { email: somebody(), roles });
    const [leaver, puppet] = [await added(['tenant_admin']), await added(['viewer'])];
    const { body: account } = await tenant.admin.post(`/tenants/${tenant.id}/service-accounts`, {
      name: 'ci',
      roles: ['viewer'],
    });
    const counter = 'SELECT FROM strata.revisions WHERE scope = $1 FOR UPDATE';
    const lock = await holdLock(database, counter, [`members:${tenant.id}`]);
    const demoted = tenant.admin.patch(`${users}/${leaver.user_id}`, { roles: ['viewer'] });
    await lock.untilWaiting(1);
    const late = [
      leaver.client.patch(`${users}/${puppet.user_id}`, { roles: ['tenant_admin'] }),
      leaver.client.delete(`${users}/${puppet.user_id}`),
      leaver.client.post(`/tenants/${tenant.id}/service-accounts`, {
        name: 'late',
        roles: ['operator'],
      }),
      leaver.client.patch(`/tenants/${tenant.id}/service-accounts/${account.id}`, {
        roles: ['tenant_admin'],
      }),
      leaver.client.patch(`/tenants/${tenant.id}`, { sign_in_policy: 'any' }),
    ];
    await lock.untilWaiting(1 + late.length);
    await lock.release();
    expect(outcome(await demoted)).toBe('200');
    const refused = late.map(() => '403 insufficient_role');
    expect((await Promise.all(late)).map(outcome)).toEqual(refused);
    expect(await memberOf(tenant, puppet.user_id)).toMatchObject({ roles: ['viewer'] });
  });

  test('of the platform who is none any more when it is their turn changes nothing of accounts', async () => {
    const tenant = await createTenantWith(strata.url, platform, 'Platform turns');
    const member = { email: 'leaver@platform.example', roles: ['viewer'] };
    const leaver = await addMember(tenant.admin, tenant.id, member);
    const puppet = await addMember(tenant.admin, tenant.id, {
      email: somebody(),
      roles: ['viewer'],
    });
    const made = await leaver.client.post('/auth/api-key', {
      name: 'idp',
      scopes: ['identity:manage'],
    });
    const key = new Client(strata.url, made.body.api_key);
    const account = `/auth/users/${puppet.user_id}`;
    const lock = await holdLock(
      database,
      'SELECT FROM strata.revisions WHERE scope = $1 FOR UPDATE',
      ['auth'],
    );
    const disabled = platform.patch(`/auth/users/${leaver.user_id}`, { status: 'disabled' });
    await lock.untilWaiting(1);
    const late = [
      leaver.client.patch(account, { status: 'disabled' }),
      leaver.client.delete(account),
      leaver.client.put('/auth/workload-issuers', { issuers: [] }),
      key.patch(account, { status: 'disabled' }),
    ];
    await lock.untilWaiting(1 + late.length);
    await lock.release();
    expect(outcome(await disabled)).toBe('200');
    const [first, second, third, byKey] = (await Promise.all(late)).map(outcome);
    expect([first, second, third]).toEqual(Array(3).fill('401 auth_session_revoked'));
    expect(byKey).toBe('403 insufficient_role');
    expect((await platform.get(account)).body.status).toBe('active');
  });

  test('of the platform who is none any more when it is their turn changes no tenant', async () => {
    const tenant = await createTenantWith(strata.url, platform, 'Tenant turns');
    const member = { email: 'late@platform.example', roles: ['viewer'] };
    const leaver = await addMember(tenant.admin, tenant.id, member);
    const made = await leaver.client.post('/auth/api-key', {
      name: 'k',
      scopes: ['platform:write'],
    });
    const key = new Client(strata.url, made.body.api_key);
    const path = `/tenants/${tenant.id}`;
    const counter = 'SELECT FROM strata.revisions WHERE scope = $1 FOR UPDATE';
    const lock = await holdLock(database, counter, [`members:${tenant.id}`]);
    const late = [
      leaver.client.patch(path, { name: 'Theirs' }),
      key.patch(path, { status: 'disabled' }),
      leaver.client.delete(path),
    ];
    await lock.untilWaiting(late.length);
    const account = `/auth/users/${leaver.user_id}`;
    expect(outcome(await platform.patch(account, { status: 'disabled' }))).toBe('200');
    await lock.release();
    const [bySession, byKey, deleted] = (await Promise.all(late)).map(outcome);
    expect([bySession, byKey]).toEqual(['401 auth_session_revoked', '401 auth_api_key_invalid']);
    expect(deleted).toMatch(/^401|^409/);
    const { body } = await platform.get(path);
    expect([body.name, body.status]).toEqual(['Tenant turns', 'active']);
  });

  test('is made by no one whose sign-in was longer ago than ten minutes', async () => {
    const tenant = await createTenantWith(strata.url, platform, 'Granting');
    const users = `/tenants/${tenant.id}/users`;
    const { user_id: userId } = await addMember(tenant.admin, tenant.id, {
      email: somebody(),
      roles: ['viewer'],
    });
    // Of a session that no node has in memory yet.
    const late = await signIn(strata.url, tenant.emails.tenant_admin!, memberPassword, tenant.id);
    await database.query(
      `UPDATE auth.sessions SET authenticated_at = now() - interval '11 minutes'
         WHERE tenant_id = $1 AND id = (SELECT id FROM auth.sessions WHERE tenant_id = $1 ORDER BY created_at DESC LIMIT 1)`,
      [tenant.id],
    );
    const roles = ['viewer', 'tenant_admin'];
    expect(outcome(await late.post(users, { email: somebody(), roles }))).toBe(
      '403 auth_reauth_required',
    );
    expect(outcome(await late.patch(`${users}/${userId}`, { roles }))).toBe(
      '403 auth_reauth_required',
    );
    expect(outcome(await late.post(users, { email: somebody(), roles: ['viewer'] }))).toBe('201');
    expect(outcome(await tenant.admin.patch(`${users}/${userId}`, { roles }))).toBe('200');
    // So does any other change of what a member may do, and inviting somebody who decides.
    expect(outcome(await late.patch(`${users}/${userId}`, { groups: ['sre'] }))).toBe(
      '403 auth_reauth_required',
    );
    expect(outcome(await late.post(users, { email: somebody(), roles: ['operator'] }))).toBe(
      '403 auth_reauth_required',
    );
  });

  test('of the platform is not proved by the word of an API key', async () => {
    const email = 'listed@platform.example';
    const made = await platform.post('/auth/api-key', { name: 'k', scopes: ['identity:manage'] });
    const key = new Client(strata.url, made.body.api_key);
    const admin = { email, password };
    expect(outcome(await key.post('/tenants', { name: 'By key', admin }))).toBe(
      '403 insufficient_scope',
    );
    const own = await platform.post('/tenants', { name: 'By its owner', admin });
    expect(own.body.admin.status).toBe('active');
    expect((await login(email, password)).body.user.platform_roles).toEqual(['platform_admin']);
  });
});

describe('the first administrator of a tenant', () => {
  const create = (admin: object, name = `Tenant ${somebody()}`): Promise<Answer> =>
    platform.post('/tenants', { name, admin });

  test("is active at once by the platform administrator's word, where the account is new", async () => {
    const email = somebody();
    const made = await create({ email, password });
    expect(made.body.admin).toEqual({ user_id: expect.any(String), email, status: 'active' });
    expect((await login(email, password)).body.tenant).toMatchObject({
      id: made.body.id,
      roles: ['tenant_admin'],
    });
    expect(await invitationTokens(email)).toEqual([]);
    expect(outcome(await create({ email: somebody(), password: 'short' }))).toBe(
      '422 auth_password_too_short',
    );
    const named = { email: somebody(), password: 'the garden of Eden Ltd' };
    expect(outcome(await create(named, 'Eden Ltd'))).toBe('422 auth_password_breached');
  });

  test('is invited by mail without a password', async () => {
    const email = somebody();
    const made = await create({ email });
    expect(made.body.admin.status).toBe('invited');
    // Of two mails on their way either may arrive first, and only the later one's link is good.
    await invitationToken(email);
    // Nobody in the tenant can send it again, so the platform can.
    const again = `/tenants/${made.body.id}/users/${made.body.admin.user_id}/invite`;
    expect(outcome(await platform.post(again))).toBe('202');
    const accepted = await accept(await invitationToken(email, 2), password);
    expect(accepted.body.tenant).toMatchObject({ id: made.body.id, roles: ['tenant_admin'] });
  });

  test('who has an account is invited and keeps their password', async () => {
    const made = await create({ email: first.emails.operator, password });
    expect(made.body.admin.status).toBe('invited');
    expect(outcome(await login(first.emails.operator!, password))).toBe(
      '401 auth_invalid_credentials',
    );
    expect(outcome(await login(first.emails.operator!, memberPassword, made.body.id))).toBe(
      '403 auth_no_tenant_membership',
    );
    expect(outcome(await accept(await invitationToken(first.emails.operator!, 2)))).toBe('200');
    expect(outcome(await login(first.emails.operator!, memberPassword, made.body.id))).toBe('200');
  });
});

test('administrators of the platform who disable each other at once leave one', async () => {
  const email = 'listed@platform.example';
  await platform.post('/tenants', { name: 'Each other', admin: { email, password } });
  const other = await signIn(strata.url, email, password);
  const idOf = async (address: string): Promise<string | undefined> =>
    (await platform.get(`/auth/users?email=${address}`)).body.items[0]?.id;
  const disable = (by: Client, id: string | undefined): Promise<Answer> =>
    by.patch(`/auth/users/${id}`, { status: 'disabled' });
  const third = await idOf(futureAdmin);
  if (third !== undefined) expect(outcome(await disable(platform, third))).toBe('200');
  const [own, theirs] = [await idOf('admin@example.com'), await idOf(email)];
  const counter = `SELECT FROM strata.revisions WHERE scope = 'auth' FOR UPDATE`;
  const lock = await holdLock(database, counter);
  const both = [disable(platform, theirs), disable(other, own)];
  await lock.untilWaiting(2);
  await lock.release();
  const outcomes = (await Promise.all(both)).map(outcome);
  expect(outcomes.sort()).toEqual(['200', '401 auth_session_revoked']);
});
