/** Looks at a screen as everybody might: narrow and wide, light and dark. */
import { expect } from '@jest/globals';
import type { Page } from 'playwright-core';
import { findingsOf, picture } from './visit.ts';

const widths = [320, 1280];
const colors = ['light', 'dark'] as const;

/**
 * Keeps a picture of each look, and expects that axe finds nothing and that nothing is wider than
 * the window.
 */
export async function standAt(page: Page, name: string): Promise<void> {
  for (const width of widths) {
    await page.setViewportSize({ width, height: 800 });
    for (const colorScheme of colors) {
      await page.emulateMedia({ colorScheme });
      await picture(page, `${name}-${width}-${colorScheme}`);
      const where = `${name} at ${width} px, ${colorScheme}`;
      // The other colours change nothing but contrasts.
      const rules = colorScheme === 'light' ? undefined : ['color-contrast'];
      expect([where, await findingsOf(page, rules)]).toEqual([where, []]);
    }
    // Of the page, and of a dialog over it: what acts stands at the right end.
    const overflow = `[document.documentElement, ...document.querySelectorAll('.dialog')]
      .reduce((most, { scrollWidth, clientWidth }) => Math.max(most, scrollWidth - clientWidth), 0)`;
    expect([name, width, await page.evaluate(overflow)]).toEqual([name, width, 0]);
  }
}
