/**
 * `npm run test:soak -- --minutes 10 --kills 200`: injects every fault in turn into one cluster, over and over, then kills processes
 * at random. Ends with 1 at the first violation.
 */
import { parseArgs } from 'node:util';
import { startCluster } from '../support/cluster.ts';
import { cuttable, faults, requestTimeoutMs, survive } from '../support/faults.ts';
import { killAtRandom } from '../support/kills.ts';
import { startPostgres } from '../support/postgres.ts';

const { values } = parseArgs({
  options: { minutes: { type: 'string', default: '10' }, kills: { type: 'string', default: '50' } },
});
const until = Date.now() + Number(values.minutes) * 60_000;
const say = (line: string): void => {
  process.stdout.write(`${new Date().toISOString().slice(11, 19)} ${line}\n`);
};

const total = { writes: 0, reads: 0, stale: 0, faults: 0 };
const cluster = await startCluster({
  cuttable,
  platformService: true,
  postgres: () => startPostgres({ ownClock: true }),
  environment: { REQUEST_TIMEOUT_MS: String(requestTimeoutMs), ACCESS_TOKEN_TTL_SECONDS: '86400' },
});
try {
  for (let turn = 0; Date.now() < until; turn += 1) {
    const fault = faults[turn % faults.length]!;
    const { writes, reads, errors, slowestWriteMs, slowestMs } = await survive(cluster, fault);
    const stale = reads.filter((read) => read.stale).length;
    total.faults += 1;
    total.writes += writes.length;
    total.reads += reads.length;
    total.stale += stale;
    const figures = [
      `${writes.length} writes, slowest ${Math.round(slowestWriteMs)} ms`,
      `${reads.length} reads, ${stale} marked stale`,
      `longest wait ${Math.round(slowestMs)} ms`,
      `errors ${JSON.stringify(Object.fromEntries(errors))}`,
    ];
    say(`${fault.name}\n  ${figures.join('; ')}`);
  }
  say(
    `no violation in ${total.faults} faults, ${total.writes} answered writes, ${total.reads} reads (${total.stale} marked stale)`,
  );
  // A few at a time, so that what is lost shows soon.
  const killsAtATime = 20;
  for (let left = Number(values.kills); left > 0; left -= killsAtATime) {
    const accounted = await killAtRandom(cluster, Math.min(left, killsAtATime));
    say(`killed at random: ${JSON.stringify(accounted)}`);
  }
} finally {
  await cluster.stop();
}
