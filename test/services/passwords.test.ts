/** Changing a password, and setting a new one through a mailed link. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { randomBytes } from 'node:crypto';
import { audited } from '../support/audit.ts';
import { startMailServer, type MailServer } from '../support/mail-server.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import { startRedis, type Process } from '../support/servers.ts';
import {
  adminPassword,
  Client,
  createTenantWith,
  memberPassword,
  signIn,
  startStrata,
  type Answer,
  type Running,
  type TenantWith,
} from '../support/strata.ts';

const baseUrl = 'https://strata.example.com';
const newPassword = 'grapefruit lamp seventy';
let database: Database;
let redis: Process;
let state: Redis;
let smtp: MailServer;
let strata: Running;
let platform: Client;
let tenant: TenantWith<'viewer'>;
let mailsToRefuse: number;

beforeAll(async () => {
  smtp = await startMailServer({
    message() {
      if (mailsToRefuse === 0) return undefined;
      mailsToRefuse -= 1;
      return [451, 'try again later'];
    },
  });
  [database, redis] = await Promise.all([strataDatabase(), startRedis()]);
  state = new Redis(redis.url);
  strata = await startStrata({
    DATABASE_URL: database.url,
    REDIS_URL: redis.url,
    SMTP_SERVER: '127.0.0.1',
    SMTP_PORT: String(smtp.port),
    SMTP_TLS_CA: smtp.certificate,
    BASE_URL: baseUrl,
    TRUSTED_PROXIES: '127.0.0.1/32',
  });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
});
let tenantCount = 0;
beforeEach(async () => {
  mailsToRefuse = 0;
  tenantCount += 1;
  tenant = await createTenantWith(strata.url, platform, `Passwords ${tenantCount}`, ['viewer']);
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  state?.disconnect();
  await Promise.all([smtp?.stop(), redis?.stop('SIGKILL'), database?.drop()]);
});

/** Where requests come from, by default: failures of one network count together. */
const home = '192.0.2.1';
const anyone = (): Client => new Client(strata.url);
const outcome = ({ status, body }: Answer): string =>
  status < 300 ? String(status) : `${status} ${body.detail.code}`;
const login = (password: string, email = tenant.emails.viewer!, ip = home): Promise<Answer> =>
  anyone().post('/auth/login', { email, password }, { 'x-forwarded-for': ip });
const change = (client: Client, current: string, wanted: string): Promise<Answer> =>
  client.post('/auth/password/change', { current_password: current, new_password: wanted });
const forgot = (email: string, ip = home): Promise<Answer> =>
  anyone().post('/auth/password/forgot', { email }, { 'x-forwarded-for': ip });
const reset = (token: string, wanted = newPassword): Promise<Answer> =>
  anyone().post(
    '/auth/password/reset',
    { token, new_password: wanted },
    { 'x-forwarded-for': home },
  );

const resetSubject = 'Reset your password';
type Mailed = Awaited<ReturnType<typeof smtp.mails>>[number];

async function mailedToken(email = tenant.emails.viewer!): Promise<string> {
  const before = smtp.received.length;
  const asked = await forgot(email);
  expect([asked.status, asked.body]).toEqual([202, { expires_in: 1800 }]);
  // Mails about rights that were changed may come in between.
  const found = async (count: number): Promise<Mailed> => {
    const mails = (await smtp.mails(count)).slice(before);
    return mails.find(({ mail }) => mail.subject === resetSubject) ?? found(count + 1);
  };
  const { to, mail } = await found(before + 1);
  expect(to).toEqual([email]);
  const link = /https:\/\/strata\.example\.com\/console\/reset-password#token=([\w-]{43})\n/;
  const [, token] = link.exec(mail.text!)!;
  expect(mail.html).toContain(`href="${baseUrl}/console/reset-password#token=${token}"`);
  return token!;
}

const auditedAbout = (action: string, target: string) =>
  audited(platform, action, (event) => event.target === target);

describe('a change', () => {
  test('keeps this session, ends the others, and the old password is no longer valid', async () => {
    const [mine, other] = [
      tenant.viewer,
      await signIn(strata.url, tenant.emails.viewer!, memberPassword),
    ];
    expect(outcome(await change(mine, memberPassword, newPassword))).toBe('204');
    expect(outcome(await mine.get('/auth/me'))).toBe('200');
    expect(outcome(await other.get('/auth/me'))).toBe('401 auth_session_revoked');
    expect([outcome(await login(memberPassword)), outcome(await login(newPassword))]).toEqual([
      '401 auth_invalid_credentials',
      '200',
    ]);
    const { id } = (await mine.get('/auth/me')).body.user;
    expect(await auditedAbout('auth.password_changed', id)).toMatchObject({
      payload: { sessions_ended: 1 },
      actor: { type: 'user', id },
    });
  });

  test('needs the current password, counted like a sign-in, and a good new one', async () => {
    expect(outcome(await change(tenant.viewer, memberPassword, 'short'))).toBe(
      '422 auth_password_too_short',
    );
    const common = await change(tenant.viewer, memberPassword, 'Administrator1!');
    expect([outcome(common), common.body.errors]).toEqual([
      '422 auth_password_breached',
      [{ path: '/new_password', message: 'is a common password' }],
    ]);
    const named = await change(
      tenant.viewer,
      memberPassword,
      `grapefruit at Passwords ${tenantCount}`,
    );
    expect([outcome(named), named.body.errors[0].path]).toEqual([
      '422 auth_password_breached',
      '/new_password',
    ]);
    for (let failure = 0; failure < 10; failure += 1)
      expect(outcome(await change(tenant.viewer, 'not-my-password', newPassword))).toBe(
        '401 auth_invalid_credentials',
      );
    expect(outcome(await change(tenant.viewer, memberPassword, newPassword))).toBe(
      '429 rate_limited',
    );
  });
});

describe('a mailed link', () => {
  test('sets the password once, ends every session, and proves the address', async () => {
    const token = await mailedToken();
    expect((await state.keys('*')).join()).not.toContain(token);
    const { id } = (await tenant.viewer.get('/auth/me')).body.user;
    expect(outcome(await reset(token, 'short'))).toBe('422 auth_password_too_short');
    const atOnce = await Promise.all([reset(token), reset(token), reset(token)]);
    expect(atOnce.map(outcome).sort()).toEqual([
      '204',
      '401 auth_password_reset_invalid',
      '401 auth_password_reset_invalid',
    ]);
    expect(outcome(await tenant.viewer.get('/auth/me'))).toBe('401 auth_session_revoked');
    expect([outcome(await login(memberPassword)), outcome(await login(newPassword))]).toEqual([
      '401 auth_invalid_credentials',
      '200',
    ]);
    const { body } = await platform.get(`/auth/users?email=${tenant.emails.viewer}`);
    expect(body.items[0]).toMatchObject({ id, email_verified: true });
    expect(await auditedAbout('auth.password_reset_requested', id)).toMatchObject({
      actor: { type: 'system', id: 'auth' },
    });
    expect(await auditedAbout('auth.password_reset', id)).toMatchObject({
      actor: { type: 'user', id },
    });
    const events = (await platform.get('/audit/events?limit=200')).text;
    for (const secret of [token, newPassword, memberPassword]) expect(events).not.toContain(secret);
  });

  test('is looked up before a password is hashed: made-up ones by the hundred fill no queue', async () => {
    const madeUp = Array.from({ length: 300 }, (_each, index) =>
      anyone().post(
        '/auth/password/reset',
        { token: randomBytes(32).toString('base64url'), new_password: newPassword },
        { 'x-forwarded-for': `10.1.${index % 256}.${index >> 8}` },
      ),
    );
    const outcomes = (await Promise.all(madeUp)).map(outcome);
    expect(new Set(outcomes)).toEqual(new Set(['401 auth_password_reset_invalid']));
  });

  test('is good for half an hour', async () => {
    const before = new Set(await state.keys('strata:password_reset:*'));
    const token = await mailedToken();
    const [key] = (await state.keys('strata:password_reset:*')).filter((each) => !before.has(each));
    expect(await state.ttl(key!)).toBeGreaterThan(1500);
    expect(await state.ttl(key!)).toBeLessThanOrEqual(1800);
    await state.pexpire(key!, 1);
    while (await state.exists(key!)) await state.ping();
    expect(outcome(await reset(token))).toBe('401 auth_password_reset_invalid');
  });

  test('is void once the password is another, and for an account that was disabled', async () => {
    const [first, second] = [await mailedToken(), await mailedToken()];
    expect([
      outcome(await reset(first)),
      outcome(await reset(second, 'another good one 42')),
    ]).toEqual(['204', '401 auth_password_reset_invalid']);
    const third = await mailedToken();
    const { body } = await platform.get(`/auth/users?email=${tenant.emails.viewer}`);
    await platform.patch(`/auth/users/${body.items[0].id}`, { status: 'disabled' });
    expect(outcome(await reset(third, 'another good one 42'))).toBe(
      '401 auth_password_reset_invalid',
    );
  });

  test('is void after a recovery, also where there was no password to replace', async () => {
    const { body } = await platform.get(`/auth/users?email=${tenant.emails.viewer}`);
    const recover = `/auth/users/${body.items[0].id}/recover`;
    expect(outcome(await platform.post(recover))).toBe('204');
    const token = await mailedToken();
    expect(outcome(await platform.post(recover))).toBe('204');
    expect(outcome(await reset(token))).toBe('401 auth_password_reset_invalid');
    expect(outcome(await reset(await mailedToken()))).toBe('204');
  });

  test('ends the wait of who guessed too often', async () => {
    for (let failure = 0; failure < 10; failure += 1) await login('wrong');
    expect(outcome(await login(memberPassword))).toBe('429 rate_limited');
    await reset(await mailedToken());
    expect(outcome(await login(newPassword))).toBe('200');
  });

  test('is mailed again where the mail server could not take it', async () => {
    mailsToRefuse = 1;
    expect(outcome(await reset(await mailedToken()))).toBe('204');
  });

  test('goes to no one who has no account, and asking answers alike; asking too often is slowed alike', async () => {
    const { emails } = await createTenantWith(strata.url, platform, 'Disabled', ['operator']);
    const { body } = await platform.get(`/auth/users?email=${emails.operator}`);
    await platform.patch(`/auth/users/${body.items[0].id}`, { status: 'disabled' });
    const asking = ['nobody@example.com', 'not an address', emails.operator!];
    const mailedToThem = (): number =>
      smtp.received.filter(
        ({ to, mail }) =>
          mail.subject === resetSubject && to.some((address) => asking.includes(address)),
      ).length;
    const before = mailedToThem();
    for (const email of asking) {
      const answer = await forgot(email);
      expect([answer.status, answer.body]).toEqual([202, { expires_in: 1800 }]);
    }
    await mailedToken();
    expect(mailedToThem()).toBe(before);
    for (const [email, from] of [
      ['nobody@example.com', '198.51.100.1'],
      [tenant.emails.tenant_admin!, '198.51.101.1'],
    ] as const) {
      const answers: string[] = [];
      for (let ask = 0; ask < 12; ask += 1) answers.push(outcome(await forgot(email, from)));
      expect(answers).toEqual([
        ...Array.from({ length: 10 }, () => '202'),
        '429 rate_limited',
        '429 rate_limited',
      ]);
    }
  });
});
