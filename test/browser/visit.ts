/** A browser's window on the console, which notes everything that must not happen while it is looked at. */
import axe from 'axe-core';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser, BrowserContext, Page } from 'playwright-core';

export interface Looks {
  readonly width?: number;
  readonly height?: number;
  readonly colors?: 'light' | 'dark';
}

export interface Visit {
  readonly page: Page;
  readonly context: BrowserContext;
  /** Errors in the browser's console, violations of the policy, and requests to anywhere but Strata. */
  readonly faults: readonly string[];
  readonly close: () => Promise<void>;
}

/** What the policy refuses is noted by the page itself, since not every browser prints it. */
const noteViolations = `addEventListener('securitypolicyviolation', (event) =>
  console.error('policy: ' + event.violatedDirective + ' ' + event.blockedURI));`;

export async function visit(
  browser: Browser,
  origin: string,
  { width = 1280, height = 800, colors = 'light' }: Looks = {},
  context?: BrowserContext,
): Promise<Visit> {
  const own =
    context ??
    (await browser.newContext({
      viewport: { width, height },
      colorScheme: colors,
      baseURL: origin,
      locale: 'en-GB',
      timezoneId: 'Europe/Berlin',
    }));
  const page = await own.newPage();
  const faults: string[] = [];
  await page.addInitScript(noteViolations);
  page.on('console', (message) => {
    if (message.type() === 'error') faults.push(message.text());
  });
  page.on('pageerror', (error) => faults.push(String(error)));
  page.on('request', (request) => {
    const { origin: asked } = new URL(request.url());
    if (asked !== origin) faults.push(`a request to ${request.url()}`);
  });
  return { page, context: own, faults, close: () => (context ? page.close() : own.close()) };
}

interface Finding {
  readonly id: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[];
}

/** What axe finds against WCAG 2.2 AA and good practice, each with the elements. */
export async function findingsOf(page: Page, rules?: readonly string[]): Promise<string[]> {
  const options = rules === undefined ? {} : { runOnly: { type: 'rule', values: rules } };
  await page.evaluate(`typeof axe === 'undefined' && (() => { ${axe.source} })()`);
  const { violations } = await page.evaluate<{ violations: Finding[] }>(
    `axe.run(document, ${JSON.stringify(options)})`,
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
