/**
 * A browser's window on the console, which notes everything that must not happen while it is looked
 * at.
 */
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { Browser, BrowserContext, Page, Request } from 'playwright-core';
import { eventually } from '../support/cluster.ts';

export interface Looks {
  readonly width?: number;
  readonly height?: number;
  readonly colors?: 'light' | 'dark';
  readonly locale?: string;
}

export interface Visit {
  readonly page: Page;
  readonly context: BrowserContext;
  /**
   * Errors in the browser's console, violations of the policy, and requests to anywhere but Strata.
   */
  readonly faults: readonly string[];
  /**
   * Goes to an address of the console without loading the page again, and waits until all that it
   * asks for is there.
   */
  readonly goInside: (address: string) => Promise<void>;
  readonly close: () => Promise<void>;
}

/**
 * What others write shows within a second, on a machine that has time for it. This is less than the
 * nine and a half seconds after which a page looks by itself at the earliest whether everything is
 * as it knows.
 */
export const soonMs = 9000;

/** What the policy refuses is noted by the page itself, since not every browser prints it. */
const noteViolations = `addEventListener('securitypolicyviolation', (event) =>
  console.error('policy: ' + event.violatedDirective + ' ' + event.blockedURI));`;

/** What a browser prints where a tenant or the platform has no document of a kind. */
const hasNone = /404 .*\/config\/(bounds|budgets|change-policy|event-destinations|freezes)$/;

export async function visit(
  browser: Browser,
  origin: string,
  { width = 1280, height = 800, colors = 'light', locale = 'en-GB' }: Looks = {},
  context?: BrowserContext,
): Promise<Visit> {
  const own =
    context ??
    (await browser.newContext({
      viewport: { width, height },
      colorScheme: colors,
      baseURL: origin,
      locale,
      timezoneId: 'Europe/Berlin',
    }));
  // Beside other tests everything takes its time.
  own.setDefaultTimeout(180_000);
  const page = await own.newPage();
  const faults: string[] = [];
  await page.addInitScript(noteViolations);
  page.on('console', (message) => {
    const fault = `${message.text()} ${message.location().url}`.trim();
    if (message.type() === 'error' && !hasNone.test(fault)) faults.push(fault);
  });
  page.on('pageerror', (error) => faults.push(String(error)));
  page.on('request', (request) => {
    const { origin: asked } = new URL(request.url());
    if (asked !== origin) faults.push(`a request to ${request.url()}`);
  });
  const asked = new Set<Request>();
  page.on('request', (request) => {
    // A stream never ends.
    if (!request.url().endsWith('/watch')) asked.add(request);
  });
  page.on('requestfinished', (request) => asked.delete(request));
  page.on('requestfailed', (request) => asked.delete(request));
  const settle = async (): Promise<void> => {
    for (let calm = 0; calm < 2; calm += 1) {
      await eventually(async () => {
        if (asked.size > 0) throw new Error(`waits for ${[...asked].map((each) => each.url())}`);
      });
      // What came is drawn, and may ask for more.
      await page.evaluate('new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)))');
      if (asked.size > 0) calm = -1;
    }
  };
  return {
    page,
    context: own,
    faults,
    async goInside(address) {
      await page.evaluate(`history.pushState(null, '', ${JSON.stringify(`/console${address}`)});
        dispatchEvent(new PopStateEvent('popstate'));`);
      await settle();
    },
    close: () => (context ? page.close() : own.close()),
  };
}

/** Once the page shows where somebody begins who has signed in: what that is, follows from roles. */
export const arrived = (page: Page): Promise<void> =>
  page.getByRole('heading', { level: 1, name: /^(Overview|Effective values)$/ }).waitFor();

/** Once an expression of the page is true. The page's policy lets nothing wait inside of it. */
export const until = (page: Page, expression: string): Promise<void> =>
  eventually(async () => {
    if (!(await page.evaluate<boolean>(expression))) throw new Error(`not yet: ${expression}`);
  });

/**
 * How long the page's main thread worked while something was done, in milliseconds of its own
 * processor time: unlike the time that passes, it does not grow with what else the machine does.
 */
export async function workOf(page: Page, act: () => Promise<unknown>): Promise<number> {
  const cdp = await page.context().newCDPSession(page);
  await cdp.send('Performance.enable', { timeDomain: 'threadTicks' });
  const worked = async (): Promise<number> => {
    const { metrics } = await cdp.send('Performance.getMetrics');
    return (metrics.find(({ name }) => name === 'TaskDuration')?.value ?? 0) * 1000;
  };
  const before = await worked();
  await act();
  const ms = (await worked()) - before;
  await cdp.detach();
  return ms;
}

/**
 * Processor time of `fixedWork` on the machine that the limits of tests were found on, in
 * milliseconds.
 */
const calmWorkMs = 80;
const fixedWork = `(() => {
  const table = document.createElement('table');
  for (let row = 0; row < 4000; row += 1) {
    const line = table.insertRow();
    for (let cell = 0; cell < 4; cell += 1) line.insertCell().append(String(row * cell));
  }
  table.hidden = true;
  document.body.append(table);
  const { length } = table.innerText;
  table.remove();
  return length;
})()`;

/**
 * How many times as long as it should the work of the page takes now: machines differ, and make the
 * same work longer when busy.
 */
export async function slownessOf(page: Page): Promise<number> {
  const ms = await workOf(page, () => page.evaluate(fixedWork));
  return Math.max(1, ms / calmWorkMs);
}

interface Finding {
  readonly id: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[];
}

/** Less than half of what axe says to be its source: each page that is loaded takes it in. */
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/**
 * What axe finds against WCAG 2.2 AA and good practice, each with the elements. `within` selects what
 * is looked at; the whole page by default, which has rules of its own.
 */
export async function findingsOf(page: Page, within?: string): Promise<string[]> {
  const options = {
    resultTypes: ['violations'],
    // Everything is of one origin: there is nothing to load for it.
    preload: false,
  };
  if (await page.evaluate<boolean>("typeof axe === 'undefined'"))
    await page.evaluate(`(() => { ${axe} })()`);
  const context = within === undefined ? 'document' : JSON.stringify(within);
  const violations = await page.evaluate<Finding[]>(
    `axe.run(${context}, ${JSON.stringify(options)}).then((found) => found.violations)`,
  );
  return violations.flatMap(({ id, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${html.slice(0, 200)} ${failureSummary}`),
  );
}

/** Kept where CONSOLE_PICTURES names a folder, for people to look at. */
export async function picture(page: Page, name: string): Promise<void> {
  const folder = process.env.CONSOLE_PICTURES;
  if (folder === undefined) return;
  mkdirSync(folder, { recursive: true });
  await page.screenshot({ path: join(folder, `${name}.png`), fullPage: true });
}
