/** Many clients of one gateway that goes away: what they do meanwhile, and how they come back. Minutes, for `npm run test:soak`. */
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { connect } from '../../client/source/index.ts';
import { eventually } from './cluster.ts';
import { startEffectiveGateway } from './effective-gateway.ts';

/** Throws where they do not outlast it, else says how they came back. */
export async function clientsOutlast(count: number): Promise<string> {
  const gateway = await startEffectiveGateway();
  gateway.values = '{"max_cost_impact_auto":50}';
  gateway.heartbeatMs = 5000;
  gateway.retryMs = 1000;
  const options = { url: gateway.url, tenant: 't', token: 'good', warn: () => {} };
  const configs = await Promise.all(Array.from({ length: count }, () => connect(options)));
  const limits = (): Set<number> =>
    new Set(configs.map((each) => each.limit('max_cost_impact_auto')));
  const allOpen = () => eventually(async () => assert.equal(gateway.open(), count), 90_000);
  try {
    await allOpen();
    await delay(20_000);
    assert.deepEqual([...limits()], [50], 'an idle stream is taken for stale');

    await gateway.stop();
    await delay(10_000);
    assert.deepEqual([...limits()], [50], 'a limit is given up before its bound');
    gateway.asked.length = 0;
    const backAt = Date.now();
    await gateway.start();
    await allOpen();
    const seconds = new Map<number, number>();
    for (const { at, path } of gateway.asked) {
      if (path.includes('watch')) continue;
      const second = Math.floor((at - backAt) / 1000);
      seconds.set(second, (seconds.get(second) ?? 0) + 1);
    }
    const most = Math.max(...seconds.values());
    assert.ok(most <= count / 4, `${most} of ${count} clients came back within a second`);

    await gateway.stop();
    await delay(60_000);
    assert.deepEqual([...limits()], [0], 'a limit outlives its bound');
    assert.equal(configs[0]!.get('max_cost_impact_auto'), 50);
    await gateway.start();
    await allOpen();
    assert.deepEqual([...limits()], [50], 'a limit does not recover');
    return `${count} clients, at most ${most} of them back within one second`;
  } finally {
    await Promise.all(configs.map((config) => config.close()));
    await gateway.stop();
  }
}
