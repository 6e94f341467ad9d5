/**
 * `npm run test:mutants`: applies each mutant of this folder to a scratch copy of the checkout,
 * runs the tests that it names and expects them to fail. `npm run test:mutants -- access cache`
 * takes only mutants whose names contain one of the words.
 *
 *   --jobs <n>   how many mutants at a time, each in a copy of its own (default 2)
 *   --why        prints what the failed tests said, for whoever writes a mutant
 *
 * Ends with 1 if a mutant survives, no longer applies, or gets no verdict.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { parseArgs } from 'node:util';
import { applyMutant, parseMutant, type Mutant, type NamedTests } from './mutant.ts';
import { Checkout, removeCheckouts } from './checkout.ts';
import { startPostgres } from '../support/postgres.ts';
import { runTests, stopTests, type TestRun } from './run-tests.ts';

type Verdict = 'killed' | 'SURVIVED' | 'ERROR';

interface Result {
  readonly mutant: Mutant;
  readonly verdict: Verdict;
  /** The tests that failed, or why there is no verdict. */
  readonly detail: string;
  readonly seconds: number;
}

const { values: options, positionals: words } = parseArgs({
  allowPositionals: true,
  options: {
    jobs: { type: 'string', default: '2' },
    why: { type: 'boolean', default: false },
  },
});

/** Every mutant of this folder whose name contains one of the words; all of them without a word. */
function readMutants(): Mutant[] {
  const folder = import.meta.dirname;
  const all = readdirSync(folder)
    .filter((file) => file.endsWith('.mutant'))
    .toSorted()
    .map((file) =>
      parseMutant(basename(file, '.mutant'), readFileSync(join(folder, file), 'utf8')),
    );
  if (words.length === 0) return all;
  return all.filter(({ name }) => words.some((word) => name.includes(word)));
}

/** Runs `work` on every item, in the order given, as many at a time as there are checkouts. */
async function inEach<T>(
  checkouts: readonly Checkout[],
  items: readonly T[],
  work: (item: T, checkout: Checkout) => Promise<void>,
): Promise<void> {
  const waiting = [...items];
  await Promise.all(
    checkouts.map(async (checkout) => {
      for (let item = waiting.shift(); item !== undefined; item = waiting.shift())
        await work(item, checkout);
    }),
  );
}

/** The tests that the mutants name, by file; no names where all tests of the file are meant. */
function namesByFile(mutants: readonly Mutant[]): Map<string, string[]> {
  const tests = mutants.flatMap((mutant) => mutant.tests);
  const names = new Map<string, string[]>();
  for (const [file, named] of Map.groupBy(tests, (each) => each.file)) {
    const wholeFile = named.some(({ name }) => name === undefined);
    names.set(file, wholeFile ? [] : named.map(({ name }) => name!));
  }
  return names;
}

/**
 * Test files whose named tests fail in an unchanged copy: a test that fails without a mutant
 * proves nothing.
 */
async function failingWithoutMutant(
  checkouts: readonly Checkout[],
  mutants: readonly Mutant[],
): Promise<Set<string>> {
  const failing = new Set<string>();
  await inEach(checkouts, [...namesByFile(mutants)], async ([file, names], checkout) => {
    const run = await runTests(checkout.folder, file, names);
    const passes = run.kind === 'ran' && run.failed.length === 0;
    process.stderr.write(`${passes ? 'pass' : 'FAIL'} without a mutant: ${file}\n`);
    if (passes) return;
    failing.add(file);
    if (options.why) process.stderr.write(`${explained(run)}\n`);
  });
  return failing;
}

async function evaluate(mutant: Mutant, checkout: Checkout): Promise<Omit<Result, 'seconds'>> {
  const restore = checkout.change(mutant.file, (source) => applyMutant(mutant, source));
  try {
    const failed: string[] = [];
    for (const tests of mutant.tests) {
      const { file, name } = tests;
      const run = await runTests(checkout.folder, file, name === undefined ? [] : [name]);
      if (options.why) process.stderr.write(`\n${mutant.name}: ${explained(run)}\n`);
      if (run.kind === 'broken') return { mutant, verdict: 'ERROR', detail: run.why };
      if (run.failed.length === 0) return { mutant, verdict: 'SURVIVED', detail: textOf(tests) };
      failed.push(...run.failed.map(({ name }) => name));
    }
    return { mutant, verdict: 'killed', detail: summaryOf(failed) };
  } finally {
    restore();
  }
}

const textOf = ({ file, name }: NamedTests): string =>
  name === undefined ? file : `${file}: ${name}`;

const summaryOf = ([first = '', ...others]: readonly string[]): string =>
  others.length === 0 ? first : `${first} (and ${others.length} more)`;

const explained = (run: TestRun): string =>
  run.kind === 'broken' ? run.why : run.failed.map(({ name, why }) => `${name}\n${why}`).join('\n');

/** Every mutant with its verdict, in the order given. */
async function evaluateAll(
  checkouts: readonly Checkout[],
  mutants: readonly Mutant[],
): Promise<Result[]> {
  const results = new Map<Mutant, Result>();
  await inEach(checkouts, mutants, async (mutant, checkout) => {
    const began = performance.now();
    const evaluated = await evaluate(mutant, checkout).catch((error: Error) => ({
      mutant,
      verdict: 'ERROR' as const,
      detail: error.message,
    }));
    const seconds = Math.round((performance.now() - began) / 1000);
    results.set(mutant, { ...evaluated, seconds });
    process.stderr.write(
      `${evaluated.verdict} ${mutant.name} (${seconds} s): ${evaluated.detail}\n`,
    );
  });
  return mutants.map((mutant) => results.get(mutant)!);
}

function tableOf(results: readonly Result[]): string {
  const header = ['mutant', 'without it', 'tests', 'result', 'seconds'];
  const rows = results.map(({ mutant, verdict, seconds }) => [
    mutant.name,
    mutant.title,
    mutant.tests.map(textOf).join('; '),
    verdict,
    String(seconds),
  ]);
  const widths = header.map((_title, column) =>
    Math.max(...[header, ...rows].map((row) => row[column]!.length)),
  );
  const line = (row: readonly string[]): string =>
    `| ${row.map((cell, column) => cell.padEnd(widths[column]!)).join(' | ')} |`;
  const rule = `| ${widths.map((width) => '-'.repeat(width)).join(' | ')} |`;
  return [line(header), rule, ...rows.map(line)].join('\n');
}

async function main(): Promise<number> {
  const mutants = readMutants();
  if (mutants.length === 0) throw new Error(`No mutant is called ${words.join(' or ')}.`);
  const began = performance.now();
  // One for all runs: to start it again takes longer than most of the tests.
  const postgres = await startPostgres();
  process.env.TEST_DATABASE_URL = postgres.url;
  const checkouts = Array.from({ length: Number(options.jobs) }, () => Checkout.create());
  const failing = await failingWithoutMutant(checkouts, mutants);
  const provable = mutants.filter(({ tests }) => !tests.some(({ file }) => failing.has(file)));
  const results = await evaluateAll(checkouts, provable);
  await postgres.stop();
  process.stdout.write(`\n${tableOf(results)}\n\n`);

  const killed = results.filter(({ verdict }) => verdict === 'killed').length;
  const minutes = ((performance.now() - began) / 60_000).toFixed(1);
  process.stdout.write(
    `${killed} of ${mutants.length} mutants were killed, in ${minutes} minutes.\n`,
  );
  for (const { mutant, verdict, detail } of results)
    if (verdict !== 'killed') process.stdout.write(`\n${verdict} ${mutant.name}: ${detail}\n`);
  for (const file of failing) process.stdout.write(`\nFails without any mutant: ${file}\n`);
  return killed === mutants.length ? 0 : 1;
}

for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => {
    stopTests();
    removeCheckouts();
    process.exit(130);
  });
try {
  process.exitCode = await main();
} finally {
  removeCheckouts();
}
