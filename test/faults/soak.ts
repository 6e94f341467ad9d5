/**
 * `npm run test:soak -- --minutes 10 --kills 200`: every fault in turn on one cluster, over and over, and then processes killed at
 * random; ends with 1 at the first violation.
 */
import { parseArgs } from 'node:util';
import { startCluster } from '../support/cluster.ts';
import { cuttable, faults, requestTimeoutMs, survive } from '../support/faults.ts';
import { killAtRandom } from '../support/kills.ts';

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
  environment: { REQUEST_TIMEOUT_MS: String(requestTimeoutMs), ACCESS_TOKEN_TTL_SECONDS: '86400' },
});
try {
  for (let turn = 0; Date.now() < until; turn += 1) {
    const fault = faults[turn % faults.length]!;
    const { writes, reads, errors, slowestWriteMs, slowestMs } = await survive(cluster, fault);
    const stale = reads.filter((read) => read.stale).length;
    for (const [figure, count] of Object.entries({
      writes: writes.length,
      reads: reads.length,
      stale,
      faults: 1,
    }))
      total[figure as keyof typeof total] += count;
    say(
      `${fault.name}\n  ${writes.length} writes, slowest ${Math.round(slowestWriteMs)} ms; ${reads.length} reads, ${stale} marked stale; longest wait ${Math.round(slowestMs)} ms` +
        `; errors ${JSON.stringify(Object.fromEntries(errors))}`,
    );
  }
  say(
    `no violation in ${total.faults} faults, ${total.writes} answered writes, ${total.reads} reads (${total.stale} marked stale)`,
  );
  for (let left = Number(values.kills); left > 0; left -= 20)
    say(`killed at random: ${JSON.stringify(await killAtRandom(cluster, Math.min(left, 20)))}`);
} finally {
  await cluster.stop();
}
