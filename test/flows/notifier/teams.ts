/**
 * Notices in Microsoft Teams, over a real https receiver in the place of a channel's workflow, and
 * the documentation's templates for those who page people, run on what they are really sent.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { runInNewContext } from 'node:vm';
import type { AdaptiveCard, TeamsMessage } from '../../../services/notifier/rules/teams-card.ts';
import { eventually } from '../../support/cluster.ts';
import { exampleOf, runPastedBeside } from '../../support/pasted.ts';
import { startReceiver, type Received, type Receiver } from '../../support/receiver.ts';
import {
  addMember,
  createTenantWith,
  memberPassword,
  signIn,
  type Answer,
  type Client,
  type TenantWith,
} from '../../support/strata.ts';
import { database, platform, strata, tls } from './strata.ts';

describe('Teams', () => {
  const page = 'docs/operations/chat.md';
  let workflow: Receiver;
  let tenant: TenantWith<'operator'>;
  /** What the workflow answers next; 202 where there is nothing. */
  const answers: number[] = [];

  beforeAll(async () => {
    workflow = await startReceiver((_n, response) => {
      response.writeHead(answers.shift() ?? 202).end();
    }, tls());
  });
  afterAll(async () => {
    // Answers that it still waits for would be waited for.
    await strata.stop('SIGKILL');
    await workflow?.close();
  });
  let made = 0;
  let url: string;
  beforeEach(async () => {
    tenant = await createTenantWith(strata.url, platform, `Teams ${(made += 1)}`, ['operator']);
    url = `${new URL(workflow.url).origin}/workflows/${made}?api-version=1&sig=canary-of-${made}`;
    answers.length = 0;
  });

  const good = (answer: Answer): Answer => {
    expect([answer.status < 300, answer.text]).toEqual([true, expect.any(String)]);
    return answer;
  };
  const at = (path: string): string => `/tenants/${tenant.id}${path}`;
  const configure = async (config: object): Promise<Answer> =>
    good(await tenant.admin.put(at('/config/notifications'), config));
  async function ask(more: object = {}): Promise<string> {
    const wish = { action: 'scale', risk_level: 'high', title: 'More room', ...more };
    return good(await tenant.operator.post(at('/approvals'), wish)).body.id;
  }
  const decide = (client: Client, id: string, decision: string): Promise<Answer> =>
    client.post(at(`/approvals/${id}/decision`), {
      decision,
      comment: 'not [now](https://evil.example)',
    });

  const isOurs = ({ path }: Received): boolean => `${new URL(workflow.url).origin}${path}` === url;
  const cardOf = ({ text }: Received): AdaptiveCard =>
    (JSON.parse(text) as TeamsMessage).attachments[0].content;
  const textOf = (card: AdaptiveCard): string =>
    card.body.map(({ inlines }) => inlines.map(({ text }) => text).join('')).join('\n');

  test('the example of the documentation runs as pasted', async () => {
    const output = await runPastedBeside(page, 'Microsoft Teams', {
      STRATA: strata.url,
      TOKEN: tenant.admin.token,
      TENANT: tenant.id,
      WORKFLOW: url,
    });
    expect(output).toEqual(['********', 'true', 'pending']);
    const [tested, asked] = await workflow.wait(isOurs, 2);
    expect(textOf(cardOf(tested!))).toMatch(/^notification\.test\n/);
    expect(cardOf(tested!).actions).toBeUndefined();
    expect(textOf(cardOf(asked!))).toMatch(/^Approval needed\nMore room\n/);
  });

  describe('a card', () => {
    test('leads to where it is decided, and decides nothing', async () => {
      await configure({ teams: { webhook_url: url } });
      const title = '[Approve](https://evil.example) <at>everyone</at> {{DATE(2026)}}';
      const id = await ask({ title, description: '**bold** ![](https://evil.example/p.png)' });
      const [asked] = await workflow.wait(isOurs);
      expect(asked!.headers['content-type']).toBe('application/json; charset=utf-8');
      const card = cardOf(asked!);
      const address = `https://strata.example.com/console/tenants/${tenant.id}/approvals/${id}`;
      expect(card.actions).toEqual([
        { type: 'Action.OpenUrl', title: 'Review and decide', url: address },
      ]);
      expect(textOf(card).split('\n').slice(0, 3)).toEqual([
        'Approval needed',
        title,
        'Action: scale',
      ]);
      // Text runs know no Markdown, and nothing else stands in the card.
      const kinds = card.body.flatMap(({ type, inlines }) => [
        type,
        ...inlines.map((run) => run.type),
      ]);
      expect(new Set(kinds)).toEqual(new Set(['RichTextBlock', 'TextRun']));
      expect(asked!.text).not.toContain('token=');

      // Who opens it decides by their own right: neither the requester nor a reader of the channel.
      const email = `reader-${made}@example.com`;
      await addMember(tenant.admin, tenant.id, { email, roles: ['viewer'] });
      const viewer = await signIn(strata.url, email, memberPassword);
      expect((await decide(viewer, id, 'approve')).status).toBe(403);
      expect((await decide(tenant.operator, id, 'approve')).body.detail.code).toBe(
        'approval_own_request',
      );
      good(await decide(tenant.admin, id, 'deny'));
      const [, ended] = await workflow.wait(isOurs, 2);
      const said = textOf(cardOf(ended!)).split('\n');
      expect([said[0], said.at(-1)]).toEqual(['Denied', 'not [now](https://evil.example)']);
      expect(cardOf(ended!).actions).toEqual([
        { type: 'Action.OpenUrl', title: 'Open', url: address },
      ]);
    });

    test('that fails is sent again, and its address is a secret everywhere', async () => {
      answers.push(503);
      const saved = await configure({ teams: { webhook_url: url } });
      const id = await ask();
      const [first, second] = await workflow.wait(isOurs, 2);
      expect(second!.text).toBe(first!.text);
      const of = at(`/notifications/deliveries?approval_id=${id}`);
      const list = await eventually(async () => {
        const { body, text } = await tenant.admin.get(of);
        expect(body.items).toMatchObject([{ channel: 'teams', state: 'delivered', attempts: 2 }]);
        return text;
      });
      const shown = await tenant.admin.get(at('/config/notifications/effective'));
      expect(shown.body.teams).toEqual({ webhook_url: '********' });
      const rows = await database.query(
        `SELECT t.notification_config, a.frozen, d.* FROM tenant_config.tenants t, notifier.approvals a,
         notifier.deliveries d WHERE t.id = $1 AND a.id = $2 AND d.approval_id = $2`,
        [tenant.id, id],
      );
      expect(rows).toHaveLength(1);
      for (const text of [saved.text, list, shown.text, JSON.stringify(rows)])
        expect(text).not.toContain('canary-of-');
    });

    test('goes to its own tenant alone, and only where the service wants Teams', async () => {
      await configure({
        teams: { webhook_url: url },
        email: { approval_recipients: ['a@b.example'] },
      });
      const service = { service_type: 'cloud_run', min_instances: 1 };
      for (const [name, channel] of [
        ['web', 'email'],
        ['api', 'teams'],
      ] as const) {
        const wanted = { ...service, notification_channels: [channel] };
        good(await tenant.admin.put(at(`/services/${name}`), wanted));
        const id = await ask({ service_id: name });
        const of = at(`/notifications/deliveries?approval_id=${id}`);
        const { items } = (await tenant.admin.get(of)).body;
        expect(items.map((each: { channel: string }) => each.channel)).toEqual([channel]);
      }
      const first = tenant;
      tenant = await createTenantWith(strata.url, platform, `Neighbour ${made}`, ['operator']);
      const id = await ask();
      const { items } = (await tenant.admin.get(at(`/notifications/deliveries?approval_id=${id}`)))
        .body;
      expect(items.map((each: { channel: string }) => each.channel)).toEqual(['email']);
      expect((await first.admin.get(at('/notifications/deliveries'))).status).toBe(403);
    });
  });

  test.each([
    'https://10.0.0.1/workflows/1?sig=x',
    'http://8.8.8.8/workflows/1',
    'https://[::ffff:169.254.169.254]/',
    'ftp://prod.logic.azure.example/',
    'workflows',
  ])('what no workflow can be is refused: %s', async (wrong) => {
    const { status, body } = await tenant.admin.put(at('/config/notifications'), {
      teams: { webhook_url: wrong },
    });
    expect([status, body.errors?.[0]?.path]).toEqual([422, '/teams/webhook_url']);
    expect((await tenant.admin.get(at('/config/notifications'))).body).toBeNull();
  });

  test('the templates for PagerDuty and incident.io read what a webhook is sent', async () => {
    await configure({ webhook: { url } });
    const id = await ask({ risk_level: 'critical' });
    // A notice that is not sent yet is not sent any more once it is decided.
    await workflow.wait(isOurs, 1);
    good(await decide(tenant.admin, id, 'deny'));
    good(await tenant.admin.post(at('/notifications/test'), { channel: 'webhook' }));
    const notices = (await workflow.wait(isOurs, 3)).map(({ body }) => body);
    const console = `https://strata.example.com/console/tenants/${tenant.id}/approvals/${id}`;

    const emitted = notices.map((body) => {
      const events: unknown[] = [];
      const emitCEFEvents = (each: unknown[]): unknown => events.push(...each);
      const PD = { inputRequest: { body }, Trigger: 'trigger', Resolve: 'resolve', emitCEFEvents };
      runInNewContext(exampleOf(page, 'PagerDuty', 'js'), { PD });
      return [body.type, events];
    });
    const event = {
      dedup_key: id,
      description: 'Approval needed: More room',
      severity: 'critical',
      source_origin: tenant.id,
      event_class: 'scale',
      client: 'Strata',
      client_url: console,
    };
    expect(Object.fromEntries(emitted)).toEqual({
      'approval.requested': [{ ...event, event_action: 'trigger' }],
      'approval.decided': [{ ...event, event_action: 'resolve' }],
      'notification.test': [],
    });

    const transform = exampleOf(page, 'incident.io', 'js');
    const alerts = notices.map(($) => [
      $.type,
      runInNewContext(`(function ($) {${transform}})($)`, { $ }),
    ]);
    const { expires_at: end } = notices[0]!.data;
    const alert = {
      title: 'Approval needed: More room',
      description: `scale, critical risk, until ${end}`,
      source_url: console,
      metadata: { risk: 'critical', group: null },
    };
    expect(Object.fromEntries(alerts)).toMatchObject({
      'approval.requested': { ...alert, status: 'firing' },
      'approval.decided': { ...alert, status: 'resolved' },
    });
  });
});
