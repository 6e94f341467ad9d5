/**
 * `npm run pictures`: the pictures of docs/console.md, taken of a fresh Strata in which the
 * README's example has happened. Run it when a screen has changed its looks.
 */
import { chmodSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { openBrowser } from '../support/browser.ts';
import {
  adminPassword,
  createTenant,
  memberPassword,
  signIn,
  startStrata,
} from '../support/strata.ts';
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

  const seen = await signedIn(acme.emails.tenant_admin!, memberPassword);
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
} finally {
  await browser.close();
  await strata.stop();
  rmSync(data, { recursive: true, force: true });
}
