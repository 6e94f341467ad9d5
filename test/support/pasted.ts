/** Examples of the documentation, run as a reader would paste them. */
import { execFile, execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';

const root = new URL('../../', import.meta.url);

/** The first example in a language after a heading of a page. */
export function exampleOf(page: string, heading: string, language: string): string {
  const [, text = ''] = readFileSync(new URL(page, root), 'utf8').split(`# ${heading}\n`);
  return new RegExp(`\`\`\`${language}\n([^]*?)\`\`\``).exec(text)![1]!;
}

/** Arguments for bash, with `api` and `field` of the README's tour. */
function argumentsOf(page: string, heading: string): string[] {
  const readme = readFileSync(new URL('README.md', root), 'utf8').split('\n');
  const helpers = readme.filter((line) => /^(field|api)\(\)/.test(line));
  const script = [...helpers, exampleOf(page, heading, 'sh')].join('\n');
  return ['-euo', 'pipefail', '-c', script];
}

const linesOf = (output: string): string[] => output.trim().split('\n');

type Environment = Readonly<Record<string, string | undefined>>;
const optionsOf = (env: Environment) =>
  ({ encoding: 'utf8', env: { PATH: process.env.PATH, ...env } }) as const;

/** What the first example after a heading prints, a line each. Throws where a command fails. */
export const runPasted = (page: string, heading: string, env: Environment): string[] =>
  linesOf(execFileSync('bash', argumentsOf(page, heading), optionsOf(env)));

/** The same, while servers of this process answer what the example asks of them. */
export async function runPastedBeside(
  page: string,
  heading: string,
  env: Environment,
): Promise<string[]> {
  const run = promisify(execFile)('bash', argumentsOf(page, heading), optionsOf(env));
  return linesOf((await run).stdout);
}
