/** Guarantee G2: what was answered is kept, recorded once and known everywhere, whatever is killed. `npm run test:soak` kills more. */
import { expect, test } from '@jest/globals';
import { startCluster } from '../support/cluster.ts';
import { requestTimeoutMs } from '../support/faults.ts';
import { killAtRandom } from '../support/kills.ts';
import { startPostgres } from '../support/postgres.ts';

test('processes are killed at random moments during writes', async () => {
  const cluster = await startCluster({
    gateways: 2,
    postgres: startPostgres,
    environment: { REQUEST_TIMEOUT_MS: String(requestTimeoutMs) },
  });
  try {
    const { kills, answered } = await killAtRandom(cluster, 10);
    expect(Object.values(kills).reduce((sum, each) => sum + each)).toBe(10);
    expect(answered).toBeGreaterThan(50);
  } finally {
    await cluster.stop();
  }
});
