/** Looks at a screen as everybody might: narrow and wide, light and dark. */
import { expect } from '@jest/globals';
import type { Page } from 'playwright-core';
import { inSoak } from '../support/soak.ts';
import { findingsOf, picture } from './visit.ts';

interface Look {
  readonly width: number;
  readonly colorScheme: 'light' | 'dark';
}
/** The last one is what tests continue with. */
const everyLook: readonly Look[] = [320, 390, 1920, 1280].flatMap((width) => [
  { width, colorScheme: 'dark' },
  { width, colorScheme: 'light' },
]);
const looks = inSoak ? everyLook : [everyLook[0]!, everyLook.at(-1)!];

/**
 * Keeps a picture of each look, and expects that axe finds nothing and that nothing is wider than
 * the window. A dialog has one column in every width, so that axe looks at it alone, and not again
 * at the page below it.
 */
export async function standAt(page: Page, name: string): Promise<void> {
  const isDialog = await page.evaluate<boolean>("document.querySelector('dialog[open]') !== null");
  for (const [index, { width, colorScheme }] of looks.entries()) {
    await page.setViewportSize({ width, height: 800 });
    await page.emulateMedia({ colorScheme });
    await picture(page, `${name}-${width}-${colorScheme}`);
    const where = `${name} at ${width} px, ${colorScheme}`;
    const within = isDialog && !inSoak ? 'dialog[open]' : undefined;
    // Where there is least room most can be wrong.
    if (inSoak || index === 0) expect([where, await findingsOf(page, within)]).toEqual([where, []]);
    // Of the page, and of a dialog over it: what acts stands at the right end.
    const overflow = `[document.documentElement, ...document.querySelectorAll('.dialog')]
      .reduce((most, { scrollWidth, clientWidth }) => Math.max(most, scrollWidth - clientWidth), 0)`;
    expect([where, await page.evaluate(overflow)]).toEqual([where, 0]);
  }
}

/** Likewise of a screen that another test looks at, in another state: the soak alone does it. */
export async function standAgainAt(page: Page, name: string): Promise<void> {
  if (inSoak) await standAt(page, name);
}
