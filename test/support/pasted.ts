/** Examples of the documentation, run as a reader would paste them. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

const root = new URL('../../', import.meta.url);

/**
 * What the first example after a heading of a page prints, a line each, with `api` and `field` of the
 * README's tour. Throws where a command of it fails.
 */
export function runPasted(
  page: string,
  heading: string,
  env: Readonly<Record<string, string | undefined>>,
): string[] {
  const [, text = ''] = readFileSync(new URL(page, root), 'utf8').split(`# ${heading}\n`);
  const [, pasted] = /```sh\n([^]*?)```/.exec(text)!;
  const readme = readFileSync(new URL('README.md', root), 'utf8').split('\n');
  const helpers = readme.filter((line) => /^(field|api)\(\)/.test(line));
  const script = [...helpers, pasted].join('\n');
  return execFileSync('bash', ['-euo', 'pipefail', '-c', script], {
    encoding: 'utf8',
    env: { PATH: process.env.PATH, ...env },
  })
    .trim()
    .split('\n');
}
