/** Pictures of every screen, narrow and wide, light and dark, for people to look at. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Visit } from './visit.ts';

const looks = [
  { width: 390, colorScheme: 'light' },
  { width: 1280, colorScheme: 'light' },
  { width: 390, colorScheme: 'dark' },
  { width: 1280, colorScheme: 'dark' },
] as const;

/** Of each address below /console, named after it, such as `members-390-dark.png`. */
export async function takeEveryScreen(
  seen: Visit,
  folder: string,
  prefix: string,
  addresses: readonly string[],
): Promise<void> {
  mkdirSync(folder, { recursive: true });
  const { page } = seen;
  for (const address of addresses) {
    await seen.goInside(`${prefix}${address}`);
    const place = `${prefix.replace(/\/tenants\/[^/]+/, '')}${address}`;
    const short = place.replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, 'one');
    const name = short.replaceAll(/[^a-z0-9]+/gi, '-').replaceAll(/^-|-$/g, '');
    for (const { width, colorScheme } of looks) {
      await page.setViewportSize({ width, height: 800 });
      await page.emulateMedia({ colorScheme });
      await page.screenshot({
        path: join(folder, `${name}-${width}-${colorScheme}.png`),
        fullPage: true,
      });
    }
  }
}
