/**
 * A fresh Strata with a browser before it, and windows in which people have signed in: what tests
 * of the console begin with.
 */
import type { Browser, BrowserContext } from 'playwright-core';
import { openBrowser } from '../support/browser.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import { freePort } from '../support/servers.ts';
import {
  adminPassword,
  memberPassword,
  signIn,
  startStrata,
  type Client,
  type Running,
} from '../support/strata.ts';
import { SignInPage } from './pages/sign-in.ts';
import { visit, type Looks, type Visit } from './visit.ts';

/**
 * Text as an attacker would have it: markup, quotes, templates, and a sign that turns what follows
 * it around.
 */
export const hostile = '<img src=x onerror=alert(1)>"\'&{{7*7}}${7*7}\u202Etxt';

/** Who administers the platform of every stage. */
export const platformAdmin = 'admin@example.com';
const passwordOf = (email: string): string =>
  email === platformAdmin ? adminPassword : memberPassword;

export interface Stage {
  readonly strata: Running;
  /** Of the console, as browsers name it. */
  readonly origin: string;
  readonly browser: Browser;
  readonly database: Database;
  readonly platform: Client;
  /** A window of a browser of its own, in which nobody has signed in. */
  readonly visit: (looks?: Looks) => Promise<Visit>;
  /** The same, once somebody has signed in by the page and it shows where they can go. */
  readonly signedIn: (email: string, looks?: Looks) => Promise<Visit>;
  /**
   * An empty tab of a browser in which the person has signed in, once for all of its tabs. For
   * tests that leave the session as it is: most of the time of the others goes into signing in, and
   * into loading what this browser has already.
   */
  readonly tabOf: (email: string) => Promise<Visit>;
  readonly stop: () => Promise<void>;
}

export interface Staging {
  readonly environment?: Readonly<Record<string, string>>;
  /** Passkeys are kept for a host name, and the console's origin has to be known when it starts. */
  readonly isNamed?: boolean;
  readonly browserOptions?: readonly string[];
}

export async function setStage({
  environment = {},
  isNamed = false,
  browserOptions = [],
}: Staging = {}): Promise<Stage> {
  const opening = openBrowser(browserOptions);
  const database = await strataDatabase();
  const port = await freePort();
  const named = { PORT: `${port}`, BASE_URL: `http://localhost:${port}` };
  const strata = await startStrata({
    DATABASE_URL: database.url,
    // However long the tests of a file take.
    ACCESS_TOKEN_TTL_SECONDS: '86400',
    ...(isNamed && named),
    ...environment,
  });
  const origin = isNamed ? named.BASE_URL : new URL(strata.url).origin;
  const platform = await signIn(strata.url, platformAdmin, adminPassword);
  const browser = await opening;
  const signedIn = async (email: string, looks: Looks = {}): Promise<Visit> => {
    const seen = await visit(browser, origin, looks);
    const door = new SignInPage(seen.page);
    await door.open();
    await door.signIn(email, passwordOf(email));
    await seen.page.getByRole('navigation', { name: 'Screens' }).waitFor();
    return seen;
  };
  const contexts = new Map<string, BrowserContext>();
  return {
    strata,
    origin,
    browser,
    database,
    platform,
    visit: (looks = {}) => visit(browser, origin, looks),
    signedIn,
    async tabOf(email) {
      const known = contexts.get(email);
      if (known) return visit(browser, origin, {}, known);
      const { context, page } = await signedIn(email);
      contexts.set(email, context);
      await page.close();
      return visit(browser, origin, {}, context);
    },
    async stop() {
      await browser.close();
      await strata.stop('SIGKILL');
      await database.drop();
    },
  };
}
