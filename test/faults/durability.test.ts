/**
 * Guarantee G2: what was answered is kept, recorded once and known everywhere, whatever is killed.
 * `npm run test:soak` kills more.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { startCluster, type Cluster } from '../support/cluster.ts';
import { requestTimeoutMs } from '../support/faults.ts';
import { killAtRandom } from '../support/kills.ts';
import { startPostgres } from '../support/postgres.ts';

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster({
    gateways: 2,
    postgres: startPostgres,
    environment: { REQUEST_TIMEOUT_MS: String(requestTimeoutMs) },
  });
});
afterAll(() => cluster?.stop());

const sum = (counts: Record<string, number>): number =>
  Object.values(counts).reduce((total, each) => total + each, 0);

test('processes are killed at random moments during writes', async () => {
  const { kills } = await killAtRandom(cluster, 6);
  expect(sum(kills)).toBe(6);
});

test('services are killed while they commit together what 32 writers of one tenant wait for', async () => {
  const { database, tenant } = cluster;
  const scope = `tenant:${tenant.id}`;
  // A commit takes longer than all that comes before it, so that most kills come into one.
  await database.query(
    `CREATE FUNCTION take_long() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.02); RETURN NULL; END $$`,
  );
  await database.query(
    `CREATE CONSTRAINT TRIGGER take_long AFTER INSERT ON strata.changes DEFERRABLE INITIALLY DEFERRED
     FOR EACH ROW WHEN (NEW.scope = '${scope}') EXECUTE FUNCTION take_long()`,
  );
  const { kills } = await killAtRandom(cluster, 3, {
    writers: 32,
    // Those with tenant-config.
    victims: ({ services }) => services.slice(0, 2),
  });
  expect(sum(kills)).toBe(3);
  const [found] = await database.query<{ most: number }>(
    `SELECT max(writes)::int AS most FROM
       (SELECT count(*) AS writes FROM strata.changes WHERE scope = $1 GROUP BY id) AS transactions`,
    [scope],
  );
  expect(found!.most).toBeGreaterThan(4);
});
