/** Mail that tells those concerned what was changed in who may do what. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { eventually } from '../support/cluster.ts';
import { mailsTo } from '../support/mailboxes.ts';
import { startMailServer, type MailServer } from '../support/mail-server.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import {
  addMember,
  adminPassword,
  createTenant,
  memberPassword,
  signIn,
  startStrata,
  type Client,
  type Running,
  type TenantFixture,
} from '../support/strata.ts';

let database: Database;
let mailServer: MailServer;
let strata: Running;
/** To whose addresses the mail server takes no mail yet, with what lets it. */
const held = new Map<string, () => void>();
/** Which it refuses for now, with how often it did. */
const refused = new Map<string, number>();
let platform: Client;
beforeAll(async () => {
  database = await strataDatabase();
  mailServer = await startMailServer({
    onRcptTo({ address }, _session, done) {
      const times = refused.get(address);
      if (times !== undefined) {
        refused.set(address, times + 1);
        done(Object.assign(new Error('later'), { responseCode: 450 }));
      } else if (held.has(address)) held.set(address, done);
      else done();
    },
  });
  strata = await startStrata({
    DATABASE_URL: database.url,
    SMTP_SERVER: 'localhost',
    SMTP_PORT: String(mailServer.port),
    SMTP_TLS_CA: mailServer.certificate,
    FROM_EMAIL: 'strata@platform.example',
  });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await mailServer?.stop();
  await database?.drop();
});

/** The notices of changed rights that name the action, or of any, the oldest first. */
const noticesTo = async (address: string, action = ''): Promise<string[]> => {
  const texts = await mailsTo(address);
  return texts.filter((text) => text.includes(`${action} was done by `));
};

test('those concerned learn by mail who changed rights, and no one else does', async () => {
  const tenant = await createTenant(strata.url, platform, 'Told');
  const stranger = await createTenant(strata.url, platform, 'Stranger');
  const { client: second } = await addMember(tenant.admin, tenant.id, {
    email: 'second@told.example',
    roles: ['tenant_admin'],
  });
  const members = await second.get(`/tenants/${tenant.id}/users`);
  const { user_id: viewerId } = (
    members.body as { items: { user_id: string; email: string }[] }
  ).items.find(({ email }) => email === tenant.emails.viewer)!;
  const patched = await second.patch(`/tenants/${tenant.id}/users/${viewerId}`, {
    roles: ['tenant_admin'],
  });
  expect(patched.status).toBe(200);

  const concerned = [tenant.emails.tenant_admin!, 'second@told.example', tenant.emails.viewer!];
  for (const address of concerned)
    await eventually(async () => {
      const [notice] = await noticesTo(address, 'tenant.member_updated');
      expect(notice).toContain(
        `In tenant ${tenant.id}, tenant.member_updated was done by second@told.example.`,
      );
      expect(notice).toContain(`about ${viewerId}`);
    });
  for (const address of [tenant.emails.operator!, stranger.emails.tenant_admin!])
    expect(await noticesTo(address, 'tenant.member_updated')).toEqual([]);
});

test("what is the platform's is told to its administrators, what is one's own by its own mail", async () => {
  const tenant = await createTenant(strata.url, platform, 'Recovered');
  const me = await tenant.operator.get('/auth/me');
  const { id } = (me.body as { user: { id: string } }).user;
  const patched = await platform.patch(`/auth/users/${id}`, { status: 'disabled' });
  expect(patched.status).toBe(200);
  for (const address of ['admin@example.com', tenant.emails.operator!])
    await eventually(async () => {
      const [notice] = await noticesTo(address, 'auth.user_disabled');
      expect(notice).toContain('In the platform, ');
      expect(notice).toContain(`about ${id}`);
    });
  const key = await tenant.admin.post('/auth/api-key', { name: 'k', scopes: ['config:read'] });
  expect(key.status).toBe(201);
  await eventually(async () => {
    const texts = await mailsTo(tenant.emails.tenant_admin!);
    expect(texts.join('\n')).toContain('An API key was made for your account');
  });
  expect(await noticesTo('admin@example.com', 'auth.api_key_created')).toEqual([]);
});

test('an address gets twenty of these mails an hour, the last of which says so', async () => {
  const tenant = await createTenant(strata.url, platform, 'Busy');
  const me = await tenant.operator.get('/auth/me');
  const { id } = (me.body as { user: { id: string } }).user;
  const admin = await signIn(strata.url, tenant.emails.tenant_admin!, memberPassword);
  for (let nth = 0; nth < 30; nth += 1) {
    const groups = [`group-${nth}`];
    const { status } = await admin.patch(`/tenants/${tenant.id}/users/${id}`, { groups });
    expect(status).toBe(200);
  }
  await eventually(async () => {
    // Of mails that leave together, any may arrive as the last.
    const notices = await noticesTo(tenant.emails.operator!);
    expect(notices.join('\n')).toContain(
      'Further changes of this hour are in the audit, and are not mailed.',
    );
  });
  // Whoever comes later hears of what is done later: all that was done before has been told by then.
  const fence = 'fence@busy.example';
  await addMember(admin, tenant.id, { email: fence, roles: ['tenant_admin'] });
  await admin.patch(`/tenants/${tenant.id}/users/${id}`, { groups: [] });
  await eventually(async () => {
    expect(await noticesTo(fence, 'tenant.member_updated')).toHaveLength(1);
  });
  // Of any action: they may have been told of their own membership before.
  expect(await noticesTo(tenant.emails.operator!)).toHaveLength(20);
});

test('mails to an address that the server is slow to take one for hold up no other tenant, and neither come twice', async () => {
  const slow = await createTenant(strata.url, platform, 'Slow');
  const other = await createTenant(strata.url, platform, 'Other');
  const address = slow.emails.tenant_admin!;
  const giveGroup = async ({ id, admin, emails }: TenantFixture, group: string): Promise<void> => {
    const { body } = await admin.get(`/tenants/${id}/users`);
    const { user_id: viewer } = body.items.find(
      ({ email }: { email: string }) => email === emails.viewer,
    );
    const { status } = await admin.patch(`/tenants/${id}/users/${viewer}`, { groups: [group] });
    expect(status).toBe(200);
  };
  const noted = () => database.query('SELECT FROM audit.mail_notices');
  await eventually(async () => expect(await noted()).toHaveLength(0));
  const notHeld = (): void => {};
  held.set(address, notHeld);
  await giveGroup(slow, 'a');
  await eventually(async () => expect(held.get(address)).not.toBe(notHeld));
  await giveGroup(other, 'a');
  await eventually(async () => {
    const [notice] = await noticesTo(other.emails.tenant_admin!, 'tenant.member_updated');
    expect(notice).toContain(`In tenant ${other.id}`);
  });
  expect(await noticesTo(address, 'tenant.member_updated')).toEqual([]);
  const take = held.get(address)!;
  held.delete(address);
  take();
  await eventually(async () => expect(await noted()).toHaveLength(0));
  for (const { emails } of [slow, other])
    expect(await noticesTo(emails.tenant_admin!, 'tenant.member_updated')).toHaveLength(1);
});

test('what the server refuses for longer than three attempts take is sent later, and to no one twice', async () => {
  const tenant = await createTenant(strata.url, platform, 'Refused');
  const second = 'second@refused.example';
  await addMember(tenant.admin, tenant.id, { email: second, roles: ['tenant_admin'] });
  const noted = () => database.query('SELECT FROM audit.mail_notices');
  await eventually(async () => expect(await noted()).toHaveLength(0));
  const away = tenant.emails.tenant_admin!;
  refused.set(away, 0);
  const { body } = await tenant.admin.get(`/tenants/${tenant.id}/users`);
  const { user_id: viewer } = body.items.find(
    ({ email }: { email: string }) => email === tenant.emails.viewer,
  );
  const { status } = await tenant.admin.patch(`/tenants/${tenant.id}/users/${viewer}`, {
    groups: ['refused'],
  });
  expect(status).toBe(200);
  const isDue = () => database.query('UPDATE audit.mail_notices SET due_at = now()');
  await eventually(async () => expect(refused.get(away)).toBe(3), 60_000);
  // Tried again: the one who has it gets it no second time.
  await eventually(async () => {
    await isDue();
    expect(refused.get(away)).toBeGreaterThan(3);
  }, 60_000);
  refused.delete(away);
  await eventually(async () => {
    await isDue();
    expect(await noted()).toHaveLength(0);
  }, 60_000);
  for (const address of [away, second])
    expect(
      (await noticesTo(address, 'tenant.member_updated')).filter((text) =>
        text.includes(`about ${viewer}`),
      ),
    ).toHaveLength(1);
}, 120_000);
