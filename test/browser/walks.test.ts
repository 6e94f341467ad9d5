/**
 * Walks through every screen that ask one thing of each: that roles see what they may do, that what
 * people wrote stays text, and in how many clicks what they come for is done.
 */
import { grown } from '../support/grown.ts';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Locator } from 'playwright-core';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import { eventually } from '../support/cluster.ts';
import { soakDescribe, soakTest } from '../support/soak.ts';
import {
  addMember,
  Client,
  createTenant,
  memberPassword,
  signIn,
  adminPassword,
  type TenantFixture,
} from '../support/strata.ts';
import { platformAdmin, setStage, type Stage } from './stage.ts';
import { arrived, type Visit } from './visit.ts';

/**
 * What an attacker puts wherever text is taken. It says where it was put, and ends with a sign that
 * turns what follows it around.
 */
const beginOf = (place: string): string => `<img src=x onerror=ran(1) id=h-${place}>`;
const hostile = (place: string): string => `${beginOf(place)}"'&{{7*7}}\u202E`;
const inHeader = (text: string): string => Buffer.from(text).toString('latin1');

let stage: Stage;
let tenant: TenantFixture;
let receiver: Receiver;
/** Of what there is one of, by what it is. */
const ids = { account: '', approval: '', decided: '', delivery: '', set: '' };

beforeAll(async () => {
  stage = await setStage({
    environment: { WEBHOOK_ALLOWED_NETWORKS: '127.0.0.0/8', WEBHOOK_ALLOW_HTTP: 'true' },
  });
  receiver = await startReceiver((_n, response) => {
    response.writeHead(200, { 'content-type': 'text/plain' }).end(hostile('answer'));
  });
  const { platform, strata, database } = stage;
  tenant = await createTenant(strata.url, platform, 'Acme');
  const { admin, operator, id, emails } = tenant;
  const made = async (answer: ReturnType<Client['get']>): Promise<{ id: string }> => {
    const { status, text, body } = await answer;
    if (status >= 300) throw new Error(text);
    return body as { id: string };
  };
  await made(platform.patch(`/tenants/${id}`, { name: hostile('tenant') }));
  await made(
    platform.put('/config/global/default_region', {
      config_value: hostile('global'),
      is_public: true,
    }),
  );
  await made(
    platform.put('/config/global/bands', {
      config_value: { a: { [beginOf('nested')]: 1 } },
      is_public: true,
    }),
  );
  await made(
    platform.patch('/config/bounds', {
      // Below what a tenant begins with, so that it acts and is shown.
      max_resource_scaling: { maximum: 1, reason: hostile('platform-bound') },
    }),
  );
  await made(
    platform.put('/config/service-types/cloud_run/default', {
      default_settings: { [hostile('type-key')]: hostile('type-value') },
      scaling_limits: { min_instances: 0, max_instances: 50 },
      monitoring_defaults: {},
      is_active: true,
    }),
  );
  await made(
    admin.patch(
      `/tenants/${id}/config/risk`,
      { global_settings: { max_cost_impact_auto: 25 } },
      { 'x-change-reason': inHeader(hostile('reason')) },
    ),
  );
  await made(
    admin.put(`/tenants/${id}/config/bounds`, {
      [hostile('bound')]: { const: hostile('bound-value') },
      approval_timeout_minutes: { maximum: 5, reason: hostile('bound-reason') },
    }),
  );
  await made(
    admin.put(`/tenants/${id}/config/agents/cost_optimizer`, {
      default_region: hostile('agent'),
      custom: { [hostile('agent-key')]: hostile('agent-value') },
    }),
  );
  await made(
    admin.put(`/tenants/${id}/services/checkout`, {
      service_type: 'cloud_run',
      service_name: hostile('service'),
    }),
  );
  await made(
    admin.put(`/tenants/${id}/projects/shop/config`, {
      name: hostile('project'),
      labels: { [hostile('label')]: hostile('label-value') },
    }),
  );
  await made(
    admin.put(`/tenants/${id}/config/notifications`, {
      webhook: { url: receiver.url, secret: 'a secret of theirs' },
      approver_groups: { risk_levels: { critical: ['leads'] } },
    }),
  );
  ids.account = (
    await made(
      admin.post(`/tenants/${id}/service-accounts`, {
        name: hostile('account'),
        description: hostile('account-about'),
        roles: ['operator'],
      }),
    )
  ).id;
  const key = await admin.post(`/tenants/${id}/service-accounts/${ids.account}/api-keys`, {
    name: hostile('key'),
    scopes: ['approvals:write', 'automations:write'],
  });
  const machine = new Client(strata.url, key.body.api_key);
  await made(admin.post('/auth/api-key', { name: hostile('own-key'), scopes: ['config:read'] }));
  await made(admin.post(`/tenants/${id}/users`, { email: 'late@acme.example', roles: ['viewer'] }));
  const provisioner = await admin.post(`/tenants/${id}/service-accounts`, {
    name: 'directory',
    roles: ['tenant_admin'],
  });
  const scim = await admin.post(`/tenants/${id}/service-accounts/${provisioner.body.id}/api-keys`, {
    name: 'scim',
    scopes: ['scim:provision'],
  });
  await made(
    new Client(strata.url, scim.body.api_key).post(`/tenants/${id}/scim/v2/Groups`, {
      displayName: hostile('directory-group'),
    }),
  );
  const wish = { action: 'scale', risk_level: 'low' };
  await grown(database, id);
  ids.approval = (
    await made(
      machine.post(`/tenants/${id}/approvals`, {
        ...wish,
        title: hostile('title'),
        description: hostile('description'),
        resource: hostile('resource'),
        metadata: { [hostile('metadata-key')]: hostile('metadata') },
      }),
    )
  ).id;
  ids.decided = (
    await made(operator.post(`/tenants/${id}/approvals`, { ...wish, title: 'Decided' }))
  ).id;
  await made(
    admin.post(`/tenants/${id}/approvals/${ids.decided}/decision`, {
      decision: 'approve',
      comment: hostile('comment'),
    }),
  );
  ids.set = (
    await made(
      operator.post(`/tenants/${id}/config/changesets`, {
        title: hostile('set'),
        reason: hostile('set-reason'),
        items: [
          {
            action: 'patch',
            path: `/tenants/${id}/services/checkout`,
            body: { service_name: hostile('set-value') },
          },
        ],
      }),
    )
  ).id;
  const automation = await made(
    operator.post(`/tenants/${id}/automations`, { ...wish, service_id: 'checkout' }),
  );
  await made(
    operator.post(`/tenants/${id}/automations/${automation.id}/finish`, {
      outcome: hostile('outcome'),
    }),
  );
  await eventually(async () => {
    const { body } = await admin.get(
      `/tenants/${id}/notifications/deliveries?state=delivered&approval_id=${ids.approval}`,
    );
    const [delivery] = body.items;
    if (!delivery) throw new Error('nothing is delivered yet');
    ids.delivery = delivery.id;
  });
  await database.query('UPDATE auth.users SET display_name = $1 WHERE email = $2', [
    hostile('person'),
    emails.operator,
  ]);
  const elsewhere = await new Client(strata.url).post(
    '/auth/login',
    { email: emails.tenant_admin, password: memberPassword },
    { 'user-agent': beginOf('browser') },
  );
  if (elsewhere.status !== 200) throw new Error(elsewhere.text);
  const other = await createTenant(strata.url, platform, 'Beta');
  await made(platform.patch(`/tenants/${other.id}`, { name: hostile('inviting-tenant') }));
  await made(
    other.admin.post(`/tenants/${other.id}/users`, {
      email: emails.tenant_admin,
      roles: ['viewer'],
    }),
  );
});
afterAll(async () => {
  await receiver?.close();
  await stage?.stop();
});

/** Such a tab of somebody, at the console's start. */
async function within(email: string): Promise<Visit> {
  const seen = await stage.tabOf(email);
  await seen.page.goto('/console');
  await seen.page.getByRole('navigation', { name: 'Screens' }).waitFor();
  return seen;
}

describe('hostile text', () => {
  interface Look {
    /**
     * What is wrong with the document: elements that the text would make, and text that turns what
     * is behind it around.
     */
    readonly made: readonly string[];
    readonly turned: readonly string[];
    readonly text: string;
  }
  const look = `(() => {
    const made = [...document.querySelectorAll('img, iframe, object, embed, script:not([src]):not([type=importmap]), [onerror], [id^="h-"]')];
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const turned = [];
    for (let node = texts.nextNode(); node !== null; node = texts.nextNode()) {
      if (!node.data.includes('\\u202E') || node.parentElement.closest('bdi, pre, option, textarea')) continue;
      let around = node.parentElement;
      while (!/isolate|plaintext/.test(getComputedStyle(around).unicodeBidi)) around = around.parentElement;
      const isInline = getComputedStyle(around).display.startsWith('inline');
      if (!isInline && !around.textContent.trim().endsWith('\\u202E')) turned.push(around.outerHTML.slice(0, 200));
    }
    const fields = [...document.querySelectorAll('input, textarea')].map(({ value }) => value);
    return {
      made: made.map((element) => element.outerHTML),
      turned,
      text: [document.body.innerText, ...fields].join('\\n'),
    };
  })()`;

  /** Opens whatever opens in place. */
  async function openAll({ page }: Visit): Promise<void> {
    const details = page.locator('details:not([open]) > summary');
    for (let left = await details.count(); left > 0; left -= 1) await details.first().click();
    const closed = page.locator('button.key[aria-expanded=false]:visible');
    for (let left = Math.min(await closed.count(), 12); left > 0; left -= 1)
      await closed.first().click();
  }

  /** Each screen, with the places whose text it shows. */
  async function walk(
    seen: Visit,
    screens: readonly (readonly [address: string, ...places: string[]])[],
  ): Promise<void> {
    const found: unknown[] = [];
    for (const [address, ...places] of screens) {
      await seen.goInside(address);
      await openAll(seen);
      const missingIn = ({ text }: Look): string[] =>
        places.filter((place) => !text.includes(beginOf(place)));
      // What was answered may be drawn a moment later. Once something was wrong the rest is only
      // looked at for the report.
      await eventually(
        async () => expect(missingIn(await seen.page.evaluate<Look>(look))).toEqual([]),
        found.length === 0 ? 30_000 : 1000,
      ).catch(() => {});
      const shown = await seen.page.evaluate<Look>(look);
      const { made, turned } = shown;
      const missing = missingIn(shown);
      if (made.length + turned.length + missing.length > 0)
        found.push({ address, made, turned, missing });
    }
    expect(found).toEqual([]);
  }

  test('stays text in every name, key, value, reason and comment of a tenant', async () => {
    const { id } = tenant;
    const seen = await within(tenant.emails.tenant_admin!);
    const at = `/tenants/${id}`;
    await walk(seen, [
      [`${at}/effective`, 'tenant', 'global'],
      [`${at}/effective?agent_type=cost_optimizer&service_id=checkout`, 'agent'],
      [`${at}/effective?service_type=cloud_run&q=h-type`, 'type-key', 'type-value'],
      [`${at}/effective?q=h-bound`, 'bound', 'bound-value'],
      [`${at}/effective?q=approval_timeout`, 'bound-reason'],
      [`${at}/effective?q=max_resource_scaling`, 'platform-bound'],
      [`${at}/effective?agent_type=${encodeURIComponent(beginOf('asked'))}`, 'asked'],
      [`${at}/documents/agents/cost_optimizer`, 'agent', 'agent-key', 'agent-value'],
      [`${at}/documents/services/checkout`, 'service'],
      [`${at}/documents/projects/shop`, 'project', 'label', 'label-value'],
      [`${at}/automations?state=all`, 'outcome', 'person'],
      [
        `${at}/approvals/${ids.approval}`,
        'title',
        'description',
        'resource',
        'metadata-key',
        'metadata',
        'account',
        'key',
      ],
      [`${at}/approvals/${ids.decided}`, 'comment'],
      [`${at}/change-sets/${ids.set}`, 'set', 'set-reason', 'set-value', 'service'],
      [`${at}/deliveries/${ids.delivery}`, 'answer'],
      [`${at}/history`, 'reason', 'agent', 'agent-value', 'service', 'project', 'bound-value'],
      [`${at}/service-accounts/${ids.account}`, 'account', 'account-about', 'key'],
      ['/account', 'inviting-tenant'],
      ['/account/sessions', 'browser'],
      ['/account/keys', 'own-key', 'tenant'],
    ]);
    // Only that there cannot be such an agent.
    expect(seen.faults.filter((text) => !text.includes('422'))).toEqual([]);
    await seen.close();
  });

  // What is shown there is shown above as well, or nothing of it.
  soakTest('stays text on the other screens of a tenant', async () => {
    const { id } = tenant;
    const seen = await within(tenant.emails.tenant_admin!);
    const at = `/tenants/${id}`;
    await walk(seen, [
      [`${at}/overview`, 'title'],
      [`${at}/compare?with_agent_type=cost_optimizer`, 'global', 'agent', 'agent-key'],
      [`${at}/services`, 'service'],
      [`${at}/services/checkout`, 'service'],
      [`${at}/documents`, 'service', 'project'],
      [`${at}/documents/agents/cost_optimizer?as=json`, 'agent-key', 'agent-value'],
      [`${at}/documents/bounds`, 'bound', 'bound-value', 'bound-reason'],
      [`${at}/documents/notifications`],
      [`${at}/approvals?state=all`, 'title'],
      [`${at}/change-sets`, 'set', 'set-reason'],
      [`${at}/notifications`],
      [`${at}/deliveries`],
      [`${at}/destinations`],
      [`${at}/members`, 'person'],
      [`${at}/groups`],
      [`${at}/service-accounts`, 'account', 'account-about'],
      [`${at}/audit?action=auth`],
      [`${at}/audit`],
      ['/account/activity'],
    ]);
    expect(seen.faults).toEqual([]);
    await seen.close();
  });

  soakTest('stays text in what is asked before something is done to it', async () => {
    const { id } = tenant;
    const seen = await within(tenant.emails.tenant_admin!);
    const { page } = seen;
    const at = `/tenants/${id}`;
    const dialogs: readonly (readonly [address: string, button: RegExp, place: string])[] = [
      [`${at}/effective?agent_type=cost_optimizer&open=default_region`, /^Clear…/, 'agent'],
      [`${at}/members`, /^Change .*h-person/, 'person'],
      [`${at}/members`, /^Remove .*h-person/, 'person'],
      [`${at}/service-accounts/${ids.account}`, /^Change…/, 'account'],
      [`${at}/service-accounts/${ids.account}`, /^Remove…/, 'account'],
      [`${at}/service-accounts/${ids.account}`, /^Revoke /, 'key'],
      ['/account/keys', /^New secret for /, 'own-key'],
      ['/account/sessions', /^End the session of .*h-browser/, 'browser'],
      [`${at}/history?config_type=agent_config`, /^Undo this/, 'agent'],
      [`${at}/documents/agents/cost_optimizer`, /^Delete…/, 'agent'],
    ];
    const found: unknown[] = [];
    for (const [address, button, place] of dialogs) {
      await seen.goInside(address);
      if (address.includes('/history')) await page.locator('button.key').first().click();
      await page.getByRole('button', { name: button }).first().click();
      const dialog = page.getByRole('dialog');
      await dialog.waitFor();
      await page.getByText('Trying it…').waitFor({ state: 'detached' });
      const { made, turned } = await page.evaluate<Look>(look);
      const text = await page.evaluate<string>(`(() => {
        const dialog = document.querySelector('dialog');
        return [dialog.innerText, ...[...dialog.querySelectorAll('input')].map(({ value }) => value)].join(' ');
      })()`);
      const isThere = text.includes(beginOf(place));
      if (made.length + turned.length > 0 || !isThere)
        found.push({ address, button: String(button), made, turned, isThere, text });
      await page.keyboard.press('Escape');
      await dialog.waitFor({ state: 'detached' });
    }
    expect(found).toEqual([]);
    expect(seen.faults).toEqual([]);
    await seen.close();
  });

  soakTest('stays text on the screens of the platform', async () => {
    const seen = await within(platformAdmin);
    await walk(seen, [
      ['/platform/overview'],
      ['/platform/tenants', 'tenant', 'inviting-tenant'],
      ['/platform/global', 'global', 'nested'],
      ['/platform/global/default_region', 'global'],
      ['/platform/service-types'],
      ['/platform/service-types/cloud_run/default', 'type-key', 'type-value'],
      ['/platform/bounds', 'platform-bound'],
      ['/platform/plan'],
      ['/platform/change-sets'],
      ['/platform/rollouts'],
      ['/platform/history', 'global', 'platform-bound'],
      ['/platform/audit'],
      ['/platform/nodes'],
    ]);
    expect(seen.faults).toEqual([]);
    await seen.close();
  });
});

soakDescribe('roles', () => {
  interface Offer {
    /** Of the console, and what is offered there. */
    readonly screen: string;
    readonly button: string;
    /** What it calls; the body is refused for what it says, or by who asks. */
    readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
    readonly path: string;
    readonly body?: object;
  }
  type Row = readonly [button: string, request: string, body?: object];
  const unknownId = '00000000-0000-4000-8000-000000000000';

  const offersOn = (screen: string, ...rows: readonly Row[]): Offer[] =>
    rows.map(([button, request, body]) => {
      const [method, path] = request.split(' ') as [Offer['method'], string];
      return { screen, button, method, path, ...(body !== undefined && { body }) };
    });

  /** Everything that a screen of a tenant offers to do, with the call behind it. */
  const ofTenant = (): Offer[] => [
    ...offersOn('effective?agent_type=cost_optimizer&open=default_region', [
      'Clear…',
      'PATCH config/agents/cost_optimizer?dry_run=true',
      {},
    ]),
    ...offersOn('documents/risk', ['Review & publish…', 'PATCH config/risk?dry_run=true', {}]),
    ...offersOn('documents/bounds', ['Review & publish…', 'PATCH config/bounds?dry_run=true', {}]),
    ...offersOn('documents/notifications', [
      'Review & publish…',
      'PATCH config/notifications?dry_run=true',
      {},
    ]),
    ...offersOn(
      'documents/agents/cost_optimizer',
      ['Review & publish…', 'PATCH config/agents/cost_optimizer?dry_run=true', {}],
      ['Delete…', 'DELETE config/agents/cost_optimizer?dry_run=true'],
    ),
    ...offersOn(
      'documents/services/checkout',
      ['Review & publish…', 'PATCH services/checkout?dry_run=true', {}],
      ['Delete…', 'DELETE services/checkout?dry_run=true'],
    ),
    ...offersOn(
      'documents/projects/shop',
      ['Review & publish…', 'PATCH projects/shop/config?dry_run=true', {}],
      ['Delete…', 'DELETE projects/shop/config?dry_run=true'],
    ),
    ...offersOn('budgets', ['New budget…', 'PATCH config/budgets?dry_run=true', {}]),
    ...offersOn(
      'freezes',
      ['New freeze…', 'PATCH config/freezes?dry_run=true', {}],
      ['Import a calendar…', 'PATCH config/freezes?dry_run=true', {}],
    ),
    ...offersOn('automations', ['Stop automation…', 'PATCH config/bounds?dry_run=true', {}]),
    ...offersOn(
      `approvals/${ids.approval}`,
      ['Approve', `POST approvals/${ids.approval}/decision`, {}],
      ['Deny', `POST approvals/${ids.approval}/decision`, {}],
      ['Acknowledge', `POST approvals/${unknownId}/ack`],
    ),
    ...offersOn(
      `change-sets/${ids.set}`,
      ['Ask for approval', `POST config/changesets/${unknownId}/submit`],
      ['Edit…', `PATCH config/changesets/${unknownId}`, {}],
      ['Cancel it…', `POST config/changesets/${unknownId}/cancel`],
      ['It cannot wait…', `POST config/changesets/${unknownId}/break-glass`, {}],
    ),
    ...offersOn('notifications', ['Test webhook', 'POST notifications/test', {}]),
    ...offersOn(`deliveries/${ids.delivery}`, [
      'Send it again',
      `POST notifications/deliveries/${unknownId}/replay`,
    ]),
    ...offersOn(
      'history?open=2',
      ['Undo this change…', 'POST config/rollback?dry_run=true', {}],
      ['Restore what it was after this…', 'POST config/rollback?dry_run=true', {}],
    ),
    ...offersOn(
      'members',
      ['Invite…', 'POST users', {}],
      ['Send again to late@acme.example', `POST users/${unknownId}/invite`],
      ['Change admin@acme.example', `PATCH users/${unknownId}`, {}],
      ['Remove admin@acme.example', `DELETE users/${unknownId}`],
      ['Change what ', `PUT directory-groups/${unknownId}`, { roles: [], groups: [] }],
    ),
    ...offersOn(
      'groups',
      ['New group…', `PATCH users/${unknownId}`, {}],
      ['Change leads', `PATCH users/${unknownId}`, {}],
    ),
    ...offersOn('service-accounts', ['New account…', 'POST service-accounts', {}]),
    ...offersOn(
      `service-accounts/${ids.account}`,
      ['Change…', `PATCH service-accounts/${unknownId}`, {}],
      ['Disable…', `PATCH service-accounts/${unknownId}`, {}],
      ['Remove…', `DELETE service-accounts/${unknownId}`],
      ['New key…', `POST service-accounts/${ids.account}/api-keys`, {}],
      ['Revoke ', `DELETE service-accounts/${ids.account}/api-keys/${unknownId}`],
    ),
    ...offersOn(
      'audit',
      ['Verify the record', 'GET /audit/verify'],
      ['Export filtered events', 'GET /audit/events'],
      ['Export the record', 'GET /audit/export'],
    ),
    ...offersOn('/account', ['Change the password', 'POST /auth/password/change', {}]),
    ...offersOn('/account/sessions', ['Sign out everywhere…', 'POST /auth/logout', { all: 'no' }]),
    ...offersOn('/account/keys', ['New key…', 'POST /auth/api-key', {}]),
  ];

  /** Likewise on those of the platform. */
  const ofPlatform = (): Offer[] => [
    ...offersOn(
      '/platform/tenants',
      ['New tenant…', 'POST /tenants', {}],
      ['Rename ', `PATCH /tenants/${unknownId}`, { name: '' }],
      ['disable ', `PATCH /tenants/${unknownId}`, { status: '' }],
      ['Delete Closed', `DELETE /tenants/${unknownId}`],
    ),
    ...offersOn('/platform/global', ['New…', 'PUT /config/global/new?dry_run=true', {}]),
    ...offersOn(
      '/platform/global/default_region',
      ['Review & publish…', 'PATCH /config/global/default_region?dry_run=true', {}],
      ['Delete…', 'DELETE /config/global/default_region?dry_run=true'],
    ),
    ...offersOn(
      '/platform/service-types/cloud_run/default',
      ['Review & publish…', 'PATCH /config/service-types/cloud_run/default?dry_run=true', {}],
      ['Delete…', 'DELETE /config/service-types/cloud_run/default?dry_run=true'],
    ),
    ...offersOn(
      '/platform/bounds',
      ['Stop automation…', 'PATCH /config/bounds?dry_run=true', {}],
      ['Review & publish…', 'PATCH /config/bounds?dry_run=true', {}],
    ),
    ...offersOn('/platform/budgets', [
      'Review & publish…',
      'PATCH /config/budgets?dry_run=true',
      {},
    ]),
    ...offersOn('/platform/freezes', ['New freeze…', 'PATCH /config/freezes?dry_run=true', {}]),
    ...offersOn('/platform/change-policy', [
      'Review & publish…',
      'PATCH /config/change-policy?dry_run=true',
      {},
    ]),
    ...offersOn('/platform/plan', ['Add to the plan', 'POST /config/plan', {}]),
    ...offersOn('/platform/history?open=1', [
      'Undo this change…',
      'POST /config/rollback?dry_run=true',
      {},
    ]),
    ...offersOn(
      '/platform/audit',
      // Tenants' administrators verify and export their own on their own screen.
      ['Export the record', 'POST /audit/cut', {}],
    ),
    ...offersOn('/platform/nodes', ['Preview', 'POST /config/reload', { reload_env: 'no' }]),
  ];

  /** What is shown beside what is allowed, of every offer. */
  async function offered(
    seen: Visit,
    client: Client,
    offers: readonly Offer[],
  ): Promise<{ shown: [string, boolean][]; allowed: [string, boolean][] }> {
    const shown: [string, boolean][] = [];
    const allowed: [string, boolean][] = [];
    let at: string | undefined;
    for (const { screen, button, method, path, body } of offers) {
      if (screen !== at) {
        at = screen;
        await seen.goInside(screen.startsWith('/') ? screen : `/tenants/${tenant.id}/${screen}`);
        if (screen === '/platform/plan')
          for (const part of await seen.page.getByText('Write an item', { exact: true }).all())
            await part.click();
      }
      const name = `${screen}: ${button}`;
      const buttons = seen.page.getByRole('button', { name: button });
      const address = path.startsWith('/') ? path : `/tenants/${tenant.id}/${path}`;
      const { status } = await client.send(method, address, body ? { body } : {});
      const isAllowed = status !== 403;
      const isShown = async (): Promise<boolean> => (await buttons.count()) > 0;
      // What was answered may be drawn a moment later.
      await eventually(async () => expect(await isShown()).toBe(isAllowed)).catch(() => {});
      shown.push([name, await isShown()]);
      allowed.push([name, isAllowed]);
    }
    return { shown, allowed };
  }

  beforeAll(async () => {
    const { platform, strata } = stage;
    const closed = await createTenant(strata.url, platform, 'Closed');
    await platform.patch(`/tenants/${closed.id}`, { status: 'disabled' });
  });

  test.each(['tenant_admin', 'operator', 'viewer', 'platform_admin'] as const)(
    'what %s is offered is not refused, and what is hidden is',
    async (role) => {
      const isPlatform = role === 'platform_admin';
      const email = isPlatform ? platformAdmin : tenant.emails[role]!;
      const client = isPlatform
        ? await signIn(stage.strata.url, email, adminPassword)
        : await signIn(stage.strata.url, email, memberPassword, tenant.id);
      const seen = await within(email);
      if (!isPlatform) await arrived(seen.page);
      const refused: string[] = [];
      seen.page.on('response', (response) => {
        if (response.status() === 403) refused.push(response.url());
      });
      const offers = [...(isPlatform ? [] : ofTenant()), ...ofPlatform()];
      const { shown, allowed } = await offered(seen, client, offers);
      expect(shown).toEqual(allowed);
      // Of each role something is shown, so that a screen that says nothing at all is noticed.
      expect(shown.filter(([, isShown]) => isShown).length).toBeGreaterThan(2);
      expect(refused).toEqual([]);
      await seen.close();
    },
  );
});

/**
 * What people come for most often, from the first page to its end: in how many clicks, without any
 * JSON. Fields that somebody types in are counted by themselves; with TASKS_PRINTED=yes it prints
 * both, and the time that it took, for a person to read.
 */
soakDescribe('what people come for most often', () => {
  let doer: TenantFixture;
  let approval: string;

  beforeAll(async () => {
    const { platform, strata, database } = stage;
    doer = await createTenant(strata.url, platform, 'Doer');
    const { admin, operator, id } = doer;
    const lee = { email: 'lee@doer.example', roles: ['operator'], groups: ['leads'] };
    const { user_id: leeId } = await addMember(admin, id, lee);
    await grown(database, id);
    const asked = { action: 'scale', risk_level: 'high', title: 'Scale checkout to 12' };
    const requested = await operator.post(`/tenants/${id}/approvals`, asked);
    approval = requested.body.id;
    const answers = [
      requested,
      await admin.put(`/tenants/${id}/config/notifications`, {
        approver_groups: { risk_levels: { critical: ['leads'] } },
      }),
      await admin.patch(
        `/tenants/${id}/config/risk`,
        { service_overrides: { cloud_run: { max_cost_impact_auto: 2 } } },
        { 'x-change-reason': 'careful start' },
      ),
      await platform.patch(`/auth/users/${leeId}`, { status: 'disabled' }),
    ];
    for (const { status, text } of answers) if (status >= 300) throw new Error(text);
  });

  /** Counts what somebody does. */
  class Hand {
    clicks = 0;
    fields = 0;
    readonly #began = performance.now();

    async click(target: Locator): Promise<void> {
      this.clicks += 1;
      await target.click();
    }

    async type(target: Locator, text: string): Promise<void> {
      this.fields += 1;
      await target.fill(text);
    }

    /** Chooses one of several: to open them, and to take it. */
    async choose(target: Locator, label: string): Promise<void> {
      this.clicks += 2;
      await target.selectOption({ label });
    }

    says(task: string): void {
      if (process.env.TASKS_PRINTED !== 'yes') return;
      const seconds = ((performance.now() - this.#began) / 1000).toFixed(1);
      process.stderr.write(
        `${task}: ${this.clicks} clicks, ${this.fields} fields, ${seconds} s of the machine\n`,
      );
    }
  }

  /** Begins once the first page is there, as that of whoever has signed in; ends within the clicks. */
  async function doing(
    task: string,
    mostClicks: number,
    act: (seen: Visit, hand: Hand) => Promise<void>,
    { address = '/console', width }: { readonly address?: string; readonly width?: number } = {},
  ): Promise<void> {
    const seen = await stage.tabOf(doer.emails.tenant_admin!);
    if (width !== undefined) await seen.page.setViewportSize({ width, height: 800 });
    await seen.page.goto(address);
    if (address === '/console') await arrived(seen.page);
    const hand = new Hand();
    await act(seen, hand);
    hand.says(task);
    expect(hand.clicks).toBeLessThanOrEqual(mostClicks);
    expect(seen.faults).toEqual([]);
    await seen.close();
  }

  test('why a value is 2, and to change it: 6 clicks', () =>
    doing('why is it 2, and change it', 6, async ({ page }, hand) => {
      const link = page.getByRole('link', { name: 'Effective values', exact: true });
      await hand.click(link);
      const type = page.getByLabel('Service type', { exact: true });
      await hand.type(type, 'cloud_run');
      await type.press('Enter');
      await hand.click(page.getByRole('button', { name: 'max_cost_impact_auto', exact: true }));
      const ladder = page.getByRole('group', { name: 'Layers of max_cost_impact_auto' });
      const deciding = ladder.getByRole('row').filter({ hasText: 'cloud_run' });
      await deciding.getByText('careful start').waitFor();
      await hand.click(deciding.getByRole('button', { name: 'Edit…' }));
      const dialog = page.getByRole('dialog');
      await hand.type(dialog.getByRole('spinbutton'), '8');
      await hand.click(dialog.getByRole('button', { name: 'Review' }));
      await hand.type(dialog.getByLabel('Reason'), 'The sale is over');
      await hand.click(dialog.getByRole('button', { name: 'Publish', exact: true }));
      await dialog.waitFor({ state: 'detached' });
      await deciding.getByText('8', { exact: true }).waitFor();
    }));

  test('to stop automation: 3 clicks, also where that of one service type is stopped', async () => {
    const bounds = `/tenants/${doer.id}/config/bounds`;
    const ofOne = { const: false, service_types: ['cloud_run'] };
    await doer.admin.put(bounds, { automation_enabled: ofOne });
    await doing('emergency stop', 3, async ({ page }, hand) => {
      await hand.click(page.getByRole('link', { name: 'Automations', exact: true }));
      await hand.type(page.getByLabel('Why automation is stopped'), 'All hands');
      await hand.click(page.getByRole('button', { name: 'Stop automation…' }));
      const dialog = page.getByRole('dialog');
      await hand.click(dialog.getByRole('button', { name: 'Stop automation', exact: true }));
      await page.getByText('Automation of this tenant is stopped.').waitFor();
    });
    const { body } = await doer.admin.get(bounds);
    expect(body.automation_enabled).toEqual({ const: false, reason: 'All hands' });
    const { status } = await doer.admin.delete(bounds);
    expect(status).toBeLessThan(300);
  });

  test('a webhook set up and tested without JSON: 10 clicks', () =>
    doing('webhook set up and tested', 10, async ({ page }, hand) => {
      await hand.click(page.getByRole('link', { name: 'Notifications', exact: true }));
      await hand.click(page.getByRole('link', { name: 'Edit routing' }));
      await hand.click(page.locator('summary').getByText('Webhook', { exact: true }));
      await hand.choose(page.locator('[name="/webhook"]'), 'webhook endpoint');
      await hand.type(page.locator('[name="/webhook/url"]'), receiver.url);
      await hand.click(page.getByRole('button', { name: 'Review & publish…' }));
      const dialog = page.getByRole('dialog');
      await hand.click(dialog.getByRole('button', { name: 'Publish', exact: true }));
      await dialog.waitFor({ state: 'detached' });
      await hand.click(page.getByRole('link', { name: 'Notifications', exact: true }));
      await hand.click(page.getByRole('button', { name: /^Test webhook/ }));
      const result = page.locator('.tested');
      await eventually(async () =>
        expect(await result.innerText()).toMatch(/delivered[^]*status 2\d\d/),
      );
    }));

  test('who changed a value on a day: 4 clicks', () =>
    doing('who changed it on a day', 4, async ({ page }, hand) => {
      const screens = page.getByRole('navigation', { name: 'Screens' });
      await hand.click(screens.getByRole('link', { name: 'History', exact: true }));
      const today = new Date().toLocaleDateString('sv', { timeZone: 'Europe/Berlin' });
      await hand.type(page.getByLabel('From day'), today);
      await hand.type(page.getByLabel('To day'), today);
      await hand.type(page.getByLabel('Filter this page'), 'max_cost_impact_auto');
      const row = page.locator('table.history tbody').filter({ hasText: 'careful start' });
      await row.waitFor();
      expect(await row.innerText()).toContain(doer.emails.tenant_admin!);
    }));

  test('an approval denied on a phone, with a comment: 3 clicks', () =>
    doing(
      'deny on a phone with a comment',
      3,
      async ({ page }, hand) => {
        const columns = 'getComputedStyle(document.querySelector(".facts")).gridTemplateColumns';
        await page.locator('.facts').waitFor();
        expect((await page.evaluate<string>(columns)).split(' ')).toHaveLength(2);
        await hand.type(page.getByLabel('Comment'), 'Not before the sale');
        await hand.click(page.getByRole('button', { name: 'Deny', exact: true }));
        await page.locator('.timeline').getByText('Not before the sale').waitFor();
      },
      { address: `/console/tenants/${doer.id}/approvals/${approval}`, width: 390 },
    ));

  test('an approver whose account is disabled: 3 clicks', () =>
    doing('a disabled approver found', 3, async ({ page }, hand) => {
      await hand.click(page.getByRole('link', { name: 'Approver groups', exact: true }));
      const leads = page.getByRole('row').filter({ hasText: 'leads' });
      await leads.getByText('lee@doer.example').waitFor();
      expect(await leads.innerText()).toMatch(/disabled/);
    }));

  test('who could approve what on a day, as a file: 3 clicks', () =>
    doing('access report of a date', 3, async ({ page }, hand) => {
      await hand.click(page.getByRole('link', { name: 'Access report', exact: true }));
      await page.getByRole('group', { name: 'Who could approve' }).waitFor();
      const now = new Date().toLocaleString('sv', { timeZone: 'Europe/Berlin' }).replace(' ', 'T');
      const field = page.getByLabel('As of (your time)');
      await hand.type(field, now);
      await field.blur();
      await page.getByRole('group', { name: 'Members' }).getByText('lee@doer.example').waitFor();
      const saved = page.waitForEvent('download');
      await hand.click(page.getByRole('button', { name: 'Save as CSV' }));
      expect((await saved).suggestedFilename()).toMatch(/\.csv$/);
    }));
});
