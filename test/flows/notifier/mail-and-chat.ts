/**
 * Notices by mail, over a real mail server with STARTTLS, and in chat, over a real https receiver.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { eventually } from '../../support/cluster.ts';
import { type ReceivedMail } from '../../support/mail-server.ts';
import { startReceiver, type Receiver } from '../../support/receiver.ts';
import { addMember, createTenantWith, type Client, type TenantWith } from '../../support/strata.ts';
import { database, frontend, mailServer, platform, refusals, strata, tls } from './strata.ts';

describe('mail and chat', () => {
  let chat: Receiver;
  let tenant: TenantWith<'operator'>;

  beforeAll(async () => {
    chat = await startReceiver((_n, response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
    }, tls());
  });
  afterAll(async () => {
    await chat?.close();
  });
  let made = 0;
  beforeEach(async () => {
    tenant = await createTenantWith(strata.url, platform, `Mail ${(made += 1)}`, ['operator']);
  });

  const member = async (email: string, groups: readonly string[]): Promise<string> =>
    (await addMember(tenant.admin, tenant.id, { email, roles: ['operator'], groups })).user_id;
  const groups = { risk_levels: { high: ['sre', 'leads'] } };
  async function configure(config: object): Promise<void> {
    const saved = await tenant.admin.put(`/tenants/${tenant.id}/config/notifications`, {
      approver_groups: groups,
      ...config,
    });
    expect([saved.status, saved.text]).toEqual([200, expect.any(String)]);
  }
  async function ask(title: string): Promise<string> {
    const answer = await tenant.operator.post(`/tenants/${tenant.id}/approvals`, {
      action: 'scale',
      risk_level: 'high',
      title,
      description: 'Checkout <b>needs</b> more.',
    });
    expect([answer.status, answer.text]).toEqual([202, expect.any(String)]);
    return answer.body.id;
  }
  const mails = (title: string): ReceivedMail[] =>
    mailServer.received.filter(({ mail: { subject } }) => subject?.includes(title));
  /** Recipients of mails, once all notices of the approval have arrived or failed. */
  async function notified(id: string, title: string): Promise<string[]> {
    await eventually(async () => {
      const { body } = await tenant.admin.get(
        `/tenants/${tenant.id}/notifications/deliveries?approval_id=${id}&state=pending`,
      );
      expect(body.items).toEqual([]);
    });
    return mails(title)
      .flatMap(({ to }) => to)
      .sort();
  }
  const read = async (id: string) =>
    (await tenant.admin.get(`/tenants/${tenant.id}/approvals/${id}`)).body;
  const approveLink = ({ mail }: ReceivedMail): string =>
    strata.url +
    new URL(/Approve: (\S+)/.exec(mail.text!)![1]!).href.slice('https://strata.example.com'.length);

  describe('who is told by mail', () => {
    test('the members of the current group, then those of the next', async () => {
      await member('s1@mail.example', ['sre']);
      await member('both@mail.example', ['sre', 'leads']);
      await member('l1@mail.example', ['leads']);
      await configure({
        email: { approval_recipients: ['unused@mail.example'] },
        escalation: { escalation_window_minutes: 10 },
      });
      const id = await ask('Group hops');
      expect(await notified(id, 'Group hops')).toEqual(['both@mail.example', 's1@mail.example']);
      await database.query(`UPDATE notifier.approvals SET escalates_at = now() WHERE id = $1`, [
        id,
      ]);
      await eventually(async () => expect((await read(id)).hop).toBe(1));
      await notified(id, 'Group hops');
      expect(
        mails('Still needs approval: Group hops')
          .flatMap(({ to }) => to)
          .sort(),
      ).toEqual(['both@mail.example', 'l1@mail.example']);
    });

    test.each<[what: string, email: object, recipients: string[]]>([
      [
        'approval_recipients where the group is empty',
        {
          approval_recipients: ['a@mail.example', 'A@mail.example'],
          default_recipients: ['d@mail.example'],
        },
        ['A@mail.example'],
      ],
      [
        'default_recipients where there are no others',
        { approval_recipients: [], default_recipients: ['d@mail.example'] },
        ['d@mail.example'],
      ],
      ['the administrators where no one else would hear', {}, ['ADMIN']],
    ])('%s', async (...[what, email, recipients]) => {
      await configure({ email });
      const id = await ask(`Fallback ${what}`);
      expect(await notified(id, `Fallback ${what}`)).toEqual(
        recipients.map((address) => (address === 'ADMIN' ? tenant.emails.tenant_admin : address)),
      );
    });

    test.each(['decided', 'withdrawn', 'expired'])(
      'no member who has left hears how it was %s',
      async (how) => {
        const title = `Left before it was ${how}`;
        const email = `leaver-${how}@mail.example`;
        const leaver = await member(email, ['sre']);
        await member(`stays-${how}@mail.example`, ['sre']);
        await configure({});
        const { body } = await tenant.operator.post(`/tenants/${tenant.id}/automations`, {
          action: 'scale',
          risk_level: 'high',
          title,
        });
        const { id: automation, approval_id: id } = body;
        await notified(id, title);
        await tenant.admin.delete(`/tenants/${tenant.id}/users/${leaver}`);
        if (how === 'withdrawn')
          await tenant.operator.post(`/tenants/${tenant.id}/automations/${automation}/finish`, {
            outcome: 'cancelled',
          });
        else if (how === 'expired')
          await database.query(
            `UPDATE notifier.approvals SET escalates_at = NULL, expires_at = now() WHERE id = $1`,
            [id],
          );
        else {
          const [link] = mails(title).filter(({ to }) => to[0] !== email);
          await fetch(approveLink(link!), { method: 'POST' });
        }
        await eventually(async () => expect((await read(id)).state).not.toBe('pending'));
        expect(await notified(id, title)).toEqual([
          email,
          ...Array.from({ length: 2 }, () => `stays-${how}@mail.example`),
        ]);
      },
    );

    test('no administrator where a chat space hears', async () => {
      await configure({ chat: { google_chat: { webhook_url: chat.url } } });
      const id = await ask('Chat only');
      expect(await notified(id, 'Chat only')).toEqual([]);
    });
  });

  describe('what a mail says and does', () => {
    test("sender and template are the tenant's; nothing in it is markup", async () => {
      await configure({
        email: {
          default_recipients: ['d@mail.example'],
          from_email: 'ops@tenant.example',
          template_overrides: {
            approval_request: {
              subject: '[{risk_level}] {title}',
              branding: { name: 'Tenant & Co', footer: 'Ask in #ops' },
            },
          },
        },
      });
      await notified(await ask('<i>Branded</i>'), 'Branded');
      const [{ mail, from, secure }] = mails('Branded') as [ReceivedMail];
      expect([from, mail.from?.address, mail.subject, secure]).toEqual([
        'ops@tenant.example',
        'ops@tenant.example',
        '[high] <i>Branded</i>',
        true,
      ]);
      for (const text of [
        'Tenant &amp; Co',
        'Ask in #ops',
        '&lt;i&gt;Branded&lt;/i&gt;',
        '&lt;b&gt;needs&lt;/b&gt;',
      ])
        expect(mail.html).toContain(text);
      expect(mail.html).not.toContain('<b>needs');
    });

    test('a sender needs somebody who vouches for its domain, when it is saved and when it is used', async () => {
      const path = `/tenants/${tenant.id}/config/notifications`;
      const email = (from: string) => ({
        email: { default_recipients: ['d@mail.example'], from_email: from },
      });
      const refusalOf = (answer: Awaited<ReturnType<Client['put']>>) => [
        answer.status,
        answer.body.errors?.map((each: { path: string }) => each.path),
      ];
      const refused = [422, ['/email/from_email']];
      const provider = {
        name: 'Vouching',
        issuer: 'https://127.0.0.1:1',
        client_id: 'c',
        client_secret: 's',
        redirect_uris: [`${frontend}/sso`],
      };
      const vouching = (domain: string, verified: boolean, owner: string | null) => ({
        ...provider,
        tenant_id: owner,
        domains: [{ domain, verified }],
      });
      const other = await createTenantWith(strata.url, platform, 'Mail of others', ['operator']);
      const made = [
        await platform.post('/auth/sso/providers', vouching('other.example', true, other.id)),
        await platform.post('/auth/sso/providers', vouching('anyone.example', true, null)),
        await platform.post('/auth/sso/providers', vouching('vouched.example', false, tenant.id)),
      ];
      expect(made.map(({ status }) => status)).toEqual([201, 201, 201]);
      for (const domain of [
        'other.example',
        'anyone.example',
        'vouched.example',
        'platform.example',
        'sub.tenant.example',
        'tenant.example.evil.example',
      ]) {
        expect(refusalOf(await tenant.admin.put(path, email(`ops@${domain}`)))).toEqual(refused);
        const patched = await tenant.admin.patch(path, { email: { from_email: `ops@${domain}` } });
        expect(refusalOf(patched)).toEqual(refused);
      }
      const own = `/auth/sso/providers/${made[2]!.body.id}`;
      const verified = vouching('vouched.example', true, tenant.id);
      expect((await platform.put(own, verified)).status).toBe(200);
      await configure(email('Ops@Vouched.example'));
      const senderOf = async (title: string): Promise<unknown[]> => {
        const id = await ask(title);
        await notified(id, title);
        const [{ mail }] = mails(title) as [ReceivedMail];
        const { body } = await tenant.admin.get(
          `/tenants/${tenant.id}/notifications/deliveries?approval_id=${id}`,
        );
        const delivery = `/tenants/${tenant.id}/notifications/deliveries/${body.items[0].id}`;
        const { log } = (await tenant.admin.get(delivery)).body;
        const effective = (await tenant.admin.get(`${path}/effective`)).body.email.from_email;
        return [mail.from?.address, effective, log[0].answer];
      };
      const accepted = expect.stringMatching(/^accepted as <[^>]+>$/);
      expect(await senderOf('Vouched')).toEqual([
        'Ops@vouched.example',
        'Ops@Vouched.example',
        accepted,
      ]);

      expect((await platform.put(own, { ...verified, enabled: false })).status).toBe(200);
      expect(await senderOf('No more')).toEqual([
        'strata@platform.example',
        'strata@platform.example',
        expect.stringContaining(
          '; sent from strata@platform.example: no one has verified the domain',
        ),
      ]);
      // What is stored already is in the way of no other change.
      const patched = await tenant.admin.patch(path, { escalation: { max_hops: 1 } });
      expect([patched.status, patched.body.email.from_email]).toEqual([200, 'Ops@Vouched.example']);
    });

    test('the process sender where the tenant has none; a mail that is refused for now is sent again as the same, one refused for good fails', async () => {
      refusals.set('later@mail.example', 1);
      await configure({
        email: { default_recipients: ['later@mail.example', 'nobody@mail.example'] },
      });
      const id = await ask('Refused');
      expect(await notified(id, 'Refused')).toEqual(['later@mail.example']);
      const [{ mail }] = mails('Refused') as [ReceivedMail];
      const {
        body: { items },
      } = await tenant.admin.get(
        `/tenants/${tenant.id}/notifications/deliveries?approval_id=${id}`,
      );
      const of = (address: string) =>
        items.find(({ target }: { target: string }) => target === address);
      expect(of('later@mail.example')).toMatchObject({
        channel: 'email',
        state: 'delivered',
        attempts: 2,
      });
      expect(of('nobody@mail.example')).toMatchObject({
        state: 'failed',
        attempts: 1,
        reason: expect.stringContaining('no such mailbox'),
      });
      expect([mail.from?.address, mail.messageId]).toEqual([
        'strata@platform.example',
        expect.stringContaining(of('later@mail.example').webhook_id),
      ]);
    });

    test('its link holds only while its reader could decide otherwise, opened or used, with one answer for every reason', async () => {
      const people = {
        removed: await member('removed@mail.example', ['sre']),
        disabled: await member('disabled@mail.example', ['sre']),
        demoted: await member('demoted@mail.example', ['sre']),
        regrouped: await member('regrouped@mail.example', ['sre']),
        unlisted: 'unlisted@mail.example',
      };
      await configure({ email: { approval_recipients: [people.unlisted] } });
      const id = await ask('Held');
      await notified(id, 'Held');
      await configure({
        approver_groups: { risk_levels: { high: ['nobody'] } },
        email: { approval_recipients: [people.unlisted] },
      });
      const listed = await ask('Listed');
      await notified(listed, 'Listed');
      const linkIn = (title: string, address: string): string =>
        approveLink(mails(`Approval needed: ${title}`).find(({ to }) => to.includes(address))!);
      const links = [
        ...['removed', 'disabled', 'demoted', 'regrouped'].map((who) =>
          linkIn('Held', `${who}@mail.example`),
        ),
        linkIn('Listed', people.unlisted),
      ];
      const answersOf = (method: string) =>
        Promise.all(
          links.map(async (link) => {
            const answer = await fetch(link, { method, headers: { accept: 'application/json' } });
            const { detail } = (await answer.json()) as { detail?: unknown };
            return [answer.status, detail];
          }),
        );
      expect((await answersOf('GET')).map(([status]) => status)).toEqual(links.map(() => 200));

      const users = `/tenants/${tenant.id}/users`;
      const changes = await Promise.all([
        tenant.admin.delete(`${users}/${people.removed}`),
        platform.patch(`/auth/users/${people.disabled}`, { status: 'disabled' }),
        tenant.admin.patch(`${users}/${people.demoted}`, { roles: ['viewer'] }),
        tenant.admin.patch(`${users}/${people.regrouped}`, { groups: ['others'] }),
      ]);
      expect(changes.map(({ status }) => status)).toEqual([204, 200, 200, 200]);
      await configure({ email: {} });

      const refused = [
        403,
        {
          status: 'error',
          code: 'insufficient_role',
          message: 'The person this link was sent to may not decide this approval.',
        },
      ];
      for (const method of ['GET', 'POST'])
        expect(await answersOf(method)).toEqual(links.map(() => refused));
      for (const each of [id, listed]) expect((await read(each)).state).toBe('pending');
      expect(await notified(await ask('Asked later'), 'Asked later')).toEqual([
        'demoted@mail.example',
      ]);

      // A role that is given after it was asked for does not count for it.
      await tenant.admin.patch(`${users}/${people.demoted}`, { roles: ['operator'] });
      const demoted = linkIn('Held', 'demoted@mail.example');
      expect((await fetch(demoted, { method: 'POST' })).status).toBe(403);
      await platform.patch(`/auth/users/${people.disabled}`, { status: 'active' });
      const again = linkIn('Held', 'disabled@mail.example');
      await platform.patch(`/tenants/${tenant.id}`, { status: 'disabled' });
      expect((await fetch(again, { method: 'POST' })).status).toBe(403);
      await platform.patch(`/tenants/${tenant.id}`, { status: 'active' });
      expect((await fetch(again, { method: 'POST' })).status).toBe(200);
    });

    test('its link decides once, in the name of the member', async () => {
      const stays = await member('stays@mail.example', ['sre']);
      await configure({});
      const id = await ask('Link');
      await notified(id, 'Link');
      const linkOf = (address: string): string =>
        approveLink(mails('Approval needed: Link').find(({ to }) => to.includes(address))!);
      const answers = await Promise.all(
        Array.from({ length: 8 }, () => fetch(linkOf('stays@mail.example'), { method: 'POST' })),
      );
      expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(7).fill(409)]);
      expect((await read(id)).decision).toMatchObject({
        decision: 'approve',
        via: 'link',
        by: stays,
      });
      await eventually(async () =>
        expect(mails('Approved: Link').flatMap(({ to }) => to)).toContain('stays@mail.example'),
      );
    });
  });

  describe('the page of a link', () => {
    const linkOf = async (title: string, decision: 'Approve' | 'Deny', risk = 'high') => {
      await configure({});
      const { status, body } = await tenant.operator.post(`/tenants/${tenant.id}/approvals`, {
        action: 'scale',
        title,
        risk_level: risk,
        metadata: { replicas: 12 },
      });
      expect(status).toBe(202);
      const id = body.id as string;
      await notified(id, title);
      const { text = '' } = mails(`Approval needed: ${title}`)[0]!.mail;
      const { pathname, search } = new URL(
        new RegExp(`^${decision}: (\\S+)$`, 'm').exec(text)![1]!,
      );
      return { id, text, link: strata.url + pathname + search };
    };
    const form = (link: string, fields: Record<string, string>): Promise<Response> =>
      fetch(link, {
        method: 'POST',
        headers: { accept: 'text/html' },
        body: new URLSearchParams(fields),
      });

    test('says what follows from each answer, as mail and API do, and denies with a comment by the link that approves', async () => {
      await member('page@mail.example', ['sre']);
      const { id, link, text } = await linkOf('Sheet', 'Approve');
      const page = await (await fetch(link, { headers: { accept: 'text/html' } })).text();
      const { what_happens: happens } = await read(id);
      for (const sentence of Object.values(happens as Record<string, string>)) {
        expect(page).toContain(sentence);
        expect(text).toContain(sentence);
      }
      expect(page).toContain('replicas');
      expect(text).toContain(`/console/tenants/${tenant.id}/approvals/${id}`);
      const denied = await form(link, { decision: 'deny', comment: 'not <tonight>' });
      expect(denied.status).toBe(200);
      expect((await read(id)).decision).toMatchObject({
        decision: 'deny',
        comment: 'not <tonight>',
      });
    });

    test('of a link that denies never approves, and what is critical is approved in two steps', async () => {
      await member('narrow@mail.example', ['sre']);
      const { id, link } = await linkOf('Narrow', 'Deny');
      expect((await form(link, { decision: 'approve' })).status).toBe(403);
      expect((await read(id)).state).toBe('pending');
      expect((await form(link, { comment: '' })).status).toBe(200);
      expect((await read(id)).decision).toMatchObject({ decision: 'deny', comment: null });
      const critical = await linkOf('Critical', 'Approve', 'critical');
      const page = await (await fetch(critical.link, { headers: { accept: 'text/html' } })).text();
      expect(page).toMatch(/<details>[^]*This is critical[^]*value="approve"[^]*<\/details>/);
    });
  });

  test.each([true, false])('chat: one thread per approval, links %s', async (...[links]) => {
    await configure({
      chat: { google_chat: { webhook_url: `${chat.url}&token=t`, include_links: links } },
    });
    const id = await ask('In chat');
    const mine = ({ body }: { body: unknown }): boolean =>
      (body as { thread: { threadKey: string } }).thread.threadKey === id;
    await chat.wait(mine);
    await eventually(async () =>
      expect(
        (
          await tenant.admin.post(`/tenants/${tenant.id}/approvals/${id}/decision`, {
            decision: 'deny',
            comment: 'not <now>',
          })
        ).status,
      ).toBe(200),
    );
    const [asked, ended] = await chat.wait(mine, 2);
    const query = new URL(asked!.path, chat.url).searchParams;
    expect([query.get('key'), query.get('token'), query.get('messageReplyOption')]).toEqual([
      'canary-in-url',
      't',
      'REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD',
    ]);
    const [first, second] = [asked, ended].map(
      (each) => (each!.body as unknown as { text: string }).text,
    );
    expect(first).toMatch(/^\*Approval needed\*\nIn chat\n/);
    const page = `https://strata.example.com/console/tenants/${tenant.id}/approvals/${id}`;
    expect(first!.includes(`<${page}|Open>`)).toBe(links);
    expect(second).toMatch(/^\*Denied\*/);
    expect(second).toContain('not ‹now›');
  });
});
