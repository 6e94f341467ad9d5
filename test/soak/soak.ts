/**
 * `npm run test:soak -- --minutes 10 --kills 200 --clients 500 --failovers 4 --roles 1
 * --changes 500 --starts 10000 --tenants 10000 --files 1 --pooler`: has a fleet of `@strata/client` lose its gateway;
 * leads a cluster to a standby of PostgreSQL for a minute, then has standbys take over, synchronous and asynchronous by
 * turns; injects every fault in turn into another, over and over, then kills processes at random; and
 * in one where each role has processes of its own, kills one of each under load. Change sets are
 * written, approved and applied in random order, and the processes that apply them killed. Automations
 * are started against a budget that pays for a hundredth of them, while everything is killed and
 * clocks jump. A change of the platform is rolled out to 10,000 tenants whose readers ask through the
 * faults. Last come the test files of this folder, and those of `npm test` that repeat less there. With `--pooler` nodes reach
 * PostgreSQL through PgBouncer in transaction mode. Ends with 1 if anything was wrong, lost or late.
 */
import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join, sep } from 'node:path';
import { parseArgs } from 'node:util';
import { setTimeout as delay } from 'node:timers/promises';
import { clientsOutlast } from '../support/client-fleet.ts';
import {
  eventually,
  killed,
  serviceNames,
  startCluster,
  type Cluster,
} from '../support/cluster.ts';
import { startReplicatedPostgres } from '../support/failover.ts';
import {
  cuttable,
  failOver,
  faults,
  fenceMs,
  justStarted,
  requestTimeoutMs,
  survive,
  type Fault,
} from '../support/faults.ts';
import { fourEyes, interleaveChanges, killWhileApplying } from '../support/interleaved-changes.ts';
import { killAtRandom } from '../support/kills.ts';
import { startPostgres } from '../support/postgres.ts';
import { rollOutUnderFaults } from '../support/rollout-under-faults.ts';
import { spendUnderFaults } from '../support/spending.ts';
import { adminPassword, Client, createTenant, signIn, type Running } from '../support/strata.ts';
import { askDuring, assertBearable, summaryOf } from '../support/under-load.ts';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    kills: { type: 'string', default: '50' },
    clients: { type: 'string', default: '500' },
    failovers: { type: 'string', default: '4' },
    roles: { type: 'string', default: '1' },
    changes: { type: 'string', default: '500' },
    starts: { type: 'string', default: '10000' },
    tenants: { type: 'string', default: '10000' },
    files: { type: 'string', default: '1' },
    pooler: { type: 'boolean', default: false },
  },
});
if (values.pooler) process.env.TEST_POOLER = 'true';
const say = (line: string): void => {
  process.stdout.write(`${new Date().toISOString().slice(11, 19)} ${line}\n`);
};
const environment = {
  REQUEST_TIMEOUT_MS: String(requestTimeoutMs),
  ACCESS_TOKEN_TTL_SECONDS: '86400',
  // Each fault has a sign-in of the tenant's administrator, whose first session is used throughout.
  SESSIONS_PER_PERSON: '10000',
};
const total = { failed: 0, faults: 0, writes: 0, reads: 0, stale: 0, merged: 0, errors: 0 };
/** How often each fault was survived. */
const survived = new Map<string, number>();

async function surviveAndSay(cluster: Cluster, fault: Fault): Promise<void> {
  const observed = await survive(cluster, fault, { pauseMs: 5 }).catch((error: Error) => {
    total.failed += 1;
    say(`FAILED: ${fault.name}\n  ${error.message}`);
  });
  if (!observed) return;
  const { writes, reads, merged, errors, lost, lateMs, slowestWriteMs, slowestReadMs, slowestMs } =
    observed;
  const stale = reads.filter((read) => read.stale).length;
  survived.set(fault.name, (survived.get(fault.name) ?? 0) + 1);
  total.faults += 1;
  total.writes += writes.length;
  total.reads += reads.length;
  total.stale += stale;
  total.merged += merged.length;
  for (const count of errors.values()) total.errors += count;
  const measured = [
    `${writes.length} writes, slowest ${Math.round(slowestWriteMs)} ms`,
    `${reads.length} reads, slowest ${Math.round(slowestReadMs)} ms, ${stale} marked stale`,
    `longest wait ${Math.round(slowestMs)} ms`,
    `errors ${JSON.stringify(Object.fromEntries(errors))}`,
    `the checker itself ${Math.round(lateMs)} ms late`,
    ...(lost.length > 0 ? [`${lost.length} writes lost with the older state`] : []),
  ];
  say(`${fault.name}\n  ${measured.join('; ')}`);
}

/** Until no client sees an error twice in a row. */
async function startedAndSay(cluster: Cluster): Promise<void> {
  for (let turn = 0, quiet = 0; turn < 10 && quiet < 2; turn += 1) {
    const before = total.errors;
    await surviveAndSay(cluster, justStarted);
    quiet = total.errors === before ? quiet + 1 : 0;
  }
}

async function injectAndKill(): Promise<void> {
  const cluster = await startCluster({
    cuttable,
    platformService: true,
    postgres: () => startPostgres({ ownClock: true }),
    environment,
  });
  try {
    await startedAndSay(cluster);
    const until = Date.now() + Number(values.minutes) * 60_000;
    for (let turn = 0; Date.now() < until; turn += 1)
      await surviveAndSay(cluster, faults[turn % faults.length]!);
    // One whose history no restore has shortened, made by a sign-in of now: that of the start may be
    // too long ago to create tenants.
    const { url } = cluster.gateways[0]!;
    const admin = await signIn(url, 'admin@example.com', adminPassword);
    const tenant = await createTenant(url, admin, `Kills ${Date.now()}`);
    // A few at a time, so that what is lost shows soon.
    const killsAtATime = 20;
    const kills = Number(values.kills);
    for (let done = 0; done < kills; done += killsAtATime) {
      const accounted = await killAtRandom(cluster, Math.min(kills - done, killsAtATime), {
        tenant,
        pauseMs: 5,
        // One, two and three by turns.
        atOnce: 1 + ((done / killsAtATime) % 3),
      });
      say(`killed at random: ${JSON.stringify(accounted)}`);
    }
  } finally {
    await cluster.stop();
  }
}

async function failOverInTurn(): Promise<void> {
  const server = await startReplicatedPostgres();
  const cluster = await startCluster({
    platformService: true,
    postgres: async () => server,
    environment,
  });
  try {
    await startedAndSay(cluster);
    for (let turn = 0; turn < Number(values.failovers); turn += 1) {
      const synchronous = turn % 2 === 0;
      await server.addStandby({ synchronous });
      await surviveAndSay(cluster, failOver(server, { synchronous }));
    }
  } finally {
    await cluster.stop();
  }
}

async function clientsAway(): Promise<void> {
  const said = await clientsOutlast(Number(values.clients)).catch((error: Error) => {
    total.failed += 1;
    return `FAILED: ${error.message}`;
  });
  say(`clients of a gateway that is away: ${said}`);
}

/**
 * What callers may have to wait while a node is gone: reads for it to be noticed, writes for the
 * end of its lease besides.
 */
const bearableMs = { read: 1000, write: 300 + fenceMs };

/**
 * One node of each role is killed under load, in the next round the other one; each is back before
 * the next is killed.
 */
async function killRoleByRole(): Promise<void> {
  const cluster = await startCluster({
    gateways: 2,
    apart: true,
    environment: { ACCESS_TOKEN_TTL_SECONDS: '86400' },
  });
  const allAreReady = async (): Promise<void> => {
    await eventually(async () => {
      for (const { url } of cluster.gateways) {
        const { body } = await new Client(url).get('/readyz');
        if (body.status !== 'ready') throw new Error(JSON.stringify(body));
      }
    }, 30_000);
    // Until no write waits any more for the lease of the node that was killed before.
    await delay(fenceMs);
  };
  try {
    for (let round = 0; round < Number(values.roles); round += 1) {
      const which = round % 2;
      for (const [index, name] of serviceNames.entries()) {
        await allAreReady();
        await killUnderLoad(cluster, name, cluster.services[2 * index + which]!, which);
      }
      await allAreReady();
      await killUnderLoad(cluster, 'gateway', cluster.gateways[which]!, which);
    }
  } finally {
    await cluster.stop();
  }
}

/** Clients ask through the gateway that is not killed where one is. */
async function killUnderLoad(
  cluster: Cluster,
  name: string,
  node: Running,
  which: number,
): Promise<void> {
  const { url } = cluster.gateways[1 - which]!;
  // Of nodes that work already: the first requests of a process that has just started take longer,
  // killed neighbour or not.
  await askDuring(cluster, url, () => {});
  const { lanes, lateMs } = await askDuring(cluster, url, () => killed(node));
  const measured = lanes.map((seen) => `\n  ${summaryOf(seen)}`).join('');
  say(
    `kill -9 of ${name} ${which + 1}; the checker itself ${Math.round(lateMs)} ms late${measured}`,
  );
  const slack = 3 * lateMs;
  await assertBearable(cluster, lanes, {
    read: bearableMs.read + slack,
    write: bearableMs.write + slack,
  }).catch((error: Error) => {
    total.failed += 1;
    say(`FAILED: kill -9 of ${name} ${which + 1}\n  ${error.message}`);
  });
  await cluster.revive(node);
}

/** Change sets in random order, and the processes that apply them killed. */
async function interleave(): Promise<void> {
  const rounds = Math.ceil(Number(values.changes) / 3);
  const cluster = await startCluster({ gateways: 1, environment });
  try {
    const people = await fourEyes(cluster);
    const seed = Math.floor(Math.random() * 1_000_000);
    say(`${values.changes} steps with change sets in random order, seed ${seed}`);
    say(JSON.stringify(await interleaveChanges({ ...people, rounds, seed })));
  } catch (error) {
    total.failed += 1;
    say(`FAILED: change sets\n  ${(error as Error).message}`);
  } finally {
    await cluster.stop();
  }
  const killing = await startCluster({ gateways: 1, environment });
  try {
    const unanswered = await killWhileApplying(killing, 20);
    say(`20 times killed while a change set was applied, ${unanswered} times without an answer`);
  } catch (error) {
    total.failed += 1;
    say(`FAILED: kill -9 while applying\n  ${(error as Error).message}`);
  } finally {
    await killing.stop();
  }
}

/** Automations against a budget that pays for a hundredth of them. */
async function spend(): Promise<void> {
  const starts = Number(values.starts);
  const cluster = await startCluster({
    postgres: () => startPostgres({ ownClock: true }),
    environment: { ...environment, RATE_LIMIT_PER_MINUTE: '0' },
  });
  try {
    const spent = await spendUnderFaults(cluster, { starts, fits: Math.ceil(starts / 100) });
    say(`${starts} starts against a budget: ${JSON.stringify(spent)}`);
  } catch (error) {
    total.failed += 1;
    say(`FAILED: budgets\n  ${(error as Error).stack}`);
  } finally {
    await cluster.stop();
  }
}

/** A change of the platform, to tenants whose readers ask through the faults. */
async function rollOut(): Promise<void> {
  const cluster = await startCluster({
    cuttable,
    platformService: true,
    postgres: () => startPostgres({ ownClock: true }),
    environment: { ...environment, RATE_LIMIT_PER_MINUTE: '0' },
  });
  try {
    const rolledOut = await rollOutUnderFaults(cluster, Number(values.tenants));
    say(`rolled out under faults: ${JSON.stringify(rolledOut)}`);
  } catch (error) {
    total.failed += 1;
    say(`FAILED: rollout\n  ${(error as Error).stack}`);
  } finally {
    await cluster.stop();
  }
}

/** Values that no run of `npm test` tries: it says them, so that they can be tried again. */
const others = { PROPERTY_SEED: String(randomInt(2 ** 31)), PROPERTY_TIMES: '20' };

/** How much of what a test file repeats. */
const repeated: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'flows/automations': { REPLAY_ROUNDS: '500', REPLAY_INTENTS: '100' },
  'gateway/generated-bodies': { GENERATED_BODIES: '20000' },
  'gateway/invalid-bodies': { INVALID_BODIES: '25000' },
  'gateway/platform-history': { HISTORY_SEEDS: '3,4,5,6,7,8', HISTORY_WRITES: '25' },
  'gateway/live-values': { FLEET_STREAMS: '1000' },
  'gateway/ladder': { LADDER_STACKS: '2000' },
  'services/plan': { PLAN_TENANTS: '200' },
  'services/client': { CLIENT_SAVES: '3000' },
  'soak/unknown-rows': { UNKNOWN_SHAPES: '3' },
  'soak/automations': { REDEEM_KILLS: '200' },
  'soak/notifier': { NOTIFIER_KILLS: '200', NOTIFIER_APPROVALS: '1000' },
};

/** Test files of `npm test` that leave some of theirs to the soak. A folder is part of its file. */
function leavingSome(): string[] {
  const tests = join(import.meta.dirname, '..');
  return globSync('{browser,faults,flows,gateway,services}/**/*.ts', { cwd: tests })
    .filter((path) => /support\/(soak|turns)\.ts'/.test(readFileSync(join(tests, path), 'utf8')))
    .map((path) =>
      path
        .split(sep)
        .slice(0, 2)
        .join('/')
        .replace(/\.test\.ts$/, ''),
    )
    .filter((file) => existsSync(join(tests, `${file}.test.ts`)));
}

/** Of rules, those that try values: each soak tries others, and more of them. */
function ofProperties(): string[] {
  const folder = join(import.meta.dirname, '../rules');
  const triesValues = (name: string): boolean =>
    /'\.\.\/support\/(properties|zones)\.ts'/.test(readFileSync(join(folder, name), 'utf8'));
  return readdirSync(folder)
    .filter((name) => name.endsWith('.test.ts') && triesValues(name))
    .map((name) => `rules/${basename(name, '.test.ts')}`);
}

async function repeatFiles(): Promise<void> {
  const here = readdirSync(import.meta.dirname).filter((name) => name.endsWith('.test.ts'));
  const files = new Set([
    ...leavingSome(),
    ...Object.keys(repeated),
    ...ofProperties(),
    ...here.map((name) => `soak/${basename(name, '.test.ts')}`),
  ]);
  for (const file of files) {
    const more = repeated[file] ?? (file.startsWith('rules/') ? others : {});
    say(`${file}: ${JSON.stringify(more)}`);
    const jest = spawn('npm', ['test', '--', `test/${file}.test.ts`], {
      stdio: 'inherit',
      env: { ...process.env, SOAK: 'true', ...more },
    });
    const [code] = (await once(jest, 'exit')) as [number | null];
    if (code === 0) continue;
    total.failed += 1;
    say(`FAILED: ${file}`);
  }
}

const isWanted = (count: string): boolean => Number(count) > 0;
if (isWanted(values.clients)) await clientsAway();
if (isWanted(values.failovers)) await failOverInTurn();
if (isWanted(values.minutes) || isWanted(values.kills)) await injectAndKill();
if (isWanted(values.roles)) await killRoleByRole();
if (isWanted(values.changes)) await interleave();
if (isWanted(values.starts)) await spend();
if (isWanted(values.tenants)) await rollOut();
for (let left = Number(values.files); left > 0; left -= 1) await repeatFiles();
const outcome = total.failed > 0 ? `${total.failed} faults FAILED` : 'no violation';
say(
  `${outcome}: ${JSON.stringify(total)}\n${JSON.stringify(Object.fromEntries(survived), null, 2)}`,
);
if (total.failed > 0) process.exitCode = 1;
