/**
 * Runs the tests of what was changed since a commit, HEAD by default:
 *
 *     npm run test:changed
 *     npm run test:changed -- origin/main
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { always, testsOf } from './tests-of.ts';

const [since = 'HEAD'] = process.argv.slice(2);
const git = (...words: string[]): string[] =>
  execFileSync('git', words, { encoding: 'utf8' }).split('\n').filter(Boolean);
const changed = [
  ...git('diff', '--name-only', since),
  ...git('ls-files', '--others', '--exclude-standard'),
];
const files = [...new Set([...always, ...changed.flatMap(testsOf)])];
console.log(`${changed.length} files changed since ${since}\n${files.join('\n')}\n`);
const { status } = spawnSync('npm', ['test', '--', ...files], { stdio: 'inherit' });
process.exitCode = status ?? 1;
