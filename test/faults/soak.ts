/**
 * `npm run test:soak -- --minutes 10 --kills 200 --failovers 4`: has a fleet of `@strata/client` lose its gateway; has standbys of
 * PostgreSQL take over in a cluster, synchronous and asynchronous by turns; injects every fault in turn into another, over and over, then
 * kills processes at random. Ends with 1 if anything was wrong, lost or late.
 */
import { parseArgs } from 'node:util';
import { clientsOutlast } from '../support/client-fleet.ts';
import { startCluster, type Cluster } from '../support/cluster.ts';
import { startReplicatedPostgres } from '../support/failover.ts';
import {
  cuttable,
  failOver,
  faults,
  requestTimeoutMs,
  survive,
  type Fault,
} from '../support/faults.ts';
import { killAtRandom } from '../support/kills.ts';
import { startPostgres } from '../support/postgres.ts';
import { Client, createTenant } from '../support/strata.ts';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    kills: { type: 'string', default: '50' },
    failovers: { type: 'string', default: '4' },
  },
});
const say = (line: string): void => {
  process.stdout.write(`${new Date().toISOString().slice(11, 19)} ${line}\n`);
};
const environment = {
  REQUEST_TIMEOUT_MS: String(requestTimeoutMs),
  ACCESS_TOKEN_TTL_SECONDS: '86400',
};
const total = { failed: 0, faults: 0, writes: 0, reads: 0, stale: 0, merged: 0, errors: 0 };
/** How often each fault was survived. */
const survived = new Map<string, number>();

async function surviveAndSay(cluster: Cluster, fault: Fault): Promise<void> {
  const observed = await survive(cluster, fault).catch((error: Error) => {
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
  const figures = [
    `${writes.length} writes, slowest ${Math.round(slowestWriteMs)} ms`,
    `${reads.length} reads, slowest ${Math.round(slowestReadMs)} ms, ${stale} marked stale`,
    `longest wait ${Math.round(slowestMs)} ms`,
    `errors ${JSON.stringify(Object.fromEntries(errors))}`,
    `the checker itself ${Math.round(lateMs)} ms late`,
    ...(lost.length > 0 ? [`${lost.length} writes lost with the older state`] : []),
  ];
  say(`${fault.name}\n  ${figures.join('; ')}`);
}

async function injectAndKill(): Promise<void> {
  const cluster = await startCluster({
    cuttable,
    platformService: true,
    postgres: () => startPostgres({ ownClock: true }),
    environment,
  });
  try {
    const until = Date.now() + Number(values.minutes) * 60_000;
    for (let turn = 0; Date.now() < until; turn += 1)
      await surviveAndSay(cluster, faults[turn % faults.length]!);
    // One whose history no restore has shortened.
    const { platform, gateways } = cluster;
    const { url } = gateways[0]!;
    const admin = new Client(url, platform.token);
    const tenant = await createTenant(url, admin, `Kills ${Date.now()}`);
    // A few at a time, so that what is lost shows soon.
    const killsAtATime = 20;
    for (let left = Number(values.kills); left > 0; left -= killsAtATime) {
      const accounted = await killAtRandom(cluster, Math.min(left, killsAtATime), { tenant });
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
  const said = await clientsOutlast(500).catch((error: Error) => {
    total.failed += 1;
    return `FAILED: ${error.message}`;
  });
  say(`clients of a gateway that is away: ${said}`);
}

await clientsAway();
await failOverInTurn();
await injectAndKill();
const outcome = total.failed > 0 ? `${total.failed} faults FAILED` : 'no violation';
say(
  `${outcome}: ${JSON.stringify(total)}\n${JSON.stringify(Object.fromEntries(survived), null, 2)}`,
);
if (total.failed > 0) process.exitCode = 1;
