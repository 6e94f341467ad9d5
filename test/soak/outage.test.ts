/** A page that nobody touches while parts of Strata go away: it says so soon, and recovers by itself. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Browser } from 'playwright-core';
import { openBrowser } from '../support/browser.ts';
import { startPostgres, type Server } from '../support/postgres.ts';
import { freePort } from '../support/servers.ts';
import {
  addMember,
  adminPassword,
  createTenant,
  memberPassword,
  signIn,
  startStrata,
  type Running,
  type TenantFixture,
} from '../support/strata.ts';
import { SignInPage } from '../browser/pages/sign-in.ts';
import { arrived, picture, visit, type Visit } from '../browser/visit.ts';

/** Until it is said, on a machine that has time for it. */
const withinMs = 15_000;
const offline = 'Strata cannot be reached; ';
const old = 'Last known values.';

let postgres: Server;
let strata: Running;
let browser: Browser;
let tenant: TenantFixture;
let seen: Visit;
let environment: Record<string, string>;
const measured: string[] = [];

beforeAll(async () => {
  const opening = openBrowser();
  postgres = await startPostgres();
  environment = {
    DATABASE_URL: postgres.url,
    PORT: String(await freePort()),
    ACCESS_TOKEN_TTL_SECONDS: '86400',
  };
  strata = await startStrata(environment);
  const platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, 'Outages');
  const email = 'idle@outages.example';
  await addMember(tenant.admin, tenant.id, { email, roles: ['operator'] });
  browser = await opening;
  seen = await visit(browser, new URL(strata.url).origin);
  const door = new SignInPage(seen.page);
  await door.open();
  await door.signIn(email, memberPassword);
  await arrived(seen.page);
  await seen.page.goto(`/console/tenants/${tenant.id}/effective`);
  await seen.page.getByRole('heading', { name: 'Effective values' }).waitFor();
  await seen.page.evaluate('window.isThisPage = true');
});
afterAll(async () => {
  await browser?.close();
  await strata?.stop('SIGKILL');
  await postgres?.stop();
  process.stdout.write(`${measured.join('\n')}\n`);
});

interface Outage {
  readonly says: string;
  /** Ends it. */
  readonly begin: () => Promise<() => unknown>;
}

const outages: Record<string, Outage> = {
  'PostgreSQL ended': {
    says: old,
    begin: async () => {
      let start: (() => void) | undefined;
      const isOver = new Promise<void>((resolve) => (start = resolve));
      let isDown: (() => void) | undefined;
      const down = new Promise<void>((resolve) => (isDown = resolve));
      const back = postgres.restart('SIGQUIT', () => {
        isDown!();
        return isOver;
      });
      await down;
      return () => {
        start!();
        return back;
      };
    },
  },
  'PostgreSQL does not answer': { says: old, begin: () => postgres.freeze() },
  'the server does not answer': {
    says: offline,
    begin: async () => {
      process.kill(strata.pid, 'SIGSTOP');
      return () => process.kill(strata.pid, 'SIGCONT');
    },
  },
  'the server ended': {
    says: offline,
    begin: async () => {
      await strata.stop('SIGKILL');
      return async () => {
        strata = await startStrata(environment);
      };
    },
  },
};

test.each(Object.entries(outages))(
  'an idle page says within 15 s that %s, and by itself that it is over',
  async (name, { says, begin }) => {
    const { page } = seen;
    const end = await begin();
    const began = performance.now();
    await page.getByText(says).waitFor({ timeout: 60_000 });
    const ms = performance.now() - began;
    measured.push(`${name}: said after ${Math.round(ms)} ms`);
    await picture(page, `outage-${name.replaceAll(' ', '-')}`);
    await end();
    await page.getByText(says).waitFor({ state: 'detached', timeout: 60_000 });
    expect(await page.evaluate('window.isThisPage')).toBe(true);
    expect(ms).toBeLessThan(withinMs);
  },
);
