/** Limits over time in the console: budgets with what spends them, and freezes as a calendar. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { eventually } from '../support/cluster.ts';
import { createTenant, type TenantFixture } from '../support/strata.ts';
import { DocumentPage } from './pages/documents.ts';
import { FormDialog } from './pages/form-dialog.ts';
import { BudgetsPage, FreezesPage } from './pages/limits.ts';
import { PlatformDocumentPage } from './pages/platform.ts';
import { ReviewDialog } from './pages/review.ts';
import { hostile, platformAdmin, setStage, type Stage } from './stage.ts';
import { standAgainAt, standAt } from './stand.ts';

let stage: Stage;
let acme: TenantFixture;

beforeAll(async () => {
  stage = await setStage();
  acme = await createTenant(stage.strata.url, stage.platform, 'Acme');
  const written = [
    await stage.platform.put('/config/budgets', {
      starts: { amount: '50', counts: 'actions', per: 'hour', window: 'rolling', reason: hostile },
    }),
    await stage.platform.put('/config/freezes', {
      'year-end': {
        during: [
          { from: '2090-12-30T12:00', until: '2091-01-02T00:00', timezone: 'Europe/Berlin' },
        ],
        reason: hostile,
      },
    }),
    await acme.admin.patch(`/tenants/${acme.id}/config/risk`, {
      global_settings: { max_cost_impact_auto: 1000, max_cost_impact_approval: 1000 },
    }),
    await acme.admin.put(`/tenants/${acme.id}/config/budgets`, {
      daily: { amount: '100.00', currency: 'EUR', per: 'day', warn_at: 0.8, reason: hostile },
    }),
  ];
  for (const { status, text } of written) if (status >= 300) throw new Error(text);
});
afterAll(() => stage?.stop());

const start = async (action: string, cost: number): Promise<string> => {
  const body = { action, risk_level: 'low', cost_impact: cost, service_type: 'cloud_run' };
  const { status, body: started } = await acme.operator.post(
    `/tenants/${acme.id}/automations`,
    body,
  );
  expect([status, started.state]).toEqual([201, 'running']);
  return started.id as string;
};

test('budgets: each bar with what holds it, by day with what is behind, and an edit that is tried first', async () => {
  const ended = await start('resize', 30);
  const end = { outcome: 'done', actual_cost: 12.5 };
  await acme.operator.post(`/tenants/${acme.id}/automations/${ended}/finish`, end);
  await start('restart', 20.25);
  const seen = await stage.tabOf(acme.emails.tenant_admin!);
  const { page } = seen;
  const budgets = new BudgetsPage(page);
  await budgets.open(acme.id);
  await eventually(async () => {
    expect(await budgets.bar('daily')).toBe('12.5 spent, 20.25 held, 67.25 left of 100.00 EUR');
    expect(await budgets.bar('starts')).toBe('2 spent, 0 held, 48 left of 50 actions');
  });
  expect(await budgets.panel('daily').getByRole('list').innerText()).toMatch(
    /restart\s+cloud_run\s+20\.25\s+EUR/,
  );
  // The platform's is shown, and not this tenant's to change.
  expect(await budgets.panel('starts').getByRole('button').allInnerTexts()).toEqual(['By day']);

  await budgets.panel('daily').getByRole('button', { name: 'Spending of daily by day' }).click();
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
  const { body } = await acme.admin.get(`/tenants/${acme.id}/config/history?limit=1`);
  expect(body.items[0]).toMatchObject({ config_type: 'budgets_config', reason: 'Less this year' });
  expect(seen.faults).toEqual([]);
  await seen.close();
});

test('the overview says what runs, waits, is near its end and changed; what if says why', async () => {
  const asked = await acme.operator.post(`/tenants/${acme.id}/approvals`, {
    action: 'resize',
    risk_level: 'high',
    title: `Resize ${hostile}`,
  });
  expect(asked.status).toBe(202);
  const denied = { action: 'resize', risk_level: 'low', cost_impact: 9999 };
  await acme.operator.post(`/tenants/${acme.id}/automations`, denied);
  const seen = await stage.tabOf(acme.emails.tenant_admin!);
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
  const today = page.getByRole('group', { name: 'Decisions and cost by day' }).locator('tbody tr');
  expect((await today.first().locator('td').allInnerTexts()).map(Number)).toEqual([2, 0, 1, 32.75]);
  await page
    .getByRole('region', { name: 'Last changes' })
    .getByText('changed daily.amount from "100.00" to "40.00"')
    .waitFor();
  await standAt(page, 'overview-in-use');
  await page.getByRole('region', { name: 'Waiting for approval' }).getByText('Resize').click();
  await page.waitForURL(`**/approvals/${asked.body.id}`);

  await page.goto(`/console/tenants/${acme.id}/what-if`);
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
  expect(seen.faults.filter((text) => !text.includes('422'))).toEqual([]);
  await seen.close();
});

test('routing, overrides and windows are written by forms alone', async () => {
  const seen = await stage.tabOf(acme.emails.tenant_admin!);
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
  const of = `/tenants/${acme.id}`;
  await document.open(acme.id, 'notifications');
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
  expect((await acme.admin.get(`${of}/config/notifications`)).body).toMatchObject({
    webhook: {
      url: 'https://hooks.acme.example/strata',
      auth: { type: 'bearer', token: '********' },
    },
    approver_groups: {
      risk_levels: { high: ['sre', 'leads'] },
      action_overrides: { drop_database: ['dba'] },
    },
  });

  await document.open(acme.id, 'risk');
  await document.unfold('cloud_run');
  await document.field('/service_overrides/cloud_run/max_cost_impact_auto').fill('2');
  await standAgainAt(page, 'override-form');
  await publish();
  const { body: risk } = await acme.admin.get(`${of}/config/risk`);
  expect(risk.service_overrides).toMatchObject({
    cloud_run: { max_cost_impact_auto: 2 },
    cloud_sql: {},
  });

  await document.open(acme.id, 'services/checkout');
  await document.field('/service_type').fill('cloud_run');
  await page.getByRole('button', { name: 'Add to maintenance_windows' }).click();
  for (const day of ['sat', 'sun'])
    await document.field(`/maintenance_windows/0/days/${day}`).check();
  await document.field('/maintenance_windows/0/start').fill('22:00');
  await document.field('/maintenance_windows/0/end').fill('23:00');
  await document.field('/maintenance_windows/0/timezone').fill('UTC');
  await standAt(page, 'windows-form');
  await publish();
  expect((await acme.admin.get(`${of}/services/checkout`)).body).toMatchObject({
    maintenance_windows: [{ days: ['sat', 'sun'], start: '22:00', end: '23:00', timezone: 'UTC' }],
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

test('freezes: made, imported, seen in the month of whoever looks, and overridden by name with a reason', async () => {
  const seen = await stage.tabOf(acme.emails.tenant_admin!);
  const { page } = seen;
  const freezes = new FreezesPage(page);
  await freezes.open(acme.id, '?month=2090-12');
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
  const { body } = await acme.admin.get(`/tenants/${acme.id}/config/freezes`);
  expect(body.holidays.overrides['incident-42'].reason).toMatch(/^payment is down/);
  await freezes.panel('holidays').getByRole('button', { name: 'End the override' }).click();
  await publish('End the override incident-42', 'End the override');
  await freezes.panel('holidays').getByText('incident-42').waitFor({ state: 'detached' });
  expect(seen.faults).toEqual([]);
  await seen.close();
});

test('an operator reads both and changes neither; the platform has its own', async () => {
  const seen = await stage.tabOf(acme.emails.operator!);
  await new BudgetsPage(seen.page).open(acme.id);
  const buttons = seen.page.locator('main').getByRole('button', { name: /…$/ });
  expect(await buttons.allInnerTexts()).toEqual([]);
  await new FreezesPage(seen.page).open(acme.id);
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

test('a guardrail begins with what is guarded most', async () => {
  const seen = await stage.tabOf(acme.emails.tenant_admin!);
  const { page } = seen;
  await page.goto(`/console/tenants/${acme.id}/documents/bounds`);
  await page.getByText('Begin with one for').waitFor();
  await standAt(page, 'guardrails-none');
  await page.getByRole('button', { name: 'max_cost_impact_auto', exact: true }).click();
  await page.getByLabel('at most').fill('1000');
  expect(await page.getByText('Begin with one for').count()).toBe(0);
  await page.getByRole('button', { name: 'Discard edits' }).click();
  expect(seen.faults).toEqual([]);
  await seen.close();
});
