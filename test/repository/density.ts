/**
 * `npm run measured [-- <folder> …]`: how densely the code is written, tests left out, as a row of a
 * table for each checkout.
 *
 * Every share is of the lines that are not blank. `tokens.ts` says what a token is; tokens per line
 * are those of all code over all lines that are not blank, and a comment line has a comment and no
 * token. The numbers describe the code and are no target: whether a page is understood when it is
 * read once, no count can tell.
 */
import { globSync, readFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { countTokens } from './tokens.ts';

interface Measurements {
  readonly files: number;
  readonly medianLines: number;
  readonly tokensPerLine: number;
  readonly over100: number;
  readonly over140: number;
  readonly comments: number;
}

function summaryOf(root: string): Measurements {
  const files = globSync('**/*.ts', {
    cwd: root,
    exclude: ['node_modules', 'test', 'data', 'client/dist'],
  });
  const linesPerFile: number[] = [];
  const sums = { lines: 0, tokens: 0, over100: 0, over140: 0, comments: 0 };
  for (const file of files) {
    const text = readFileSync(join(root, file), 'utf8').replace(/\n$/, '');
    const lines = text.split('\n');
    linesPerFile.push(lines.length);
    for (const [index, { tokens, comment }] of countTokens(text).entries()) {
      const line = lines[index]!;
      if (line.trim() === '') continue;
      sums.lines += 1;
      sums.tokens += tokens;
      if (line.length > 100) sums.over100 += 1;
      if (line.length > 140) sums.over140 += 1;
      if (comment && tokens === 0) sums.comments += 1;
    }
  }
  const sorted = linesPerFile.toSorted((a, b) => a - b);
  return {
    files: files.length,
    medianLines: sorted[Math.floor(sorted.length / 2)] ?? 0,
    tokensPerLine: sums.tokens / sums.lines,
    over100: sums.over100 / sums.lines,
    over140: sums.over140 / sums.lines,
    comments: sums.comments / sums.lines,
  };
}

const percent = (share: number): string => `${(100 * share).toFixed(2)} %`;

const here = join(import.meta.dirname, '../..');
const given = process.argv.slice(2);
const rows = (given.length > 0 ? given : [here]).map((folder) => {
  const root = resolve(folder);
  const measured = summaryOf(root);
  return [
    basename(root),
    String(measured.files),
    String(measured.medianLines),
    measured.tokensPerLine.toFixed(1),
    percent(measured.over100),
    percent(measured.over140),
    percent(measured.comments),
  ];
});
const heading = ['', 'files', 'median lines', 'tokens per line', '> 100', '> 140', 'comments'];
const ruler = heading.map(() => '---');
for (const row of [heading, ruler, ...rows]) process.stdout.write(`| ${row.join(' | ')} |\n`);
