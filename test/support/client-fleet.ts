/**
 * Clients of gateways that go away or refuse them, in real time: what they do meanwhile, and how
 * they come back. Minutes, for `npm run test:soak`.
 */
import assert from 'node:assert/strict';
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { connect, type Config } from '../../client/source/index.ts';
import { eventually } from './cluster.ts';
import { startEffectiveGateway, type EffectiveGateway } from './effective-gateway.ts';

const maxStalenessMs = 15_000;
/** The longest wait between two tries, and some time for the try. */
const backWithinMs = 40_000;

/** Throws where one of them does not outlast it, else says what happened. */
export async function clientsOutlast(count: number): Promise<string> {
  const said = await Promise.all([
    beside((gateway) => absenceOf60s(gateway)),
    beside((gateway) => refusedFor3Minutes(gateway)),
    beside((gateway) => fleetComesBack(gateway, count)),
  ]);
  return said.join('; ');
}

async function beside(outlast: (gateway: EffectiveGateway) => Promise<string>): Promise<string> {
  const gateway = await startEffectiveGateway();
  gateway.values = '{"max_cost_impact_auto":50}';
  gateway.heartbeatMs = 5000;
  gateway.retryMs = 1000;
  try {
    return await outlast(gateway);
  } finally {
    await gateway.stop();
  }
}

const connected = ({ url }: EffectiveGateway, token: string | (() => string) = 'good') =>
  connect({ url, tenant: 't', token, warn: () => {}, maxStalenessMs });
const limitOf = (config: Config): number => config.limit('max_cost_impact_auto');

/** One client, looked at four times a second. */
async function absenceOf60s(gateway: EffectiveGateway): Promise<string> {
  const config = await connected(gateway);
  try {
    await eventually(async () => assert.equal(config.state.status, 'live'));
    // An idle stream is never taken for stale.
    const until = performance.now() + 30_000;
    while (performance.now() < until) {
      assert.equal(limitOf(config), 50);
      await delay(250);
    }

    await gateway.stop();
    const awayAt = performance.now();
    let age = config.state.ageMs;
    while (performance.now() - awayAt < 60_000) {
      const { ageMs, stale } = config.state;
      assert.ok(ageMs >= age, `the age fell from ${age} to ${ageMs} ms`);
      assert.equal(stale, ageMs > maxStalenessMs);
      assert.equal(config.get('max_cost_impact_auto'), 50);
      if (ageMs < maxStalenessMs - 500) assert.equal(limitOf(config), 50);
      if (ageMs > maxStalenessMs) assert.equal(limitOf(config), 0);
      age = ageMs;
      await delay(250);
    }
    assert.ok(age > 55_000, `the age is ${age} ms after a minute`);
    gateway.write({ max_cost_impact_auto: 60 });
    await gateway.start();
    const backAt = performance.now();
    await eventually(async () => assert.equal(limitOf(config), 60), backWithinMs);
    await eventually(async () => assert.equal(config.state.status, 'live'), backWithinMs);
    const seconds = Math.round((performance.now() - backAt) / 1000);
    return `a gateway away for 60 s: all recovered ${seconds} s after its return`;
  } finally {
    await config.close();
  }
}

/** One with a key, and one that asks for its token again. */
async function refusedFor3Minutes(gateway: EffectiveGateway): Promise<string> {
  let asked = 0;
  const configs = await Promise.all([
    connected(gateway),
    connected(gateway, () => {
      asked += 1;
      return 'good';
    }),
  ]);
  const allLive = () =>
    eventually(async () => {
      for (const config of configs) assert.equal(config.state.status, 'live');
    }, backWithinMs);
  try {
    await allLive();
    gateway.token = 'another';
    gateway.cut();
    gateway.asked.length = 0;
    await delay(180_000);
    for (const config of configs) {
      assert.equal(config.state.status, 'offline');
      assert.equal(limitOf(config), 0);
    }
    const tries = gateway.asked.length;
    assert.ok(tries <= 60, `${tries} requests of two clients that are refused, in three minutes`);
    assert.ok(asked > 5, 'the token is not asked for again');
    gateway.token = 'good';
    const backAt = performance.now();
    await allLive();
    for (const config of configs) assert.equal(limitOf(config), 50);
    const seconds = Math.round((performance.now() - backAt) / 1000);
    return `401 for 3 minutes, ${tries} requests of two clients meanwhile: healed after ${seconds} s`;
  } finally {
    await Promise.all(configs.map((config) => config.close()));
  }
}

async function fleetComesBack(gateway: EffectiveGateway, count: number): Promise<string> {
  const configs = await Promise.all(Array.from({ length: count }, () => connected(gateway)));
  const limits = (): number[] => [...new Set(configs.map(limitOf))];
  const allOpen = () => eventually(async () => assert.equal(gateway.open(), count), 90_000);
  try {
    await allOpen();
    await delay(10_000);
    assert.deepEqual(limits(), [50], 'an idle stream is taken for stale');
    const most = [];
    for (const awayMs of [10_000, 60_000]) {
      await gateway.stop();
      await delay(awayMs);
      if (awayMs > maxStalenessMs) assert.deepEqual(limits(), [0], 'a limit outlives its bound');
      gateway.asked.length = 0;
      const backAt = Date.now();
      await gateway.start();
      await allOpen();
      await eventually(async () => assert.deepEqual(limits(), [50]));
      const inSecond = mostInASecond(gateway, backAt);
      assert.ok(inSecond <= count / 4, `${inSecond} of ${count} came back within a second`);
      most.push(`${inSecond} after ${awayMs / 1000} s`);
    }
    return `${count} clients, back within one second at most ${most.join(', ')}`;
  } finally {
    await Promise.all(configs.map((config) => config.close()));
  }
}

function mostInASecond({ asked }: EffectiveGateway, since: number): number {
  const seconds = new Map<number, number>();
  for (const { at, path } of asked) {
    if (path.includes('watch')) continue;
    const second = Math.floor((at - since) / 1000);
    seconds.set(second, (seconds.get(second) ?? 0) + 1);
  }
  return Math.max(...seconds.values());
}
