/**
 * The console for those who operate: comparing, stopping, notices, limits over time, and the
 * platform. Each screen is looked at, and used.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Page } from 'playwright-core';
import { eventually } from '../support/cluster.ts';
import { startReceiver, type Received, type Receiver } from '../support/receiver.ts';
import { soakTest } from '../support/soak.ts';
import {
  createTenant,
  joinTenant,
  memberPassword,
  type Client,
  type TenantFixture,
} from '../support/strata.ts';
import { AuditPage } from './pages/audit.ts';
import { AutomationsPage } from './pages/automations.ts';
import { ComparePage } from './pages/compare.ts';
import { DocumentPage } from './pages/documents.ts';
import { EffectiveValuesPage } from './pages/effective-values.ts';
import { FormDialog } from './pages/form-dialog.ts';
import { HistoryPage } from './pages/history.ts';
import { BudgetsPage, FreezesPage } from './pages/limits.ts';
import { DeliveriesPage, NotificationsPage } from './pages/notifications.ts';
import { AccountsPage, PlanPage, PlatformDocumentPage, TenantsPage } from './pages/platform.ts';
import { ReviewDialog } from './pages/review.ts';
import { SignInPage } from './pages/sign-in.ts';
import { hostile, platformAdmin, setStage, type Stage } from './stage.ts';
import { standAgainAt, standAt } from './stand.ts';
import { soonMs, until, visit, type Visit } from './visit.ts';

/** In UTC, yesterday to tomorrow, as the days of every year. */
const everyDay = [-1, 0, 1].map((days) =>
  new Date(Date.now() + days * 86_400_000).toISOString().slice(5, 10),
);

let stage: Stage;
let platform: Client;
let acme: TenantFixture;
let beta: TenantFixture;
let receiver: Receiver;

beforeAll(async () => {
  stage = await setStage({
    environment: {
      WEBHOOK_ALLOWED_NETWORKS: '127.0.0.0/8',
      WEBHOOK_ALLOW_HTTP: 'true',
      // Named in a gate that is never reached.
      PROMETHEUS_URL: 'http://127.0.0.1:9',
    },
  });
  receiver = await startReceiver((n, response) => {
    response.writeHead(200, { 'content-type': 'text/plain' }).end(`taken ${n} ${hostile}`);
  });
  ({ platform } = stage);
  acme = await createTenant(stage.strata.url, platform, 'Acme');
  beta = await createTenant(stage.strata.url, platform, 'Beta');
  const email = acme.emails.operator!;
  await joinTenant(beta.admin, beta.id, acme.operator, { email, roles: ['viewer'] });
  const written = [
    await acme.admin.put(`/tenants/${acme.id}/config/agents/scaler`, {
      default_region: 'europe-west4',
      monitoring_thresholds: { cpu: 0.7, errors: 0.01 },
      custom: { note: hostile },
    }),
    await acme.admin.put(`/tenants/${acme.id}/config/agents/optimizer`, {
      default_region: 'europe-west1',
      monitoring_thresholds: { cpu: 0.9, errors: 0.01 },
      custom: { note: hostile },
    }),
    await beta.admin.patch(`/tenants/${beta.id}/config/risk`, {
      global_settings: { max_cost_impact_auto: 41 },
    }),
  ];
  for (const { status, text } of written) if (status >= 300) throw new Error(text);
});
afterAll(async () => {
  await receiver?.close();
  await stage?.stop();
});

const asAdmin = (): Promise<Visit> => stage.tabOf(acme.emails.tenant_admin!);
const asPlatform = (): Promise<Visit> => stage.tabOf(platformAdmin);

describe('compare', () => {
  soakTest(
    'two contexts: only what differs, inside of objects, until all is asked for',
    async () => {
      const seen = await asAdmin();
      const compare = new ComparePage(seen.page);
      await compare.open(acme.id, '?agent_type=scaler&with_agent_type=optimizer');
      expect(await compare.count()).toMatch(/^2 of \d+ keys differ\.$/);
      expect(await compare.rows()).toEqual([
        ['default_region', '"europe-west4"', '"europe-west1"'],
        [
          'monitoring_thresholds',
          expect.stringMatching(/^Agent configuration/),
          expect.stringMatching(/^Agent configuration/),
        ],
        ['/cpu', '0.7', '0.9'],
      ]);
      await standAt(seen.page, 'compare');
      await seen.page.getByLabel('Show identical').check();
      await seen.page.getByRole('searchbox', { name: 'Filter' }).fill('custom');
      await eventually(async () => {
        expect((await compare.rows()).map(([key]) => key)).toEqual(['custom']);
        expect(new URL(seen.page.url()).search).toBe(
          '?agent_type=scaler&with_agent_type=optimizer&all=yes&q=custom',
        );
      });
      expect(seen.faults).toEqual([]);
      await seen.close();
    },
  );

  soakTest('two moments: a revision with now', async () => {
    const path = `/tenants/${acme.id}/config/agents/moved`;
    const first = await acme.admin.put(path, { default_region: 'before' });
    await acme.admin.put(path, { default_region: 'after' });
    const revision = first.headers.get('x-config-revision');
    const seen = await asAdmin();
    const compare = new ComparePage(seen.page);
    await compare.open(acme.id, `?agent_type=moved&with_agent_type=moved&as_of=${revision}`);
    expect(await compare.rows()).toEqual([['default_region', '"before"', '"after"']]);
    expect(seen.faults).toEqual([]);
    await seen.close();
  });

  soakTest('two tenants of one person, who stays in their own, also in the other tab', async () => {
    const email = acme.emails.operator!;
    const seen = await stage.visit();
    const door = new SignInPage(seen.page);
    await door.open(`/console/tenants/${acme.id}/compare`);
    await door.signIn(email, memberPassword);
    const compare = new ComparePage(seen.page);
    await compare.compared();
    const second = await visit(stage.browser, stage.origin, {}, seen.context);
    await new EffectiveValuesPage(second.page).open(acme.id);
    await compare.with('Tenant', 'Beta');
    // What was compared before is shown until the answer is there.
    await eventually(async () => {
      const cost = (await compare.rows()).find(([key]) => key === 'max_cost_impact_auto');
      expect(cost).toEqual(['max_cost_impact_auto', expect.any(String), '41']);
    });
    await new EffectiveValuesPage(second.page).open(acme.id);
    await seen.page.reload();
    await compare.compared();
    await seen.close();
  });

  soakTest(
    'edits are not lost unasked by going back or to another tenant, here or in another tab, and are no one else’s',
    async () => {
      const path = `/console/tenants/${acme.id}/documents`;
      await acme.admin.put(`/tenants/${acme.id}/services/edited`, { service_type: 'cloud_run' });
      const seen = await stage.visit();
      const { page } = seen;
      const asked: string[] = [];
      page.on('dialog', (dialog) => {
        asked.push(dialog.message());
        void dialog.dismiss();
      });
      const door = new SignInPage(page);
      await door.open(path);
      await door.signIn(acme.emails.operator!, memberPassword);
      await page.getByRole('link', { name: 'edited', exact: true }).click();
      const field = new DocumentPage(page).field('/max_instances');
      await field.fill('7');
      await page.getByText('1 change, not published.').waitFor();
      await page.goBack();
      await eventually(async () => expect(asked).toHaveLength(1));
      // The browser has gone back when it asks, and returns after the answer.
      await page.waitForURL('**/documents/services/edited');
      const choice = (where: Page) => where.getByRole('combobox', { name: 'Tenant' });
      await choice(page).selectOption({ label: 'Beta' });
      await eventually(async () => expect(asked).toHaveLength(2));
      expect(await choice(page).inputValue()).toBe(acme.id);
      const second = await visit(stage.browser, stage.origin, {}, seen.context);
      await new EffectiveValuesPage(second.page).open(acme.id);
      await choice(second.page).selectOption({ label: 'Beta' });
      await page.getByRole('dialog').getByText('What you edited is still here.').waitFor();
      await page.getByRole('button', { name: 'Continue with Acme' }).click();
      await page.getByRole('dialog').waitFor({ state: 'detached' });
      expect(await field.inputValue()).toBe('7');
      await page.evaluate("fetch('/console/session', { method: 'DELETE' })");
      await page.getByRole('dialog', { name: 'Sign in again' }).waitFor();
      await door.signIn(acme.emails.tenant_admin!, memberPassword);
      await page.getByText('Nothing is edited.').waitFor();
      expect(await field.inputValue()).toBe('');
      expect(asked).toHaveLength(2);
      await seen.close();
    },
  );

  test('a tenant that could not be gone to is not the one that is named', async () => {
    const seen = await stage.signedIn(acme.emails.operator!);
    const { page } = seen;
    await new EffectiveValuesPage(page).open(acme.id);
    const choice = page.getByRole('combobox', { name: 'Tenant' });
    const refresh = '**/console/session/refresh';
    const detail = { code: 'service_unavailable', message: 'Auth does not answer.' };
    await page.route(refresh, (route) =>
      route.fulfill({ status: 503, headers: { 'x-request-id': 'r' }, json: { detail } }),
    );
    await choice.selectOption({ label: 'Beta' });
    const problem = page.getByRole('alert').getByText('Auth does not answer.');
    await problem.waitFor();
    expect(await choice.inputValue()).toBe(acme.id);
    await page.unroute(refresh);
    await choice.selectOption({ label: 'Beta' });
    await page.waitForURL(`**/tenants/${beta.id}/**`);
    await problem.waitFor({ state: 'detached' });
    await seen.close();
  });

  test('the keys go through the list of tenants, and Enter goes to one', async () => {
    const seen = await stage.signedIn(acme.emails.operator!);
    const { page } = seen;
    await new EffectiveValuesPage(page).open(acme.id);
    const choice = page.getByRole('combobox', { name: 'Tenant' });
    await page.setViewportSize({ width: 320, height: 640 });
    // There its name is read, and not its first letter.
    expect((await choice.boundingBox())?.width).toBeGreaterThan(100);
    await choice.focus();
    await page.keyboard.press('ArrowDown');
    await until(page, "document.activeElement.matches(':open')");
    await page.keyboard.press('ArrowDown');
    expect(await choice.inputValue()).toBe(acme.id);
    await page.keyboard.press('Enter');
    await page.waitForURL(`**/tenants/${beta.id}/**`);
    await seen.close();
  });

  test('who compares with another tenant is back in their own, also where that fails at first', async () => {
    const seen = await stage.signedIn(acme.emails.operator!);
    const { page } = seen;
    const compare = new ComparePage(page);
    await compare.open(acme.id);
    let asked = 0;
    await page.route('**/console/session/refresh', (route) => {
      asked += 1;
      return asked === 2 ? route.abort() : route.continue();
    });
    await compare.with('Tenant', 'Beta');
    await eventually(async () => expect(asked).toBeGreaterThan(2));
    await seen.goInside(`/tenants/${acme.id}/effective`);
    await page.getByRole('rowheader', { name: 'automation_enabled' }).waitFor();
    expect(await page.getByRole('combobox', { name: 'Tenant' }).inputValue()).toBe(acme.id);
    await seen.close();
  });

  test('a form and a secret that is shown once stay where another tab goes to another tenant, or somebody goes back or loads the page again', async () => {
    const own = await createTenant(stage.strata.url, platform, 'Kappa');
    const email = own.emails.tenant_admin!;
    await joinTenant(beta.admin, beta.id, own.admin, { email, roles: ['viewer'] });
    const { body: account } = await own.admin.post(`/tenants/${own.id}/service-accounts`, {
      name: 'reader',
      roles: ['viewer'],
    });
    const seen = await stage.signedIn(email);
    const { page } = seen;
    const asked: string[] = [];
    page.on('dialog', (dialog) => {
      asked.push(dialog.message());
      void dialog.dismiss();
    });
    await page.goto(`/console/tenants/${own.id}/service-accounts`);
    await page.getByRole('link', { name: 'reader', exact: true }).click();
    await page.getByRole('button', { name: 'New key…' }).click();
    const form = new FormDialog(page, 'New API key');
    await form.field('Name').fill('Nightly');
    await form.choose('audit:read');
    const second = await visit(stage.browser, stage.origin, {}, seen.context);
    await new EffectiveValuesPage(second.page).open(own.id);
    const choice = second.page.getByRole('combobox', { name: 'Tenant' });
    const comeBack = async (): Promise<void> => {
      await choice.selectOption({ label: 'Beta' });
      await page.getByRole('button', { name: 'Continue with Kappa' }).click();
      await page.getByRole('dialog', { name: 'This page is about' }).waitFor({ state: 'detached' });
    };
    await comeBack();
    expect(await form.field('Name').inputValue()).toBe('Nightly');
    await form.send('Create key');
    const secret = page.getByLabel('Secret');
    const text = await secret.innerText();
    await comeBack();
    await page.goBack();
    await eventually(async () => expect(asked).toHaveLength(1));
    await page.waitForURL(`**/service-accounts/${account.id}`);
    expect(await secret.innerText()).toBe(text);
    await page.evaluate('location.reload()');
    await eventually(async () => expect(asked).toHaveLength(2));
    expect(await secret.innerText()).toBe(text);
    await page.getByRole('button', { name: 'I have it' }).click();
    // Nothing is held any more: the page is left without a question.
    await choice.selectOption({ label: 'Beta' });
    await page.getByRole('heading', { name: 'This page is about Kappa' }).waitFor();
    expect(await page.getByRole('dialog').count()).toBe(0);
    await seen.close();
  });
});

describe('decisions', () => {
  test('by rule, those that were recorded, and the limits as they were for one', async () => {
    const { admin, id } = acme;
    const wish = { action: 'resize', risk_level: 'low', record: true };
    const risk = (limit: number) =>
      admin.patch(`/tenants/${id}/config/risk`, {
        global_settings: { max_cost_impact_auto: limit },
      });
    await risk(3);
    for (const cost_impact of [1, 4, 1000])
      expect(await admin.post(`/tenants/${id}/decide`, { ...wish, cost_impact })).toMatchObject({
        status: 200,
      });
    await risk(15);
    const seen = await asAdmin();
    const { page } = seen;
    await page.goto(`/console/tenants/${id}/decisions`);
    const rows = page.getByRole('group', { name: 'Recorded decisions' }).locator('tbody tr');
    await eventually(async () => expect(await rows.count()).toBe(3));
    await page.getByText('As a table').click();
    await standAt(page, 'decisions');
    await page.getByRole('combobox', { name: 'Rule' }).selectOption('max_cost_impact_auto');
    await eventually(async () => expect(await rows.allInnerTexts()).toHaveLength(1));
    await rows.getByRole('link').click();
    const limits = page.getByRole('group', { name: 'Limits as they were' });
    await eventually(async () =>
      expect(await limits.getByRole('row', { name: 'max_cost_impact_auto' }).innerText()).toMatch(
        /max_cost_impact_auto\s+3\s/,
      ),
    );
    await standAt(page, 'decision');
    expect(seen.faults).toEqual([]);
    await seen.close();
  });
});

describe('automations', () => {
  test('the slots in use with who and until when, and the stop: reviewed, in force, and lifted', async () => {
    const { admin, operator, id } = acme;
    const wish = { action: 'restart', risk_level: 'low', service_type: 'cloud_run' };
    const started = await operator.post(`/tenants/${id}/automations`, wish);
    expect(started.body.state).toBe('running');
    const seen = await asAdmin();
    const automations = new AutomationsPage(seen.page);
    await automations.open(id);
    // Names of people come after the list.
    await eventually(async () =>
      expect(await automations.rows()).toEqual([
        expect.stringMatching(
          /^restart\s+low\s+cloud_run\s+running\s+operator@acme\.example\s+.*in \d minutes/s,
        ),
      ]),
    );
    await eventually(async () => expect(await automations.slots()).toMatch(/1 of \d+ in use/));
    await standAt(seen.page, 'automations');
    const writes: string[] = [];
    seen.page.on('request', (request) => {
      if (['PUT', 'PATCH', 'DELETE'].includes(request.method()))
        writes.push(`${request.method()} ${new URL(request.url()).search}`);
    });
    await automations.stop(`All hands: ${hostile}`);
    const review = new ReviewDialog(seen.page);
    const [change] = await review.changes();
    expect(change![0]).toBe('/automation_enabled');
    expect(new Set(writes)).toEqual(new Set(['PATCH ?dry_run=true']));
    expect((await operator.post(`/tenants/${id}/decide`, wish)).body.decision).toBe('allow');
    await standAt(seen.page, 'stop-review');
    await review.dialog.getByRole('button', { name: 'Stop automation', exact: true }).click();
    await seen.page.getByText('Automation of this tenant is stopped').waitFor();
    await seen.page.getByText('New automations are refused').waitFor();
    expect((await operator.post(`/tenants/${id}/decide`, wish)).body.decision).toBe('deny');
    const { body } = await admin.get(`/tenants/${id}/config/history?limit=1`);
    expect(body.items[0].reason).toContain('All hands: <img');
    await standAt(seen.page, 'stopped');
    const banner = seen.page.getByRole('alert').filter({ hasText: 'Emergency stop.' });
    await seen.page.getByRole('link', { name: 'History', exact: true }).click();
    await banner.waitFor();
    await banner.getByRole('link', { name: 'Automations' }).click();
    await seen.page.getByRole('button', { name: 'Lift the stop…' }).click();
    await review.changes();
    await review.publish('Lift the stop', 'It is over');
    await seen.page.getByText('No stop is in force.').waitFor();
    await banner.waitFor({ state: 'detached' });
    expect((await operator.post(`/tenants/${id}/decide`, wish)).body.decision).toBe('allow');
    expect(seen.faults).toEqual([]);
    await seen.close();
  });

  test('why it is stopped, and a comment, are still there for who goes back to them', async () => {
    const { id, operator } = acme;
    const wish = { action: 'restart', risk_level: 'high', title: 'Restart the worker' };
    const { body: asked } = await operator.post(`/tenants/${id}/approvals`, wish);
    const seen = await asAdmin();
    const { page } = seen;
    await new AutomationsPage(page).open(id);
    await page.getByLabel('Why automation is stopped').fill('All hands');
    await seen.goInside(`/tenants/${id}/approvals/${asked.id}`);
    await page.getByLabel('Comment').fill('Fine, but');
    await page.goBack();
    expect(await page.getByLabel('Why automation is stopped').inputValue()).toBe('All hands');
    await page.goForward();
    expect(await page.getByLabel('Comment').inputValue()).toBe('Fine, but');
    await page.getByRole('button', { name: 'Deny' }).click();
    await page.getByLabel('Comment').waitFor({ state: 'detached' });
    expect(await page.evaluate('Object.keys(sessionStorage)')).toEqual([
      `draft stop /tenants/${id}/config/bounds`,
    ]);
    await seen.close();
  });

  test('an operator sees them, and is not offered the stop', async () => {
    const seen = await stage.tabOf(beta.emails.operator!);
    const automations = new AutomationsPage(seen.page);
    await automations.open(beta.id);
    await seen.page.getByText('Nothing runs.').waitFor();
    expect(await seen.page.getByRole('button', { name: 'Stop automation…' }).count()).toBe(0);
    const bounds = { automation_enabled: { const: false } };
    const refused = await beta.operator.patch(`/tenants/${beta.id}/config/bounds`, bounds);
    expect(refused.status).toBe(403);
    expect(seen.faults.filter((text) => !text.includes('404'))).toEqual([]);
    await seen.close();
  });
});

describe('notifications', () => {
  soakTest(
    'a channel is tested in place; the log filters, shows every attempt, and sends again',
    async () => {
      const { admin, id } = acme;
      const url = receiver.url;
      await admin.put(`/tenants/${id}/config/notifications`, {
        webhook: { url, secret: 'a secret of theirs' },
        teams: { webhook_url: `${url}&sig=a-secret-of-theirs` },
        approver_groups: {
          risk_levels: { high: ['on-call', 'leads'] },
          action_overrides: { failover: ['leads'] },
        },
        approval_policy: { required: { high: 2 } },
      });
      const seen = await asAdmin();
      const notifications = new NotificationsPage(seen.page);
      await notifications.open(id);
      await eventually(async () =>
        expect(await seen.page.getByRole('group', { name: 'Groups by risk' }).innerText()).toMatch(
          /high risk\s+on-call → leads\s+2[^]*failover\s+leads/,
        ),
      );
      expect(await notifications.test('webhook')).toMatch(
        /delivered[^]*status 200[^]*taken 0 <img/,
      );
      await standAt(seen.page, 'notifications');
      expect(await notifications.test('teams')).toMatch(/delivered[^]*status 200/);
      expect(await seen.page.content()).not.toContain('a-secret-of-theirs');
      const wish = { action: 'failover', risk_level: 'high', title: 'Fail over' };
      await acme.operator.post(`/tenants/${id}/approvals`, wish);
      await receiver.wait(({ body }) => body.type === 'approval.requested');
      const deliveries = new DeliveriesPage(seen.page);
      await eventually(async () => {
        const { body } = await admin.get(
          `/tenants/${id}/notifications/deliveries?state=delivered&channel=webhook`,
        );
        expect(body.items).toHaveLength(1);
      });
      await deliveries.open(id);
      await deliveries.choose('Channel', 'webhook');
      await deliveries.choose('State', 'delivered');
      await eventually(async () => {
        expect(new URL(seen.page.url()).search).toBe('?channel=webhook&state=delivered');
        expect(await deliveries.rows()).toEqual([
          expect.stringMatching(/127\.0\.0\.1[^]*webhook\s+requested\s+delivered\s+1/),
        ]);
      });
      await standAt(seen.page, 'deliveries');
      await deliveries.openFirst();
      await eventually(async () =>
        expect(await seen.page.getByRole('group', { name: 'Attempts' }).innerText()).toMatch(
          /200[^]*ms[^]*taken/,
        ),
      );
      await standAt(seen.page, 'delivery');
      await seen.page.getByRole('button', { name: 'Send it again' }).click();
      await seen.page.getByText('It is sent again').waitFor();
      await receiver.wait(({ body }) => body.type === 'approval.requested', 2);
      // By itself: nobody looks again.
      await eventually(async () =>
        expect(
          await seen.page.getByRole('group', { name: 'Attempts' }).locator('tbody tr').count(),
        ).toBe(2),
      );
      await seen.page.getByText('delivered', { exact: true }).waitFor();
      expect(seen.faults).toEqual([]);
      await seen.close();
    },
  );

  soakTest(
    'event destinations say how far they are, are tested in place, and sent their events again',
    async () => {
      const { admin, id } = acme;
      const before = receiver.received.length;
      const siem = { url: receiver.url, format: 'ocsf', batch: { max_seconds: 0 } };
      await admin.put(`/tenants/${id}/config/event-destinations`, { siem });
      await receiver.wait(() => true, before + 1);
      const seen = await asAdmin();
      const { page } = seen;
      await page.goto(`/console/tenants/${id}/destinations`);
      const row = page.getByRole('row', { name: /siem/ });
      await row.getByText('current').waitFor();
      await standAt(page, 'destinations');
      await page.getByRole('button', { name: 'Test siem' }).click();
      await page.getByText('siem took a test with 200').waitFor();
      await page.getByRole('button', { name: 'Send again to siem' }).click();
      const dialog = page.getByRole('dialog', { name: 'Send siem its events again' });
      await dialog.getByRole('textbox', { name: 'From event' }).fill('2');
      await standAt(page, 'destination-replay');
      // An event that happens meanwhile may come before them.
      const beginning = ({ text }: Received): boolean => JSON.parse(text)[0]?.unmapped?.seq === 2;
      const known = receiver.received.filter(beginning).length;
      await dialog.getByRole('button', { name: 'Send again' }).click();
      await page.getByText('siem is sent everything from event 2 on again.').waitFor();
      await receiver.wait(beginning, known + 1);
      expect(seen.faults).toEqual([]);
      await admin.delete(`/tenants/${id}/config/event-destinations`);
      await seen.close();
    },
  );

  soakTest('an operator reads them, and is offered neither test nor replay', async () => {
    const seen = await stage.tabOf(beta.emails.operator!);
    await new NotificationsPage(seen.page).open(beta.id);
    expect(await seen.page.getByRole('button', { name: /^Test/ }).count()).toBe(0);
    const test = await beta.operator.post(`/tenants/${beta.id}/notifications/test`, {
      channel: 'email',
    });
    expect(test.status).toBe(403);
    await new DeliveriesPage(seen.page).open(beta.id);
    await seen.page.getByText('Nothing was sent that fits.').waitFor();
    expect(seen.faults).toEqual([]);
    for (const [screen, what] of [
      ['approvals', 'approval'],
      ['deliveries', 'delivery'],
    ]) {
      await seen.page.goto(`/console/tenants/${beta.id}/${screen}/mistyped`);
      await seen.page.getByText(`There is no ${what} with this id.`).waitFor();
    }
    await seen.close();
  });
});

describe('the platform', () => {
  soakTest(
    'accounts are found by their address, disabled and enabled, and each says what keeps it out',
    async () => {
      const email = beta.emails.viewer!;
      const seen = await asPlatform();
      const accounts = new AccountsPage(seen.page);
      await accounts.open();
      await accounts.find(email);
      await accounts.row(acme.emails.viewer!).waitFor({ state: 'detached' });
      await accounts.turn('Disable', email);
      await accounts.row(email).getByText('the account is disabled').waitFor();
      await standAt(seen.page, 'accounts');
      const users = `/tenants/${beta.id}/users`;
      const member = async () =>
        (await beta.admin.get(users)).body.items.find(
          (each: { email: string }) => each.email === email,
        );
      expect(await member()).toMatchObject({ account_status: 'disabled', can_act: false });
      await accounts.open();
      await accounts.find(email);
      await seen.page.getByRole('link', { name: email }).click();
      await seen.page.getByText('The account is disabled.').waitFor();
      await seen.page.getByText('The account is signed in nowhere.').waitFor();
      await standAt(seen.page, 'account-of-person');
      await seen.page.getByRole('navigation', { name: 'Breadcrumbs' }).getByRole('link').click();
      await accounts.find(email.slice(0, -3).toUpperCase());
      await accounts.turn('Enable', email);
      await accounts.row(email).getByText('the account is disabled').waitFor({ state: 'detached' });
      expect(await member()).toMatchObject({ account_status: 'active', can_act: true });
      await accounts.find('nobody@nowhere.example');
      await seen.page.getByText('No account has this in its address or name.').waitFor();
      await seen.close();
    },
  );

  soakTest('tenants are found, created, and disabled with what that means', async () => {
    const seen = await asPlatform();
    const tenants = new TenantsPage(seen.page);
    await tenants.open();
    await standAt(seen.page, 'tenants');
    await tenants.create(`Gamma ${hostile}`, 'root@gamma.example');
    await seen.page.getByText('is invited by mail').waitFor();
    await seen.page.getByRole('searchbox', { name: 'Name' }).fill('gamma');
    await tenants.row('Acme').waitFor({ state: 'detached' });
    await eventually(async () =>
      expect(await tenants.names()).toEqual([expect.stringContaining('Gamma <img')]),
    );
    await tenants.turn('Disable', 'Gamma');
    await tenants.row('Gamma').getByText('disabled').waitFor();
    const { body } = await platform.get('/tenants?q=gamma');
    expect(body.items).toMatchObject([{ status: 'disabled' }]);
    await seen.page.getByRole('button', { name: /^Delete Gamma/ }).click();
    const confirm = seen.page.getByRole('button', { name: 'Delete the tenant' });
    expect(await confirm.isDisabled()).toBe(true);
    await seen.page.getByLabel('Its name, to be sure').fill(`Gamma ${hostile}`);
    await confirm.click();
    await tenants
      .row('Gamma')
      .getByText(/^erased in/)
      .waitFor();
    expect(seen.faults).toEqual([]);
    await seen.close();
  });

  soakTest(
    'a change of a global entry shows its blast radius, and goes into a plan that is applied by digest',
    async () => {
      const seen = await asPlatform();
      const { page } = seen;
      const global = new PlatformDocumentPage(page);
      await global.open('global/max_cost_impact_auto');
      await page
        .locator('[name="/config_value"], label:has-text("config_value") textarea')
        .first()
        .fill('1');
      await global.field('/is_public').selectOption({ label: 'true' });
      await global.review();
      const review = new ReviewDialog(page);
      await review.changes();
      const plan = new PlanPage(page);
      await plan.looked();
      await eventually(async () =>
        expect(await plan.counts()).toMatchObject({ changed: 0, 'would be rejected': 0 }),
      );
      await standAt(page, 'impact');
      await review.dialog.getByRole('button', { name: 'Add to the plan' }).click();
      await page.getByRole('heading', { name: 'Plan', exact: true }).waitFor();
      await plan.writeItem('patch', '/config/bounds', {
        max_cost_impact_auto: { maximum: 5, reason: hostile },
      });
      await plan.looked();
      await eventually(async () => expect((await plan.counts()).changed).toBeGreaterThan(1));
      await page
        .getByText('Only global configuration and service types roll out in stages')
        .waitFor();
      const staging = page.getByRole('button', { name: 'Roll out in stages…' });
      expect(await staging.isDisabled()).toBe(true);
      await standAt(page, 'plan');
      // A reload loses nothing of it.
      await page.reload();
      await plan.looked();
      expect((await plan.counts()).changed).toBeGreaterThan(1);
      // Somebody else is faster.
      await platform.put('/config/global/in_between', { config_value: 1 });
      await plan.apply();
      await page
        .getByRole('dialog')
        .getByText(/global_in_between were written/)
        .waitFor();
      expect((await platform.get('/config/bounds')).status).toBe(404);
      await page.getByRole('dialog').getByRole('button', { name: 'Plan again' }).click();
      await plan.looked();
      await plan.apply();
      await page.getByText(/^Applied: the platform is at revision/).waitFor();
      expect((await platform.get('/config/bounds')).body).toMatchObject({
        max_cost_impact_auto: { maximum: 5 },
      });
      await page.getByRole('link', { name: 'History of the platform' }).click();
      const history = new HistoryPage(page);
      await page.locator('table.history').waitFor();
      const [newest] = await history.rows();
      expect(newest).toMatch(/create[^]*Guardrails of the platform/);
      const revision = Number(newest!.trim().split(/\s/)[0]);
      await history.takeBack(revision, 'Undo this change…');
      await review.changes();
      await standAgainAt(page, 'platform-history');
      await review.publish('Undo it', 'It was a test');
      await page.getByText('rollback').waitFor();
      expect((await platform.get('/config/bounds')).status).toBe(404);
      expect(seen.faults.filter((text) => !/404|412/.test(text))).toEqual([]);
      await seen.close();
    },
  );

  soakTest('a plan is rolled out in stages: begun, held, resumed and reverted', async () => {
    const seen = await asPlatform();
    const { page } = seen;
    await page.goto('/console/platform/plan');
    const plan = new PlanPage(page);
    const key = 'staged_timeout';
    const body = { config_value: 20, is_public: true };
    await plan.writeItem('put', `/config/global/${key}`, body);
    await plan.looked();
    await page.getByRole('button', { name: 'Roll out in stages…' }).click();
    const form = new FormDialog(page, 'Roll out in stages');
    await form.field('Title').fill(`Longer ${hostile}`);
    await form.field('Reason').fill('Slow networks');
    const second = page.getByRole('group', { name: 'Stage 2' });
    const add = async (type: string, texts: Readonly<Record<string, string>>): Promise<void> => {
      await second.getByRole('button', { name: 'Add a gate' }).click();
      await second.locator('select[name^="gate-"]').last().selectOption(type);
      // The label of a choice has its options in it, too.
      for (const [label, text] of Object.entries(texts))
        await second.getByLabel(label).and(page.locator('input')).fill(text);
    };
    await add('figures', { 'Waits for so many on each side': '20' });
    await add('webhook', { Address: 'https://93.184.216.34/gate', Secret: 'canary-of-a-gate' });
    await add('prometheus', { Query: 'sum(errors)', 'Fails above': '0.5' });
    await add('manual', {});
    await second.getByRole('button', { name: 'Remove gate 4' }).click();
    await standAt(page, 'new-rollout');
    await form.done('Plan the rollout');
    const [made] = (await platform.get('/config/rollouts')).body.items;
    expect(made.stages.map(({ gate }: { gate: unknown[] }) => gate)).toEqual([
      [{ type: 'manual' }],
      [
        { type: 'figures', figure: 'failed', tolerance_percent: 2, min_sample: 20 },
        { type: 'webhook', url: 'https://93.184.216.34/gate', secret: '********' },
        { type: 'prometheus', query: 'sum(errors)', at_most: 0.5 },
      ],
      [],
    ]);
    const heading = page.locator('.heading');
    const step = async (verb: string, reason: string, state: string): Promise<void> => {
      await page.getByRole('button', { name: `${verb}…`, exact: true }).click();
      const dialog = new FormDialog(page, verb);
      await dialog.field('Reason').fill(reason);
      await dialog.done(verb);
      await heading.getByText(state, { exact: true }).waitFor();
    };
    await heading.getByText('planned', { exact: true }).waitFor();
    await step('Begin', '', 'running');
    await page.getByRole('img', { name: 'Stage 1 of 3: 5 % of all' }).waitFor();
    // Gates are asked from the beginning on.
    const answers = page.getByRole('region', { name: 'Answers of gates' });
    await answers.getByText('Somebody advances it', { exact: true }).waitFor();
    await standAt(page, 'rollout');
    await step('Hold', 'Lunch', 'held');
    await step('Resume', 'After lunch', 'running');
    await step('Revert', 'It was a test', 'reverted');
    expect((await platform.get(`/config/global/${key}`)).status).toBe(404);
    await page.goto('/console/platform/rollouts');
    await page.getByRole('link', { name: 'Longer' }).waitFor();
    await standAt(page, 'rollouts');
    expect(seen.faults).toEqual([]);
    await seen.close();
  });

  soakTest("a change set of the platform's shows what it does to every tenant", async () => {
    const made = await platform.post('/config/changesets', {
      title: 'A guardrail',
      reason: 'Never more than three',
      items: [
        {
          action: 'patch',
          path: '/config/bounds',
          body: { max_cost_impact_auto: { maximum: 3 } },
        },
      ],
    });
    const seen = await asPlatform();
    const { page } = seen;
    await page.goto('/console/platform/change-sets');
    await page.getByRole('link', { name: 'A guardrail' }).click();
    const plan = new PlanPage(page);
    await plan.looked();
    await eventually(async () => expect((await plan.counts()).changed).toBeGreaterThan(1));
    await standAgainAt(page, 'platform-change-set');
    await platform.post(`/config/changesets/${made.body.id}/cancel`);
    expect(seen.faults).toEqual([]);
    await seen.close();
  });

  soakTest(
    'service types, bounds and nodes are looked at; a reload is tried on every node first',
    async () => {
      const seen = await asPlatform();
      const { page } = seen;
      page.on('dialog', (asked) => void asked.accept());
      const documents = new PlatformDocumentPage(page);
      await documents.openList('service-types');
      await standAgainAt(page, 'service-types');
      await page.getByRole('link', { name: 'cloud_run/default' }).click();
      await page.locator('.editor').waitFor();
      await standAt(page, 'service-type');
      await documents.openList('global');
      await standAt(page, 'global');
      await platform.put('/config/global/just_written', { config_value: 1 });
      const began = performance.now();
      await page.getByText('just_written').waitFor();
      expect(performance.now() - began).toBeLessThan(soonMs);
      await documents.open('bounds');
      await page.getByLabel('New guardrail').fill('max_resource_scaling');
      await page.getByLabel('New guardrail').press('Enter');
      await page.getByLabel('New guardrail').fill('max_instances');
      await page.getByRole('button', { name: 'Add', exact: true }).click();
      await documents.field('/max_resource_scaling/maximum').fill('2');
      await documents.field('/max_resource_scaling/reason').fill('Twice at most');
      await page.getByRole('button', { name: 'Remove max_instances' }).click();
      await documents.review();
      const [change] = await new ReviewDialog(page).changes();
      expect(change).toEqual([
        '/max_resource_scaling',
        'not set',
        '{"maximum":2,"reason":"Twice at most"}',
      ]);
      await page.keyboard.press('Escape');
      await page.getByText('No stop is in force.').waitFor();
      await standAt(page, 'platform-bounds');
      await page.goto('/console/platform/nodes');
      await page.getByRole('cell', { name: 'answers from memory' }).waitFor();
      await page
        .getByText(/^Waiting in the database, for any node: \d+ notices, \d+ audit/)
        .waitFor();
      await page.getByRole('heading', { name: 'This gateway' }).waitFor();
      await standAt(page, 'nodes');
      const bodies: unknown[] = [];
      page.on('request', (request) => {
        if (request.url().endsWith('/config/reload')) bodies.push(request.postDataJSON());
      });
      await page.getByRole('button', { name: 'Preview' }).click();
      const dialog = page.getByRole('dialog');
      await dialog.getByText('Settings that change').waitFor();
      expect(bodies).toEqual([expect.objectContaining({ dry_run: true })]);
      await dialog.getByRole('button', { name: 'Reload', exact: true }).click();
      await page.getByText('Every node did it.').waitFor();
      expect(bodies[1]).not.toHaveProperty('dry_run');
      expect(seen.faults.filter((text) => !text.includes('404'))).toEqual([]);
      await seen.close();
    },
  );

  soakTest(
    'what was purged is shown as such, and the value of now can be restored after it',
    async () => {
      const path = '/config/global/purged-here';
      await platform.put(path, { config_value: 'a password' });
      await platform.put(path, { config_value: 'harmless' });
      const name = { config_type: 'global_config', resource_id: 'purged-here' };
      await platform.post('/config/history/purge', { ...name, reason: 'it was a password' });
      const seen = await asPlatform();
      const { page } = seen;
      await page.goto('/console/platform/history?resource_id=purged-here');
      const rows = page.locator('table.history > tbody');
      await rows.nth(2).waitFor();
      for (const row of [0, 1, 2]) await rows.nth(row).getByRole('button').first().click();
      const [purge, update, create] = await rows.allInnerTexts();
      expect(purge).toMatch(/purge[^]*it was a password/);
      expect(create).toContain('Values of this change were purged');
      expect([purge, create].join()).not.toContain('Restore');
      expect(`${update}${create}`).not.toContain('a password"');
      expect(update).not.toContain('Undo');

      // The purge is newer, and no revision of the document.
      const tried = page.waitForResponse((response) => response.url().includes('/config/rollback'));
      await rows.nth(1).getByRole('button', { name: 'Restore what it was after this…' }).click();
      expect((await tried).status()).toBe(200);
      expect(seen.faults).toEqual([]);
      await seen.close();
    },
  );

  soakTest(
    'the record of a tenant is exported in its order, and what was exported is cut off after a confirmation',
    async () => {
      const { id } = beta;
      const chain = async (): Promise<{ seq: number; hash: string }[]> => {
        const { body } = await platform.get(`/audit/export?tenant_id=${id}&limit=200`);
        return body.items;
      };
      const seen = await asPlatform();
      const { page } = seen;
      const audit = new AuditPage(page);
      await audit.openOfAll();
      await page.getByLabel('Whose').selectOption({ label: 'Beta' });
      const before = await chain();
      // Whoever looks at another chain meanwhile has the file of this one, and cuts this one.
      await page.route('**/audit/export?*', async (route) => {
        await page.getByLabel('Whose').selectOption({ label: 'the platform' });
        await route.continue();
      });
      const lines = await audit.exportRecord();
      expect(lines.map((line) => (JSON.parse(line) as { seq: number }).seq)).toEqual(
        before.slice(0, lines.length).map(({ seq }) => seq),
      );
      const last = JSON.parse(lines.at(-1)!) as { seq: number; hash: string };
      await page.getByText(last.hash).waitFor();
      await standAt(page, 'audit-of-all');
      const sent: unknown[] = [];
      page.on('request', (request) => {
        if (request.url().endsWith('/audit/cut')) sent.push(request.postDataJSON());
      });
      const cut = new FormDialog(page, 'Cut off what was exported');
      await page.getByRole('button', { name: 'Cut off what was exported…' }).click();
      await standAt(page, 'audit-cut');
      // Whoever does not say that the file is kept sends nothing.
      await cut.send('Cut it off');
      expect(sent).toEqual([]);
      await cut.choose('The file is kept, and can be read');
      await cut.done('Cut it off');
      expect(sent).toEqual([{ tenant_id: id, seq: last.seq, hash: last.hash }]);
      await page.getByText('They were cut off.').waitFor();
      // A worker removes them once the cut is written.
      await eventually(async () =>
        expect((await chain())[0]?.seq ?? last.seq + 1).toBe(last.seq + 1),
      );
      const own = await stage.tabOf(beta.emails.tenant_admin!);
      const ofBeta = new AuditPage(own.page);
      await ofBeta.open(id);
      expect(await own.page.getByLabel('Whose').count()).toBe(0);
      expect(await ofBeta.verify()).toMatch(/^The record is whole\./);
      await own.page.getByText(`the events until number ${last.seq} were cut off`).waitFor();
      await own.page.getByRole('button', { name: 'Export the record' }).click();
      await own.page
        .getByText(/events are in the file|There is nothing from before that/)
        .first()
        .waitFor();
      expect(await own.page.getByRole('button', { name: /^Cut off/ }).count()).toBe(0);
      expect([...seen.faults, ...own.faults]).toEqual([]);
      await Promise.all([seen.close(), own.close()]);
    },
  );

  test('a plan has no page of the previous one, and an item is there for who goes back to it', async () => {
    const seen = await asPlatform();
    const { page } = seen;
    const { promise: freed, resolve: free } = Promise.withResolvers<void>();
    let rounds = 0;
    let planned: { readonly impact: { readonly items: readonly object[] } };
    await page.route('**/config/plan', async (route) => {
      const isFirst = !route.request().postData()?.includes('"cursor"');
      if (isFirst) {
        rounds += 1;
        planned = (await (await route.fetch()).json()) as typeof planned;
      } else await freed;
      const name = isFirst ? `Round ${rounds}` : 'Of the plan before';
      const items = planned.impact.items.map((item) => ({ ...item, tenant_name: name }));
      const impact = { ...planned.impact, items, next_cursor: isFirst ? 'more' : null };
      await route.fulfill({ json: { ...planned, impact } });
    });
    await page.goto('/console/platform/plan');
    const plan = new PlanPage(page);
    await plan.writeItem('put', '/config/global/planned_region', {
      config_value: 'here',
      is_public: true,
    });
    await plan.looked();
    await page.getByRole('button', { name: 'Show more' }).click();
    await page.getByRole('button', { name: 'Plan again' }).click();
    await eventually(async () => expect(rounds).toBe(2));
    const late = page.waitForResponse((response) => {
      const sent = response.request().postData();
      return response.url().endsWith('/config/plan') && sent !== null && sent.includes('"cursor"');
    });
    free();
    await late;
    await page.getByText('Round 2').first().waitFor();
    expect(await page.getByText('Of the plan before').count()).toBe(0);

    await page.locator('[name=path]').fill('/config/global/half_typed');
    await page.locator('textarea[name=body]').fill('{"config_value":');
    await page.getByRole('link', { name: 'Nodes' }).click();
    await page.goBack();
    expect(await page.locator('textarea[name=body]').inputValue()).toBe('{"config_value":');
    await page.locator('textarea[name=body]').fill('');
    await page.locator('[name=path]').fill('');
    await page.getByRole('button', { name: 'Take out /config/global/planned_region' }).click();
    await seen.close();
  });

  test('who administers no platform is offered none of it, and told so at its addresses', async () => {
    const seen = await asAdmin();
    await new EffectiveValuesPage(seen.page).open(acme.id);
    expect(await seen.page.getByRole('list', { name: 'Platform' }).count()).toBe(0);
    await seen.page.goto('/console/platform/plan');
    await seen.page.getByText('Only administrators of the platform see this.').waitFor();
    const plan = { items: [{ action: 'delete', path: '/config/bounds' }] };
    const routes = [
      acme.admin.get('/tenants'),
      acme.admin.post('/config/plan', plan),
      acme.admin.get('/config/history'),
      acme.admin.post('/config/reload', { dry_run: true }),
    ];
    for (const { status } of await Promise.all(routes)) expect(status).toBe(403);
    expect(seen.faults).toEqual([]);
    await seen.close();
  });
});

/** Work of the page is measured, not time that passes, since other tests run beside these. */
test('emptied overrides show what the layers below say, before anything is published', async () => {
  const seen = await asAdmin();
  const document = new DocumentPage(seen.page);
  await document.open(acme.id, 'agents/scaler');
  await document.field('/default_region').fill('');
  await document.review();
  const { dialog } = new ReviewDialog(seen.page);
  await dialog.getByText(/default_region: There is no value any more/).waitFor();
  await acme.admin.patch(`/tenants/${acme.id}/config/risk`, {
    service_overrides: { cloud_run: { max_cost_impact_auto: 40 } },
  });
  seen.page.on('dialog', (asked) => void asked.accept());
  await document.open(acme.id, 'risk', '?as=json');
  const text = await seen.page.locator('textarea').inputValue();
  const limits = JSON.parse(text) as { service_overrides: object };
  await seen.page
    .locator('textarea')
    .fill(JSON.stringify({ ...limits, service_overrides: { cloud_run: {} } }));
  await document.review();
  await dialog
    .getByText(
      /max_cost_impact_auto: It becomes 15, which Tenant risk limits for all services says/,
    )
    .waitFor();
  expect(seen.faults).toEqual([]);
  await seen.close();
});

soakTest(
  'a service on one page: its limits, what runs and waits, its windows and freezes, its last change',
  async () => {
    const delta = await createTenant(stage.strata.url, platform, 'Delta');
    const { admin, operator, id, emails } = delta;
    const of = `/tenants/${id}`;
    const intent = { action: 'scale', risk_level: 'low', cost_impact: 1 };
    const zone = { timezone: 'UTC' };
    const answers = [
      await admin.put(`${of}/services/check-out`, {
        service_type: 'cloud_run',
        service_name: `${hostile} ${'W'.repeat(40)}`,
        maintenance_windows: [{ days: ['sat', 'sun'], start: '22:00', end: '23:30', ...zone }],
      }),
      await admin.put(`${of}/config/freezes`, {
        sale: { during: [{ dates: everyDay, ...zone }], mode: 'warn' },
        elsewhere: {
          during: [{ dates: everyDay, ...zone }],
          mode: 'warn',
          match: { service_ids: ['other'] },
        },
      }),
      await operator.post(`${of}/automations`, { ...intent, service_id: 'check-out' }),
      await operator.post(`${of}/automations`, { ...intent, action: 'restart' }),
      await operator.post(`${of}/automations`, {
        ...intent,
        risk_level: 'high',
        service_id: 'check-out',
      }),
    ];
    for (const { status, text } of answers) if (status >= 300) throw new Error(text);
    const seen = await stage.tabOf(emails.tenant_admin!);
    const { page } = seen;
    await page.goto(`/console${of}/services`);
    await page.getByRole('link', { name: 'check-out', exact: true }).click();
    await page.getByRole('heading', { name: 'Service check-out' }).waitFor();
    const textOf = async (name: string): Promise<string> => {
      const region = page.getByRole('region', { name, exact: true });
      // Each part of the page loads by itself.
      await region.getByText('Loading…').waitFor({ state: 'detached' });
      return region.innerText();
    };
    await eventually(async () =>
      expect(await page.getByRole('list', { name: 'At a glance' }).innerText()).toMatch(
        /^Running\s+1\s+Waiting for approval\s+1\s+Freezes now\s+1$/,
      ),
    );
    expect(await textOf('Limits')).toMatch(/max_cost_impact_auto\s+15\s+Tenant risk limits/);
    const running = await textOf('Running now');
    expect(running).toMatch(/scale\s+low/);
    expect(running).not.toContain('restart');
    expect(await textOf('Waiting for approval')).toContain('scale on check-out');
    expect(await textOf('Maintenance windows')).toContain('sat, sun 22:00 – 23:30 (UTC)');
    expect(await textOf('Last changes')).toContain('Service instance check-out');
    await standAt(page, 'service');
    await page.getByRole('link', { name: 'Edit', exact: true }).click();
    await page.getByRole('link', { name: 'Its page' }).waitFor();
    await page.goto(`/console${of}/services/nothing`);
    await page.getByText('not_found').waitFor();
    expect(seen.faults.filter((text) => !text.includes('404'))).toEqual([]);
    await seen.close();
  },
);

soakTest('several services get an owner by one change set, and are found by a label', async () => {
  const epsilon = await createTenant(stage.strata.url, platform, 'Epsilon');
  const { admin, id, emails } = epsilon;
  const of = `/tenants/${id}`;
  const services = {
    'check-out': { tier: 'critical' },
    payments: { tier: 'critical', team: hostile },
    reports: { tier: 'low' },
  };
  for (const [name, labels] of Object.entries(services)) {
    const { status, text } = await admin.put(`${of}/services/${name}`, {
      service_type: 'cloud_run',
      labels,
    });
    if (status >= 300) throw new Error(text);
  }
  const seen = await stage.tabOf(emails.operator!);
  const { page } = seen;
  await page.goto(`/console${of}/services`);
  await page.getByRole('link', { name: 'reports', exact: true }).waitFor();
  await page.getByLabel('Choose reports').check();
  await page.getByLabel('Filter').fill('critical');
  // What the filter hides is not changed.
  await page.getByRole('button', { name: 'Choose all 2' }).click();
  await standAt(page, 'services-chosen');
  await page.getByRole('button', { name: 'Change 2 together…' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Field').selectOption('owner');
  await dialog.getByLabel('Value').fill('team-payments');
  await dialog.getByLabel('Reason').fill('They took them over');
  await standAt(page, 'change-together');
  await dialog.getByRole('button', { name: 'Make a change set' }).click();
  await page.getByRole('heading', { name: 'Set owner of 2 services' }).waitFor();
  await standAgainAt(page, 'change-together-set');
  await page.getByRole('button', { name: 'Ask for approval', exact: true }).click();
  await page.getByText('somebody else decides it').waitFor();
  const sets = await admin.get(`${of}/config/changesets?state=pending`);
  const [{ id: set, digest }] = sets.body.items;
  const approved = await admin.post(`${of}/config/changesets/${set}/approve`, { digest });
  expect([approved.status, approved.text]).toEqual([200, expect.any(String)]);
  await eventually(async () => {
    const { body } = await admin.get(`${of}/services`);
    const owners = body.items.map((each: { service_id: string; owner?: string }) => [
      each.service_id,
      each.owner,
    ]);
    expect(Object.fromEntries(owners)).toEqual({
      'check-out': 'team-payments',
      payments: 'team-payments',
      reports: undefined,
    });
  });
  const history = await admin.get(`${of}/config/history?config_type=service_config&limit=2`);
  expect(history.body.items.map((each: { reason?: string }) => each.reason)).toEqual(
    Array(2).fill('They took them over'),
  );
  // A label is set beside the others, and is no value of the service.
  await page.goto(`/console${of}/services?q=payments`);
  await page.getByRole('link', { name: 'payments', exact: true }).click();
  await page.getByText('owned by team-payments').waitFor();
  await page.getByText('tier: critical').waitFor();
  const { body } = await admin.get(`${of}/config/effective?service_id=payments`);
  expect(Object.keys(body.values)).not.toContain('labels');
  expect(Object.keys(body.values)).not.toContain('owner');
  expect(seen.faults).toEqual([]);
  await seen.close();
});

test('an end is typed digit by digit, and its year has four of them', async () => {
  const seen = await stage.tabOf(acme.emails.tenant_admin!);
  const { page } = seen;
  await page.goto(`/console/tenants/${acme.id}/effective?open=max_cost_impact_auto`);
  const ladder = page.getByRole('group', { name: 'Layers of max_cost_impact_auto' });
  await ladder.getByRole('button', { name: 'Edit…' }).first().click();
  const end = page.getByRole('dialog').getByLabel('Until');
  await end.focus();
  // A day and month that are the same in the order of any place, and what some clocks end with.
  await page.keyboard.type('111120900600AM');
  // In a year of six digits it would be no time, and the value would be published for good.
  expect(await end.inputValue()).toBe('2090-11-11T06:00');
  expect(seen.faults).toEqual([]);
  await seen.close();
});

soakTest('a value holds until a time, as its ladder and history say', async () => {
  const theta = await createTenant(stage.strata.url, platform, 'Theta');
  const { admin, id, emails } = theta;
  const of = `/tenants/${id}`;
  const service = `${of}/services/check-out`;
  const made = await admin.put(service, { service_type: 'cloud_run', max_instances: 8 });
  expect([made.status, made.text]).toEqual([201, expect.any(String)]);
  const seen = await stage.tabOf(emails.tenant_admin!);
  const { page } = seen;
  await page.goto(`/console${of}/effective?service_id=check-out&open=max_instances`);
  const ladder = page.getByRole('group', { name: 'Layers of max_instances' });
  await ladder.getByRole('button', { name: 'Edit…' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Service instance').fill('20');
  // In less than two days it may end tomorrow, by the time of day at which this runs.
  const later = new Date(Date.now() + 4 * 86_400_000);
  await dialog.getByLabel('Until').fill(`${later.toISOString().slice(0, 10)}T06:00`);
  await standAt(page, 'value-for-a-while');
  await dialog.getByRole('button', { name: 'Review' }).click();
  await dialog.getByText('again from then on').waitFor();
  await dialog.getByLabel('Reason').fill('Sale of the week');
  await standAgainAt(page, 'value-for-a-while-review');
  await dialog.getByRole('button', { name: 'Publish' }).click();
  await ladder.getByText('ends in').waitFor();
  await standAt(page, 'ladder-until');
  const { body } = await admin.get(`${of}/config/temporary-changes`);
  expect(body.items).toMatchObject([
    { document: service, fields: [{ path: '/max_instances', value: 20, becomes: 8 }] },
  ]);
  await page.goto(`/console${of}/history`);
  await page.getByText('Sale of the week').waitFor();
  await page.getByText('ends in').waitFor();
  await standAgainAt(page, 'history-until');
  expect(seen.faults).toEqual([]);
  await seen.close();
});

soakTest(
  'a platform administrator looks inside a tenant, read-only, and the tenant sees it',
  async () => {
    const zeta = await createTenant(stage.strata.url, platform, `Zeta ${hostile}`);
    const seen = await asPlatform();
    const { page } = seen;
    const tenants = new TenantsPage(page);
    await tenants.open();
    await page.getByRole('searchbox', { name: 'Name' }).fill('zeta');
    await page.getByRole('button', { name: /^Look inside Zeta/ }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Reason').fill(`Ticket 4711 ${hostile}`);
    await standAt(page, 'look-inside');
    await dialog.getByRole('button', { name: 'Look inside', exact: true }).click();
    const bar = page.getByText(/^You are looking at Zeta .*, read-only, until \d/);
    await bar.waitFor();
    await page.getByRole('heading', { name: 'Effective values' }).waitFor();
    expect(new URL(page.url()).pathname).toBe(`/console/tenants/${zeta.id}/effective`);
    await page.getByRole('rowheader', { name: 'automation_enabled' }).waitFor();
    // What is the platform's is not offered meanwhile, and the bar stays wherever one goes.
    await page.getByRole('link', { name: 'Nodes' }).waitFor({ state: 'detached' });
    await standAt(page, 'looking-inside');
    // Nor is what a visitor may not do.
    const at = `/tenants/${zeta.id}`;
    const service = { service_type: 'cloud_run' };
    await zeta.admin.put(`${at}/services/checkout`, service);
    const { body: set } = await zeta.operator.post(`${at}/config/changesets?submit=true`, {
      title: 'More instances',
      reason: 'Sale',
      items: [{ action: 'patch', path: `${at}/services/checkout`, body: { max_instances: 9 } }],
    });
    await seen.goInside(`${at}/change-sets/${set.id}`);
    await page.getByRole('heading', { name: 'More instances' }).waitFor();
    expect(await page.getByText('You wrote or edited this').count()).toBe(0);
    await seen.goInside(`${at}/documents/services/checkout`);
    await page.getByRole('link', { name: 'Its history' }).waitFor();
    expect(await page.getByRole('link', { name: 'What if' }).count()).toBe(0);
    await page.goto('/console/platform/tenants');
    await page.getByText('Only administrators of the platform see this.').waitFor();
    await bar.waitFor();

    const theirs = await stage.tabOf(zeta.emails.tenant_admin!);
    await theirs.page.goto(`/console/tenants/${zeta.id}/members`);
    const visits = theirs.page.getByRole('region', { name: 'Visits of the platform' }).first();
    await visits.getByText('Ticket 4711').waitFor();
    await standAt(theirs.page, 'visits');
    await theirs.page.getByRole('button', { name: 'End the visit' }).click();
    await visits.getByText('open', { exact: true }).waitFor({ state: 'detached' });
    expect(theirs.faults).toEqual([]);
    await theirs.close();

    // The visitor's page hears of it by itself.
    await bar.waitFor({ state: 'detached' });
    await tenants.open();
    await page.getByRole('searchbox', { name: 'Name' }).fill('zeta');
    await page.getByRole('button', { name: /^Look inside Zeta/ }).click();
    await dialog.getByLabel('Reason').fill('The same ticket, once more');
    await dialog.getByRole('button', { name: 'Look inside', exact: true }).click();
    // The bar may be there before the page has gone inside, which an end in between refuses.
    await page.getByRole('heading', { name: 'Effective values' }).waitFor();
    await bar.waitFor();
    await page.getByRole('button', { name: 'End', exact: true }).click();
    await bar.waitFor({ state: 'detached' });
    await page.getByRole('heading', { name: 'Tenants' }).waitFor();
    const { body } = await zeta.admin.get(`/tenants/${zeta.id}/visits`);
    expect(body.items.map((each: { ended_at: string | null }) => each.ended_at)).toEqual([
      expect.any(String),
      expect.any(String),
    ]);
    // What the page asks for while its session goes inside, or leaves, may be refused to it.
    const faults = seen.faults.filter((each) => !each.includes('status of 403'));
    expect(faults).toEqual([]);
    await seen.close();
  },
);

/** Budgets with what spends them, and freezes as a calendar. */
describe('limits over time', () => {
  let eta: TenantFixture;

  beforeAll(async () => {
    eta = await createTenant(stage.strata.url, platform, 'Eta');
    const written = [
      await platform.put('/config/budgets', {
        starts: {
          amount: '50',
          counts: 'actions',
          per: 'hour',
          window: 'rolling',
          reason: hostile,
        },
      }),
      await platform.put('/config/freezes', {
        'year-end': {
          during: [
            { from: '2090-12-30T12:00', until: '2091-01-02T00:00', timezone: 'Europe/Berlin' },
          ],
          reason: hostile,
        },
      }),
      await eta.admin.patch(`/tenants/${eta.id}/config/risk`, {
        global_settings: { max_cost_impact_auto: 1000, max_cost_impact_approval: 1000 },
      }),
      await eta.admin.put(`/tenants/${eta.id}/config/budgets`, {
        daily: { amount: '100.00', currency: 'EUR', per: 'day', warn_at: 0.8, reason: hostile },
      }),
    ];
    for (const { status, text } of written) if (status >= 300) throw new Error(text);
  });

  const start = async (action: string, cost: number): Promise<string> => {
    const body = { action, risk_level: 'low', cost_impact: cost, service_type: 'cloud_run' };
    const { status, body: started } = await eta.operator.post(
      `/tenants/${eta.id}/automations`,
      body,
    );
    expect([status, started.state]).toEqual([201, 'running']);
    return started.id as string;
  };

  soakTest(
    'budgets: each bar with what holds it, by day with what is behind, and an edit that is tried first',
    async () => {
      const ended = await start('resize', 30);
      const end = { outcome: 'done', actual_cost: 12.5 };
      await eta.operator.post(`/tenants/${eta.id}/automations/${ended}/finish`, end);
      await start('restart', 20.25);
      const seen = await stage.tabOf(eta.emails.tenant_admin!);
      const { page } = seen;
      const budgets = new BudgetsPage(page);
      await budgets.open(eta.id);
      await eventually(async () => {
        expect(await budgets.bar('daily')).toBe('12.5 spent, 20.25 held, 67.25 left of 100.00 EUR');
        expect(await budgets.bar('starts')).toBe('2 spent, 0 held, 48 left of 50 actions');
      });
      expect(await budgets.panel('daily').getByRole('list').innerText()).toMatch(
        /restart\s+cloud_run\s+20\.25\s+EUR/,
      );
      // The platform's is shown, and not this tenant's to change.
      expect(await budgets.panel('starts').getByRole('button').allInnerTexts()).toEqual(['By day']);

      await budgets
        .panel('daily')
        .getByRole('button', { name: 'Spending of daily by day' })
        .click();
      await page.getByText('As a table').click();
      await eventually(async () =>
        expect(await budgets.table()).toEqual([[expect.any(String), '12.5', '20.25']]),
      );
      await page.locator('details tbody button').first().click();
      await eventually(async () =>
        expect(await budgets.behind()).toEqual([
          expect.stringMatching(/^restart/),
          expect.stringMatching(/^resize/),
        ]),
      );
      await standAt(page, 'budgets');

      await budgets.panel('daily').getByRole('button', { name: 'Edit daily' }).click();
      const form = new FormDialog(page, 'The budget daily');
      await form.dialog.locator('[name="/amount"]').fill('40.00');
      await standAt(page, 'budget-form');
      await form.send('Review…');
      const review = new ReviewDialog(page);
      const published = page.getByRole('dialog', { name: 'Publish the budget daily' });
      await published.locator('.changes').waitFor();
      expect(await published.locator('.changes tbody tr').allInnerTexts()).toEqual([
        expect.stringMatching(/\/daily\/amount\s+"100\.00"\s+"40\.00"/),
      ]);
      // What is spent and held is four fifths of it then.
      const meant = published.getByRole('region', { name: 'Limits over time' });
      expect(await meant.locator('tbody tr').allInnerTexts()).toEqual([
        expect.stringMatching(/budget daily\s+warned\s+12\.5 spent, 20\.25 held, 7\.25 left/),
      ]);
      await standAt(page, 'budget-impact');
      await published.getByLabel('Reason').fill('Less this year');
      await published.getByRole('button', { name: 'Publish', exact: true }).click();
      await review.dialog.first().waitFor({ state: 'detached' });
      await eventually(async () =>
        expect(await budgets.bar('daily')).toBe('12.5 spent, 20.25 held, 7.25 left of 40.00 EUR'),
      );
      const { body } = await eta.admin.get(`/tenants/${eta.id}/config/history?limit=1`);
      expect(body.items[0]).toMatchObject({
        config_type: 'budgets_config',
        reason: 'Less this year',
      });
      expect(seen.faults).toEqual([]);
      await seen.close();
    },
  );

  soakTest(
    'the overview says what runs, waits, is near its end and changed; what if says why',
    async () => {
      const asked = await eta.operator.post(`/tenants/${eta.id}/approvals`, {
        action: 'resize',
        risk_level: 'high',
        title: `Resize ${hostile}`,
      });
      expect(asked.status).toBe(202);
      const denied = {
        action: 'resize',
        risk_level: 'low',
        service_type: 'cloud_run',
        cost_impact: 9999,
      };
      await eta.operator.post(`/tenants/${eta.id}/automations`, denied);
      const seen = await stage.tabOf(eta.emails.tenant_admin!);
      const { page } = seen;
      await page.goto('/console');
      const tiles = page.getByRole('list', { name: 'At a glance' }).getByRole('listitem');
      await eventually(async () =>
        expect(
          (await tiles.allInnerTexts()).map((text) => text.replaceAll(/\s+/g, ' ').trim()),
        ).toEqual([
          'Running 1 of 5 slots',
          'Waiting for approval 1 none decided in 30 days',
          'Budgets near their end 1 of 2',
          'Freezes now 0 of 1',
          'Not delivered 0 in the last 24 hours',
        ]),
      );
      await page.getByText('Both as a table').click();
      const today = page
        .getByRole('group', { name: 'Decisions and cost by day' })
        .locator('tbody tr');
      expect((await today.first().locator('td').allInnerTexts()).map(Number)).toEqual([
        2, 0, 1, 32.75,
      ]);
      await page
        .getByRole('region', { name: 'Last changes' })
        .getByText('changed daily.amount from "100.00" to "40.00"')
        .waitFor();
      await standAt(page, 'overview-in-use');
      await page.getByRole('region', { name: 'Waiting for approval' }).getByText('Resize').click();
      await page.waitForURL(`**/approvals/${asked.body.id}`);

      await page.goto(`/console/tenants/${eta.id}/what-if`);
      await page.getByLabel('Action').fill('resize');
      await page.getByLabel('Action').press('Enter');
      await page.getByLabel('Risk').selectOption('low');
      // A budget of costs holds.
      await page.getByText('Say cost_impact').waitFor();
      await page.getByLabel('Cost').fill('1');
      await page.getByLabel('Cost').press('Enter');
      await page.getByText('It may act on its own').waitFor();
      await page.getByLabel('Cost').fill('2000');
      await page.getByLabel('Cost').press('Enter');
      await page.getByText('It may not').waitFor();
      const reasons = page.getByRole('group', { name: 'Reasons' }).locator('tbody tr');
      expect(await reasons.first().innerText()).toMatch(
        /max_cost_impact_approval decides\s+2000\s+1000\s+Tenant risk limits/,
      );
      await standAt(page, 'what-if');

      // Why one was refused leads to the layers of the limit, for what it was about.
      await page.goto(`/console/tenants/${eta.id}/automations?state=denied`);
      const refused = page.getByRole('row').filter({ hasText: 'cloud_run' });
      await refused.waitFor();
      expect(await refused.innerText()).toMatch(
        /max_cost_impact_approval\s+asked 9999, limit 1000 · Tenant risk limits/,
      );
      await refused.getByRole('link', { name: 'max_cost_impact_approval' }).click();
      await page.getByRole('group', { name: 'Layers of max_cost_impact_approval' }).waitFor();
      expect(new URL(page.url()).searchParams.get('service_type')).toBe('cloud_run');
      expect(seen.faults.filter((text) => !text.includes('422'))).toEqual([]);
      await seen.close();
    },
  );

  soakTest('routing, overrides and windows are written by forms alone', async () => {
    const seen = await stage.tabOf(eta.emails.tenant_admin!);
    const { page } = seen;
    const document = new DocumentPage(page);
    const publish = async (): Promise<void> => {
      await document.review();
      await new ReviewDialog(page).changes();
      await new ReviewDialog(page).publish('Publish');
      await document
        .notice()
        .getByText(/Published as revision/)
        .waitFor();
    };
    const of = `/tenants/${eta.id}`;
    await document.open(eta.id, 'notifications');
    await document.unfold('Webhook', 'Approver groups');
    await document.field('/webhook').selectOption({ label: 'webhook endpoint' });
    await document.field('/webhook/url').fill('https://hooks.acme.example/strata');
    await document.field('/webhook/auth').selectOption({ label: 'bearer' });
    await document.field('/webhook/auth/token').fill('of-the-receiver');
    await document.field('/approver_groups/risk_levels/high').fill('sre\nleads');
    await page.getByLabel('New member of action_overrides').fill('drop_database');
    await page.getByLabel('New member of action_overrides').press('Enter');
    await document.field('/approver_groups/action_overrides/drop_database').fill('dba');
    await standAt(page, 'routing-form');
    await publish();
    expect((await eta.admin.get(`${of}/config/notifications`)).body).toMatchObject({
      webhook: {
        url: 'https://hooks.acme.example/strata',
        auth: { type: 'bearer', token: '********' },
      },
      approver_groups: {
        risk_levels: { high: ['sre', 'leads'] },
        action_overrides: { drop_database: ['dba'] },
      },
    });

    await document.open(eta.id, 'risk');
    await document.unfold('cloud_run');
    await document.field('/service_overrides/cloud_run/max_cost_impact_auto').fill('2');
    await standAgainAt(page, 'override-form');
    await publish();
    const { body: risk } = await eta.admin.get(`${of}/config/risk`);
    expect(risk.service_overrides).toMatchObject({
      cloud_run: { max_cost_impact_auto: 2 },
      cloud_sql: {},
    });

    await document.open(eta.id, 'services/checkout');
    await document.field('/service_type').fill('cloud_run');
    await page.getByRole('button', { name: 'Add to maintenance_windows' }).click();
    for (const day of ['sat', 'sun'])
      await document.field(`/maintenance_windows/0/days/${day}`).check();
    await document.field('/maintenance_windows/0/start').fill('22:00');
    await document.field('/maintenance_windows/0/end').fill('23:00');
    await document.field('/maintenance_windows/0/timezone').fill('UTC');
    await standAt(page, 'windows-form');
    await publish();
    expect((await eta.admin.get(`${of}/services/checkout`)).body).toMatchObject({
      maintenance_windows: [
        { days: ['sat', 'sun'], start: '22:00', end: '23:00', timezone: 'UTC' },
      ],
    });
    expect(seen.faults.filter((text) => !text.includes('404'))).toEqual([]);
    await seen.close();
  });

  const calendar = `BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//test//EN
BEGIN:VEVENT
UID:1@test
DTSTART;VALUE=DATE:20250106
RRULE:FREQ=YEARLY
SUMMARY:Epiphany
END:VEVENT
END:VCALENDAR
`.replaceAll('\n', '\r\n');

  soakTest(
    'freezes: made, imported, seen in the month of whoever looks, and overridden by name with a reason',
    async () => {
      const seen = await stage.tabOf(eta.emails.tenant_admin!);
      const { page } = seen;
      const freezes = new FreezesPage(page);
      await freezes.open(eta.id, '?month=2090-12');
      await eventually(async () =>
        expect(await freezes.days()).toEqual(['30: year-end 12:00–', '31: year-end']),
      );
      expect(await freezes.panel('year-end').getByRole('button').count()).toBe(0);

      await page.getByRole('button', { name: 'New freeze…' }).click();
      const form = new FormDialog(page, 'New freeze');
      await form.field('Name').fill('holidays');
      await form.field('Kind of window 1').selectOption('yearly');
      await form.field('Dates of window 1').fill('12-25 12-26');
      await standAt(page, 'freeze-form');
      await form.send('Review…');
      const publish = async (title: string, verb: string): Promise<void> => {
        const dialog = page.getByRole('dialog', { name: title });
        await dialog.locator('.changes tbody tr').first().waitFor();
        await dialog.getByRole('button', { name: verb, exact: true }).click();
        await page.getByRole('dialog').first().waitFor({ state: 'detached' });
      };
      await publish('Publish the freeze holidays', 'Publish');
      await eventually(async () =>
        expect(await freezes.days()).toEqual([
          '25: holidays',
          '26: holidays',
          '30: year-end 12:00–',
          '31: year-end',
        ]),
      );

      await freezes.panel('holidays').getByRole('button', { name: 'Import' }).click();
      const file = new FormDialog(page, 'Import a calendar');
      const buffer = Buffer.from(calendar.replace('DTSTART', 'X-NOTHING'));
      const choose = (content: Buffer) =>
        file.dialog
          .locator('[name=file]')
          .setInputFiles({ name: 'days.ics', mimeType: 'text/calendar', buffer: content });
      await choose(buffer);
      await file.send('Review…');
      expect(await file.problem()).toMatch(/days\.ics \/VEVENT\/0\/DTSTART is missing/);
      await choose(Buffer.from(calendar));
      // As browsers say it where the window for files is left without one.
      await file.dialog
        .locator('[name=file]')
        .dispatchEvent('cancel', { bubbles: true, cancelable: false });
      await standAt(page, 'freeze-import');
      await file.send('Review…');
      await publish('Import a calendar into holidays', 'Publish');
      await page.getByRole('button', { name: 'Next month' }).click();
      await eventually(async () =>
        expect(await freezes.days()).toEqual(['1: year-end', '6: holidays']),
      );

      await freezes.panel('holidays').getByRole('button', { name: 'Override holidays' }).click();
      const override = new FormDialog(page, 'Override the freeze holidays');
      await override.field('Name').fill('incident-42');
      await override.field('Why').fill(`payment is down ${hostile}`);
      await standAt(page, 'freeze-override');
      await override.send('Review…');
      const review = page.getByRole('dialog', { name: 'Override the freeze holidays' }).last();
      expect(await review.getByLabel('Reason').inputValue()).toMatch(/^payment is down/);
      await review.locator('.changes tbody tr').first().waitFor();
      await review.getByRole('button', { name: 'Override the freeze', exact: true }).click();
      await page.getByRole('dialog').first().waitFor({ state: 'detached' });
      await freezes.panel('holidays').getByText('incident-42').waitFor();
      await standAt(page, 'freezes');
      const { body } = await eta.admin.get(`/tenants/${eta.id}/config/freezes`);
      expect(body.holidays.overrides['incident-42'].reason).toMatch(/^payment is down/);
      await freezes.panel('holidays').getByRole('button', { name: 'End the override' }).click();
      await publish('End the override incident-42', 'End the override');
      await freezes.panel('holidays').getByText('incident-42').waitFor({ state: 'detached' });
      expect(seen.faults).toEqual([]);
      await seen.close();
    },
  );

  soakTest('an operator reads both and changes neither; the platform has its own', async () => {
    const seen = await stage.tabOf(eta.emails.operator!);
    await new BudgetsPage(seen.page).open(eta.id);
    const buttons = seen.page.locator('main').getByRole('button', { name: /…$/ });
    expect(await buttons.allInnerTexts()).toEqual([]);
    await new FreezesPage(seen.page).open(eta.id);
    expect(await buttons.allInnerTexts()).toEqual([]);
    expect(seen.faults).toEqual([]);
    await seen.close();
    const root = await stage.tabOf(platformAdmin);
    await new PlatformDocumentPage(root.page).open('budgets');
    await standAt(root.page, 'platform-budgets');
    await root.page.goto('/console/platform/freezes');
    const own = new FreezesPage(root.page).panel('year-end');
    await own.getByRole('button', { name: 'Override year-end' }).waitFor();
    await standAgainAt(root.page, 'platform-freezes');
    expect(root.faults).toEqual([]);
    await root.close();
  });

  test('the month has the name of its days also where people have another calendar', async () => {
    const seen = await stage.signedIn(eta.emails.operator!, { locale: 'fa-IR' });
    const freezes = new FreezesPage(seen.page);
    await freezes.open(eta.id, '?month=2090-12');
    const month = seen.page.getByRole('region', { name: 'Calendar' });
    // The year 2090; of Iran's own calendar it is 1469.
    expect(await month.getByRole('heading').innerText()).toContain('۲۰۹۰');
    expect(await month.locator('time').last().innerText()).toContain('۲۰۹۰');
    await seen.close();
  });

  test('a window that stays shows its own days where one before it is removed', async () => {
    const weekly = (day: string) => ({
      days: [day],
      start: '18:00',
      end: '08:00',
      timezone: 'UTC',
    });
    const address = `/tenants/${eta.id}/config/freezes`;
    await eta.admin.put(address, { nights: { during: [weekly('sat'), weekly('mon')] } });
    const seen = await stage.tabOf(eta.emails.tenant_admin!);
    const { page } = seen;
    const freezes = new FreezesPage(page);
    await freezes.open(eta.id);
    await page.getByRole('button', { name: 'Edit nights' }).click();
    const { dialog } = new FormDialog(page, /nights/);
    await dialog.getByRole('button', { name: 'Remove window 1' }).click();
    await dialog.getByLabel('Days of window 2').waitFor({ state: 'detached' });
    const days = dialog.getByLabel('Days of window 1');
    expect(await days.inputValue()).toBe('mon');
    await days.fill('mon tue ');
    expect(await days.inputValue()).toBe('mon tue ');
    await eta.admin.delete(address);
    await seen.close();
  });

  test('an override by a name that another one had is for all that the freeze holds back', async () => {
    const address = `/tenants/${eta.id}/config/freezes`;
    const nights = { days: ['sat'], start: '18:00', end: '08:00', timezone: 'UTC' };
    const earlier = {
      from: '2090-01-01T00:00:00Z',
      until: '2090-01-02T00:00:00Z',
      match: { actions: ['restart'] },
      reason: 'Payments are down',
    };
    await eta.admin.put(address, {
      nights: { during: [nights], overrides: { 'incident-7': earlier } },
    });
    const seen = await stage.tabOf(eta.emails.tenant_admin!);
    const { page } = seen;
    const freezes = new FreezesPage(page);
    await freezes.open(eta.id);
    await freezes.panel('nights').getByRole('button', { name: 'Override nights' }).click();
    const form = new FormDialog(page, 'Override the freeze nights');
    await form.field('Name').fill('incident-7');
    await form.field('Why').fill('All of them are down');
    await form.send('Review…');
    const review = page.getByRole('dialog', { name: 'Override the freeze nights' }).last();
    await review.locator('.changes tbody tr').first().waitFor();
    await review.getByRole('button', { name: 'Override the freeze', exact: true }).click();
    await page.getByRole('dialog').first().waitFor({ state: 'detached' });
    const { body } = await eta.admin.get(address);
    expect(body.nights.overrides).toEqual({
      'incident-7': { until: expect.any(String), reason: 'All of them are down' },
    });
    await eta.admin.delete(address);
    await seen.close();
  });

  test('an override that somebody makes while the freeze is edited stays', async () => {
    const address = `/tenants/${eta.id}/config/freezes`;
    const nights = { days: ['sat'], start: '18:00', end: '08:00', timezone: 'UTC' };
    await eta.admin.put(address, { nights: { during: [nights] } });
    const seen = await stage.tabOf(eta.emails.tenant_admin!);
    const { page } = seen;
    const freezes = new FreezesPage(page);
    await freezes.open(eta.id);
    await page.getByRole('button', { name: 'Edit nights' }).click();
    const form = new FormDialog(page, 'The freeze nights');
    const until = new Date(Date.now() + 3_600_000).toISOString();
    const overrides = { 'incident-7': { until, reason: 'Payments are down' } };
    await eta.admin.patch(address, { nights: { overrides } });
    await page.getByText('incident-7').first().waitFor({ state: 'attached' });
    await form.field('Days of window 1').fill('sun');
    await form.send('Review…');
    const review = page.getByRole('dialog', { name: 'Publish the freeze nights' });
    await review.locator('.changes tbody tr').first().waitFor();
    expect(await review.getByText('/nights/overrides').count()).toBe(0);
    await review.getByRole('button', { name: 'Publish', exact: true }).click();
    await page.getByRole('dialog').first().waitFor({ state: 'detached' });
    expect((await eta.admin.get(address)).body.nights).toMatchObject({
      during: [{ days: ['sun'] }],
      overrides,
    });
    await eta.admin.delete(address);
    await seen.close();
  });

  test('a guardrail begins with what is guarded most', async () => {
    const seen = await stage.tabOf(eta.emails.tenant_admin!);
    const { page } = seen;
    await page.goto(`/console/tenants/${eta.id}/documents/bounds`);
    await page.getByText('Begin with one for').waitFor();
    await standAt(page, 'guardrails-none');
    await page.getByRole('button', { name: 'max_cost_impact_auto', exact: true }).click();
    await page.getByLabel('at most').fill('1000');
    expect(await page.getByText('Begin with one for').count()).toBe(0);
    await page.getByRole('button', { name: 'Discard edits' }).click();
    expect(seen.faults).toEqual([]);
    await seen.close();
  });
});
