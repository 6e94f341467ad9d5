/**
 * Guarantee G1, that no read is older than an answered write, under the faults of G3, and G2, that
 * what was answered is kept, recorded once and known everywhere, whatever is killed: real processes,
 * a real bus and database, and checkers of all that was read and answered. `npm run test:soak`
 * continues for longer and kills more.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually, startCluster, type Cluster } from '../support/cluster.ts';
import {
  cuttable,
  assertCoherent,
  faults,
  fenceMs,
  justStarted,
  survive,
} from '../support/faults.ts';
import { killAtRandom } from '../support/kills.ts';
import { startPostgres } from '../support/postgres.ts';
import { observe } from '../support/observe.ts';
import { startNats } from '../support/servers.ts';
import { soakTest } from '../support/soak.ts';
import { adminPassword, Client, createTenantWith, signIn } from '../support/strata.ts';

// Without broadcasts every write waits for a poll of every node, and for the fence where a busy
// machine makes one late.
const requestMs = fenceMs * 2;
/**
 * One cluster for all, with two gateways, since the start of processes is what costs most. The soak
 * has three.
 */
let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster({
    gateways: 2,
    cuttable,
    platformService: true,
    postgres: () => startPostgres({ ownClock: true }),
    environment: {
      NATS_USER: 'strata',
      NATS_PASSWORD: 'strata',
      REQUEST_TIMEOUT_MS: String(requestMs),
    },
  });
  await survive(cluster, justStarted);
});
afterAll(() => cluster?.stop());

// A pause is harder to survive below, where nothing waits for whoever wakes up.
for (const fault of faults.filter(({ long, pausedMs }) => !long && !pausedMs))
  test(fault.name, async () => {
    await survive(cluster, fault, { tries: 3 });
  });

describe('all that was answered is there, once', () => {
  let tenant: Awaited<ReturnType<typeof createTenantWith>>;
  beforeAll(async () => {
    const { url } = cluster.gateways[0]!;
    // Tenants are created by who has just signed in, and the faults before take their time.
    const platform = await eventually(() => signIn(url, 'admin@example.com', adminPassword));
    tenant = await eventually(() => createTenantWith(url, platform, `Kills ${Date.now()}`));
  });
  const sum = (counts: Record<string, number>): number =>
    Object.values(counts).reduce((total, each) => total + each, 0);

  test('processes are killed at random moments during writes', async () => {
    const { kills } = await killAtRandom(cluster, 4, { tenant });
    expect(sum(kills)).toBe(4);
  });

  soakTest(
    'services are killed while they commit together what 32 writers of one tenant wait for',
    async () => {
      const { database } = cluster;
      const scope = `tenant:${tenant.id}`;
      // A commit takes longer than all that comes before it, so that most kills come into one.
      await database.query(
        `CREATE FUNCTION take_long() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.02); RETURN NULL; END $$`,
      );
      await database.query(
        `CREATE CONSTRAINT TRIGGER take_long AFTER INSERT ON strata.changes DEFERRABLE INITIALLY DEFERRED
       FOR EACH ROW WHEN (NEW.scope = '${scope}') EXECUTE FUNCTION take_long()`,
      );
      const { kills } = await killAtRandom(cluster, 2, {
        tenant,
        writers: 32,
        pauseMs: 5,
        // Those with tenant-config.
        victims: ({ services }) => services.slice(0, 2),
      });
      expect(sum(kills)).toBe(2);
      const [found] = await database.query<{ most: number }>(
        `SELECT max(writes)::int AS most FROM
         (SELECT count(*) AS writes FROM strata.changes WHERE scope = $1 GROUP BY id) AS transactions`,
        [scope],
      );
      expect(found!.most).toBeGreaterThan(4);
    },
  );
});

describe('without any broadcast', () => {
  const folder = mkdtempSync(join(tmpdir(), 'strata-nats-'));
  beforeAll(async () => {
    const config = join(folder, 'nats.conf');
    // NATS refuses the event packets of Moleculer, so all broadcasts and their acknowledgements are
    // lost.
    writeFileSync(
      config,
      'authorization { users = [ { user: strata, password: strata, permissions: { publish: { deny: ["MOL-strata-nodes.EVENT.>", "MOL-strata-nodes.EVENTB.>"] } } } ] }',
    );
    const { port } = cluster.bus;
    await cluster.bus.stop('SIGKILL');
    cluster.bus = await startNats({ port, config });
    await eventually(async () => {
      for (const { url } of cluster.gateways)
        expect((await new Client(url).get('/readyz')).body.checks).toMatchObject({
          bus: true,
          feed: true,
        });
    });
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test('the feed and the fence alone hold', async () => {
    let observed = await observe(cluster, () => delay(3000));
    // An error of a machine that was too busy for a moment does not come again.
    for (let left = 3; observed.errors.size > 0 && left > 0; left -= 1) {
      assertCoherent(observed);
      observed = await observe(cluster, () => delay(3000));
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
