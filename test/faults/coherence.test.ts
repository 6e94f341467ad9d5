/**
 * Guarantee G1, that no read is older than an answered write, under the faults of G3: real
 * processes, a real bus and database, and a checker of everything that was read.
 * `npm run test:soak` continues for longer.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { startCluster, type Cluster } from '../support/cluster.ts';
import {
  cuttable,
  assertCoherent,
  faults,
  fenceMs,
  justStarted,
  requestTimeoutMs,
  survive,
} from '../support/faults.ts';
import { startPostgres } from '../support/postgres.ts';
import { observe } from '../support/observe.ts';

describe('with broadcasts', () => {
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await startCluster({
      cuttable,
      platformService: true,
      postgres: () => startPostgres({ ownClock: true }),
      environment: { REQUEST_TIMEOUT_MS: String(requestTimeoutMs) },
    });
    await survive(cluster, justStarted);
  });
  afterAll(() => cluster?.stop());

  // A pause is harder to survive below, where nothing waits for whoever wakes up.
  for (const fault of faults.filter(({ long, pausedMs }) => !long && !pausedMs))
    test(fault.name, async () => {
      await survive(cluster, fault, { tries: 3 });
    });
});

describe('without any broadcast', () => {
  let cluster: Cluster;
  // Every write waits for a poll of every node here, and for the fence where a busy machine makes
  // one late.
  const requestMs = fenceMs * 2;
  const folder = mkdtempSync(join(tmpdir(), 'strata-nats-'));
  beforeAll(async () => {
    const config = join(folder, 'nats.conf');
    // NATS refuses the event packets of Moleculer, so all broadcasts and their acknowledgements are
    // lost.
    writeFileSync(
      config,
      'authorization { users = [ { user: strata, password: strata, permissions: { publish: { deny: ["MOL-strata-nodes.EVENT.>", "MOL-strata-nodes.EVENTB.>"] } } } ] }',
    );
    cluster = await startCluster({
      natsConfig: config,
      environment: {
        NATS_USER: 'strata',
        NATS_PASSWORD: 'strata',
        REQUEST_TIMEOUT_MS: String(requestMs),
      },
    });
  });
  afterAll(async () => {
    await cluster?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  test('the feed and the fence alone hold', async () => {
    let observed = await observe(cluster, () => delay(6000));
    // An error of a machine that was too busy for a moment does not come again.
    for (let left = 3; observed.errors.size > 0 && left > 0; left -= 1) {
      assertCoherent(observed);
      observed = await observe(cluster, () => delay(6000));
    }
    assertCoherent(observed, { unnoticed: true });
    // Nobody acknowledges, so a write is answered when the feed has reached every node.
    expect(observed.slowestWriteMs).toBeGreaterThan(fenceMs / 8);
    expect(observed.slowestWriteMs).toBeLessThan(requestMs + 10_000 + 3 * observed.lateMs);
  });

  // With broadcasts, a gateway that wakes up finds them waiting and drops at once. Here only its
  // lease keeps it from answering.
  const pause = faults.find(({ pausedMs }) => pausedMs)!;
  test(pause.name, async () => {
    await survive(cluster, pause);
  });
});
