/**
 * The console in Chromium, against a fresh Strata: every screen is walked, and what people come for
 * is done as they would do it.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import type { Page } from 'playwright-core';
import { placeTitle } from '../../console/screens/ladder.ts';
import { eventually } from '../support/cluster.ts';
import { invitationToken, mailsTo } from '../support/mailboxes.ts';
import { soakTest } from '../support/soak.ts';
import {
  addMember,
  createTenant,
  memberPassword,
  signIn,
  type TenantFixture,
} from '../support/strata.ts';
import { ApprovalsPage } from './pages/approvals.ts';
import { DocumentPage } from './pages/documents.ts';
import { EffectiveValuesPage } from './pages/effective-values.ts';
import { HistoryPage } from './pages/history.ts';
import { ReviewDialog } from './pages/review.ts';
import { SignInPage } from './pages/sign-in.ts';
import { hostile, setStage, type Stage } from './stage.ts';
import { standAgainAt, standAt } from './stand.ts';
import { arrived, soonMs, visit, type Visit } from './visit.ts';

let stage: Stage;
let tenant: TenantFixture;

/** Of the agent and service that the README asks about. */
const question = '?agent_type=cost_optimizer&service_id=checkout';

beforeAll(async () => {
  stage = await setStage({ browserOptions: ['--host-resolver-rules=MAP strata.test 127.0.0.1'] });
  const { platform } = stage;
  tenant = await createTenant(stage.strata.url, platform, 'Acme');
  const { admin, id } = tenant;
  const written = [
    await platform.put('/config/global/default_region', {
      config_value: 'europe-west1',
      is_public: true,
    }),
    await platform.put('/config/global/hostile', { config_value: hostile, is_public: true }),
    await admin.patch(`/tenants/${id}/config/risk`, {
      global_settings: { max_cost_impact_auto: 25 },
      service_overrides: { cloud_run: { max_cost_impact_auto: 40 } },
    }),
    await admin.put(`/tenants/${id}/config/agents/cost_optimizer`, {
      default_region: 'europe-west4',
      custom: { note: hostile },
    }),
    await admin.put(`/tenants/${id}/services/checkout`, {
      service_type: 'cloud_run',
      service_name: 'Checkout',
      min_instances: 2,
      max_instances: 8,
    }),
    await admin.put(`/tenants/${id}/config/bounds`, {
      max_resource_scaling: { maximum: 2, reason: 'Never more than twice' },
    }),
  ];
  const asked = await tenant.operator.post(`/tenants/${id}/approvals`, {
    action: 'scale_min_instances',
    risk_level: 'high',
    title: 'Scale checkout from 2 to 6 instances',
    description: `Traffic doubled since Monday.\n${hostile}`,
    resource: 'checkout',
    cost_impact: 32.5,
  });
  written.push(asked);
  for (const { status, text } of written) if (status >= 300) throw new Error(text);
});
afterAll(() => stage?.stop());

type Person = 'tenant_admin' | 'operator' | 'viewer';

/** What turns a text around is escaped where JSON is shown. */
const shownJson = (value: unknown): string =>
  JSON.stringify(value).replaceAll('\u202E', String.raw`\u202e`);

/** Has the page hear of nothing that others write. */
const withoutStream = ({ page }: Visit): Promise<unknown> =>
  page.route('**/config/watch', (route) => route.abort());

/** In a browser of their own. */
async function signedIn(as: Person): Promise<Visit> {
  const seen = await stage.signedIn(tenant.emails[as]!);
  await arrived(seen.page);
  return seen;
}
const tabOf = (as: Person): Promise<Visit> => stage.tabOf(tenant.emails[as]!);

/**
 * Has requests wait on their way to Strata. Returns how to let them go, those that come later too.
 */
async function held(page: Page, url: string | RegExp): Promise<() => void> {
  const { promise: freed, resolve: free } = Promise.withResolvers<void>();
  await page.route(url, async (route) => {
    await freed;
    await route.continue();
  });
  return free;
}

describe('every screen', () => {
  /** One walk, on which each screen is looked at in every width and colour. */
  test('has no fault and nothing for axe to find, narrow and wide, light and dark', async () => {
    const seen = await stage.visit();
    const { page, faults } = seen;
    const stand = (name: string): Promise<void> => standAt(page, name);
    const door = new SignInPage(page);
    await door.open();
    await stand('sign-in');
    await page.goto('/console/accept-invitation#token=abc');
    await page.getByRole('heading', { name: 'You are invited' }).waitFor();
    await stand('invitation');
    await page.goto('/console/reset-password#token=abc');
    await page.getByRole('heading', { name: 'New password' }).waitFor();
    await stand('reset');
    await door.open();
    await door.signIn(tenant.emails.tenant_admin!, memberPassword);
    await page.getByRole('region', { name: 'Last changes' }).getByRole('table').waitFor();
    await page.getByRole('region', { name: 'First steps' }).waitFor();
    await stand('overview');
    const effective = new EffectiveValuesPage(page);
    await effective.open(tenant.id, question);
    await standAgainAt(page, 'effective');
    await effective.openLadder('max_cost_impact_auto');
    await effective.openLadder('max_resource_scaling');
    await stand('ladder');
    await effective.openLadder('default_region');
    await effective.clear('default_region', 'Agent configuration');
    await new ReviewDialog(page).changes();
    await stand('clear');
    await page.keyboard.press('Escape');
    const documents = new DocumentPage(page);
    await documents.openList(tenant.id);
    await stand('documents');
    await documents.open(tenant.id, 'risk');
    await stand('risk');
    await documents.open(tenant.id, 'agents/cost_optimizer', '?as=json');
    await stand('json');
    await documents.open(tenant.id, 'services/not-there');
    await standAgainAt(page, 'new-document');
    const approvals = new ApprovalsPage(page);
    await approvals.openInbox(tenant.id, '?state=all');
    await stand('approvals');
    await approvals.openOne('Scale checkout');
    await stand('approval');
    const history = new HistoryPage(page);
    await history.open(tenant.id, '?open=3');
    await stand('history');
    // Only that there is no document of this name yet.
    expect(faults.filter((text) => !text.includes('404'))).toEqual([]);
    await seen.close();
  });
});

describe('effective values', () => {
  test('show for every key the value, layer, writer and revision that explain=true answers', async () => {
    const { body } = await tenant.admin.get(
      `/tenants/${tenant.id}/config/effective${question}&explain=true`,
    );
    const seen = await tabOf('tenant_admin');
    const effective = new EffectiveValuesPage(seen.page);
    await effective.open(tenant.id, question);
    const shown = await effective.keys();
    expect(shown.map(({ key }) => key)).toEqual(Object.keys(body.explain).toSorted());
    for (const { key, value } of shown) {
      const text = shownJson(body.values[key]);
      expect([key, value.replace('…', '')]).toEqual([
        key,
        text.slice(0, value.endsWith('…') ? 59 : 400),
      ]);
    }
    const keys = Object.keys(body.explain).toSorted();
    await effective.open(
      tenant.id,
      `${question}&${keys.map((key) => `open=${encodeURIComponent(key)}`).join('&')}`,
    );
    const decided = await effective.decided();
    expect(decided.map(({ key }) => key)).toEqual(keys);
    for (const { key, value = '', ...rung } of decided) {
      const { layer, path, updated_by: by, updated_by_name: name, revision } = body.explain[key];
      if (layer === 'bounds') continue;
      const cut = value.replace('…', '');
      expect([key, rung, shownJson(body.values[key]).startsWith(cut)]).toEqual([
        key,
        {
          layer: placeTitle(layer, path),
          by: by === null ? '–' : name,
          revision: revision === null ? '' : String(revision),
        },
        true,
      ]);
    }
    await effective.open(tenant.id, question);
    await effective.openLadder('max_cost_impact_auto');
    const { revision } = body.explain.max_cost_impact_auto;
    const rungs = await effective.rungs('max_cost_impact_auto');
    expect(rungs).toEqual([
      { layer: 'Service instance', value: '', state: 'not set', revision: '' },
      { layer: 'Agent configuration', value: '', state: 'not set', revision: '' },
      {
        layer: 'Tenant risk limits for cloud_run',
        value: '40',
        state: 'decides',
        revision: String(revision),
      },
      {
        layer: 'Tenant risk limits for all services',
        value: '25',
        state: 'shadowed',
        revision: String(revision),
      },
      { layer: 'Service type', value: '', state: 'not set', revision: '' },
      { layer: 'Global entry', value: '', state: 'not set', revision: '' },
      { layer: 'Built-in default', value: '15', state: 'shadowed', revision: '' },
    ]);
    await effective.openLadder('max_resource_scaling');
    const text = await effective.ladder('max_resource_scaling').innerText();
    expect(text).toContain('Guardrail of the tenant: at most 2');
    expect(text).toContain('Never more than twice');
    expect(seen.faults).toEqual([]);
    await seen.close();
  });

  soakTest(
    'what somebody types into a question stays while the screen is drawn again',
    async () => {
      const seen = await tabOf('operator');
      const { page } = seen;
      const release = await held(page, '**/contexts');
      await new EffectiveValuesPage(page).open(tenant.id);
      const field = page.getByLabel('Agent type', { exact: true });
      await field.fill('cost_opt');
      release();
      await page.locator('#service_id-names option').first().waitFor({ state: 'attached' });
      expect(await field.inputValue()).toBe('cost_opt');
      await field.press('Enter');
      await page.waitForURL('**/effective?agent_type=cost_opt');
      expect(seen.faults).toEqual([]);
      await seen.close();
    },
  );

  soakTest('a link shows what whoever sent it saw: question, filter and open ladders', async () => {
    const seen = await tabOf('operator');
    const effective = new EffectiveValuesPage(seen.page);
    await effective.open(tenant.id);
    await effective.ask('Agent type', 'cost_optimizer');
    await effective.filter('region');
    await effective.openLadder('default_region');
    await eventually(async () =>
      expect(new URL(seen.page.url()).search).toBe(
        '?agent_type=cost_optimizer&q=region&open=default_region',
      ),
    );
    const link = seen.page.url();
    const other = await tabOf('viewer');
    await other.page.goto(link);
    await new EffectiveValuesPage(other.page).ladder('default_region').waitFor();
    const keys = await new EffectiveValuesPage(other.page).keys();
    expect(keys.map(({ key }) => key)).toEqual(['default_region']);
    expect(await other.page.getByRole('button', { name: 'Clear…' }).count()).toBe(0);
    await other.page
      .locator('#service_id-names option', { hasText: 'Checkout (cloud_run)' })
      .waitFor({ state: 'attached' });
    await Promise.all([seen.close(), other.close()]);
  });

  soakTest(
    'of another moment: a revision or a time is picked in place, shown as the past, and nothing of it can be cleared',
    async () => {
      const { admin, id } = tenant;
      const path = `/tenants/${id}/config/agents/moved`;
      const first = await admin.put(path, { default_region: 'before' });
      const revision = first.headers.get('x-config-revision')!;
      await admin.put(path, { default_region: 'after' });
      const seen = await tabOf('tenant_admin');
      const { page } = seen;
      const effective = new EffectiveValuesPage(page);
      await effective.open(id, '?agent_type=moved&open=default_region');
      const valueNow = async (): Promise<string | undefined> => {
        const keys = await effective.keys();
        return keys.find(({ key }) => key === 'default_region')?.value;
      };
      expect(await valueNow()).toBe('"after"');
      expect(await page.getByRole('button', { name: 'Clear…' }).count()).toBe(1);
      await effective.ask('or revision', revision);
      await page.getByText(`As it was at revision ${revision}`).waitFor();
      await page.getByText('"before"').first().waitFor();
      expect(await valueNow()).toBe('"before"');
      expect(await page.getByRole('button', { name: 'Clear…' }).count()).toBe(0);
      expect(new URL(page.url()).searchParams.get('as_of')).toBe(revision);
      await effective.ask('As of (your time)', '2020-02-03T04:05:06');
      await page.getByText(/As it was 3 Feb 2020/).waitFor();
      expect(new URL(page.url()).searchParams.get('as_of')).toBe('2020-02-03T03:05:06Z');
      await page.getByRole('button', { name: 'Show what holds now' }).click();
      await page.getByText('"after"').first().waitFor();
      expect(await page.getByLabel('As of (your time)').inputValue()).toBe('');
      await page.goto(`/console/tenants/${id}/history?config_type=agent_config&open=${revision}`);
      await page.getByRole('link', { name: 'Effective values after it' }).click();
      await page.getByText(`As it was at revision ${revision}`).waitFor();
      // The tenant was not there in 2020.
      expect(seen.faults.filter((text) => !text.includes('404'))).toEqual([]);
      await seen.close();
    },
  );

  test('two values of the risk limits are two rungs, each with whose it is, and clearing one says that the other holds', async () => {
    const { admin, id } = tenant;
    const risk = `/tenants/${id}/config/risk`;
    const set = await admin.patch(risk, { global_settings: { max_concurrent_automations: 8 } });
    const over = await admin.patch(risk, {
      service_overrides: { cloud_sql: { max_concurrent_automations: 2 } },
    });
    await admin.patch(risk, { global_settings: { max_resource_scaling: 6 } });
    const seen = await tabOf('tenant_admin');
    const effective = new EffectiveValuesPage(seen.page);
    await effective.open(id, '?service_type=cloud_sql&open=max_concurrent_automations');
    const rungs = await effective.rungs('max_concurrent_automations');
    expect(rungs.filter(({ layer }) => layer.startsWith('Tenant risk limits'))).toEqual([
      {
        layer: 'Tenant risk limits for cloud_sql',
        value: '2',
        state: 'decides',
        revision: over.headers.get('x-config-revision'),
      },
      {
        layer: 'Tenant risk limits for all services',
        value: '8',
        state: 'shadowed',
        revision: set.headers.get('x-config-revision'),
      },
    ]);
    await effective.edit('max_concurrent_automations', 'for cloud_sql', '3');
    const review = new ReviewDialog(seen.page);
    await review.dialog
      .getByText('It becomes 3, which Tenant risk limits for cloud_sql says.')
      .waitFor();
    await standAgainAt(seen.page, 'edit-override');
    await review.publish('Publish', 'a third one for the night');
    await effective.ladder('max_concurrent_automations').getByText('a third one').waitFor();
    await standAgainAt(seen.page, 'ladder-reason');
    await effective.clear('max_concurrent_automations', 'for cloud_sql');
    await review.dialog
      .getByText('It becomes 8, which Tenant risk limits for all services says.')
      .waitFor();
    await review.publish('Clear the override');
    await eventually(async () => {
      const { body } = await admin.get(
        `/tenants/${id}/config/effective?service_type=cloud_sql&explain=true`,
      );
      expect(body.values.max_concurrent_automations).toBe(8);
    });
    // The revision leads to the change, where it is undone.
    const revision = set.headers.get('x-config-revision')!;
    const ladder = effective.ladder('max_concurrent_automations');
    await ladder.getByRole('link', { name: revision, exact: true }).click();
    await seen.page.getByText('raised max_concurrent_automations').first().waitFor();
    await seen.page.getByRole('button', { name: 'Undo this change…' }).waitFor();
    expect(new URL(seen.page.url()).searchParams.get('open')).toBe(revision);
    expect(seen.faults).toEqual([]);
    await seen.close();
  });

  test('clearing an override shows what will hold, writes nothing before that, and then it holds', async () => {
    const seen = await tabOf('tenant_admin');
    const effective = new EffectiveValuesPage(seen.page);
    const writes: string[] = [];
    seen.page.on('request', (request) => {
      if (['PUT', 'PATCH', 'DELETE'].includes(request.method()))
        writes.push(new URL(request.url()).search);
    });
    await effective.open(tenant.id, `${question}&open=default_region`);
    await effective.clear('default_region', 'Agent configuration');
    const review = new ReviewDialog(seen.page);
    expect(await review.changes()).toEqual([['/default_region', '"europe-west4"', 'not set']]);
    await eventually(async () =>
      expect(await review.dialog.innerText()).toContain(
        'It becomes "europe-west1", which Global entry says.',
      ),
    );
    expect(writes.every((search) => search.startsWith('?dry_run=true&effective=true'))).toBe(true);
    await review.publish('Clear the override', 'Où? Ici – 東京');
    await effective.ladder('default_region').getByText('Built-in default').waitFor();
    await seen.page.locator('.rung.decides').getByText('Global entry').waitFor();
    const [shown] = await effective
      .keys()
      .then((keys) => keys.filter(({ key }) => key === 'default_region'));
    expect(shown!.value).toBe('"europe-west1"');
    const history = await tenant.admin.get(`/tenants/${tenant.id}/config/history?limit=1`);
    expect(history.body.items[0]).toMatchObject({
      config_type: 'agent_config',
      reason: 'Où? Ici – 東京',
    });
    expect(seen.faults).toEqual([]);
    await seen.close();
  });

  test('who clears what somebody has changed meanwhile is told so, and nothing is overwritten', async () => {
    const seen = await tabOf('tenant_admin');
    await withoutStream(seen);
    const effective = new EffectiveValuesPage(seen.page);
    await effective.open(tenant.id, `${question}&open=min_instances`);
    const service = `/tenants/${tenant.id}/services/checkout`;
    await effective.clear('min_instances', 'Service instance');
    const review = new ReviewDialog(seen.page);
    await review.changes();
    await tenant.admin.patch(service, { min_instances: 3 });
    await review.send('Clear the override');
    await review.dialog.getByRole('alert').getByText('precondition_failed').waitFor();
    expect((await tenant.admin.get(service)).body.min_instances).toBe(3);
    await seen.close();
  });
});

describe('documents', () => {
  test('nothing is written before the review, which shows what will change; the reason is in the history', async () => {
    const seen = await tabOf('tenant_admin');
    const document = new DocumentPage(seen.page);
    const writes: string[] = [];
    seen.page.on('request', (request) => {
      if (!['GET', 'POST'].includes(request.method()))
        writes.push(`${request.method()} ${new URL(request.url()).search}`);
    });
    await document.open(tenant.id, 'risk');
    await document.field('/global_settings/approval_timeout_minutes').fill('forty');
    await eventually(async () =>
      expect(await document.state()).toBe('A field has no valid value.'),
    );
    await document.field('/global_settings/approval_timeout_minutes').fill('40');
    await eventually(async () => expect(await document.state()).toBe('1 change, not published.'));
    await document.review();
    const review = new ReviewDialog(seen.page);
    expect(await review.changes()).toEqual([
      ['/global_settings/approval_timeout_minutes', '30', '40'],
    ]);
    expect(new Set(writes)).toEqual(new Set(['PATCH ?dry_run=true']));
    await review.publish('Publish', 'More time at night');
    await document
      .notice()
      .getByText(/Published as revision/)
      .waitFor();
    const { body } = await tenant.admin.get(`/tenants/${tenant.id}/config/history?limit=1`);
    expect(body.items[0]).toMatchObject({
      reason: 'More time at night',
      changes: [{ path: '/global_settings/approval_timeout_minutes', before: 30, after: 40 }],
    });
    expect(seen.faults).toEqual([]);
    await seen.close();
  });

  soakTest('what a folder owns says so at the field, and is taken over in the review', async () => {
    const { admin, id } = tenant;
    const path = `/tenants/${id}/config/agents/owned`;
    const by = { 'x-managed-by': 'git/acme' };
    await admin.send('PUT', path, { body: { default_region: 'here' }, headers: by });
    const seen = await tabOf('tenant_admin');
    const document = new DocumentPage(seen.page);
    await document.open(id, 'agents/owned');
    await seen.page.getByText('A field is managed by git/acme.').waitFor();
    const hintOf = (place: string) =>
      document.field(place).evaluate((field) => {
        const hint = field.getAttribute('aria-describedby')!;
        return field.ownerDocument.getElementById(hint)!.textContent;
      });
    expect(await hintOf('/default_region')).toMatch(/managed by git\/acme$/);
    expect(await hintOf('/default_zone')).not.toMatch(/managed by/);
    await standAt(seen.page, 'managed-field');
    await document.field('/default_region').fill('by hand');
    await document.review();
    const dialog = seen.page.getByRole('dialog');
    await dialog.getByText('This is managed by git/acme.').waitFor();
    await standAt(seen.page, 'take-over');
    expect(await dialog.getByRole('button', { name: 'Publish' }).isDisabled()).toBe(true);
    await dialog.getByRole('button', { name: 'Take it over' }).click();
    const review = new ReviewDialog(seen.page);
    await dialog.getByText('What is changed here is taken over from git/acme.').waitFor();
    expect(await review.changes()).toEqual([['/default_region', '"here"', '"by hand"']]);
    await review.publish('Publish', 'The region is down');
    await document
      .notice()
      .getByText(/Published as revision/)
      .waitFor();
    const again = await admin.send('PUT', path, { body: { default_region: 'here' }, headers: by });
    expect(again.body.detail.code).toBe('field_managed');
    expect(seen.faults.filter((text) => !text.includes('409'))).toEqual([]);
    await seen.close();
  });

  test('of two who edit one document the second is told who and when, keeps the edits, and overwrites nothing', async () => {
    const { admin, id } = tenant;
    const path = `/tenants/${id}/config/agents/raced`;
    await admin.put(path, { default_region: 'here', default_cpu: '1' });
    const seen = await tabOf('tenant_admin');
    await withoutStream(seen);
    const document = new DocumentPage(seen.page);
    await document.open(id, 'agents/raced');
    await document.field('/default_region').fill('mine');
    await admin.patch(path, { default_cpu: '2', default_region: 'theirs', default_zone: 'a' });
    await document.review();
    const received = seen.page.locator('.editor .banner');
    await received.waitFor();
    // What it says at first may come from a look that the page takes by itself, before the review
    // is answered.
    await eventually(async () =>
      expect(await received.innerText()).toMatch(
        /admin@acme\.example changed this[^]*Both of you changed \/default_region/,
      ),
    );
    expect((await admin.get(path)).body.default_region).toBe('theirs');
    await document.review();
    const review = new ReviewDialog(seen.page);
    expect(await review.changes()).toEqual([['/default_region', '"theirs"', '"mine"']]);
    await review.publish('Publish');
    await document
      .notice()
      .getByText(/Published as revision/)
      .waitFor();
    expect((await admin.get(path)).body).toEqual({
      agent_type: 'raced',
      default_region: 'mine',
      default_cpu: '2',
      default_zone: 'a',
    });
    await seen.close();
  });

  test('what Strata refuses is said at its place, and the edit survives', async () => {
    const seen = await tabOf('tenant_admin');
    const document = new DocumentPage(seen.page);
    await document.open(tenant.id, 'risk');
    await document.field('/global_settings/max_resource_scaling').fill('0.5');
    await document.review();
    const { dialog } = new ReviewDialog(seen.page);
    const problem = await dialog.getByRole('alert').innerText();
    expect(problem).toMatch(
      /\/global_settings\/max_resource_scaling[^]*validation_failed · request/,
    );
    expect(await dialog.getByRole('button', { name: 'Publish', exact: true }).isDisabled()).toBe(
      true,
    );
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    expect(await document.field('/global_settings/max_resource_scaling').inputValue()).toBe('0.5');
    await seen.close();
  });

  test('a secret that changes shows that it does, and never what it was or is', async () => {
    const { admin, id } = tenant;
    const webhook = { url: 'https://hooks.acme.example/strata', secret: 'the first of them' };
    await admin.put(`/tenants/${id}/config/notifications`, { webhook });
    const seen = await tabOf('tenant_admin');
    const { page } = seen;
    const document = new DocumentPage(page);
    const review = new ReviewDialog(page);
    const edit = async (changes: object): Promise<void> => {
      await document.open(id, 'notifications', '?as=json');
      const text = page.locator('textarea');
      const shown = JSON.parse(await text.inputValue()) as { webhook: object };
      await text.fill(JSON.stringify({ ...shown, webhook: { ...shown.webhook, ...changes } }));
      await document.review();
    };
    await edit({ secret: 'the second of them', timeout_seconds: 7 });
    const mask = '"********"';
    expect((await review.changes()).toSorted()).toEqual([
      ['/webhook/secret', mask, mask],
      ['/webhook/timeout_seconds', expect.any(String), '7'],
    ]);
    expect(await review.dialog.innerText()).not.toContain('of them');
    await review.publish('Publish', 'Rotated');
    await document
      .notice()
      .getByText(/Published as revision/)
      .waitFor();
    expect(await page.content()).not.toContain('of them');
    await edit({ timeout_seconds: 8 });
    expect(await review.changes()).toEqual([['/webhook/timeout_seconds', '7', '8']]);
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'Discard edits' }).click();
    await page.goto(`/console/tenants/${id}/history?config_type=notification_config`);
    await page.locator('table.history').waitFor();
    await page.locator('button.key').first().click();
    await page.getByRole('group', { name: 'Changes' }).getByText('/webhook/secret').waitFor();
    expect(await page.content()).not.toContain('of them');
    expect(seen.faults).toEqual([]);
    await seen.close();
  });

  test('a document is made, edited as JSON, and deleted', async () => {
    const seen = await tabOf('tenant_admin');
    const { page } = seen;
    page.on('dialog', (asked) => void asked.accept());
    const document = new DocumentPage(page);
    await document.openList(tenant.id);
    await page.getByRole('button', { name: 'New…' }).last().press('Enter');
    await page.keyboard.type('shop');
    await page.keyboard.press('Enter');
    await page.waitForURL('**/documents/projects/shop');
    await page.getByRole('button', { name: 'JSON' }).press('Enter');
    await page.locator('textarea').fill('{"name": "Shop", "labels": {"team": "a"}}');
    await document.review();
    const review = new ReviewDialog(page);
    await review.changes();
    await review.publish('Publish');
    await document
      .notice()
      .getByText(/Published as revision/)
      .waitFor();
    const path = `/tenants/${tenant.id}/projects/shop/config`;
    expect((await tenant.admin.get(path)).body).toEqual({
      project_id: 'shop',
      name: 'Shop',
      labels: { team: 'a' },
    });
    await page.getByRole('button', { name: 'Delete…' }).click();
    await review.changes();
    await review.publish('Delete');
    await page.getByRole('heading', { name: 'Projects' }).waitFor();
    expect((await tenant.admin.get(path)).status).toBe(404);
    await seen.close();
  });
});

describe('approvals', () => {
  test('one is approved on a phone from its link, and the timeline says by whom and why', async () => {
    const wish = { action: 'restart', risk_level: 'low', title: 'Restart the worker' };
    const asked = await tenant.operator.post(`/tenants/${tenant.id}/approvals`, wish);
    const seen = await stage.visit({ width: 320, height: 640 });
    await seen.page.goto(`/console/tenants/${tenant.id}/approvals/${asked.body.id}`);
    await new SignInPage(seen.page).signIn(tenant.emails.tenant_admin!, memberPassword);
    const approvals = new ApprovalsPage(seen.page);
    await seen.page.getByRole('heading', { name: 'Restart the worker' }).waitFor();
    await approvals.decide('Approve', 'Fine by me');
    await eventually(async () =>
      expect(await approvals.timeline()).toMatch(/Approved by admin@acme\.example[^]*Fine by me/),
    );
    // Also to whoever has it read to them.
    await seen.page.getByRole('status').getByText('approved', { exact: true }).waitFor();
    const { body } = await tenant.admin.get(`/tenants/${tenant.id}/approvals/${asked.body.id}`);
    expect(body).toMatchObject({
      state: 'approved',
      decision: { comment: 'Fine by me', via: 'api' },
    });
    expect(seen.faults).toEqual([]);
    await seen.close();
  });

  test('whoever asked is shown that somebody else decides', async () => {
    const wish = { action: 'restart', risk_level: 'low', title: 'Restart my own worker' };
    await tenant.operator.post(`/tenants/${tenant.id}/approvals`, wish);
    const seen = await tabOf('operator');
    const approvals = new ApprovalsPage(seen.page);
    await approvals.openInbox(tenant.id);
    await approvals.openOne('Restart my own worker');
    await seen.page.getByText('somebody else decides it').waitFor();
    expect(await seen.page.getByRole('button', { name: 'Approve' }).count()).toBe(0);
    await seen.close();
  });

  test('one that stays open says how long ago and how soon, and nobody is read that', async () => {
    const wish = { action: 'restart', risk_level: 'low', title: 'Restart it some time' };
    const asked = await tenant.operator.post(`/tenants/${tenant.id}/approvals`, wish);
    const seen = await tabOf('operator');
    // Nothing but the time has it drawn again.
    await seen.page.route('**/watch', (route) => route.abort());
    await seen.page.clock.install();
    await seen.page.goto(`/console/tenants/${tenant.id}/approvals/${asked.body.id}`);
    const begun = seen.page.locator('.timeline time').first();
    await begun.getByText(/^(now|\d seconds? ago)$/).waitFor();
    await seen.page.clock.fastForward('00:40');
    await begun.getByText(/^4\d seconds ago$/).waitFor();
    expect(await begun.getAttribute('aria-live')).toBe('off');
    await seen.close();
  });
});

describe('live', () => {
  test('a write elsewhere shows within a second, in every tab, and never replaces a form in use', async () => {
    const { admin, id } = tenant;
    const path = `/tenants/${id}/config/agents/live`;
    await admin.put(path, { default_region: 'before' });
    const seen = await signedIn('tenant_admin');
    const effective = new EffectiveValuesPage(seen.page);
    const streams: string[] = [];
    for (const { page } of [seen])
      page.context().on('request', (request) => {
        if (request.url().endsWith('/config/watch')) streams.push(request.url());
      });
    await effective.open(id, '?agent_type=live');
    const second = await visit(stage.browser, stage.origin, {}, seen.context);
    const document = new DocumentPage(second.page);
    await document.open(id, 'agents/live');
    await document.field('/default_cpu').fill('2');
    await admin.patch(path, { default_region: 'after' });
    const began = performance.now();
    await Promise.all([
      seen.page.getByText('"after"').first().waitFor(),
      second.page.getByText('Your edits stay as they are').waitFor(),
    ]);
    expect(performance.now() - began).toBeLessThan(soonMs);
    expect(await document.field('/default_cpu').inputValue()).toBe('2');
    expect(await document.field('/default_region').inputValue()).toBe('before');
    await second.page.getByRole('button', { name: 'Lay them over it now' }).click();
    await second.page.getByText('laid over that, and nothing was overwritten').waitFor();
    expect(await document.field('/default_region').inputValue()).toBe('after');
    expect(await document.field('/default_cpu').inputValue()).toBe('2');
    expect(streams).toHaveLength(1);
    expect([...seen.faults, ...second.faults]).toEqual([]);
    await seen.close();
  });

  test('edits that are laid over what is there now lose nothing that is typed meanwhile', async () => {
    const { admin, id } = tenant;
    const path = `/tenants/${id}/config/agents/laid`;
    await admin.put(path, { default_region: 'before' });
    const seen = await tabOf('tenant_admin');
    const { page } = seen;
    const document = new DocumentPage(page);
    await document.open(id, 'agents/laid');
    await document.field('/default_cpu').fill('2');
    await admin.patch(path, { default_zone: 'theirs' });
    const layOver = page.getByRole('button', { name: 'Lay them over it now' });
    await layOver.waitFor();
    // A text that is no value is nowhere but in its field, which is drawn again.
    await document.field('/metrics_duration_minutes').fill('many');
    expect(await layOver.isDisabled()).toBe(true);
    await document.field('/metrics_duration_minutes').fill('5');
    const free = await held(page, `**${path}`);
    await layOver.click();
    await document.field('/default_region').fill('mine');
    free();
    await page.getByText('laid over that, and nothing was overwritten').waitFor();
    const shown = ['default_cpu', 'default_region', 'default_zone', 'metrics_duration_minutes'].map(
      (name) => document.field(`/${name}`).inputValue(),
    );
    expect(await Promise.all(shown)).toEqual(['2', 'mine', 'theirs', '5']);
    await seen.close();
  });

  test('who reads values alone sees them change as well, and that all is stopped', async () => {
    const { admin, id } = tenant;
    const seen = await tabOf('viewer');
    const effective = new EffectiveValuesPage(seen.page);
    await effective.open(id, '?service_id=checkout');
    const documents = [`/tenants/${id}/services/checkout`, `/tenants/${id}/config/bounds`] as const;
    await admin.patch(documents[0], { max_instances: 87 });
    await seen.page.getByText('87', { exact: true }).waitFor({ timeout: soonMs });
    await admin.patch(documents[1], { automation_enabled: { const: false } });
    await seen.page.getByText('Emergency stop.').waitFor({ timeout: soonMs });
    await admin.patch(documents[1], { automation_enabled: null });
    await admin.patch(documents[0], { max_instances: 8 });
    expect(seen.faults).toEqual([]);
    await seen.close();
  });

  soakTest('a change between a page and the beginning of its stream shows', async () => {
    const { admin, id } = tenant;
    const path = `/tenants/${id}/config/agents/early`;
    await admin.put(path, { default_region: 'before' });
    const seen = await tabOf('tenant_admin');
    const begin = await held(seen.page, '**/config/watch');
    await new EffectiveValuesPage(seen.page).open(id, '?agent_type=early');
    await seen.page.getByText('"before"').first().waitFor();
    await admin.patch(path, { default_region: 'after' });
    begin();
    await seen.page.getByText('"after"').first().waitFor();
    expect(seen.faults).toEqual([]);
    await seen.close();
  });

  test('a role that is given between a page and the beginning of its stream counts', async () => {
    const { admin, id } = tenant;
    const email = 'early@acme.example';
    const { user_id: user } = await addMember(admin, id, { email, roles: ['viewer'] });
    const seen = await stage.visit();
    const begin = await held(seen.page, '**/auth/watch');
    const door = new SignInPage(seen.page);
    await door.open();
    await door.signIn(email, memberPassword);
    await new EffectiveValuesPage(seen.page).loaded();
    await admin.patch(`/tenants/${id}/users/${user}`, { roles: ['operator'] });
    begin();
    // Sooner than a page looks by itself whether everything is as it knows.
    await seen.page
      .getByRole('link', { name: 'Configuration', exact: true })
      .waitFor({ timeout: soonMs });
    expect(seen.faults).toEqual([]);
    await seen.close();
  });

  soakTest(
    'who opens the page while no one can be asked who is signed in is let in once that is over',
    async () => {
      const seen = await tabOf('viewer');
      const { page } = seen;
      let isOut = true;
      let refused = 0;
      await page.route('**/refresh', async (route) => {
        if (!isOut) return route.continue();
        refused += 1;
        return route.fulfill({
          status: 503,
          headers: { 'x-request-id': 'outage' },
          json: {
            detail: { code: 'service_unavailable', message: 'Sessions cannot be read now.' },
          },
        });
      });
      await page.goto('/console');
      await page.getByText('Sessions cannot be read now.').waitFor();
      // It asks again by itself.
      await eventually(async () => expect(refused).toBeGreaterThan(1));
      isOut = false;
      await arrived(page);
      await seen.close();
    },
  );

  soakTest('an answer that is on its way is waited for, whatever changes meanwhile', async () => {
    const { admin, id } = tenant;
    const path = `/tenants/${id}/config/agents/busy`;
    await admin.put(path, { default_region: 'before' });
    const seen = await tabOf('tenant_admin');
    await new EffectiveValuesPage(seen.page).open(id, '?agent_type=busy');
    const second = await visit(stage.browser, stage.origin, {}, seen.context);
    const release = await held(second.page, '**/config/effective?*');
    const failed: string[] = [];
    second.page.on('requestfailed', (request) => failed.push(request.url()));
    const asked = second.page.waitForRequest('**/config/effective?*');
    await second.page.goto(`/console/tenants/${id}/effective?agent_type=busy`);
    await asked;
    await admin.patch(path, { default_region: 'after' });
    await seen.page.getByText('"after"').first().waitFor();
    release();
    await second.page.getByText('"after"').first().waitFor();
    expect(failed).toEqual([]);
    expect([...seen.faults, ...second.faults]).toEqual([]);
    await Promise.all([seen.close(), second.close()]);
  });

  soakTest('what a gateway never answers is asked again once all answers, and ends', async () => {
    const seen = await tabOf('viewer');
    const { page } = seen;
    const asks = '**/config/effective?agent_type=cost_optimizer*';
    const never = (): void => undefined;
    await new EffectiveValuesPage(page).open(tenant.id);
    await page.route(asks, never, { times: 1 });
    const release = await held(page, /\/(auth\/me|healthz)$/);
    await page.getByRole('combobox', { name: 'Agent type' }).fill('cost_optimizer');
    await page.keyboard.press('Enter');
    await page.getByText('Offline.').waitFor();
    release();
    await page.getByRole('rowheader', { name: 'automation_enabled' }).waitFor();
    // The time limit of a request, but not of what the page asks to find out whether all answers.
    await page.addInitScript(`const { timeout } = AbortSignal;
      AbortSignal.timeout = (ms) => timeout.call(AbortSignal, ms > 60_000 ? 1000 : ms);`);
    await page.route(asks, never);
    await page.reload();
    await page.getByText('Strata did not answer in time.').waitFor();
    await page.unroute(asks);
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByRole('rowheader', { name: 'automation_enabled' }).waitFor();
    await seen.close();
  });

  test('a long list that changes is not short while it is read again', async () => {
    const { admin, id } = tenant;
    const seen = await tabOf('tenant_admin');
    const { page } = seen;
    const named = (from: number) =>
      Array.from({ length: 200 }, (_each, index) => ({
        service_id: `service-${from + index}`,
        service_type: 'cloud_run',
      }));
    const second = Promise.withResolvers<void>();
    let isHeld = false;
    let held = 0;
    await page.route(`**/tenants/${id}/services?limit=*`, async (route) => {
      const isFirst = !route.request().url().includes('cursor');
      if (isHeld && !isFirst) {
        held += 1;
        await second.promise;
      }
      await route.fulfill({
        json: { items: named(isFirst ? 0 : 200), next_cursor: isFirst ? 'more' : null },
      });
    });
    await page.goto(`/console/tenants/${id}/services?q=service`);
    const count = page.getByRole('status').filter({ hasText: /^\d+/ });
    await eventually(async () => expect(await count.innerText()).toBe('400'));
    isHeld = true;
    await admin.put(`/tenants/${id}/services/one-more`, { service_type: 'cloud_run' });
    await eventually(async () => expect(held).toBeGreaterThan(0));
    expect(await count.innerText()).toBe('400');
    second.resolve();
    await seen.close();
  });

  test('an address with a moment that is none shows what is wrong with it', async () => {
    const seen = await tabOf('viewer');
    await seen.page.goto(`/console/tenants/${tenant.id}/effective?as_of=tomorrow`);
    await seen.page.getByText('As it was tomorrow').waitFor();
    await seen.page.getByRole('alert').getByText('validation_failed').waitFor();
    await seen.close();
  });

  soakTest('of several changes that come at once none is missed', async () => {
    const { admin, id } = tenant;
    const path = `/tenants/${id}/config/agents/both`;
    await admin.put(path, { default_region: 'before' });
    const seen = await tabOf('tenant_admin');
    const { promise: written, resolve: write } = Promise.withResolvers<void>();
    let times = 0;
    await seen.page.route('**/config/watch', async (route) => {
      times += 1;
      await written;
      // What a gateway sends where both came while it was asked, and then no stream more.
      const received = ['both', 'other'].map((name, index) => {
        const change = { revision: index + 1, config_type: 'agent_config', resource_id: name };
        return `id: ${index + 1}\nevent: config.changed\ndata: ${JSON.stringify(change)}\n\n`;
      });
      if (times > 1) await route.abort();
      else await route.fulfill({ contentType: 'text/event-stream', body: received.join('') });
    });
    const document = new DocumentPage(seen.page);
    await document.open(id, 'agents/both');
    expect(await document.field('/default_region').inputValue()).toBe('before');
    await admin.patch(path, { default_region: 'after' });
    write();
    await eventually(async () =>
      expect(await document.field('/default_region').inputValue()).toBe('after'),
    );
    await seen.close();
  });

  soakTest('a change while a document is on its way to its form is in the form', async () => {
    const { admin, id } = tenant;
    const path = `/tenants/${id}/config/agents/slow`;
    await admin.put(path, { default_region: 'before' });
    const seen = await tabOf('tenant_admin');
    const other = new EffectiveValuesPage(seen.page);
    await other.open(id, '?agent_type=slow');
    const second = await visit(stage.browser, stage.origin, {}, seen.context);
    const release = await held(second.page, '**/openapi.json');
    const read = second.page.waitForResponse((response) => response.url().endsWith(path));
    await second.page.goto(`/console/tenants/${id}/documents/agents/slow`);
    await read;
    await admin.patch(path, { default_region: 'after' });
    await seen.page.getByText('"after"').first().waitFor();
    release();
    const document = new DocumentPage(second.page);
    await eventually(async () =>
      expect(await document.field('/default_region').inputValue()).toBe('after'),
    );
    expect([...seen.faults, ...second.faults]).toEqual([]);
    await Promise.all([seen.close(), second.close()]);
  });

  soakTest('what somebody types while a newer document is on its way stays', async () => {
    const { admin, id } = tenant;
    const path = `/tenants/${id}/config/agents/typed`;
    await admin.put(path, { default_region: 'before' });
    const seen = await tabOf('tenant_admin');
    const { page } = seen;
    const document = new DocumentPage(page);
    await document.open(id, 'agents/typed');
    const release = await held(page, `**${path}`);
    const asked = page.waitForRequest((request) => request.url().endsWith(path));
    await admin.patch(path, { default_region: 'after' });
    await asked;
    await document.field('/default_cpu').fill('2');
    release();
    await page.getByText('Your edits stay as they are').waitFor();
    expect(await document.field('/default_cpu').inputValue()).toBe('2');
    expect(seen.faults).toEqual([]);
    await seen.close();
  });

  test('where a session is revoked the page asks to sign in within a second, and the edits survive', async () => {
    const seen = await signedIn('operator');
    const { page } = seen;
    const document = new DocumentPage(page);
    await document.open(tenant.id, 'services/checkout');
    await document.field('/max_instances').fill('7');
    const other = await signIn(stage.strata.url, tenant.emails.operator!, memberPassword);
    await other.post('/auth/logout', { all: true });
    const began = performance.now();
    const asked = page.getByRole('dialog', { name: 'Sign in again' });
    await asked.waitFor();
    expect(performance.now() - began).toBeLessThan(soonMs);
    await new SignInPage(page).signIn(tenant.emails.operator!, memberPassword);
    await asked.waitFor({ state: 'detached' });
    expect(await document.field('/max_instances').inputValue()).toBe('7');
    await document.review();
    expect(await new ReviewDialog(page).changes()).toEqual([['/max_instances', '8', '7']]);
    await seen.close();
  });
});

describe('history', () => {
  test('says who changed what on which day in sentences, and one value is reverted by itself', async () => {
    const { admin, id, emails } = tenant;
    // The test before has ended the sessions of the other one.
    const operator = await signIn(stage.strata.url, emails.operator!, memberPassword);
    const path = `/tenants/${id}/services/sentences`;
    await admin.put(path, { service_type: 'cloud_run', min_instances: 2, max_instances: 9 });
    await operator.patch(path, { min_instances: 1, max_instances: 5 });
    const seen = await tabOf('tenant_admin');
    const history = new HistoryPage(seen.page);
    await history.open(id, '?resource_id=sentences');
    await seen.page.getByLabel('By', { exact: true }).fill(emails.operator!);
    await seen.page.getByLabel('By', { exact: true }).press('Enter');
    await seen.page.getByRole('button', { name: 'Today' }).click();
    await eventually(async () =>
      expect(await history.rows()).toEqual([
        expect.stringMatching(
          /lowered min_instances from 2 to 1[^]*lowered max_instances from 9 to 5[^]*operator@/,
        ),
      ]),
    );
    await standAgainAt(seen.page, 'history-filtered');
    await seen.page.getByRole('button', { name: 'Yesterday' }).click();
    await seen.page.getByText('Nothing has been changed that fits.').waitFor();
    await seen.page.getByRole('button', { name: 'Any day' }).click();
    await seen.page.getByText('lowered max_instances').waitFor();
    const [row] = await history.rows();
    const revision = row!.trim().split(/\s/)[0]!;
    await seen.page.getByRole('button', { name: revision, exact: true }).click();
    await seen.page.getByRole('button', { name: 'Revert max_instances…' }).click();
    const review = new ReviewDialog(seen.page);
    expect(await review.changes()).toEqual([['/max_instances', '5', '9']]);
    await review.publish('Revert it', 'Only that one');
    expect((await admin.get(path)).body).toMatchObject({ min_instances: 1, max_instances: 9 });
    const saved = seen.page.waitForEvent('download');
    await seen.page.getByRole('button', { name: 'Save this page as CSV' }).click();
    expect((await saved).suggestedFilename()).toMatch(/^history-.*\.csv$/);
    // Half an hour into the day after one of 23 hours.
    await seen.page.evaluate(`{
      const now = Date.parse('2027-03-28T22:30:00Z');
      globalThis.Date = class extends Date {
        constructor(...given) {
          super(...(given.length === 0 ? [now] : given));
        }
        static now = () => now;
      };
    }`);
    await seen.page.getByRole('button', { name: 'Yesterday' }).click();
    expect(seen.page.url()).toContain('since=2027-03-28&until=2027-03-28');
    expect(seen.faults).toEqual([]);
    await seen.close();
  });

  test('who only takes changes back is led to nothing that their role does not show', async () => {
    const { admin, id } = tenant;
    const email = 'reverter@acme.example';
    await addMember(admin, id, { email, roles: ['reverter'] });
    const { body } = await admin.get(`/tenants/${id}/config/history?limit=1`);
    const seen = await stage.signedIn(email);
    await seen.goInside(`/tenants/${id}/history?open=${body.items[0].revision}`);
    await seen.page.getByRole('button', { name: 'Undo this change…' }).waitFor();
    expect(await seen.page.locator('main a').allInnerTexts()).toEqual([]);
    await seen.close();
  });

  test('a change is undone: the review shows what comes back, and then it is back', async () => {
    const { admin, id } = tenant;
    const path = `/tenants/${id}/config/agents/undone`;
    await admin.put(path, { default_region: 'first' });
    await admin.put(path, { default_region: 'second' });
    const seen = await tabOf('tenant_admin');
    const history = new HistoryPage(seen.page);
    await history.open(id, '?config_type=agent_config&resource_id=undone');
    const [newest, oldest] = await history.rows();
    expect([newest, oldest]).toEqual([
      expect.stringMatching(/update[^]*Agent configuration undone[^]*admin@acme/),
      expect.stringMatching(/create/),
    ]);
    const revision = Number(newest!.trim().split(/\s/)[0]);
    await history.takeBack(revision, 'Undo this change…');
    const review = new ReviewDialog(seen.page);
    expect(await review.changes()).toEqual([['/default_region', '"second"', '"first"']]);
    await review.publish('Undo it', 'Too early');
    await seen.page.getByText('rollback').waitFor();
    expect((await admin.get(path)).body.default_region).toBe('first');

    // What made the limits, which are always there, is offered to be restored alone.
    await history.open(id, '?config_type=tenant_risk_config&open=1');
    const offered = seen.page.locator('.opened').getByRole('button', { name: /^(Undo|Restore)/ });
    await offered.last().waitFor();
    expect(await offered.allInnerTexts()).toEqual(['Restore what it was after this…']);
    expect(seen.faults).toEqual([]);
    await seen.close();
  });
});

describe('the session', () => {
  test('no token is in storage, address or document, and a reload continues', async () => {
    const seen = await tabOf('tenant_admin');
    const { page, context } = seen;
    await page.goto('/console');
    await arrived(page);
    const kept = await page.evaluate<string>(`JSON.stringify([
      { ...localStorage }, { ...sessionStorage }, location.href, document.cookie, document.documentElement.outerHTML, history.state,
    ])`);
    expect(kept).not.toMatch(/eyJ[\w-]+\.|[\w-]{43}/);
    const [cookie] = await context.cookies();
    expect(cookie).toMatchObject({ httpOnly: true, secure: true, sameSite: 'Strict', path: '/' });
    expect(kept).not.toContain(cookie!.value);
    await page.reload();
    await arrived(page);
    expect(seen.faults).toEqual([]);
    await seen.close();
  });

  soakTest(
    'two tabs that load at once stay signed in, and signing out in one ends the other',
    async () => {
      const seen = await signedIn('operator');
      const second = await visit(stage.browser, stage.origin, {}, seen.context);
      await Promise.all([
        seen.page.reload(),
        second.page.goto(`/console/tenants/${tenant.id}/effective`),
      ]);
      for (const { page } of [seen, second]) await arrived(page);
      expect([...seen.faults, ...second.faults]).toEqual([]);
      await seen.page.getByRole('button', { name: 'Sign out' }).click();
      await new SignInPage(seen.page).submit.waitFor();
      await second.page.getByRole('dialog', { name: 'Sign in again' }).waitFor();
      expect(await seen.context.cookies()).toEqual([]);
      await seen.close();
    },
  );

  test('a page of another port of this host cannot use the cookie', async () => {
    const seen = await signedIn('operator');
    const elsewhere = createServer((_request, response) => {
      response
        .writeHead(200, { 'content-type': 'text/html' })
        .end('<!doctype html><title>x</title>');
    });
    await once(elsewhere.listen(0, '127.0.0.1'), 'listening');
    const { port } = elsewhere.address() as AddressInfo;
    const page = await seen.context.newPage();
    const statuses: number[] = [];
    page.on('response', (response) => {
      if (response.url().endsWith('/refresh')) statuses.push(response.status());
    });
    await page.goto(`http://127.0.0.1:${port}/`);
    await page.evaluate(`fetch(${JSON.stringify(`${stage.origin}/console/session/refresh`)}, {
      method: 'POST', mode: 'no-cors', credentials: 'include',
    }).catch(() => {})`);
    expect(statuses).toEqual([403]);
    await seen.page.reload();
    await arrived(seen.page);
    elsewhere.close();
    await seen.close();
  });

  test('a wrong password is refused in place, with the request id', async () => {
    const seen = await stage.visit();
    const door = new SignInPage(seen.page);
    await door.open();
    await door.signIn(tenant.emails.viewer!, 'not-the-password');
    expect(await door.problem()).toMatch(
      /E-mail or password is wrong[^]*auth_invalid_credentials · request/,
    );
    await seen.close();
  });

  test('over plain http with a host name the page says that it needs https', async () => {
    const named = `http://strata.test:${new URL(stage.origin).port}`;
    const seen = await visit(stage.browser, named);
    await seen.page.goto('/console');
    await seen.page.getByRole('heading', { name: 'Strata needs https' }).waitFor();
    await seen.close();
  });

  test('who clicks twice is mailed one link', async () => {
    const seen = await stage.visit();
    const { page } = seen;
    const asked: string[] = [];
    page.on('request', (request) => {
      if (request.url().endsWith('/auth/password/forgot')) asked.push(request.url());
    });
    await new SignInPage(page).open();
    await page.getByRole('button', { name: 'Forgot the password?' }).click();
    await page.getByLabel('E-mail').fill(tenant.emails.viewer!);
    const free = await held(page, '**/auth/password/forgot');
    await page.getByRole('button', { name: 'Mail me a link' }).dblclick();
    free();
    await page.getByText('a mail with a link is on its way').waitFor();
    expect(asked).toHaveLength(1);
    await seen.close();
  });

  test('mailed links lead here: an invitation is accepted, a password set again, and no secret stays in the address', async () => {
    const email = 'grace@acme.example';
    await tenant.admin.post(`/tenants/${tenant.id}/users`, { email, roles: ['viewer'] });
    await invitationToken(email, 1);
    // Strata was told no BASE_URL, and its port only when it listened.
    const linkIn = (text: string): string =>
      /http\S+#token=\S+/.exec(text)![0].replace(/^http:\/\/[^/]+/, stage.origin);
    const [invitation] = await mailsTo(email);
    const seen = await stage.visit();
    const { page } = seen;
    await page.goto(linkIn(invitation!));
    await page.getByRole('heading', { name: 'You are invited' }).waitFor();
    expect(page.url()).toBe(`${stage.origin}/console/accept-invitation`);
    await page.getByLabel('Choose a password').fill(memberPassword);
    await page.getByRole('button', { name: 'Accept and sign in' }).click();
    await arrived(page);
    expect(seen.faults).toEqual([]);
    await seen.close();
  });
});

soakTest(
  'the page of the API shows the description and runs no script of the page itself',
  async () => {
    const { page, faults, close } = await stage.visit();
    await page.goto(`${stage.origin}/docs`);
    for (const shown of ['Layered configuration', '/auth/login'])
      await page.getByText(shown).filter({ visible: true }).first().waitFor();
    // The library tries whether it may compile code, which it may not, and does without.
    const others = faults.filter((fault) => fault !== 'policy: script-src eval');
    expect(others).toEqual([]);
    await page.evaluate(`(() => {
    const script = document.createElement('script');
    script.textContent = 'document.title = "it ran"';
    document.body.append(script);
  })()`);
    expect(await page.title()).not.toBe('it ran');
    expect(faults.join()).toContain('policy: script-src-elem inline');
    await close();
  },
);
