/**
 * `npm run pictures`: the pictures of docs/console.md, taken of a fresh Strata in which the
 * README's example has happened. Run it when a screen has changed its looks.
 *
 * `npm run pictures -- <folder>` takes every screen into that folder instead, narrow and wide, light
 * and dark: look at each.
 */
import { chmodSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { openBrowser } from '../support/browser.ts';
import {
  addMember,
  adminPassword,
  createTenant,
  memberPassword,
  signIn,
  startStrata,
  type Answer,
  type TenantFixture,
} from '../support/strata.ts';
import { takeEveryScreen } from './every-screen.ts';
import { SignInPage } from './pages/sign-in.ts';
import { visit, type Visit } from './visit.ts';

const folder = fileURLToPath(new URL('../../docs/pictures', import.meta.url));
const data = mkdtempSync(join(tmpdir(), 'strata-pictures-'));
// PostgreSQL, which root runs as another user, has to come in.
chmodSync(data, 0o755);
const strata = await startStrata({ DATA_DIR: data });
const browser = await openBrowser();
const origin = new URL(strata.url).origin;

async function signedIn(email: string, password: string): Promise<Visit> {
  const seen = await visit(browser, origin, { width: 1120, height: 720 });
  const door = new SignInPage(seen.page);
  await door.open();
  await door.signIn(email, password);
  await seen.page.getByRole('navigation', { name: 'Screens' }).waitFor();
  return seen;
}

/** The screen at the address, once it says something. */
async function take({ page }: Visit, name: string, address: string, says: string): Promise<void> {
  await page.goto(`/console${address}`);
  await page.getByText(says).first().waitFor();
  await page.getByText('Loading…').first().waitFor({ state: 'detached' });
  await page.mouse.move(0, 0);
  await page.screenshot({ path: join(folder, `${name}.png`) });
  console.log(`docs/pictures/${name}.png`);
}

try {
  mkdirSync(folder, { recursive: true });
  const platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  const acme = await createTenant(strata.url, platform, 'Acme');
  const globex = await createTenant(strata.url, platform, 'Globex');
  const { id, admin, operator } = acme;
  await platform.put('/config/global/default_region', {
    config_value: 'europe-west1',
    is_public: true,
  });
  await admin.patch(
    `/tenants/${id}/config/risk`,
    {
      global_settings: { max_cost_impact_auto: 5 },
      service_overrides: { cloud_run: { max_cost_impact_auto: 2 } },
    },
    { 'x-change-reason': 'careful start' },
  );
  await globex.admin.patch(`/tenants/${globex.id}/config/risk`, {
    global_settings: { max_cost_impact_auto: 20 },
  });
  await admin.put(`/tenants/${id}/config/agents/cost_optimizer`, {
    default_region: 'europe-west4',
    metrics_duration_minutes: 15,
  });
  await admin.put(`/tenants/${id}/services/checkout`, {
    service_type: 'cloud_run',
    service_name: 'Checkout',
    min_instances: 1,
    max_instances: 5,
  });
  await admin.put(`/tenants/${id}/config/bounds`, {
    max_resource_scaling: { maximum: 2, reason: 'Never more than twice' },
  });
  const wish = { action: 'scale_min_instances', risk_level: 'low', service_id: 'checkout' };
  for (const action of ['scale_min_instances', 'restart_instances'])
    await operator.post(`/tenants/${id}/automations`, { ...wish, action });
  const [, , everyScreenTo] = process.argv;
  if (everyScreenTo !== undefined) await everyScreen(everyScreenTo, acme);
  else await picturesOfPages(acme);
} finally {
  await browser.close();
  await strata.stop();
  rmSync(data, { recursive: true, force: true });
}

/** What the screens show beside the example: requests, change sets, people, keys, and limits. */
async function fill({ id, admin, operator }: TenantFixture): Promise<Record<string, string>> {
  const made = async (answer: Promise<Answer>): Promise<string> => {
    const { status, text, body } = await answer;
    if (status >= 300) throw new Error(text);
    return body?.id;
  };
  const at = `/tenants/${id}`;
  await made(
    admin.put(`${at}/config/notifications`, {
      approver_groups: { risk_levels: { high: ['leads'], critical: ['board'] } },
    }),
  );
  await addMember(admin, id, { email: 'lea@acme.example', roles: ['operator'], groups: ['leads'] });
  await made(admin.post(`${at}/users`, { email: 'late@acme.example', roles: ['viewer'] }));
  const account = await made(
    admin.post(`${at}/service-accounts`, { name: 'deploy-pipeline', roles: ['operator'] }),
  );
  await made(
    admin.put(`${at}/config/budgets`, {
      daily: { amount: '100.00', currency: 'EUR', per: 'day', warn_at: 0.8 },
    }),
  );
  const ask = { action: 'scale', risk_level: 'high', cost_impact: 12.5, service_id: 'checkout' };
  const title = 'Scale checkout to 12 instances';
  const approval = await made(
    operator.post(`${at}/approvals`, { ...ask, title, metadata: { instances: 12 } }),
  );
  const second = {
    action: 'restart',
    risk_level: 'critical',
    title: 'Restart the payment workers',
  };
  await made(operator.post(`${at}/approvals`, second));
  const set = await made(
    operator.post(`${at}/config/changesets?submit=true`, {
      title: 'More instances for checkout',
      reason: 'Sale on Friday',
      items: [{ action: 'patch', path: `${at}/services/checkout`, body: { max_instances: 9 } }],
    }),
  );
  return { account, approval, set };
}

async function everyScreen(folder: string, tenant: TenantFixture): Promise<void> {
  const { account, approval, set } = await fill(tenant);
  const seen = await signedIn(tenant.emails.tenant_admin!, memberPassword);
  await takeEveryScreen(seen, folder, `/tenants/${tenant.id}`, [
    '/overview',
    '/effective',
    '/effective?service_id=checkout&open=max_resource_scaling',
    '/what-if',
    '/compare?with_service_id=checkout',
    '/services',
    '/services/checkout',
    '/documents',
    '/documents/risk',
    '/documents/bounds',
    '/documents/budgets',
    '/documents/freezes',
    '/documents/change-policy',
    '/documents/notifications',
    '/documents/event-destinations',
    '/documents/agents/cost_optimizer',
    '/documents/services/checkout',
    '/budgets',
    '/freezes',
    '/approvals',
    `/approvals/${approval}`,
    '/change-sets',
    `/change-sets/${set}`,
    '/automations',
    '/decisions',
    '/notifications',
    '/deliveries',
    '/destinations',
    '/members',
    '/groups',
    '/service-accounts',
    `/service-accounts/${account}`,
    '/access',
    '/history',
    '/history?open=2',
    '/usage',
    '/audit',
  ]);
  await takeEveryScreen(seen, folder, '/account', ['', '/sessions', '/keys', '/activity']);
  await seen.close();
  const root = await signedIn('admin@example.com', adminPassword);
  await takeEveryScreen(root, folder, '/platform', [
    '/overview',
    '/tenants',
    '/accounts',
    '/usage',
    '/global',
    '/global/default_region',
    '/service-types',
    '/bounds',
    '/budgets',
    '/freezes',
    '/change-policy',
    '/plan',
    '/change-sets',
    '/rollouts',
    '/history',
    '/audit',
    '/nodes',
  ]);
  await root.close();
  const anonymous = await visit(browser, origin);
  await new SignInPage(anonymous.page).open();
  await takeEveryScreen(anonymous, folder, '/sign-in', ['']);
  await anonymous.close();
}

async function picturesOfPages({ id, emails }: TenantFixture): Promise<void> {
  const seen = await signedIn(emails.tenant_admin!, memberPassword);
  const question = 'agent_type=cost_optimizer&service_id=checkout';
  await take(
    seen,
    'effective-values',
    `/tenants/${id}/effective?${question}&q=max_&open=max_cost_impact_auto&open=max_resource_scaling`,
    'Never more than twice',
  );
  await take(
    seen,
    'compare',
    `/tenants/${id}/compare?with_agent_type=cost_optimizer&with_service_id=checkout`,
    'keys differ',
  );
  await take(seen, 'automations', `/tenants/${id}/automations`, 'restart_instances');
  await take(seen, 'history', `/tenants/${id}/history?open=2`, 'careful start');
  await seen.close();

  const root = await signedIn('admin@example.com', adminPassword);
  const { page } = root;
  await page.goto('/console/platform/plan');
  await page.getByText('Write an item', { exact: true }).click();
  await page.locator('[name=path]').fill('/config/bounds');
  await page
    .locator('textarea[name=body]')
    .fill('{"max_cost_impact_auto": {"maximum": 4, "reason": "Budget of this year"}}');
  await page.getByRole('button', { name: 'Add to the plan' }).click();
  await page.getByRole('heading', { name: 'Blast radius' }).waitFor();
  await page.getByText('Write an item', { exact: true }).click();
  await page.screenshot({ path: join(folder, 'plan.png') });
  console.log('docs/pictures/plan.png');
  await root.close();
}
