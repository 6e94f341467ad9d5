/**
 * What people come for most often, from signing in to its end: in how many clicks, without any JSON.
 * Fields that somebody types in are counted by themselves; with TASKS_PRINTED=yes it prints both, and
 * the time that it took, for a person to read.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Locator } from 'playwright-core';
import { eventually } from '../support/cluster.ts';
import { grown } from '../support/grown.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import { addMember, createTenant, memberPassword, type TenantFixture } from '../support/strata.ts';
import { setStage, type Stage } from './stage.ts';
import { SignInPage } from './pages/sign-in.ts';
import { arrived, type Looks, type Visit } from './visit.ts';

let stage: Stage;
let acme: TenantFixture;
let receiver: Receiver;
let approval: string;

beforeAll(async () => {
  stage = await setStage({
    environment: { WEBHOOK_ALLOWED_NETWORKS: '127.0.0.0/8', WEBHOOK_ALLOW_HTTP: 'true' },
  });
  receiver = await startReceiver();
  const { platform, strata, database } = stage;
  acme = await createTenant(strata.url, platform, 'Acme');
  const { admin, operator, id } = acme;
  const lee = { email: 'lee@acme.example', roles: ['operator'], groups: ['leads'] };
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
afterAll(async () => {
  await receiver?.close();
  await stage?.stop();
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
  { address, ...looks }: Looks & { readonly address?: string } = {},
): Promise<void> {
  const seen = await stage.visit(looks);
  const door = new SignInPage(seen.page);
  await door.open(address);
  await door.signIn(acme.emails.tenant_admin!, memberPassword);
  if (address === undefined) await arrived(seen.page);
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

test('to stop automation: 3 clicks', async () => {
  await doing('emergency stop', 3, async ({ page }, hand) => {
    await hand.click(page.getByRole('link', { name: 'Automations', exact: true }));
    await hand.type(page.getByLabel('Why automation is stopped'), 'All hands');
    await hand.click(page.getByRole('button', { name: 'Stop automation…' }));
    const dialog = page.getByRole('dialog');
    await hand.click(dialog.getByRole('button', { name: 'Stop automation', exact: true }));
    await page.getByText('Automation of this tenant is stopped').waitFor();
  });
  const { status } = await acme.admin.delete(`/tenants/${acme.id}/config/bounds`);
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
    expect(await row.innerText()).toContain(acme.emails.tenant_admin!);
  }));

test('an approval denied on a phone, with a comment: 3 clicks', () =>
  doing(
    'deny on a phone with a comment',
    3,
    async ({ page }, hand) => {
      await hand.type(page.getByLabel('Comment'), 'Not before the sale');
      await hand.click(page.getByRole('button', { name: 'Deny', exact: true }));
      await page.locator('.timeline').getByText('Not before the sale').waitFor();
    },
    { address: `/console/tenants/${acme.id}/approvals/${approval}`, width: 390 },
  ));

test('an approver whose account is disabled: 3 clicks', () =>
  doing('a disabled approver found', 3, async ({ page }, hand) => {
    await hand.click(page.getByRole('link', { name: 'Approver groups', exact: true }));
    const leads = page.getByRole('row').filter({ hasText: 'leads' });
    await leads.getByText('lee@acme.example').waitFor();
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
    await page.getByRole('group', { name: 'Members' }).getByText('lee@acme.example').waitFor();
    const saved = page.waitForEvent('download');
    await hand.click(page.getByRole('button', { name: 'Save as CSV' }));
    expect((await saved).suggestedFilename()).toMatch(/\.csv$/);
  }));
