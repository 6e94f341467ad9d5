/** The page of the API's description, in a browser. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { eventually } from '../support/cluster.ts';
import { setStage, type Stage } from './stage.ts';

let stage: Stage;
beforeAll(async () => {
  stage = await setStage();
});
afterAll(() => stage?.stop());

test('the page shows the description and runs no script of the page itself', async () => {
  const { page, faults, close } = await stage.visit();
  await page.goto(`${stage.origin}/docs`);
  await eventually(async () => {
    const text = await page.locator('body').innerText();
    for (const shown of ['Layered configuration', '/auth/login']) expect(text).toContain(shown);
  });
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
});
