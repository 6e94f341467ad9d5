/**
 * The console's screens about people: who belongs to a tenant, who may decide, who is signed in
 * where, and who did what.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { Page } from 'playwright-core';
import { audited } from '../support/audit.ts';
import { eventually } from '../support/cluster.ts';
import { grown } from '../support/grown.ts';
import { soakDescribe, soakTest } from '../support/soak.ts';
import {
  addMember,
  Client,
  createTenant,
  memberPassword,
  signIn,
  type TenantFixture,
} from '../support/strata.ts';
import { AccountPage, withPasskeys } from './pages/account.ts';
import { AuditPage } from './pages/audit.ts';
import { ApprovalsPage } from './pages/approvals.ts';
import { ChangeSetPage } from './pages/change-sets.ts';
import { DocumentPage } from './pages/documents.ts';
import { EffectiveValuesPage } from './pages/effective-values.ts';
import { FormDialog } from './pages/form-dialog.ts';
import { HistoryPage } from './pages/history.ts';
import { PeoplePage } from './pages/people.ts';
import { ReviewDialog } from './pages/review.ts';
import { SignInPage } from './pages/sign-in.ts';
import { hostile, setStage, type Stage } from './stage.ts';
import { standAgainAt, standAt } from './stand.ts';
import { arrived, picture, soonMs, until, visit, type Visit } from './visit.ts';

let stage: Stage;
let tenant: TenantFixture;

beforeAll(async () => {
  stage = await setStage({ isNamed: true });
  const { platform } = stage;
  tenant = await createTenant(stage.strata.url, platform, 'Acme');
  const { admin, id } = tenant;
  const written = [
    await admin.patch(`/tenants/${id}/config/notifications`, {
      approver_groups: {
        risk_levels: { high: ['oncall', 'leads'], critical: ['board'] },
        action_overrides: { spend: ['leads'] },
      },
    }),
    await admin.post(`/tenants/${id}/service-accounts`, {
      name: hostile,
      description: hostile,
      roles: ['viewer'],
    }),
    await platform.put('/config/global/default_region', {
      config_value: 'europe-west1',
      is_public: true,
    }),
    await admin.put(`/tenants/${id}/config/agents/cost_optimizer`, {
      default_region: 'europe-west4',
    }),
    await admin.post(`/tenants/${id}/users`, { email: 'late@acme.example', roles: ['viewer'] }),
  ];
  for (const { status, text } of written) if (status >= 300) throw new Error(text);
  await addMember(admin, id, {
    email: 'lead.of.a.large.department@acme.example',
    roles: ['operator'],
    groups: ['leads', 'oncall'],
  });
});
afterAll(() => stage?.stop());

type Person = 'tenant_admin' | 'operator' | 'viewer';

/** In a browser of their own. */
const signedIn = (as: Person): Promise<Visit> => stage.signedIn(tenant.emails[as]!);
const tabOf = (as: Person): Promise<Visit> => stage.tabOf(tenant.emails[as]!);

test('every screen has no fault and nothing for axe to find, narrow and wide, light and dark', async () => {
  const { admin, id } = tenant;
  const { body: made } = await admin.post(`/tenants/${id}/service-accounts`, {
    name: 'deploy-pipeline',
    description: 'Writes limits from the repository',
    roles: ['operator'],
  });
  const key = { name: 'Main branch', scopes: ['config:read', 'config:write', 'approvals:write'] };
  await admin.post(`/tenants/${id}/service-accounts/${made.id}/api-keys`, key);
  await admin.post('/auth/api-key', { name: hostile, scopes: ['config:read', 'audit:read'] });
  const seen = await tabOf('tenant_admin');
  const { page, faults } = seen;
  const stand = (name: string): Promise<void> => standAt(page, name);
  const people = new PeoplePage(page);
  await people.open(id, 'members');
  await standAgainAt(page, 'members');
  const invite = await people.begin('Invite…', 'Invite a person');
  await stand('invite');
  await invite.dialog.getByRole('button', { name: 'Cancel' }).click();
  await people.open(id, 'groups');
  await stand('groups');
  await people.open(id, 'access');
  await stand('access-report');
  await people.open(id, 'service-accounts');
  await stand('service-accounts');
  await page.getByRole('link', { name: 'deploy-pipeline' }).click();
  await page.getByText('Main branch').waitFor();
  await stand('service-account');
  const newKey = await people.begin('New key…', 'New API key');
  await newKey.dialog.getByText('Only for some services').click();
  await stand('new-key');
  await newKey.field('Name').fill('Second');
  await newKey.send('Create key');
  await page.getByRole('dialog', { name: 'API key Second' }).waitFor();
  await stand('key-once');
  const account = new AccountPage(page);
  for (const part of ['', 'sessions', 'keys', 'activity'] as const) {
    await account.openPart(part);
    await stand(`account-${part === '' ? 'signing-in' : part}`);
  }
  const audit = new AuditPage(page);
  await audit.open(id);
  await audit.verify();
  await page.getByRole('button', { name: 'tenant.member_invited' }).first().click();
  await stand('audit');
  expect(faults).toEqual([]);
  await seen.close();
});

soakTest(
  'an administrator says what a group of the directory gives, and sees what by the directory is',
  async () => {
    const { admin, id } = tenant;
    const at = `/tenants/${id}/service-accounts`;
    const { body: account } = await admin.post(at, { name: 'entra', roles: ['tenant_admin'] });
    const key = { name: 'scim', scopes: ['scim:provision'] };
    const { body: made } = await admin.post(`${at}/${account.id}/api-keys`, key);
    const directory = new Client(stage.strata.url, made.api_key);
    const scim = `/tenants/${id}/scim/v2`;
    const email = 'lead.of.a.large.department@acme.example';
    const { body: user } = await directory.post(`${scim}/Users`, { userName: email });
    const group = { displayName: 'Payments on call', members: [{ value: user.id }] };
    const { body: provisioned } = await directory.post(`${scim}/Groups`, group);

    const seen = await tabOf('tenant_admin');
    const { page } = seen;
    const people = new PeoplePage(page);
    await people.open(id, 'members');
    const groups = page.getByRole('group', { name: 'Groups of the directory' });
    await groups.getByRole('row').filter({ hasText: 'Payments on call' }).waitFor();
    const gives = await people.begin(
      'Change what Payments on call gives',
      'What Payments on call gives',
    );
    expect(await gives.dialog.getByText('tenant admin').count()).toBe(0);
    await gives.choose('reviewer');
    await gives.field('Another approver group').fill('payments');
    await standAt(page, 'directory-group');
    await gives.done('Save');
    await people.row(email).getByText('operator, reviewer').waitFor();
    await groups.getByText('payments', { exact: true }).waitFor();
    await standAt(page, 'members-of-directory');

    // What somebody else takes away meanwhile does not come back.
    const given = async () => {
      const { body } = await admin.get(`/tenants/${id}/directory-groups`);
      return body.items[0] as { id: string; roles: string[]; groups: string[] };
    };
    const again = await people.begin(
      'Change what Payments on call gives',
      'What Payments on call gives',
    );
    const gift = `/tenants/${id}/directory-groups/${(await given()).id}`;
    await admin.put(gift, { roles: [], groups: ['payments'] });
    await again.field('Another approver group').fill('nights');
    await again.done('Save');
    expect(await given()).toMatchObject({ roles: [], groups: ['payments', 'nights'] });
    await admin.put(gift, { roles: ['reviewer'], groups: ['payments'] });
    await people.open(id, 'members');

    const change = await people.begin(`Change ${email}`, `Change ${email}`);
    const reviewer = change.dialog.getByRole('checkbox', { name: /^reviewer/ });
    expect([await reviewer.isChecked(), await reviewer.isDisabled()]).toEqual([true, true]);
    await change.choose('viewer');
    await change.done('Save');
    await people.row(email).getByText('operator, viewer, reviewer').waitFor();
    expect((await directory.delete(`${scim}/Groups/${provisioned.id}`)).status).toBe(204);
    await admin.patch(`/tenants/${id}/users/${user.id}`, { roles: ['operator'] });
    expect(seen.faults).toEqual([]);
    await seen.close();
  },
);

describe('the access report', () => {
  soakTest(
    'of a moment, two steps from signing in: who was there then, and as a file',
    async () => {
      const { admin, id } = tenant;
      const email = 'gone@acme.example';
      const member = { email, roles: ['operator'], groups: ['leads'] };
      const { user_id: user } = await addMember(admin, id, member);
      await delay(1000);
      const [row] = await stage.database.query<{ at: string }>(
        `SELECT to_char(date_trunc('second', now()) AT TIME ZONE 'Europe/Berlin', 'YYYY-MM-DD"T"HH24:MI:SS') AS at`,
      );
      await delay(1000);
      await admin.delete(`/tenants/${id}/users/${user}`);
      const seen = await signedIn('tenant_admin');
      const { page } = seen;
      await page.getByRole('link', { name: 'Access report' }).click();
      const people = new PeoplePage(page);
      await page.getByRole('group', { name: 'Members' }).waitFor();
      expect(await people.row(email).count()).toBe(0);
      const field = page.getByLabel('As of (your time)');
      await field.fill(row!.at);
      await field.blur();
      await page.getByRole('group', { name: 'Members' }).getByText(email).waitFor();
      const approvers = page.getByRole('group', { name: 'Who could approve' });
      const high = approvers.getByRole('row').filter({ hasText: 'high risk' });
      expect(await high.innerText()).toMatch(/oncall, leads[^]*gone@acme\.example/);
      const saved = page.waitForEvent('download');
      await page.getByRole('button', { name: 'Save as CSV' }).click();
      const file = await (await saved).path();
      expect(readFileSync(file, 'utf8')).toMatch(
        /"member","[^"]*","","gone@acme\.example","operator"/,
      );
      for (const width of [390, 1920]) {
        await page.setViewportSize({ width, height: 800 });
        await picture(page, `access-report-then-${width}`);
      }
      expect(seen.faults).toEqual([]);
      await seen.close();
    },
  );
});

test('a long address pushes nothing out of the window, nor off paper, which is white', async () => {
  const { admin, id, emails } = await createTenant(stage.strata.url, stage.platform, 'Long');
  const email = `${'q'.repeat(60)}@${'d'.repeat(60)}.${'e'.repeat(60)}.example`;
  await admin.post(`/tenants/${id}/users`, { email, roles: ['viewer'] });
  const seen = await stage.signedIn(emails.tenant_admin!);
  const { page } = seen;
  const people = new PeoplePage(page);
  const beyond = `Math.max(...[...document.querySelectorAll('.scrolls')]
    .map(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth))`;
  await people.open(id, 'members');
  expect(await page.evaluate(beyond)).toBe(0);
  await people.open(id, 'access');
  await page.getByRole('button', { name: 'Theme: system' }).click();
  await page.getByRole('button', { name: 'Theme: light' }).click();
  await page.setViewportSize({ width: 718, height: 1000 });
  await page.emulateMedia({ media: 'print' });
  expect(await page.evaluate(beyond)).toBe(0);
  expect(await page.evaluate("getComputedStyle(document.querySelector('h1')).color")).toBe(
    'rgb(27, 32, 39)',
  );
  await seen.close();
});

describe('members', () => {
  test('somebody is invited, given a role and a group, and removed', async () => {
    const { admin, id } = tenant;
    const email = 'new.person@acme.example';
    const seen = await tabOf('tenant_admin');
    const members = new PeoplePage(seen.page);
    await members.open(id, 'members');
    const invite = await members.begin('Invite…', 'Invite a person');
    await invite.field('E-mail').fill(email);
    await invite.choose('operator');
    await invite.choose('viewer', false);
    // Groups that the routing asks are there also while nobody is in them; one that is typed counts
    // without Add; and a reload loses nothing of it.
    await invite.dialog.getByRole('checkbox', { name: 'board' }).waitFor();
    await invite.field('Another approver group').fill('night');
    await seen.page.reload();
    expect(await invite.field('E-mail').inputValue()).toBe(email);
    await invite.done('Invite');
    expect(await seen.page.evaluate('sessionStorage.length')).toBe(0);
    await seen.page.getByRole('status').getByText('is sent a link').waitFor();
    const asListed = async (): Promise<unknown> => {
      const { body } = await admin.get(`/tenants/${id}/users?limit=200`);
      return body.items.find((each: { email: string }) => each.email === email);
    };
    expect(await asListed()).toMatchObject({
      roles: ['operator'],
      groups: ['night'],
      status: 'invited',
    });
    // Where only the id says who it is, the name is known without a reload.
    await seen.goInside(`/tenants/${id}/audit?action=tenant.member_invited`);
    await eventually(async () =>
      expect((await new AuditPage(seen.page).rows())[0]?.[1]).toBe(email),
    );
    await seen.goInside(`/tenants/${id}/members`);
    const change = await members.begin(`Change ${email}`, `Change ${email}`);
    await change.choose('night', false);
    await change.choose('leads');
    await change.choose('viewer');
    await change.done('Save');
    await members.row(email).getByText('leads').waitFor();
    expect(await asListed()).toMatchObject({ roles: ['operator', 'viewer'], groups: ['leads'] });
    const remove = await members.begin(`Remove ${email}`, `Remove ${email}`);
    await remove.done('Remove');
    await members.row(email).waitFor({ state: 'detached' });
    expect(await asListed()).toBeUndefined();
    expect(seen.faults).toEqual([]);
    await seen.close();
  });

  soakTest('are ordered by the column that somebody chooses, and the address says so', async () => {
    const { admin, id } = tenant;
    const seen = await tabOf('tenant_admin');
    const { page } = seen;
    const members = new PeoplePage(page);
    await members.open(id, 'members');
    const { body } = await admin.get(`/tenants/${id}/users?limit=200`);
    const byAge = body.items
      .toSorted((one: { added_at: string }, other: { added_at: string }) =>
        one.added_at < other.added_at ? -1 : 1,
      )
      .map(({ email }: { email: string }) => email);
    const shown = (): Promise<string[]> =>
      page.evaluate(`[...document.querySelectorAll('table.lines > tbody > tr > th')]
        .map((cell) => cell.innerText.match(/\\S+@acme\\.example/)[0])`);
    const since = page.getByRole('columnheader', { name: 'Since' });
    await since.getByRole('button').click();
    await eventually(async () => expect(await shown()).toEqual(byAge));
    expect(await since.getAttribute('aria-sort')).toBe('ascending');
    await since.getByRole('button').click();
    await eventually(async () => expect(await shown()).toEqual(byAge.toReversed()));
    expect(new URL(page.url()).search).toBe('?sort=-since');
    await page.reload();
    await eventually(async () => expect(await shown()).toEqual(byAge.toReversed()));
    await since.getByRole('button').click();
    await eventually(async () => expect(new URL(page.url()).search).toBe(''));
    await seen.close();
  });

  test('of thousands each is found, and the count says whether there are more', async () => {
    const { id } = tenant;
    const seen = await tabOf('tenant_admin');
    const { page } = seen;
    await page.route(`**/tenants/${id}/users?limit=*`, async (route) => {
      const from = Number(new URL(route.request().url()).searchParams.get('cursor') ?? '0');
      const items = Array.from({ length: 200 }, (_each, index) => ({
        user_id: `id-${from + index}`,
        email: `person-${from + index}@acme.example`,
        display_name: null,
        roles: ['operator'],
        groups: from === 2200 && index === 0 ? ['rare'] : [],
        status: 'active',
        account_status: 'active',
        can_act: true,
      }));
      await route.fulfill({ json: { items, next_cursor: from < 2200 ? `${from + 200}` : null } });
    });
    const people = new PeoplePage(page);
    await people.open(id, 'members');
    const count = page.getByRole('status').filter({ hasText: /^\d+/ });
    await eventually(async () => expect(await count.innerText()).toBe('200 and more'));
    await page.getByRole('searchbox', { name: 'Filter' }).fill('person-2399@');
    await eventually(async () => expect(await count.innerText()).toBe('1 of 2400'));
    await people.open(id, 'groups');
    await page.getByRole('row', { name: 'rare' }).getByText('person-2200@acme.example').waitFor();
    await seen.close();
  });

  test('a form that is opened while somebody is sent another link stays', async () => {
    const seen = await tabOf('tenant_admin');
    const { page } = seen;
    const members = new PeoplePage(page);
    await members.open(tenant.id, 'members', '?q=late');
    const { promise: freed, resolve: free } = Promise.withResolvers<void>();
    await page.route('**/users/*/invite', async (route) => {
      await freed;
      await route.continue();
    });
    await page.getByRole('button', { name: 'Send again to late@acme.example' }).click();
    const invite = await members.begin('Invite…', 'Invite a person');
    await invite.field('E-mail').fill('typed@acme.example');
    free();
    await page.getByText('late@acme.example is sent another link').waitFor({ state: 'attached' });
    expect(await invite.field('E-mail').inputValue()).toBe('typed@acme.example');
    await invite.send('Cancel');
    await seen.close();
  });

  test('what Strata refuses is said in the form, and nothing of it is lost', async () => {
    const seen = await tabOf('tenant_admin');
    const members = new PeoplePage(seen.page);
    await members.open(tenant.id, 'members', '?q=admin');
    await eventually(async () =>
      expect(await seen.page.locator('table.lines tbody tr').count()).toBe(1),
    );
    const own = tenant.emails.tenant_admin!;
    const change = await members.begin(`Change ${own}`, `Change ${own}`);
    await change.choose('tenant admin', false);
    await change.choose('viewer');
    await change.send('Save');
    expect(await change.problem()).toMatch(/conflict · request/);
    expect(await change.choice('viewer').isChecked()).toBe(true);
    await seen.close();
  });
});

test('a group that is asked and in which no one may decide is named, and filled', async () => {
  const { admin, id, emails } = tenant;
  const undoes = { email: 'undo@acme.example', roles: ['reverter'], groups: ['board'] };
  await addMember(admin, id, undoes);
  const seen = await tabOf('tenant_admin');
  const groups = new PeoplePage(seen.page);
  await groups.open(id, 'groups');
  const board = groups.row('board');
  await eventually(async () => {
    expect(await board.innerText()).toMatch(/reverter[^]*No one in it may decide[^]*critical risk/);
    expect(await groups.row('leads').innerText()).toMatch(/high risk, spend/);
  });
  const change = await groups.begin('Change board', 'Members of board');
  await change.choose(emails.operator!);
  await change.done('Save');
  await board.getByText(emails.operator!).waitFor();
  await eventually(async () => expect(await board.innerText()).not.toContain('No one in it'));
  expect(seen.faults).toEqual([]);
  await seen.close();
});

describe('API keys', () => {
  test('a service account is made, and given a key that is shown once, works, and is revoked', async () => {
    const { id } = tenant;
    const seen = await tabOf('tenant_admin');
    const { page } = seen;
    const accounts = new PeoplePage(page);
    await accounts.open(id, 'service-accounts');
    const form = await accounts.begin('New account…', 'New service account');
    await form.field('Name').fill('reader');
    await form.done('Create account');
    await page.getByRole('heading', { name: 'reader', exact: true }).waitFor();
    // A role that somebody else takes away meanwhile does not come back with another description.
    const change = await accounts.begin('Change…', 'Change reader');
    const address = `/tenants/${id}/service-accounts/${page.url().split('/').at(-1)}`;
    await tenant.admin.patch(address, { roles: ['operator'] });
    await change.field('What it is for').fill('Reads each night');
    await change.done('Save');
    expect((await tenant.admin.get(`/tenants/${id}/service-accounts`)).body.items).toContainEqual(
      expect.objectContaining({ description: 'Reads each night', roles: ['operator'] }),
    );
    await tenant.admin.patch(address, { roles: ['viewer'] });
    const newKey = await accounts.begin('New key…', 'New API key');
    await newKey.field('Name').fill('Nightly');
    await newKey.choose('audit:read');
    await newKey.dialog.getByText('Only for some services').click();
    await newKey.field('Service instances').fill('checkout, search');
    await newKey.send('Create key');
    const secret = await accounts.takeSecret();
    expect(secret).toMatch(/^strata_/);
    await accounts.row('Nightly').getByText('search').waitFor();
    expect(await page.content()).not.toContain(secret);
    const machine = new Client(stage.strata.url, secret);
    const effective = `/tenants/${id}/config/effective`;
    expect((await machine.get(effective)).status).toBe(403);
    expect((await machine.get(`${effective}?service_id=search`)).status).toBe(200);
    const revoke = await accounts.begin('Revoke Nightly', 'Revoke Nightly');
    const { promise: freed, resolve: free } = Promise.withResolvers<void>();
    await page.route('**/api-keys/*', async (route) => {
      await freed;
      await route.continue();
    });
    await revoke.send('Revoke');
    await page.keyboard.press('Escape');
    const other = await accounts.begin('New key…', 'New API key');
    await other.field('Name').fill('Hourly');
    await other.send('Create key');
    await page.getByRole('dialog', { name: 'API key Hourly' }).waitFor();
    free();
    await page.getByText('Nightly').waitFor({ state: 'detached' });
    // Nothing shows it again.
    expect(await accounts.takeSecret()).toMatch(/^strata_/);
    expect((await machine.get(`/tenants/${id}/config/effective`)).status).toBe(401);
    expect(seen.faults.filter((text) => !text.includes('401'))).toEqual([]);
    await seen.close();
  });
});

soakTest('a rule of trust is written, says what is wrong with it, and is removed', async () => {
  const { id, admin } = tenant;
  const { platform } = stage;
  const issuer = 'https://token.actions.githubusercontent.com';
  await platform.put('/auth/workload-issuers', { issuers: [{ issuer }] });
  const made = await admin.post(`/tenants/${id}/service-accounts`, {
    name: 'releases',
    roles: ['operator', 'viewer'],
  });
  const seen = await tabOf('tenant_admin');
  const { page } = seen;
  const accounts = new PeoplePage(page);
  await page.goto(`/console/tenants/${id}/service-accounts/${made.body.id}`);
  await page.getByText('keeps no key').waitFor();
  const form = await accounts.begin('New rule…', 'New rule of trust');
  await form.field('Issuer').fill(issuer);
  await form.field('Subject').fill('repo:acme/shop:*');
  await form.choose('viewer sees', false);
  await standAt(page, 'trust-form');
  await form.send('Trust it');
  await eventually(async () => expect(await form.problem()).toContain('repository_owner_id'));
  await form.field('Claims').fill('repository_owner_id=1234, repository_visibility=private');
  await form.done('Trust it');
  await accounts.row('repository_owner_id=1234').waitFor();
  await standAt(page, 'trust');
  const trust = `/tenants/${id}/service-accounts/${made.body.id}/trust`;
  expect((await admin.get(trust)).body.rules).toMatchObject([
    {
      issuer,
      subject: 'repo:acme/shop:*',
      claims: { repository_owner_id: '1234', repository_visibility: 'private' },
      roles: ['operator'],
      scopes: ['config:read'],
      max_ttl: 900,
    },
  ]);
  const remove = await accounts.begin('Remove repo:acme/shop:*', 'Remove the rule');
  await remove.done('Remove');
  await page.getByText('keeps no key').waitFor();
  expect((await admin.get(trust)).body.rules).toEqual([]);
  expect(seen.faults.filter((text) => !text.includes('422'))).toEqual([]);
  await seen.close();
});

describe('the own account', () => {
  test('a passkey is added, signs in, and is removed', async () => {
    const seen = await signedIn('operator');
    const { page } = seen;
    await withPasskeys(page);
    // What somebody calls it stays text.
    const name = `<img src=x onerror="alert(1)" id=h>'{{7*7}}`;
    const account = new AccountPage(page);
    await account.openPart();
    const add = await account.begin('Add a passkey…', 'Add a passkey');
    await add.field('What you call it').fill(name);
    await add.done('Add it');
    await account.row(name).getByText('never').waitFor();
    expect(await page.locator('#h').count()).toBe(0);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await new SignInPage(page).submit.waitFor();
    await page.getByRole('button', { name: 'Use a passkey' }).click();
    await arrived(page);
    await account.openPart();
    await account.row(name).waitFor();
    expect(await account.row(name).innerText()).not.toContain('never');
    const remove = await account.begin(`Remove ${name}`, `Remove ${name}`);
    await remove.done('Remove');
    await account.part('Passkeys').getByText('None.').waitFor();
    expect(seen.faults).toEqual([]);
    await seen.close();
  });

  test('what changes how one signs in asks who it is where that was long ago, and then continues', async () => {
    const seen = await signedIn('operator');
    const { page } = seen;
    const account = new AccountPage(page);
    await account.openPart('keys');
    await stage.database.query(
      `UPDATE auth.sessions SET authenticated_at = now() - interval '11 minutes'
       WHERE user_id = (SELECT id FROM auth.users WHERE email = $1)`,
      [tenant.emails.operator],
    );
    // No gateway remembers the sessions as they were.
    await stage.platform.post('/config/reload', { reload_env: true });
    const form = await account.begin('New key…', 'New API key');
    await form.field('Name').fill('Laptop');
    await form.send('Create key');
    const asked = page.getByRole('dialog', { name: 'Sign in once more' });
    // Who signs in is known, and the password is what is left to be typed.
    await asked.waitFor();
    expect(await asked.getByLabel('E-mail').inputValue()).toBe(tenant.emails.operator);
    await page.keyboard.type(memberPassword);
    await page.keyboard.press('Enter');
    expect(await account.takeSecret()).toMatch(/^strata_/);
    await account.row('Laptop').waitFor();
    expect(await page.getByRole('dialog').count()).toBe(0);
    expect(seen.faults.filter((text) => !text.includes('403'))).toEqual([]);
    await seen.close();
  });

  soakTest('another session is ended, and that page asks to sign in', async () => {
    const email = tenant.emails.operator!;
    const lost = await stage.signedIn(email);
    const seen = await stage.signedIn(email);
    const account = new AccountPage(seen.page);
    await account.openPart('sessions');
    const rows = seen.page.locator('table.lines tbody tr');
    await eventually(async () =>
      expect(await rows.first().innerText()).toMatch(/Chrome on Linux[^]*this one/),
    );
    const end = seen.page.getByRole('button', { name: /^End the session of/ }).first();
    await end.click();
    await new FormDialog(seen.page, 'End a session').done('End it');
    await lost.page.getByRole('dialog', { name: 'Sign in again' }).waitFor();
    await Promise.all([seen.close(), lost.close()]);
  });

  test('a password is changed, and the one of before is refused', async () => {
    const email = 'changes@acme.example';
    await addMember(tenant.admin, tenant.id, { email, roles: ['viewer'] });
    const seen = await stage.signedIn(email);
    const account = new AccountPage(seen.page);
    await account.openPart();
    const form = account.part('Password');
    await form.getByLabel('Current password').fill(memberPassword);
    await form.getByLabel('New password').fill('another-good-password-1');
    await form.getByRole('button', { name: 'Change the password' }).click();
    await form.getByText('The password is changed').waitFor();
    const attempt = (password: string) =>
      new Client(stage.strata.url).post('/auth/login', { email, password });
    expect((await attempt(memberPassword)).status).toBe(401);
    expect((await attempt('another-good-password-1')).status).toBe(200);
    expect(seen.faults).toEqual([]);
    await seen.close();
  });

  soakTest(
    'an invitation to a second tenant is accepted, and the tenant can be chosen',
    async () => {
      const other = await createTenant(stage.strata.url, stage.platform, 'Beta');
      const email = tenant.emails.operator!;
      await other.admin.post(`/tenants/${other.id}/users`, { email, roles: ['viewer'] });
      const seen = await signedIn('operator');
      await new AccountPage(seen.page).openPart();
      await seen.page.getByRole('button', { name: 'Accept Beta' }).click();
      const choice = seen.page.getByRole('combobox', { name: 'Tenant' });
      await choice.waitFor();
      await choice.selectOption({ label: 'Beta' });
      await new EffectiveValuesPage(seen.page).loaded();
      expect(seen.page.url()).toContain(other.id);
      expect(seen.faults).toEqual([]);
      await seen.close();
    },
  );
});

describe('audit', () => {
  test('filters are in the address, newest first; the record is proved, and saved as it is listed', async () => {
    const { admin, id, emails } = tenant;
    for (const region of ['here', 'there'])
      await admin.put(`/tenants/${id}/config/agents/audited`, { default_region: region });
    await audited(admin, 'config.agent.updated', ({ target }) => target !== null);
    const seen = await tabOf('tenant_admin');
    const audit = new AuditPage(seen.page);
    await audit.open(id);
    await audit.filter('By', emails.tenant_admin!);
    await seen.page.getByRole('button', { name: 'All of the configuration' }).click();
    await seen.page.getByRole('button', { name: 'config.agent.updated' }).first().waitFor();
    await audit.filter('Action begins with', 'config.agent');
    await audit.filter('Target', 'audited');
    await audit.loaded();
    const other = await tabOf('tenant_admin');
    const link = seen.page.url();
    expect(new URL(link).search).toBe(
      '?actor=admin%40acme.example&action=config.agent&target=audited',
    );
    await other.page.goto(link);
    await new AuditPage(other.page).loaded();
    // Names of people come after the list.
    const rows = await eventually(async () => {
      const shown = await new AuditPage(other.page).rows();
      expect(shown).toEqual([
        ['config.agent.updated', expect.any(String), emails.tenant_admin],
        ['config.agent.created', expect.any(String), emails.tenant_admin],
      ]);
      return shown;
    });
    expect(await audit.verify()).toMatch(/^The record is whole\. All \d+ events hold\./);
    const lines = await audit.export();
    expect(lines).toHaveLength(rows.length);
    expect(JSON.parse(lines[0]!)).toMatchObject({ hash: expect.any(String), tenant_id: id });
    expect([...seen.faults, ...other.faults]).toEqual([]);
    await Promise.all([seen.close(), other.close()]);
  });

  soakTest('an event that somebody changed is named as the first that does not hold', async () => {
    const other = await createTenant(stage.strata.url, stage.platform, 'Tampered');
    await other.admin.put(`/tenants/${other.id}/config/agents/a`, { default_region: 'x' });
    await audited(other.admin, 'config.agent.created', () => true);
    await stage.database.query('ALTER TABLE audit.events DISABLE TRIGGER append_only');
    await stage.database.query(
      `UPDATE audit.events SET target = 'other' WHERE chain = $1 AND seq = 2`,
      [other.id],
    );
    const seen = await stage.signedIn(other.emails.tenant_admin!);
    const audit = new AuditPage(seen.page);
    await audit.open(other.id);
    expect(await audit.verify()).toMatch(/The record is broken at event 2/);
    await seen.close();
  });
});

describe('live', () => {
  soakTest(
    'where a session is revoked whoever only views is asked to sign in within a second, and what was typed survives',
    async () => {
      const seen = await signedIn('viewer');
      const { page } = seen;
      const account = new AccountPage(page);
      await account.openPart();
      await account.part('Password').getByLabel('New password').fill('half-typed');
      const second = await visit(stage.browser, stage.origin, {}, seen.context);
      await second.page.goto('/console');
      await new EffectiveValuesPage(second.page).loaded();
      const elsewhere = await signIn(stage.strata.url, tenant.emails.viewer!, memberPassword);
      await elsewhere.post('/auth/logout', { all: true });
      const began = performance.now();
      const asked = page.getByRole('dialog', { name: 'Sign in again' });
      await Promise.all([
        asked.waitFor(),
        second.page.getByRole('dialog', { name: 'Sign in again' }).waitFor(),
      ]);
      expect(performance.now() - began).toBeLessThan(soonMs);
      await new SignInPage(page).signIn(tenant.emails.viewer!, memberPassword);
      await asked.waitFor({ state: 'detached' });
      expect(await account.part('Password').getByLabel('New password').inputValue()).toBe(
        'half-typed',
      );
      await seen.close();
    },
  );

  test('a role that is given or taken changes what is offered within a second, without a reload', async () => {
    const email = 'promoted@acme.example';
    const { admin, id } = tenant;
    const { user_id: user } = await addMember(admin, id, { email, roles: ['viewer'] });
    const seen = await stage.signedIn(email);
    const documents = seen.page.getByRole('link', { name: 'Configuration', exact: true });
    expect(await documents.count()).toBe(0);
    for (const [role, state] of [
      ['operator', 'visible'],
      ['viewer', 'detached'],
    ] as const) {
      await admin.patch(`/tenants/${id}/users/${user}`, { roles: [role] });
      const began = performance.now();
      await documents.waitFor({ state });
      expect([role, performance.now() - began < soonMs]).toEqual([role, true]);
    }
    // What was on its way when the role was taken is refused.
    expect(seen.faults.filter((fault) => !fault.includes('status of 403'))).toEqual([]);
    await seen.close();
  });

  test('an approval that is asked for or decided elsewhere shows within a second, in list and timeline', async () => {
    const { admin, operator, id } = tenant;
    const wish = { action: 'restart', risk_level: 'low', title: 'Restart the queue' };
    const seen = await tabOf('tenant_admin');
    const { page } = seen;
    const approvals = new ApprovalsPage(page);
    await approvals.openInbox(id);
    const streams: string[] = [];
    seen.context.on('request', (request) => {
      if (request.url().endsWith('/approvals/watch')) streams.push(request.url());
    });
    const asked = await operator.post(`/tenants/${id}/approvals`, wish);
    const shown = page.getByRole('link', { name: wish.title });
    let began = performance.now();
    await shown.waitFor();
    expect(performance.now() - began).toBeLessThan(soonMs);
    const second = await visit(stage.browser, stage.origin, {}, seen.context);
    await second.page.goto(`/console/tenants/${id}/approvals/${asked.body.id}`);
    await second.page.getByRole('button', { name: 'Approve' }).waitFor();
    const path = `/tenants/${id}/approvals/${asked.body.id}/decision`;
    await admin.post(path, { decision: 'approve', comment: 'Seen' });
    began = performance.now();
    await Promise.all([
      shown.waitFor({ state: 'detached' }),
      second.page.getByText('Approved', { exact: false }).first().waitFor(),
      second.page.getByRole('button', { name: 'Approve' }).waitFor({ state: 'detached' }),
    ]);
    expect(performance.now() - began).toBeLessThan(soonMs);
    // One tab has it and tells the other.
    expect(streams).toEqual([]);
    expect([...seen.faults, ...second.faults]).toEqual([]);
    await seen.close();
  });
});

/** What the focus is on, by what it is called. */
const focused = (page: Page): Promise<string> =>
  page.evaluate<string>(`(({ activeElement: at }) =>
    at.getAttribute('aria-label') ?? (at.name || at.innerText.slice(0, 40)))(document)`);

/**
 * Presses Tab until the focus is there. A page takes its heading for where to begin once it has
 * been drawn.
 */
async function tabUntil(page: Page, expression: string): Promise<void> {
  for (let presses = 0; presses < 40; presses += 1) {
    const isThere = await page.evaluate<boolean>(`((at) => ${expression})(document.activeElement)`);
    if (isThere) return;
    await page.keyboard.press('Tab');
  }
  throw new Error(`Tab does not lead to where ${expression}`);
}

describe('the keyboard alone', () => {
  test('the keyboard alone signs in, asks, opens a ladder, and looks at what clearing would do', async () => {
    const seen = await stage.visit();
    const { keyboard } = seen.page;
    await new SignInPage(seen.page).open();
    await keyboard.press('Tab');
    await keyboard.type(tenant.emails.tenant_admin!);
    await keyboard.press('Tab');
    await keyboard.type(memberPassword);
    await keyboard.press('Enter');
    const effective = new EffectiveValuesPage(seen.page);
    await arrived(seen.page);
    // Without loading the page again, as a link does.
    await seen.goInside(`/tenants/${tenant.id}/effective`);
    await effective.loaded();
    // A field for a time has a stop for each of its parts.
    const tabTo = async (field: string): Promise<void> => {
      for (let presses = 0; presses < 25; presses += 1) {
        await keyboard.press('Tab');
        const name = await seen.page.evaluate('document.activeElement.name');
        if (name === field) return;
      }
      throw new Error(`Tab does not lead to ${field}`);
    };
    // From the heading, which has the focus.
    await tabTo('agent_type');
    await keyboard.type('cost_optimizer');
    await keyboard.press('Enter');
    await eventually(async () => {
      if (!seen.page.url().includes('agent_type=cost_optimizer')) throw new Error('not asked yet');
    });
    await tabTo('q');
    await keyboard.type('default_region');
    await effective.key('default_region').waitFor();
    await seen.page.getByText(/^1 of/).waitFor();
    for (const key of ['Tab', 'Tab', 'Enter']) await keyboard.press(key);
    await effective.ladder('default_region').getByRole('link').waitFor();
    // The revision and Edit come first.
    for (const key of ['Tab', 'Tab', 'Tab', 'Enter']) await keyboard.press(key);
    const review = new ReviewDialog(seen.page);
    expect((await review.changes())[0]?.[0]).toBe('/default_region');
    await keyboard.press('Escape');
    await review.dialog.waitFor({ state: 'detached' });
    await eventually(async () => expect(await focused(seen.page)).toBe('Clear…'));
    // Somebody else is faster: what had the focus is no more, and what is around it has it.
    await keyboard.press('Enter');
    await review.changes();
    const { admin, id } = tenant;
    await admin.patch(`/tenants/${id}/config/agents/cost_optimizer`, { default_region: null });
    const gone = seen.page.locator('.rung', { hasText: 'Agent configuration' });
    await gone.filter({ hasText: 'not set' }).waitFor();
    await keyboard.press('Escape');
    await review.dialog.waitFor({ state: 'detached' });
    await eventually(async () => expect(await focused(seen.page)).toBe('Layers of default_region'));
    expect(seen.faults).toEqual([]);
    await seen.close();
  });

  test('continues where it was once something is published, in a field that was drawn again, and in the form', async () => {
    const { id, admin } = tenant;
    const path = `/tenants/${id}/config/agents/by_keyboard`;
    await admin.put(path, { default_region: 'before' });
    const seen = await tabOf('tenant_admin');
    const { page } = seen;
    const document = new DocumentPage(page);
    await document.open(id, 'agents/by_keyboard');
    await document.field('/default_region').focus();
    // Nothing is edited yet, so what another wrote takes the place of what the field shows.
    await admin.patch(path, { default_region: 'after' });
    await until(page, `document.querySelector('[name="/default_region"]').value === 'after'`);
    await eventually(async () => expect(await focused(page)).toBe('/default_region'));
    await page.keyboard.press('Control+A');
    await page.keyboard.type('mine');
    await page.keyboard.press('Enter');
    const review = new ReviewDialog(page);
    await review.changes();
    await review.dialog.getByRole('button', { name: 'Publish', exact: true }).press('Enter');
    await document
      .notice()
      .getByText(/Published as revision/)
      .waitFor();
    await eventually(async () => expect(await focused(page)).toBe('/default_region'));
    expect(seen.faults).toEqual([]);
    await seen.close();
  });

  test('goes to nothing that is behind the buttons at the edge of the window', async () => {
    const seen = await tabOf('tenant_admin');
    const { page } = seen;
    await page.setViewportSize({ width: 320, height: 640 });
    await page.goto(`/console/tenants/${tenant.id}/documents/notifications`);
    await page.locator('.editor footer.actions').waitFor();
    const covering = `(() => {
      const { activeElement: at } = document;
      const { left, top, width, height } = at.getBoundingClientRect();
      const seen = document.elementFromPoint(left + width / 2, top + height / 2);
      return seen?.closest('footer.actions') && !at.closest('footer.actions') ? at.outerHTML : '';
    })()`;
    for (let place = 0; place < 70; place += 1) {
      await page.keyboard.press('Tab');
      expect(await page.evaluate(covering)).toBe('');
    }
    expect(seen.faults).toEqual([]);
    await seen.close();
  });

  soakTest('goes to a page, a key and a person by Ctrl-K', async () => {
    const { id, emails } = tenant;
    const seen = await tabOf('tenant_admin');
    const { page } = seen;
    await new PeoplePage(page).open(id, 'members');
    const search = page.getByRole('combobox', { name: 'Page, service, key or person' });
    const goTo = async (text: string, kind: string): Promise<void> => {
      await page.keyboard.press('Control+k');
      await search.waitFor();
      await page.keyboard.type(text);
      await page.getByRole('option', { name: `${text} ${kind}` }).waitFor();
      await page.keyboard.press('Enter');
      await search.waitFor({ state: 'detached' });
    };
    await goTo('max_cost_impact_auto', 'Key');
    await new EffectiveValuesPage(page).ladder('max_cost_impact_auto').waitFor();
    await goTo(emails.operator!, 'Person');
    await eventually(async () =>
      expect(await page.locator('table.lines tbody tr').count()).toBe(1),
    );
    await page.keyboard.press('Control+k');
    await search.fill('a');
    await standAt(page, 'palette');
    await page.keyboard.press('ArrowDown');
    // Where whoever looks has their own colours, no background says which one is chosen.
    await page.emulateMedia({ forcedColors: 'active' });
    for (const all of ['[role=option]', 'nav.side a']) {
      const outlines = await page.evaluate<string[]>(
        `[...document.querySelectorAll('${all}')].map((each) => getComputedStyle(each).outlineStyle)`,
      );
      expect([all, outlines.filter((style) => style === 'solid').length]).toEqual([all, 1]);
    }
    await page.emulateMedia({ forcedColors: null });
    await page.keyboard.press('Escape');
    await goTo('Approver groups', 'Page');
    await page.getByRole('heading', { name: 'Approver groups' }).waitFor();
    expect(seen.faults).toEqual([]);
    await seen.close();
  });

  soakTest('decides an approval from the inbox', async () => {
    const { id, operator, admin } = tenant;
    const wish = { action: 'restart', risk_level: 'low', title: 'Restart by keyboard' };
    const { body } = await operator.post(`/tenants/${id}/approvals`, wish);
    const seen = await tabOf('tenant_admin');
    const { keyboard } = seen.page;
    await new ApprovalsPage(seen.page).openInbox(id, '?q=keyboard');
    await seen.page.getByRole('link', { name: wish.title }).waitFor();
    await tabUntil(seen.page, `at.innerText === ${JSON.stringify(wish.title)}`);
    await keyboard.press('Enter');
    await seen.page.getByRole('heading', { name: wish.title }).waitFor();
    await seen.page.getByLabel('Comment').waitFor();
    await tabUntil(seen.page, "at.tagName === 'TEXTAREA'");
    await keyboard.type('By hand');
    for (const key of ['Tab', 'Enter']) await keyboard.press(key);
    await seen.page.getByLabel('Comment').waitFor({ state: 'detached' });
    const { body: decided } = await admin.get(`/tenants/${id}/approvals/${body.id}`);
    expect(decided).toMatchObject({ state: 'approved', decision: { comment: 'By hand' } });
    await seen.close();
  });

  soakTest('invites somebody', async () => {
    const { id, admin } = tenant;
    const seen = await tabOf('tenant_admin');
    const { keyboard } = seen.page;
    await new PeoplePage(seen.page).open(id, 'members');
    await tabUntil(seen.page, "at.innerText === 'Invite…'");
    await keyboard.press('Enter');
    const { dialog } = new FormDialog(seen.page, 'Invite a person');
    await dialog.waitFor();
    await keyboard.type('keyboard@acme.example');
    await keyboard.press('Enter');
    await dialog.waitFor({ state: 'detached' });
    const { body } = await admin.get(`/tenants/${id}/users?limit=200`);
    const invited = body.items.find(({ email }: { email: string }) =>
      email.startsWith('keyboard@'),
    );
    expect(invited).toMatchObject({ roles: ['viewer'], status: 'invited' });
    await seen.close();
  });
});

soakDescribe('under four eyes', () => {
  let four: TenantFixture;
  const dora = 'dora@four.example';
  const limit = '/global_settings/max_cost_impact_auto';

  beforeAll(async () => {
    four = await createTenant(stage.strata.url, stage.platform, 'Four');
    const { admin, id } = four;
    await addMember(admin, id, { email: dora, roles: ['tenant_admin'] });
    const policy = { config_types: ['tenant_risk_config'] };
    const { status, text } = await admin.put(`/tenants/${id}/config/change-policy`, policy);
    if (status >= 300) throw new Error(text);
    await grown(stage.database, id);
  });

  const limitNow = async (): Promise<unknown> => {
    const { body } = await four.admin.get(`/tenants/${four.id}/config/risk`);
    return body.global_settings.max_cost_impact_auto;
  };

  /** Edits the limit, and has the write refused. */
  async function refused({ page }: Visit, value: string, reason: string): Promise<ChangeSetPage> {
    const document = new DocumentPage(page);
    await document.open(four.id, 'risk');
    await document.field(limit).fill(value);
    await document.review();
    const review = new ReviewDialog(page);
    await review.changes();
    await review.send('Publish', reason);
    const sets = new ChangeSetPage(page);
    await sets.refused();
    return sets;
  }
  const withoutRefusals = ({ faults }: Visit): string[] =>
    faults.filter((text) => !text.includes('403'));

  test('an edit of a change set leaves what others changed meanwhile, its moment to the second, and where somebody is', async () => {
    const { admin, id } = four;
    const sets = `/tenants/${id}/config/changesets`;
    const tomorrow = new Date(Date.now() + 86_400_000).toISOString().slice(0, 10);
    const at = `${tomorrow}T18:30:15.000Z`;
    const { status, body: made } = await admin.post(sets, {
      title: 'A first title',
      reason: 'A first reason',
      apply: { at },
      items: [{ action: 'put', path: `/tenants/${id}/config/agents/edited`, body: {} }],
    });
    expect(status).toBe(201);
    const seen = await stage.tabOf(four.emails.tenant_admin!);
    await seen.page.goto(`/console/tenants/${id}/change-sets/${made.id}`);
    await seen.page.getByRole('button', { name: 'Edit…' }).click();
    const dialog = seen.page.getByRole('dialog');
    await admin.patch(`${sets}/${made.id}`, { reason: 'A second reason' });
    await dialog.getByLabel('Title').fill('A second title');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.waitFor({ state: 'detached' });
    expect((await admin.get(`${sets}/${made.id}`)).body).toMatchObject({
      title: 'A second title',
      reason: 'A second reason',
      apply: { at: expect.stringContaining(':30:15') },
    });
    const cancel = seen.page.getByRole('button', { name: 'Cancel it…' });
    await cancel.focus();
    await admin.patch(`${sets}/${made.id}`, { title: 'A third title' });
    await seen.page.getByRole('heading', { name: 'A third title' }).waitFor();
    expect(await cancel.evaluate((button) => button.matches(':focus'))).toBe(true);
    await admin.post(`${sets}/${made.id}/cancel`);
    expect(seen.faults).toEqual([]);
    await seen.close();
  });

  test('one proposes for a time, another sees the impact and approves on a phone, and it applies then', async () => {
    const before = await limitNow();
    const ada = await stage.signedIn(four.emails.tenant_admin!);
    const proposing = await refused(ada, '5', 'Calmer nights');
    await standAgainAt(ada.page, 'propose');
    const dialog = ada.page.getByRole('dialog');
    // Back is where it was, with what was typed.
    await proposing.act('Back');
    expect(await dialog.getByLabel('Reason').inputValue()).toBe('Calmer nights');
    await dialog.getByRole('button', { name: 'Publish', exact: true }).click();
    await proposing.refused();
    await dialog.getByLabel('Title').fill(`A lower limit ${hostile}`);
    await dialog.getByLabel('It is applied').selectOption('at');
    const dayIn = (days: number): string =>
      new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10);
    const at = `${dayIn(1)}T18:00:00Z`;
    await dialog.getByLabel('Time', { exact: true }).fill(`${dayIn(2)}T03:00`);
    await dialog.getByLabel('Time zone').fill('Asia/Tokyo');
    await dialog.getByText(`${at} in UTC`).waitFor();
    await standAt(ada.page, 'propose-at');
    await proposing.act('Propose this change');
    await proposing.shown('A lower limit');
    await proposing.state('pending');
    await proposing.fact('Approved so far').getByText('1 more needed').waitFor();
    await ada.page.getByText('You wrote or edited this').waitFor();
    expect(await ada.page.getByRole('button', { name: 'Approve', exact: true }).count()).toBe(0);
    const [id] = new URL(ada.page.url()).pathname.split('/').slice(-1);
    const address = `/tenants/${four.id}/config/changesets/${id}`;
    const proposed = await four.admin.get(address);
    expect(proposed.body).toMatchObject({ reason: 'Calmer nights', state: 'pending' });
    expect(Date.parse(proposed.body.apply.at)).toBe(Date.parse(at));
    // As it was sent, so that others can try it; lists leave that out.
    const sent = { global_settings: { max_cost_impact_auto: 5 } };
    expect(proposed.body.items).toMatchObject([{ action: 'patch', base: 1, body: sent }]);
    const { body: listed } = await four.admin.get(`/tenants/${four.id}/config/changesets`);
    expect(listed.items[0].items[0].body).toBeUndefined();

    const phone = await stage.signedIn(dora, { width: 320, height: 640 });
    await phone.page.getByRole('link', { name: 'Approvals 1 waiting for you' }).click();
    await phone.page.getByRole('heading', { name: 'Change sets that wait for you' }).waitFor();
    await standAgainAt(phone.page, 'inbox');
    await phone.page.setViewportSize({ width: 320, height: 640 });
    await phone.page.getByRole('link', { name: 'A lower limit' }).click();
    const deciding = new ChangeSetPage(phone.page);
    await deciding.shown('A lower limit');
    const effect = phone.page.getByRole('region', { name: 'What it does' });
    await effect.getByText(/max_cost_impact_auto[^]*becomes 5/).waitFor();
    await standAt(phone.page, 'change-set');
    await phone.page.setViewportSize({ width: 320, height: 640 });
    await phone.page.getByLabel('Comment').fill('Sleep well');
    await deciding.act('Approve');
    await deciding.state('scheduled');
    await phone.page.getByRole('link', { name: 'Approvals', exact: true }).waitFor();
    expect(await limitNow()).toBe(before);

    // Its time comes.
    await stage.database.query(
      `UPDATE tenant_config.change_sets SET due_at = clock_timestamp() WHERE id = $1`,
      [id],
    );
    await proposing.state('applied');
    await proposing.fact('Approved so far').getByText('Sleep well').waitFor();
    expect(await limitNow()).toBe(5);
    await ada.page.getByRole('link', { name: /^revision \d+/ }).click();
    await ada.page.getByText(/Part of the change set A lower limit[^]*approved by dora@/).waitFor();
    await standAgainAt(ada.page, 'history-of-set');
    await ada.page.goto(`/console/tenants/${four.id}/change-sets`);
    await ada.page.getByRole('link', { name: 'A lower limit' }).waitFor();
    await standAt(ada.page, 'change-sets');
    expect([...withoutRefusals(ada), ...phone.faults]).toEqual([]);
    await Promise.all([ada.close(), phone.close()]);
  });

  test('what cannot wait is written after a fresh sign-in, is red until another reviews it, and comes once', async () => {
    const email = four.emails.tenant_admin!;
    const ada = await stage.signedIn(email);
    const { page } = ada;
    const sets = await refused(ada, '7', 'Payments are down');
    await stage.database.query(
      `UPDATE auth.sessions SET authenticated_at = now() - interval '11 minutes'
       WHERE user_id = (SELECT id FROM auth.users WHERE email = $1)`,
      [email],
    );
    // No gateway remembers the sessions as they were.
    await stage.platform.post('/config/reload', { reload_env: true });
    await sets.act('It cannot wait…');
    const breakIt = page.getByRole('button', { name: 'Break the glass' });
    await page.getByLabel('Why it cannot wait').fill('Down since 03:10');
    expect(await breakIt.isDisabled()).toBe(true);
    await page.getByLabel('Why it cannot wait').fill('Down since 03:10,\nand I am alone');
    await standAt(page, 'break-glass');
    await breakIt.click();
    const asked = page.getByRole('dialog', { name: 'Sign in once more' });
    await asked.getByLabel('E-mail').fill(email);
    await asked.getByLabel('Password').fill(memberPassword);
    await asked.getByRole('button', { name: 'Sign in', exact: true }).click();
    await page.getByText(/Published as revision/).waitFor();
    expect(await limitNow()).toBe(7);
    await refused(ada, '8', 'Again');
    await sets.act('It cannot wait…');
    await page.getByLabel('Why it cannot wait').fill('Once more, and I am still alone');
    await breakIt.click();
    await page.getByText(/Somebody else has to review the emergency/).waitFor();
    expect(await limitNow()).toBe(7);

    const other = await stage.signedIn(dora);
    await new ApprovalsPage(other.page).openInbox(four.id);
    const waiting = other.page.getByRole('group', { name: 'Change sets' });
    await waiting.getByText('break-glass, to review').waitFor();
    await waiting.getByRole('link', { name: 'Change Risk limits' }).click();
    const reviewing = new ChangeSetPage(other.page);
    await reviewing.shown('Change Risk limits');
    await other.page.getByText('Down since 03:10, and I am alone').waitFor();
    await standAgainAt(other.page, 'to-review');
    await reviewing.act('I have reviewed it');
    await other.page.getByText(`Reviewed by ${dora}`).waitFor();
    expect(await other.page.locator('.unreviewed').count()).toBe(0);
    const history = new HistoryPage(other.page);
    await history.open(four.id, '?config_type=tenant_risk_config');
    expect((await history.rows())[0]).toMatch(/break-glass/);
    expect(other.faults).toEqual([]);
    expect(ada.faults.filter((text) => !/403|409/.test(text))).toEqual([]);
    await Promise.all([ada.close(), other.close()]);
  });
});
