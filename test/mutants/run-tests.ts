/** Runs Jest in a checkout, as `npm test` does, and reads what it reports. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { compiledOf } from './checkout.ts';
import { literally } from './mutant.ts';

export interface FailedTest {
  readonly name: string;
  readonly why: string;
}

/**
 * `broken`: Jest could not run the tests, such as where the changed source has an error of syntax.
 */
export type TestRun =
  | { readonly kind: 'ran'; readonly failed: readonly FailedTest[] }
  | { readonly kind: 'broken'; readonly why: string };

/** The part of Jest's JSON report that is read here. */
interface Report {
  readonly numRuntimeErrorTestSuites: number;
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly testResults: readonly {
    readonly message: string;
    readonly assertionResults: readonly {
      readonly status: string;
      readonly fullName: string;
      readonly failureMessages: readonly string[];
    }[];
  }[];
}

/** Longer than any test file takes; one that hangs says nothing. */
const limitMs = 300_000;
const running = new Set<ChildProcess>();

/** Runs the tests of a file whose names contain one of `names`, or all of them without names. */
export async function runTests(
  folder: string,
  file: string,
  names: readonly string[],
): Promise<TestRun> {
  const reportFile = join(folder, 'jest-report.json');
  rmSync(reportFile, { force: true });
  const selection = names.length === 0 ? [] : ['--testNamePattern', names.map(literally).join('|')];
  const child = spawn(
    process.execPath,
    [
      '--experimental-vm-modules',
      '--disable-warning=ExperimentalWarning',
      'node_modules/jest/bin/jest.js',
      '--maxWorkers=1',
      // What a test that failed has left open.
      '--forceExit',
      '--json',
      `--outputFile=${reportFile}`,
      '--runTestsByPath',
      file,
      ...selection,
    ],
    // In a group of its own, so that what it has started can be ended with it.
    {
      cwd: folder,
      stdio: 'ignore',
      detached: true,
      env: { ...process.env, NODE_COMPILE_CACHE: compiledOf(folder) },
    },
  );
  running.add(child);
  const timer = setTimeout(() => stop(child), limitMs);
  await once(child, 'exit');
  clearTimeout(timer);
  running.delete(child);
  endGroup(child);
  if (!existsSync(reportFile)) return broken(file, 'Jest ended without a report');
  return read(file, JSON.parse(readFileSync(reportFile, 'utf8')) as Report);
}

function read(file: string, report: Report): TestRun {
  if (report.numRuntimeErrorTestSuites > 0)
    return broken(file, report.testResults.map(({ message }) => message).join('\n'));
  if (report.numPassedTests + report.numFailedTests === 0)
    return broken(file, 'no test has this name');
  const failed = report.testResults
    .flatMap(({ assertionResults }) => assertionResults)
    .filter(({ status }) => status === 'failed')
    .map(({ fullName, failureMessages }) => ({ name: fullName, why: failureMessages.join('\n') }));
  return { kind: 'ran', failed };
}

const broken = (file: string, why: string): TestRun => ({ kind: 'broken', why: `${file}: ${why}` });

/** Ends every run that is under way, with the servers that it has started. */
export function stopTests(): void {
  for (const child of running) stop(child);
}

function stop(child: ChildProcess): void {
  const isRunning = child.exitCode === null && child.signalCode === null;
  if (isRunning) endGroup(child);
}

function endGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL');
  } catch (error) {
    // Nobody of the group is left.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
