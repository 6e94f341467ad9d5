/**
 * `npm run test:skew -- --ref v0.1.0`: a rolling upgrade from that commit to the checkout and back,
 * under load: services first, gateways last, then the wrong order, too. What clients see is judged
 * as under faults: nothing stale, nothing lost. Before that the old release is rolled to itself,
 * and no step may show an error that this did not, nor many more of them. Ends with 1 if anything
 * was wrong. The last release before the checkout by default.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { eventually, startCluster, type Cluster } from '../support/cluster.ts';
import {
  connectionError,
  requestTimeoutMs,
  survive,
  timeoutError,
  wasBusy,
  type Fault,
  type Survived,
} from '../support/faults.ts';
import { startPostgres } from '../support/postgres.ts';
import { Client, type Running } from '../support/strata.ts';

const checkout = fileURLToPath(new URL('../..', import.meta.url));
const { values } = parseArgs({ options: { ref: { type: 'string' } } });
const say = (line: string): void => {
  process.stdout.write(`${new Date().toISOString().slice(11, 19)} ${line}\n`);
};
const git = (...args: readonly string[]): string =>
  execFileSync('git', args, { cwd: checkout, encoding: 'utf8', stdio: 'pipe' }).trim();

/** The newest tag before the checkout's commit; undefined where there is none yet. */
function newestTag(): string | undefined {
  try {
    return git('describe', '--tags', '--abbrev=0', '--match', 'v*', 'HEAD^');
  } catch {
    return undefined;
  }
}

/** Without a tag the commit that wrote what later ones must keep, as each release does. */
function lastRelease(): string {
  const ref =
    newestTag() ?? git('log', '-1', '--format=%h', 'HEAD^', '--', 'test/repository/contracts.txt');
  if (ref === '') throw new Error('This history has no older release. Name one: --ref <commit>.');
  return ref;
}

interface OldRelease {
  readonly folder: string;
  readonly remove: () => void;
}

/**
 * The commit in a folder of its own, with what it needs installed: the checkout's where its lock
 * file is the same.
 */
function checkOut(ref: string): OldRelease {
  const home = mkdtempSync(join(tmpdir(), 'strata-skew-'));
  const folder = join(home, 'old');
  git('worktree', 'add', '--detach', folder, ref);
  const remove = (): void => {
    git('worktree', 'remove', '--force', folder);
    rmSync(home, { recursive: true, force: true });
  };
  try {
    const lock = (of: string): string => readFileSync(join(of, 'package-lock.json'), 'utf8');
    if (lock(folder) === lock(checkout))
      symlinkSync(join(checkout, 'node_modules'), join(folder, 'node_modules'));
    else execFileSync('npm', ['ci'], { cwd: folder, stdio: 'inherit' });
    if (!existsSync(join(folder, 'strata.ts'))) throw new Error(`${ref} is no commit of Strata`);
    return { folder, remove };
  } catch (error) {
    remove();
    throw error;
  }
}

type Kind = 'services' | 'gateways';
interface Step {
  readonly name: string;
  readonly kind: Kind;
  readonly isNew: boolean;
}
/** What a rolling restart costs where all nodes are of one release. */
const restarts: readonly Step[] = [
  { name: 'services restarted, of one release', kind: 'services', isNew: false },
  { name: 'gateways restarted, of one release', kind: 'gateways', isNew: false },
];
/** One step after the other; each begins where the previous one has ended. */
const steps: readonly Step[] = [
  { name: 'services forward, under old gateways', kind: 'services', isNew: true },
  { name: 'gateways forward', kind: 'gateways', isNew: true },
  { name: 'gateways back, over new services', kind: 'gateways', isNew: false },
  { name: 'services back, under old gateways', kind: 'services', isNew: false },
  { name: 'gateways forward, over old services', kind: 'gateways', isNew: true },
  { name: 'services forward, under new gateways', kind: 'services', isNew: true },
  { name: 'services back, under new gateways', kind: 'services', isNew: false },
  { name: 'gateways back', kind: 'gateways', isNew: false },
];

/** Which folder each node is started from, by its name; that of the old release by default. */
const folders = new Map<string, string>();
const names: Readonly<Record<Kind, readonly string[]>> = {
  services: ['config-1', 'config-2', 'identity-1', 'identity-2'],
  gateways: ['gateway-1', 'gateway-2', 'gateway-3'],
};

/** As operators do: SIGTERM, a start, and the next once this one can serve. */
async function roll(cluster: Cluster, kind: Kind, folder: string): Promise<void> {
  for (const [place, name] of names[kind].entries()) {
    folders.set(name, folder);
    const node: Running = cluster[kind][place]!;
    await node.stop();
    const again = await cluster.revive(node);
    if (kind === 'gateways') await untilReady(again);
    // By then every node has observed it, also on a busy machine.
    else await delay(3000);
  }
  // Both releases for a while, with nothing on its way.
  await delay(3000);
}

/** Also degraded: this cluster has no notifier. */
async function untilReady({ url }: Running): Promise<void> {
  await eventually(async () => assert.equal((await new Client(url).get('/readyz')).status, 200));
}

type Errors = ReadonlyMap<string, number>;

/** A machine that is busy makes a few more of each. */
const mostOf = (usual: number): number => 3 * usual + 3;

/** Errors that a rolling restart of one release does not show, or hardly ever. */
function unusual({ kind }: Step, { errors, lateMs }: Survived, usual: Errors): string[] {
  const isExcused = (error: string): boolean =>
    (kind === 'gateways' && connectionError.test(error)) ||
    (wasBusy({ lateMs }) && timeoutError.test(error));
  return [...errors]
    .filter(([error, count]) => {
      const known = usual.get(error) ?? 0;
      return !isExcused(error) && (known === 0 || count > mostOf(known));
    })
    .map(([error, count]) => `${count} × ${error}`);
}

async function main(): Promise<boolean> {
  const ref = values.ref ?? lastRelease();
  const old = checkOut(ref);
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => {
      old.remove();
      process.exit(1);
    });
  let failed = 0;
  try {
    say(`${ref} (${git('rev-parse', '--short', ref)}) beside the checkout`);
    const cluster = await startCluster({
      postgres: () => startPostgres(),
      folderOf: (name) => folders.get(name) ?? old.folder,
      environment: {
        REQUEST_TIMEOUT_MS: String(requestTimeoutMs),
        ACCESS_TOKEN_TTL_SECONDS: '86400',
      },
    });
    try {
      const usual = new Map<Kind, Errors>();
      for (const step of [...restarts, ...steps]) {
        const { name, kind, isNew } = step;
        const fault: Fault = {
          name,
          // Of gateways, whose clients are connected to them.
          ...(kind === 'gateways' ? { breaksConnections: true } : {}),
          inject: () => roll(cluster, kind, isNew ? checkout : old.folder),
        };
        try {
          const survived = await survive(cluster, fault);
          const { writes, reads, errors } = survived;
          const received = JSON.stringify(Object.fromEntries(errors));
          say(`${name}\n  ${writes.length} writes, ${reads.length} reads, errors ${received}`);
          if (restarts.includes(step)) usual.set(kind, errors);
          else assert.deepEqual(unusual(step, survived, usual.get(kind) ?? new Map()), []);
        } catch (error) {
          failed += 1;
          say(`FAILED: ${name}\n  ${(error as Error).message}`);
        }
      }
    } finally {
      await cluster.stop();
    }
  } finally {
    old.remove();
  }
  return failed === 0;
}

main().then(
  (isGood) => process.exit(isGood ? 0 : 1),
  (error: unknown) => {
    say((error as Error).message);
    process.exit(1);
  },
);
