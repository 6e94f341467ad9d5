/** Mail against a real mail server. */
import { afterEach, describe, expect, jest, test } from '@jest/globals';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer, connect, type AddressInfo, type Socket } from 'node:net';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { pino } from 'pino';
import PostalMime from 'postal-mime';
import { startMailing } from '../../services/audit/worker/mailing.ts';
import { changeSetNoticeActions } from '../../services/auth/accounts/actions/change-set-notices.ts';
import type { AuthParts } from '../../services/auth/parts.ts';
import { createDeferredMail } from '../../services/auth/mail/deferred-mail.ts';
import { sendEmail } from '../../services/notifier/channels/email.ts';
import { createMailer, type Mail, type Mailer } from '../../shared/mail/mailer.ts';
import { MailError } from '../../shared/mail/mail-error.ts';
import { html } from '../../shared/mail/html.ts';
import { loadSettings, type Settings } from '../../shared/settings/settings.ts';
import {
  startMailServer,
  type MailServer,
  type MailServerOptions,
} from '../support/mail-server.ts';
import { freePort } from '../support/servers.ts';
import { inSoak } from '../support/soak.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

const settingsOf = (
  port: number,
  certificate: string,
  more: Record<string, string> = {},
): Settings =>
  loadSettings({
    SMTP_SERVER: '127.0.0.1',
    SMTP_PORT: String(port),
    SMTP_TLS_CA: certificate,
    FROM_EMAIL: 'strata@example.com',
    ...more,
  });

function mailerOf(settings: () => Settings): Mailer & { warnings: string[] } {
  const warnings: string[] = [];
  const mailer = createMailer(settings, {
    warn: (message) => {
      warnings.push(message);
    },
  });
  cleanups.push(() => mailer.close());
  return { ...mailer, warnings };
}

async function served(
  options: MailServerOptions = {},
  more: Record<string, string> = {},
): Promise<{ server: MailServer; mailer: Mailer; settings: Settings }> {
  const server = await startMailServer(options);
  cleanups.push(() => server.stop());
  const settings = settingsOf(server.port, server.certificate, more);
  return { server, settings, mailer: mailerOf(() => settings) };
}

const mail = (more: Partial<Mail> = {}): Mail => ({
  to: 'ann@example.com',
  subject: 'Größe ändern?',
  text: 'Plain ✓',
  html: '<p>Rich ✓</p>',
  ...more,
});
const failure = async (sending: Promise<unknown>): Promise<MailError> => {
  const error = await sending.then(
    (sent) => {
      throw new Error(`was sent: ${JSON.stringify(sent)}`);
    },
    (error: unknown) => error,
  );
  if (!(error instanceof MailError)) throw error;
  return error;
};

describe('a mail', () => {
  test('arrives over STARTTLS with both parts, subject, sender, id and recipient', async () => {
    const { server, mailer } = await served();
    const sent = await mailer.send(mail({ messageId: 'ntf_1' }));
    expect(sent).toEqual({ messageId: '<ntf_1@example.com>' });
    const [{ mail: parsed, ...envelope }] = (await server.mails(1)) as [
      Awaited<ReturnType<MailServer['mails']>>[number],
    ];
    expect(envelope).toMatchObject({
      from: 'strata@example.com',
      to: ['ann@example.com'],
      secure: true,
    });
    expect(parsed).toMatchObject({
      subject: 'Größe ändern?',
      text: 'Plain ✓\n',
      html: '<p>Rich ✓</p>\n',
      from: { address: 'strata@example.com' },
      messageId: '<ntf_1@example.com>',
    });
    expect(parsed.to!.map(({ address }) => address)).toEqual(['ann@example.com']);
    expect(Object.fromEntries(parsed.headers.map(({ key, value }) => [key, value]))).toMatchObject({
      'auto-submitted': 'auto-generated',
    });
  });

  test('comes from the sender it names, in the header and in the envelope', async () => {
    const { server, mailer } = await served();
    await mailer.send(mail({ from: 'ops@tenant.example' }));
    const [got] = await server.mails(1);
    expect([got!.from, got!.mail.from!.address]).toEqual([
      'ops@tenant.example',
      'ops@tenant.example',
    ]);
  });

  test('goes over one kept connection, and over a new one after a reload of the settings', async () => {
    const server = await startMailServer();
    const other = await startMailServer();
    cleanups.push(
      () => server.stop(),
      () => other.stop(),
    );
    let settings = settingsOf(server.port, server.certificate);
    const mailer = mailerOf(() => settings);
    for (const subject of ['1', '2', '3']) await mailer.send(mail({ subject }));
    expect(server.connections).toHaveLength(1);
    settings = settingsOf(other.port, other.certificate, { FROM_EMAIL: 'new@example.com' });
    await mailer.send(mail({ subject: '4' }));
    expect((await other.mails(1)).map(({ from, mail: { subject } }) => [from, subject])).toEqual([
      ['new@example.com', '4'],
    ]);
    expect(server.received).toHaveLength(3);
  });

  test('waits for no other tenant, to whose recipients the server is slow', async () => {
    const slow: (() => void)[] = [];
    const { server, mailer } = await served({
      onRcptTo({ address }, _session, done) {
        if (address.startsWith('slow')) slow.push(done);
        else done();
      },
    });
    const sending = ['a', 'b'].flatMap((tenantId) =>
      Array.from({ length: 8 }, (_each, nth) =>
        mailer.send(mail({ to: `slow-${tenantId}-${nth}@example.com`, tenantId })),
      ),
    );
    while (slow.length < 6) await delay(5);
    await mailer.send(mail({ tenantId: 'c' }));
    expect([server.received.length, slow.length]).toEqual([1, 6]);
    while (server.received.length < 17) {
      for (const take of slow.splice(0)) take();
      await delay(5);
    }
    await Promise.all(sending);
  });

  test('that waits for its turn fails for now where the connections are closed', async () => {
    const slow: (() => void)[] = [];
    const { mailer } = await served({
      onRcptTo: (_address, _session, done) => void slow.push(done),
    });
    const sending = Array.from({ length: 4 }, () => mailer.send(mail({ tenantId: 'a' })));
    while (slow.length < 3) await delay(5);
    mailer.close();
    for (const take of slow) take();
    const ended = await Promise.allSettled(sending);
    expect(ended.map(({ status }) => status)).toEqual([
      ...Array.from({ length: 3 }, () => 'fulfilled'),
      'rejected',
    ]);
    expect((await failure(sending[3]!)).retry).toBe(true);
  });

  test('signs in where there is a user name', async () => {
    const { server, mailer } = await served(
      { login: { user: 'strata', pass: 'hunter2' } },
      { SMTP_USERNAME: 'strata', SMTP_PASSWORD: 'hunter2' },
    );
    await mailer.send(mail());
    expect((await server.mails(1))[0]).toMatchObject({ user: 'strata', secure: true });
  });
});

/** Relays to the server and keeps what the client said on the wire. */
async function wiretap(port: number): Promise<{ port: number; observed: () => string }> {
  let observed = '';
  const sockets = new Set<Socket>();
  const relay = createServer((socket) => {
    const onward = connect(port, '127.0.0.1');
    for (const each of [socket, onward]) sockets.add(each.on('error', () => each.destroy()));
    socket.on('data', (bytes: Buffer) => {
      observed += bytes.toString('latin1');
    });
    socket.pipe(onward).pipe(socket);
  });
  await once(relay.listen(0, '127.0.0.1'), 'listening');
  cleanups.push(() => {
    for (const socket of sockets) socket.destroy();
    relay.close();
  });
  return { port: (relay.address() as AddressInfo).port, observed: () => observed };
}

describe('TLS', () => {
  const credentials = { SMTP_USERNAME: 'strata', SMTP_PASSWORD: 'hunter2' };

  test.each<[string, MailServerOptions]>([
    ['hides and refuses STARTTLS', { hideSTARTTLS: true, disabledCommands: ['STARTTLS'] }],
    ['refuses STARTTLS', { disabledCommands: ['STARTTLS'] }],
  ])('a server that %s gets neither the mail nor the login', async (...[, options]) => {
    const server = await startMailServer({
      ...options,
      authOptional: true,
      allowInsecureAuth: true,
    });
    cleanups.push(() => server.stop());
    const tap = await wiretap(server.port);
    const settings = settingsOf(tap.port, server.certificate, credentials);
    const error = await failure(mailerOf(() => settings).send(mail()));
    expect(error).toMatchObject({ retry: true, message: expect.stringContaining('STARTTLS') });
    expect(tap.observed()).toMatch(/^EHLO /);
    expect(tap.observed()).not.toMatch(/AUTH|MAIL FROM|RCPT|DATA|ann@/i);
    expect(server.received).toEqual([]);
  });

  test('a certificate that no one vouches for is refused', async () => {
    const server = await startMailServer();
    cleanups.push(() => server.stop());
    const settings = loadSettings({ SMTP_SERVER: '127.0.0.1', SMTP_PORT: String(server.port) });
    expect(await failure(mailerOf(() => settings).send(mail()))).toMatchObject({
      retry: true,
      message: expect.stringContaining('certificate'),
    });
    expect(server.received).toEqual([]);
  });

  test('without SMTP_USE_TLS a server that has no TLS is used as it is', async () => {
    const { server, mailer } = await served(
      { hideSTARTTLS: true, disabledCommands: ['STARTTLS'] },
      { SMTP_USE_TLS: 'false' },
    );
    await mailer.send(mail());
    expect((await server.mails(1))[0]!.secure).toBe(false);
  });

  test('without SMTP_USE_TLS a server that has TLS is still used with it', async () => {
    const { server, mailer } = await served({}, { SMTP_USE_TLS: 'false' });
    await mailer.send(mail());
    expect((await server.mails(1))[0]!.secure).toBe(true);
  });
});

describe('what a failure means', () => {
  const others = inSoak ? [450, 451, 452, 530, 550, 552, 553] : [];
  test.each([421, 500, 503, 554, ...others])('%i in answer to a recipient', async (code) => {
    const { mailer } = await served({ recipient: () => [code, 'no'] });
    // 503 is about the order of commands in a session, which a new one mends.
    const retry = code < 500 || code === 503;
    expect(await failure(mailer.send(mail()))).toMatchObject({
      retry,
      message: expect.stringContaining(String(code)),
    });
  });

  test.each([421, 554, ...(inSoak ? [451, 452, 552] : [])])(
    '%i in answer to the message',
    async (code) => {
      const { mailer } = await served({ message: () => [code, 'no'] });
      expect(await failure(mailer.send(mail()))).toMatchObject({
        retry: code < 500,
        message: expect.stringContaining(String(code)),
      });
    },
  );

  test('a server that does not answer, or hangs up, is tried again', async () => {
    const port = await freePort();
    const settings = loadSettings({ SMTP_SERVER: '127.0.0.1', SMTP_PORT: String(port) });
    expect(await failure(mailerOf(() => settings).send(mail()))).toMatchObject({
      retry: true,
      message: expect.stringContaining('ECONNREFUSED'),
    });
    const rude = createServer((socket) => socket.destroy());
    await once(rude.listen(port, '127.0.0.1'), 'listening');
    cleanups.push(() => rude.close());
    expect((await failure(mailerOf(() => settings).send(mail()))).retry).toBe(true);
  });

  test('a refused login is tried again, and the password is in no form in the error', async () => {
    const password = 'canary-hunter2-£';
    const { mailer } = await served(
      { login: { user: 'strata', pass: 'other' } },
      { SMTP_USERNAME: 'strata', SMTP_PASSWORD: password },
    );
    const error = await failure(mailer.send(mail()));
    expect(error).toMatchObject({
      retry: true,
      message: expect.stringContaining('no such login: strata ********'),
    });
    expect(error.cause).toBeUndefined();
    const shown = `${JSON.stringify(error)} ${error.stack} ${error.message}`;
    for (const form of [
      password,
      Buffer.from(password).toString('base64'),
      Buffer.from(`\0strata\0${password}`).toString('base64'),
    ])
      expect(shown).not.toContain(form);
  });

  test('an authority file that is not there is told at the start, and tried again after it is mended', async () => {
    const { server, settings } = await served();
    let now: Settings = { ...settings, smtp_tls_ca: '/nowhere/ca.pem' };
    const mailer = mailerOf(() => now);
    expect(mailer.warnings).toEqual([
      'SMTP_TLS_CA names /nowhere/ca.pem, which cannot be read (ENOENT): this node sends no mail until it can.',
    ]);
    expect(await failure(mailer.send(mail()))).toMatchObject({
      retry: true,
      message: expect.stringContaining('/nowhere/ca.pem'),
    });
    now = settings;
    await mailer.send(mail());
    expect(server.received).toHaveLength(1);
  });
});

describe('injection', () => {
  const hostile: [string, Partial<Mail>][] = [
    ...['\r\nBcc: eve@example.com', '\n x', '\r', '\0', '\u0085'].flatMap(
      (tail): [string, Partial<Mail>][] => [
        ['subject', { subject: `s${tail}` }],
        ['sender', { from: `a@example.com${tail}` }],
        ['recipient', { to: `a@example.com${tail}` }],
        ['message id', { messageId: `a${tail}` }],
      ],
    ),
    ['recipient', { to: 'a@example.com, eve@example.com' }],
    ['recipient', { to: 'a@example.com>,<eve@example.com' }],
    ['recipient', { to: 'Ann <a@example.com>' }],
    ['recipient', { to: 'group:eve@example.com;' }],
    ['recipient', { to: 'a' }],
    ['recipient', { to: '' }],
    ['sender', { from: 'a@example.com> SIZE=1' }],
    ['message id', { messageId: 'a>' }],
    ['message id', { messageId: 'a@b' }],
  ];
  test.each(hostile.map(([what, change]) => [what, JSON.stringify(change), change] as const))(
    'a hostile %s is refused: %s',
    async (...[, , change]) => {
      const folder = mkdtempSync(join(tmpdir(), 'strata-mail-'));
      cleanups.push(() => rmSync(folder, { recursive: true, force: true }));
      const settings = loadSettings({ DATA_DIR: folder });
      expect((await failure(mailerOf(() => settings).send(mail(change)))).retry).toBe(false);
      expect(readdirSync(folder)).toEqual([]);
    },
  );
});

describe('the e-mail channel', () => {
  const rendered = { subject: 's', text: 't', html: '<p>h</p>' };
  const from = 'ops@tenant.example';

  test('says that a notice was taken, from the sender of the tenant, under the name of the notice', async () => {
    const { server, mailer } = await served();
    expect(
      await sendEmail(mailer, { id: 'ntf_7', to: 'ann@example.com', from, mail: rendered }),
    ).toMatchObject({ result: 'delivered', answer: 'accepted as <ntf_7@tenant.example>' });
    expect((await server.mails(1))[0]).toMatchObject({
      from: 'ops@tenant.example',
      to: ['ann@example.com'],
    });
  });

  test('says whether a notice that was not taken may be tried again', async () => {
    const { mailer } = await served({
      recipient: (address) => (address.startsWith('full') ? [452, 'full'] : [550, 'gone']),
    });
    expect(
      await sendEmail(mailer, { id: 'n1', to: 'full@example.com', from, mail: rendered }),
    ).toMatchObject({ result: 'retry', error: expect.stringContaining('452') });
    expect(
      await sendEmail(mailer, { id: 'n2', to: 'gone@example.com', from, mail: rendered }),
    ).toMatchObject({ result: 'final', error: expect.stringContaining('550') });
    expect(
      await sendEmail(mailer, {
        id: 'n3',
        to: 'ann@example.com',
        from,
        mail: { ...rendered, subject: 'a\r\nBcc: eve@example.com' },
      }),
    ).toMatchObject({ result: 'final', error: expect.stringContaining('subject') });
  });
});

describe('without a mail server', () => {
  test('mails are files, whole, private, in the order of sending, and the log says so once', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'strata-mail-'));
    cleanups.push(() => rmSync(folder, { recursive: true, force: true }));
    const settings = loadSettings({ DATA_DIR: folder });
    const mailer = mailerOf(() => settings);
    const subjects = Array.from({ length: 20 }, (_, index) => `mail ${index}`);
    for (const subject of subjects)
      expect(await mailer.send(mail({ subject }))).toMatchObject({
        file: expect.stringContaining(folder),
      });
    await Promise.all(subjects.map(() => mailer.send(mail({ subject: 'at once' }))));
    expect(mailer.warnings).toEqual([
      `SMTP_SERVER is not set: mail is not sent, but written to ${join(folder, 'mail')}.`,
    ]);
    const files = readdirSync(join(folder, 'mail')).sort();
    expect(files).toHaveLength(40);
    const parsed = await Promise.all(
      files.map((file) => PostalMime.parse(readFileSync(join(folder, 'mail', file)))),
    );
    expect(parsed.slice(0, 20).map(({ subject }) => subject)).toEqual(subjects);
    expect(parsed[0]).toMatchObject({
      from: { address: 'strata@localhost' },
      text: 'Plain ✓\n',
      html: '<p>Rich ✓</p>\n',
    });
    for (const file of files) {
      expect(file).toMatch(/^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}Z-\d{6}-[0-9a-f]{8}\.eml$/);
      expect(statSync(join(folder, 'mail', file)).mode & 0o077).toBe(0);
    }
  });

  test('a folder that can not be written is a failure that may be tried again', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'strata-mail-'));
    cleanups.push(() => rmSync(folder, { recursive: true, force: true }));
    writeFileSync(join(folder, 'mail'), 'a file stands where the folder should');
    const settings = loadSettings({ DATA_DIR: folder });
    expect((await failure(mailerOf(() => settings).send(mail()))).retry).toBe(true);
  });
});

test('the html tag escapes every value and only its own markup goes in as it is', () => {
  const forged = { toString: () => '<b>forged</b>' } as unknown as string;
  const hostile = `"'<&>`;
  const list = [html`<b>${'<'}</b>`, html`<hr>`];
  const made = html`<p title="${hostile}">${'<script>'}${1}${forged}${html`<i>${'&amp;'}</i>`}${list}</p>`;
  expect(String(made)).toBe(
    '<p title="&quot;&#39;&lt;&amp;&gt;">&lt;script&gt;1&lt;b&gt;forged&lt;/b&gt;<i>&amp;amp;</i><b>&lt;</b><hr></p>',
  );
});

test('what waits for a mail server that stalls is bounded', async () => {
  const lines: { level: number; msg: string }[] = [];
  const log = pino({}, { write: (line) => void lines.push(JSON.parse(line)) });
  let sent = 0;
  let goOn = (): void => {};
  const stalled = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  const mailer: Mailer = {
    async send() {
      await stalled;
      sent += 1;
      return { messageId: '<1@example.com>' };
    },
    close() {},
  };
  const deferred = createDeferredMail(mailer);
  const mail = { to: 'somebody@example.com', subject: 'Hello', text: 'Hello', html: 'Hello' };
  for (let count = 0; count < 1003; count += 1) deferred.send(mail, log);
  goOn();
  await deferred.stop();
  expect(sent).toBe(1000);
  expect(lines.map(({ msg }) => msg)).toEqual(
    Array.from({ length: 3 }, () => 'a mail was not sent: too many wait'),
  );
});

test('notices to more people than mails may wait are all sent, and leave room for others', async () => {
  const lines: string[] = [];
  const log = pino({}, { write: (line) => void lines.push(JSON.parse(line).msg) });
  const sent: string[] = [];
  let [onTheirWay, mostOnTheirWay] = [0, 0];
  const mailer: Mailer = {
    async send({ to }) {
      onTheirWay += 1;
      mostOnTheirWay = Math.max(mostOnTheirWay, onTheirWay);
      await delay(1);
      onTheirWay -= 1;
      sent.push(to);
      return { messageId: '<1@example.com>' };
    },
    close() {},
  };
  const deferredMail = createDeferredMail(mailer);
  const db = {
    query: async (statement: string) => (statement.startsWith('INSERT') ? [{ taken: 1 }] : []),
  };
  const parts = { db, deferredMail, settings: () => loadSettings({}) } as unknown as AuthParts;
  const members = Array.from({ length: 1500 }, (_each, nth) => ({
    user_id: `u${nth}`,
    email: `u${nth}@example.com`,
  }));
  const event = {
    id: 'e',
    occurred_at: new Date().toISOString(),
    action: 'changeset.submitted',
    tenant_id: 't',
    target: 'c',
    actor: { type: 'user', id: 'author' },
    payload: { state: 'pending', authors: [], groups: ['all'], approved_by: [] },
  };
  const send = changeSetNoticeActions(parts)['auth.change-set-notices.send'];
  const sending = send(
    { body: [event] } as never,
    {
      call: async () => ({ groups: { all: members } }),
      log,
    } as never,
  );
  while (sent.length < 100) await delay(1);
  await deferredMail.sent(mail({ to: 'other@example.com' }), log);
  expect(sent.length).toBeLessThan(1000);
  await sending;
  expect([new Set(sent).size, lines]).toEqual([1501, []]);
  // Of fifty tenants with two kinds of notices, beside the other mail.
  expect(mostOnTheirWay * 100).toBeLessThan(1000);
});

test('notices that take longer than a claim lasts are claimed by nobody else meanwhile', async () => {
  jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'performance'] });
  cleanups.push(() => jest.useRealTimers());
  const claimed = [{ event_id: 'e', tenant_id: 't' }];
  const renewed: unknown[] = [];
  const db = {
    async query(statement: string, parameters: unknown[]) {
      if (statement.startsWith('WITH')) return claimed.splice(0);
      if (statement.startsWith('UPDATE')) renewed.push(...parameters);
      return [];
    },
    manager: {
      find: async () => [
        { id: 'e', tenant_id: 't', action: 'changeset.submitted', occurred_at: new Date() },
      ],
    },
  };
  let answer = (): void => {};
  const call = () => new Promise<void>((resolve) => (answer = resolve));
  const loop = startMailing({ db, call, log: pino({ level: 'silent' }) } as never);
  await jest.advanceTimersByTimeAsync(100_000);
  expect(renewed).toEqual([['e'], ['e'], ['e']]);
  answer();
  await jest.advanceTimersByTimeAsync(100_000);
  expect(renewed).toHaveLength(3);
  await loop.stop();
});
