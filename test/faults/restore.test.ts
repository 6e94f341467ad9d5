/**
 * PostgreSQL goes back to an older state under running nodes, as a restore or an asynchronous failover makes it: what was lost is
 * answered by nobody any more, and whoever knew a lost revision is told instead of going on as if nothing had happened.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { execFileSync } from 'node:child_process';
import { renameSync, rmSync } from 'node:fs';
import { eventually, startCluster, type Cluster } from '../support/cluster.ts';
import { watch } from '../support/event-stream.ts';
import { Client } from '../support/strata.ts';

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster({ gateways: 2 });
}, 120_000);
afterAll(() => cluster?.stop());

const at = (gateway: number, by: Client = cluster.tenant.admin): Client =>
  new Client(cluster.gateways[gateway]!.url, by.token);
const agentPath = (): string => `/tenants/${cluster.tenant.id}/config/agents/restored`;
const tenantStream = (): string => `/tenants/${cluster.tenant.id}/config/watch`;
const globalPath = '/config/global/restored';
const revisionOf = ({ headers }: { headers: Headers }): number =>
  Number(headers.get('x-config-revision'));

/** Throws where it is not answered, as while PostgreSQL comes back. */
async function written(answer: Promise<Awaited<ReturnType<Client['put']>>>): Promise<number> {
  const { status, text, headers } = await answer;
  if (status >= 300) throw new Error(`${status} ${text}`);
  return revisionOf({ headers });
}
const writeAgent = (value: unknown): Promise<number> =>
  written(at(0).put(agentPath(), { custom: { value } }));
const writeGlobal = (value: unknown): Promise<number> =>
  written(at(1, cluster.platform).put(globalPath, { config_value: value, is_public: true }));

/** Uses up ids of transactions, so that those that were lost are not only older than any cursor, but given out again. */
const useTransactionIds = (): Promise<unknown> =>
  cluster.database.query(
    'DO $$ BEGIN FOR n IN 1..300 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$',
  );

type GoBack = () => Promise<unknown>;
/** Each keeps the database as it is, and returns how to go back to that. */
const backups: Record<string, (cluster: Cluster) => Promise<GoBack>> = {
  'the database': ({ database }) => database.backUp(),
  async 'the files of the server'({ postgres }) {
    let backup = '';
    await postgres.restart('SIGINT', (directory) => {
      backup = `${directory}.backup`;
      // With owners and rights.
      execFileSync('cp', ['-a', directory, backup]);
    });
    return () =>
      postgres.restart('SIGQUIT', (directory) => {
        rmSync(directory, { recursive: true });
        renameSync(backup, directory);
      });
  },
};

test.each([
  ['the database', 'quietly', 0],
  ['the files of the server', 'quietly', 0],
  ['the database', 'while writes go on at once', 8],
  ['the files of the server', 'while writes go on at once', 8],
])(
  '%s, %s: nobody answers what was lost, streams and clients are told',
  async (what, _when, writesAtOnce) => {
    const kept = {
      agent: await eventually(() => writeAgent('kept')),
      global: await eventually(() => writeGlobal('kept')),
    };
    const goBack = await backups[what]!(cluster);
    const streams = await Promise.all([
      watch(at(0), tenantStream()),
      watch(at(1), tenantStream()),
      watch(at(0, cluster.platform), '/config/watch'),
    ]);
    for (const each of [1, 2, 3]) await writeAgent(`lost ${each}`);
    for (const each of [1, 2, 3]) await writeGlobal(`lost ${each}`);
    const lost = { agent: kept.agent + 3, global: kept.global + 3 };
    const newest = [lost.agent, lost.agent, lost.global];
    await Promise.all(
      streams.map((stream, index) => stream.until(({ id }) => id === newest[index])),
    );

    await goBack();
    await useTransactionIds();
    if (writesAtOnce > 0) {
      await eventually(() => writeAgent('at once'));
      await eventually(() => writeGlobal('at once'));
      for (let each = 1; each < writesAtOnce; each += 1)
        await Promise.all([writeAgent(`at once ${each}`), writeGlobal(`at once ${each}`)]);
    }

    const began = performance.now();
    for (const stream of streams) await stream.until(({ event }) => event === 'reset');
    // Long before a heartbeat, at which it would have looked anyway.
    expect(performance.now() - began).toBeLessThan(8000);
    // Whoever goes on by the numbers alone would find them again.
    await eventually(async () => {
      for (const each of [1, 2, 3, 4]) await writeAgent(`new ${each}`);
      for (const each of [1, 2, 3, 4]) await writeGlobal(`new ${each}`);
    });
    const agent = await writeAgent('newest');
    const global = await writeGlobal('newest');
    expect(agent).toBeGreaterThan(lost.agent + 1);
    for (const [index, revision] of [agent, agent, global].entries())
      await streams[index]!.until(({ id, event }) => event === 'config.changed' && id === revision);
    for (const stream of streams) stream.leave();

    for (const gateway of [0, 1]) {
      await eventually(async () => {
        const answer = await at(gateway).get(agentPath());
        expect([answer.body.custom.value, answer.headers.get('x-config-stale')]).toEqual([
          'newest',
          null,
        ]);
      });
      for (const [path, by, revisions, end] of [
        [tenantStream(), cluster.tenant.admin, [kept.agent + 1, lost.agent - 1, lost.agent], agent],
        [
          '/config/watch',
          cluster.platform,
          [kept.global + 1, lost.global - 1, lost.global],
          global,
        ],
      ] as const)
        for (const revision of revisions) {
          const resumed = await watch(at(gateway, by), path, revision);
          const { id } = await resumed.until(({ event }) => event !== 'ready');
          expect([resumed.events[1]!.event, id]).toEqual(['reset', end]);
          resumed.leave();
        }
      for (const revision of [lost.agent - 1, lost.agent]) {
        const known = await at(gateway).get(agentPath(), { 'if-none-match': `"${revision}"` });
        expect([known.status, known.body.custom.value]).toEqual([200, 'newest']);
        const onto = { 'if-match': `"${revision}"` };
        expect((await at(gateway).put(agentPath(), { custom: {} }, onto)).status).toBe(412);
        const atLeast = await at(gateway).get(agentPath(), { 'x-min-revision': String(revision) });
        expect([atLeast.status, atLeast.body.custom.value]).toEqual([200, 'newest']);
      }
    }
  },
  90_000,
);
