/**
 * The console over two gateways and NATS, behind a proxy that gives each request to another
 * gateway: walked, used, and left alone by parts of it.
 */
import { standAt } from '../browser/stand.ts';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Browser, BrowserContext, Page, Request } from 'playwright-core';
import { openBrowser } from '../support/browser.ts';
import { eventually, killed, startCluster, type Cluster } from '../support/cluster.ts';
import { startHonestProvider, type HonestProvider } from '../support/identity-providers.ts';
import { mailsTo } from '../support/mailboxes.ts';
import { startPostgres } from '../support/postgres.ts';
import { startProxy, type Proxy } from '../support/proxy.ts';
import { freePort, startNginx, type Process } from '../support/servers.ts';
import {
  addMember,
  adminPassword,
  Client,
  memberPassword,
  signIn,
  type TenantFixture,
} from '../support/strata.ts';
import { AccountPage, withPasskeys } from '../browser/pages/account.ts';
import { ApprovalsPage } from '../browser/pages/approvals.ts';
import { DocumentPage } from '../browser/pages/documents.ts';
import { EffectiveValuesPage } from '../browser/pages/effective-values.ts';
import { ReviewDialog } from '../browser/pages/review.ts';
import { SignInPage } from '../browser/pages/sign-in.ts';
import { arrived, findingsOf, soonMs, visit, type Visit } from '../browser/visit.ts';

let cluster: Cluster;
let tenant: TenantFixture;
let browser: Browser;
let provider: HonestProvider;
/** By which the proxy reaches each gateway. */
let lines: Proxy[];
let front: Process;
let origin: string;

const measured: string[] = [];

const portOf = (url: string): number => Number(new URL(url).port);

const frontOf = (port: number, ports: readonly number[]): string => `
upstream gateways {
  ${ports.map((each) => `server 127.0.0.1:${each} max_fails=0;`).join('\n  ')}
}
server {
  listen 127.0.0.1:${port};
  location / {
    proxy_pass http://gateways;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_set_header Host $http_host;
    proxy_buffering off;
    proxy_next_upstream off;
    add_header X-Gateway $upstream_addr always;
  }
}`;

beforeAll(async () => {
  const port = await freePort();
  origin = `http://localhost:${port}`;
  provider = await startHonestProvider({
    client_id: 'strata',
    client_secret: 'a-client-secret',
    redirect_uris: [`${origin}/console/sso`],
  });
  cluster = await startCluster({
    gateways: 2,
    postgres: startPostgres,
    environment: {
      BASE_URL: origin,
      WEBHOOK_ALLOWED_NETWORKS: '127.0.0.0/8',
      WEBHOOK_ALLOW_HTTP: 'true',
    },
  });
  tenant = cluster.tenant;
  const { admin, id } = tenant;
  const startNotifier = cluster.start('notifier', ['notifier']);
  lines = await Promise.all(cluster.gateways.map(({ url }) => startProxy(portOf(url))));
  front = await startNginx(
    port,
    frontOf(
      port,
      lines.map((line) => line.port),
    ),
  );
  const written = [
    await cluster.platform.post('/auth/sso/providers', {
      name: 'Company login',
      issuer: provider.issuer,
      client_id: 'strata',
      client_secret: 'a-client-secret',
      tenant_id: id,
      domains: [{ domain: 'company.example', verified: true }],
      jit_enabled: true,
      default_roles: ['operator'],
      redirect_uris: [`${origin}/console/sso`],
    }),
    await admin.put(`/tenants/${id}/config/agents/scaler`, { default_region: 'first' }),
    await admin.patch(`/tenants/${id}/config/risk`, {
      global_settings: { max_cost_impact_auto: 25 },
    }),
    await admin.put(`/tenants/${id}/services/checkout`, {
      service_type: 'cloud_run',
      service_name: 'Checkout',
      max_instances: 8,
    }),
    await admin.put(`/tenants/${id}/config/notifications`, {
      approver_groups: { risk_levels: { high: ['oncall'] } },
    }),
  ];
  for (const { status, text } of written) if (status >= 300) throw new Error(text);
  await startNotifier;
  // Each gateway has to find it.
  for (const { url } of cluster.gateways)
    await eventually(async () => {
      const { status } = await new Client(url, admin.token).get(`/tenants/${id}/approvals`);
      expect(status).toBe(200);
    });
  browser = await openBrowser();
});
afterAll(async () => {
  await browser?.close();
  await front?.stop('SIGKILL');
  await Promise.all(lines?.map((line) => line.stop()) ?? []);
  await cluster?.stop();
  await provider?.close();
  if (measured.length > 0) process.stdout.write(`${measured.join('\n')}\n`);
});

/** A window in which somebody has signed in by the page, through both gateways by default. */
async function signedIn(
  email: string,
  { at = origin, password = memberPassword }: { at?: string; password?: string } = {},
): Promise<Visit> {
  const seen = await visit(browser, at);
  await enter(seen.page, email, password);
  return seen;
}

async function enter(page: Page, email: string, password = memberPassword): Promise<void> {
  const door = new SignInPage(page);
  await door.open();
  await door.signIn(email, password);
  await page.getByRole('navigation', { name: 'Screens' }).waitFor();
}

/**
 * Counts what was asked and is not answered yet, but for streams. Returns how to wait until nothing
 * is.
 */
function answered(page: Page): () => Promise<void> {
  const open = new Set<Request>();
  page.on('request', (request) => {
    if (!request.url().endsWith('/watch')) open.add(request);
  });
  page.on('requestfinished', (request) => open.delete(request));
  page.on('requestfailed', (request) => open.delete(request));
  return () => eventually(async () => expect([...open].map((each) => each.url())).toEqual([]));
}

/** When the page first shows the text, in milliseconds since 1970, by the clock of this machine. */
const firstShown = (page: Page, text: string): Promise<number> =>
  page.evaluate<number>(`new Promise((resolve) => {
    const look = () => {
      if (!document.body.textContent.includes(${JSON.stringify(text)})) return;
      observer.disconnect();
      resolve(Date.now());
    };
    const observer = new MutationObserver(look);
    observer.observe(document.body, { subtree: true, childList: true, characterData: true });
    look();
  })`);

/** Goes to another screen as a link of the page does. */
const goTo = (page: Page, path: string): Promise<void> =>
  page.evaluate(`(() => {
    history.pushState(null, '', ${JSON.stringify(`/console${path}`)});
    dispatchEvent(new PopStateEvent('popstate'));
  })()`);

/** Keeps a mark that is gone once the page is loaded again. */
const mark = (page: Page): Promise<unknown> => page.evaluate('window.marked = true');
const isMarked = (page: Page): Promise<boolean> => page.evaluate('window.marked === true');

describe('walked', () => {
  test('every screen is without a fault where each request goes to another gateway', async () => {
    const { admin, operator, id, emails } = tenant;
    const asked = await operator.post(`/tenants/${id}/approvals`, {
      action: 'restart',
      risk_level: 'low',
      title: 'Restart the worker',
    });
    const made = await admin.post(`/tenants/${id}/service-accounts`, {
      name: 'pipeline',
      roles: ['viewer'],
    });
    const own = ['', '/sessions', '/keys', '/activity'].map((part) => `/account${part}`);
    const ofTenant = [
      'effective?agent_type=scaler&open=default_region',
      'compare?agent_type=scaler',
      'services',
      'services/checkout',
      'documents',
      'documents/risk',
      'documents/agents/scaler?as=json',
      'documents/services/checkout',
      'documents/bounds',
      'budgets',
      'freezes',
      'automations',
      'decisions',
      'approvals?state=all',
      `approvals/${asked.body.id}`,
      'notifications',
      'deliveries',
      'history?open=1',
      'members',
      'groups',
      'service-accounts',
      `service-accounts/${made.body.id}`,
      'usage',
      'audit',
    ].map((screen) => `/tenants/${id}/${screen}`);
    const ofPlatform = [
      'tenants',
      'accounts',
      'global',
      'service-types',
      'service-types/cloud_run/default',
      'bounds',
      'budgets',
      'freezes',
      'plan',
      'history',
      'usage',
      'nodes',
    ].map((screen) => `/platform/${screen}`);
    const gateways = new Set<string>();
    const policies = new Set<string>();
    const walk = async (seen: Visit, paths: readonly string[]): Promise<void> => {
      const { page } = seen;
      const quiet = answered(page);
      page.on('response', (response) => {
        const headers = response.headers();
        gateways.add(headers['x-gateway']!);
        policies.add(headers['content-security-policy'] ?? 'none');
      });
      for (const path of paths) {
        await goTo(page, path);
        await page.locator('main h1, main h2').first().waitFor();
        await quiet();
        expect([path, await page.getByRole('alert').allInnerTexts()]).toEqual([path, []]);
        expect([path, await page.getByText('names no screen').count()]).toEqual([path, 0]);
      }
      // What is loaded again stays where it was.
      await page.reload();
      await page.getByRole('navigation', { name: 'Screens' }).waitFor();
      await quiet();
      expect(seen.faults).toEqual([]);
      await seen.close();
    };
    await walk(await signedIn(emails.tenant_admin!), [...ofTenant, ...own]);
    await walk(await signedIn('admin@example.com', { password: adminPassword }), ofPlatform);
    expect(gateways.size).toBe(2);
    expect([...policies].filter((policy) => policy.includes('unsafe-'))).toEqual([]);
  });
});

describe('live', () => {
  test('what is published on a page of one gateway shows on a page of the other within a second', async () => {
    const { id, emails } = tenant;
    const [first, second] = cluster.gateways.map(({ url }) => new URL(url).origin);
    const writer = await signedIn(emails.tenant_admin!, { at: first! });
    const reader = await signedIn(emails.operator!, { at: second! });
    await new EffectiveValuesPage(reader.page).open(id, '?agent_type=scaler');
    const document = new DocumentPage(writer.page);
    await document.open(id, 'agents/scaler');
    await document.field('/default_region').fill('published');
    await document.review();
    const review = new ReviewDialog(writer.page);
    expect(await review.changes()).toEqual([['/default_region', '"first"', '"published"']]);
    expect(await reader.page.getByText('"published"').count()).toBe(0);
    const shown = firstShown(reader.page, '"published"');
    const published = writer.page.waitForResponse(
      (response) => response.request().method() === 'PATCH' && !response.url().includes('dry_run'),
    );
    await review.publish('Publish', 'Over there');
    await published;
    const publishedAt = Date.now();
    const shownAt = await shown;
    measured.push(`a write elsewhere shows ${shownAt - publishedAt} ms after it is answered`);
    expect(shownAt - publishedAt).toBeLessThan(soonMs);
    expect([...writer.faults, ...reader.faults]).toEqual([]);
    await Promise.all([writer.close(), reader.close()]);
  });

  test('where a session is revoked through the other gateway the page asks to sign in within a second, and the edits survive', async () => {
    const { id, emails } = tenant;
    const [first, second] = cluster.gateways;
    const seen = await signedIn(emails.operator!, { at: new URL(first!.url).origin });
    const { page } = seen;
    const document = new DocumentPage(page);
    await document.open(id, 'services/checkout');
    await document.field('/max_instances').fill('7');
    const shown = firstShown(page, 'Sign in again');
    const elsewhere = await signIn(second!.url, emails.operator!, memberPassword);
    await elsewhere.post('/auth/logout', { all: true });
    const revokedAt = Date.now();
    const shownAt = await shown;
    measured.push(`a page asks to sign in ${shownAt - revokedAt} ms after its session is revoked`);
    expect(shownAt - revokedAt).toBeLessThan(soonMs);
    const again = page.getByRole('dialog', { name: 'Sign in again' });
    await new SignInPage(page).signIn(emails.operator!, memberPassword);
    await again.waitFor({ state: 'detached' });
    expect(await document.field('/max_instances').inputValue()).toBe('7');
    await document.review();
    expect(await new ReviewDialog(page).changes()).toEqual([['/max_instances', '8', '7']]);
    await seen.close();
  });
});

describe('signing in', () => {
  /** Everything that a script of the page could read. */
  const readable = (page: Page): Promise<string> =>
    page.evaluate<string>(`JSON.stringify([
      { ...localStorage }, { ...sessionStorage }, location.href, document.cookie, document.documentElement.outerHTML, history.state,
    ])`);

  test('with single sign-on: out to the provider, back to the shell, and nothing of it is left', async () => {
    const email = 'grace@company.example';
    provider.meet({ sub: 'grace', email, email_verified: true, name: 'Grace' });
    const seen = await visit(browser, origin);
    const { page } = seen;
    const door = new SignInPage(page);
    await door.open();
    await page.getByRole('button', { name: 'Single sign-on' }).click();
    await page.getByText('Type your e-mail address first').waitFor();
    await page.getByLabel('E-mail').fill(email);
    await page.getByRole('button', { name: 'Single sign-on' }).click();
    await arrived(page);
    expect(new URL(page.url()).pathname).toMatch(`/console/tenants/${tenant.id}/`);
    await page.getByRole('link', { name: 'Configuration', exact: true }).waitFor();
    expect(await readable(page)).not.toMatch(/eyJ[\w-]+\.|[\w-]{43}|code=|verifier/);
    await page.reload();
    await arrived(page);
    expect(seen.faults.filter((fault) => !fault.includes(provider.issuer))).toEqual([]);
    await page.goto('/console/sso?code=of-somebody-else&state=x');
    await page.getByText('no code that belongs to this tab').waitFor();
    expect(page.url()).toBe(`${origin}/console/sso`);
    await seen.close();
  });

  test('with a passkey, of which one gateway asks and the other is told', async () => {
    const seen = await signedIn(tenant.emails.viewer!);
    const { page } = seen;
    await withPasskeys(page);
    const account = new AccountPage(page);
    await account.openPart();
    const add = await account.begin('Add a passkey…', 'Add a passkey');
    await add.field('What you call it').fill('Phone');
    await add.done('Add it');
    await account.row('Phone').getByText('never').waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await new SignInPage(page).submit.waitFor();
    await page.getByRole('button', { name: 'Use a passkey' }).click();
    await page.getByRole('navigation', { name: 'Screens' }).waitFor();
    expect(await readable(page)).not.toMatch(/eyJ[\w-]+\.|[\w-]{43}/);
    expect(seen.faults).toEqual([]);
    await seen.close();
  });

  test('two tabs that renew the session at once stay signed in', async () => {
    const seen = await signedIn(tenant.emails.viewer!);
    const second = await visit(browser, origin, {}, seen.context);
    await second.page.goto('/console');
    for (let round = 0; round < 3; round += 1) {
      await Promise.all([seen.page.reload(), second.page.reload()]);
      for (const { page } of [seen, second]) await new EffectiveValuesPage(page).loaded();
    }
    expect([...seen.faults, ...second.faults]).toEqual([]);
    await seen.close();
  });
});

describe('on a phone', () => {
  const phone = (): Promise<BrowserContext> =>
    browser.newContext({
      viewport: { width: 360, height: 740 },
      isMobile: true,
      hasTouch: true,
      baseURL: origin,
      locale: 'en-GB',
    });
  /** Nothing is wider than the screen, and axe finds nothing. */
  const fits = async (page: Page): Promise<void> => {
    const overflow = 'document.documentElement.scrollWidth - document.documentElement.clientWidth';
    expect(await page.evaluate(overflow)).toBe(0);
    expect(await findingsOf(page)).toEqual([]);
  };
  const approveLink = (email: string): Promise<string> =>
    eventually(async () => {
      const found = (await mailsTo(email)).flatMap(
        (text) => /Approve: (\S+)/.exec(text)?.[1] ?? [],
      );
      expect(found).toHaveLength(1);
      return found[0]!;
    });

  test('an approval is decided from the mailed link; whoever asked is told that somebody else decides', async () => {
    const { admin, id, emails } = tenant;
    const approver = 'approver@phones.example';
    const asker = 'asker@phones.example';
    const member = { roles: ['operator'], groups: ['oncall'] };
    await addMember(admin, id, { email: approver, ...member });
    const { client } = await addMember(admin, id, { email: asker, ...member });
    const { body } = await client.post(`/tenants/${id}/approvals`, {
      action: 'failover',
      risk_level: 'high',
      title: `Fail over to ${'a-very-long-name-of-a-region-'.repeat(4)}`,
      description: 'The primary does not answer.',
    });
    const address = `/tenants/${id}/approvals/${body.id}`;
    const context = await phone();
    const seen = await visit(browser, origin, {}, context);
    const { page } = seen;
    // The link that the asker was sent, too: everybody in the group is.
    await page.goto(await approveLink(asker));
    await page.getByText('The requester of an approval cannot decide it').waitFor();
    expect(await page.getByRole('button').count()).toBe(0);
    await fits(page);
    expect((await admin.get(address)).body.state).toBe('pending');
    await enter(page, asker);
    await page.goto(`/console${address}`);
    await page.getByText('somebody else decides it').waitFor();
    expect(await page.getByRole('button', { name: 'Approve' }).count()).toBe(0);
    await fits(page);
    const link = await approveLink(approver);
    await page.goto(link);
    await fits(page);
    await standAt(page, 'decision-page');
    await page.getByLabel('Comment').fill('by phone');
    await page.getByRole('button', { name: 'Approve' }).tap();
    await page.getByText('It is approved.').waitFor();
    expect((await admin.get(address)).body).toMatchObject({
      state: 'approved',
      decision: { via: 'link', comment: 'by phone' },
    });
    await page.goto(`/console${address}`);
    await page.getByRole('heading', { name: 'Timeline' }).waitFor();
    await eventually(async () =>
      expect(await new ApprovalsPage(page).timeline()).toMatch(
        /Approved by approver@phones\.example[^]*by the mailed link/,
      ),
    );
    await fits(page);
    expect(emails.operator).not.toBe(asker);
    await context.close();
  });
});

describe('parts that are away', () => {
  interface Pair {
    /** Shows effective values. */
    readonly values: Visit;
    /** Has a document in edit. */
    readonly edits: Visit;
    readonly document: DocumentPage;
  }
  const pages = (pair: Pair): Page[] => [pair.values.page, pair.edits.page];

  /** Through the gateway that none of these restarts. */
  const elsewhere = (): Client => new Client(cluster.gateways[1]!.url, tenant.admin.token);

  /** Two tabs of one person, one of which edits. */
  async function twoTabs(agent: string): Promise<Pair> {
    const { id, emails } = tenant;
    const path = `/tenants/${id}/config/agents/${agent}`;
    await elsewhere().put(path, { default_region: 'before' });
    const values = await signedIn(emails.tenant_admin!);
    await new EffectiveValuesPage(values.page).open(id, `?agent_type=${agent}`);
    const edits = await visit(browser, origin, {}, values.context);
    const document = new DocumentPage(edits.page);
    await document.open(id, `agents/${agent}`);
    await document.field('/default_cpu').fill('2');
    for (const page of [values.page, edits.page]) await mark(page);
    return { values, edits, document };
  }

  /** Nobody has loaded a page again, and nothing that was typed is gone. */
  async function isAsItWas(pair: Pair): Promise<void> {
    for (const page of pages(pair)) expect(await isMarked(page)).toBe(true);
    expect(await pair.document.field('/default_cpu').inputValue()).toBe('2');
  }

  test('the gateways restart: a banner, a write refused with the reason, and what changed meanwhile without a reload', async () => {
    const { id } = tenant;
    const path = `/tenants/${id}/config/agents/restarted`;
    const pair = await twoTabs('restarted');
    const { values, edits, document } = pair;
    const [first] = cluster.gateways;
    lines[1]!.cut();
    await killed(first!);
    for (const page of pages(pair)) await page.getByText('Strata cannot be reached; ').waitFor();
    await values.page.getByText('"before"').first().waitFor();
    await document.review();
    const review = new ReviewDialog(edits.page);
    await review.dialog.getByRole('alert').getByText('Nothing was changed').waitFor();
    const admin = elsewhere();
    expect((await admin.patch(path, { default_region: 'meanwhile' })).status).toBe(200);
    const revived = await cluster.revive(first!);
    const began = Date.now();
    lines[0]!.lead(portOf(revived.url));
    lines[1]!.mend();
    await values.page.getByText('"meanwhile"').first().waitFor();
    measured.push(
      `a change made while all gateways were away shows ${Date.now() - began} ms after`,
    );
    await edits.page.getByText('Your edits are laid over that').waitFor();
    for (const page of pages(pair))
      await page.getByText('Strata cannot be reached; ').waitFor({ state: 'detached' });
    await isAsItWas(pair);
    await document.review();
    expect(await review.changes()).toEqual([['/default_cpu', 'not set', '"2"']]);
    await review.publish('Publish');
    await document
      .notice()
      .getByText(/Published as revision/)
      .waitFor();
    // Both streams run again.
    await admin.patch(path, { default_region: 'afterwards' });
    await values.page.getByText('"afterwards"').first().waitFor();
    await values.close();
  });

  test('PostgreSQL is away: what is shown is marked as old, a write is refused with the reason, and then it continues by itself', async () => {
    const { id } = tenant;
    const path = `/tenants/${id}/config/agents/outage`;
    const pair = await twoTabs('outage');
    const { values, edits, document } = pair;
    const review = new ReviewDialog(edits.page);
    const late = await visit(browser, origin, {}, values.context);
    await cluster.postgres.restart('SIGQUIT', async () => {
      for (const page of pages(pair)) {
        // As when somebody comes back to the tab.
        await page.evaluate(`document.dispatchEvent(new Event('visibilitychange'))`);
        await page.getByText('Last known values.').waitFor();
      }
      await values.page.getByText('"before"').first().waitFor();
      await document.review();
      await review.dialog
        .getByRole('alert')
        .getByText(/unavailable · request/)
        .waitFor();
      // Opened only now: nobody can say who this is.
      await late.page.goto(`/console/tenants/${id}/effective?agent_type=outage`);
      await late.page
        .getByRole('alert')
        .getByText(/request/)
        .waitFor();
    });
    // The trial of the change is made again by itself.
    await review.dialog.locator('.changes').waitFor();
    for (const page of pages(pair))
      await page.getByText('Last known values.').waitFor({ state: 'detached' });
    expect(await review.changes()).toEqual([['/default_cpu', 'not set', '"2"']]);
    await isAsItWas(pair);
    await new EffectiveValuesPage(late.page).loaded();
    await eventually(async () => {
      const { status } = await elsewhere().patch(path, { default_region: 'after' });
      expect(status).toBe(200);
    });
    await values.page.getByText('"after"').first().waitFor();
    await values.close();
  });
});
