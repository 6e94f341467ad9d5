/** A page of Chromium with the web SDK of OpenFeature. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { openBrowser, startSite } from '../browser.ts';
import type { Host } from './evaluation.ts';

const root = join(import.meta.dirname, '../../..');

export interface PageHost extends Host {
  readonly stop: () => Promise<void>;
}

export async function openPage(): Promise<PageHost> {
  const esbuild = join(root, 'node_modules/.bin/esbuild');
  const args = ['--bundle', '--format=iife', '--target=es2022', '--external:node:*'];
  const source = join(root, 'test/support/openfeature/page.ts');
  const [{ stdout: bundle }, site, browser] = await Promise.all([
    promisify(execFile)(esbuild, [source, ...args], { maxBuffer: 16 * 1024 * 1024 }),
    startSite(),
    openBrowser(),
  ]);
  const page = await browser.newPage();
  await page.goto(site.origin);
  await page.addScriptTag({ content: bundle });
  const call = <T>(name: keyof Host, ...given: readonly unknown[]): Promise<T> =>
    page.evaluate<T>(`flags.${name}(...${JSON.stringify(given)})`);
  return {
    provide: (...given) => call('provide', ...given),
    status: (...given) => call('status', ...given),
    evaluate: (...given) => call('evaluate', ...given),
    nextChange: (...given) => call('nextChange', ...given),
    async stop() {
      await browser.close();
      await site.stop();
    },
  };
}
