/**
 * PostgreSQL goes back to an older state under running nodes, as a restore or an asynchronous
 * failover makes it: what was lost is answered by nobody any more, and whoever knew a lost revision
 * is told instead of continuing as if nothing had happened. So it is where no node runs, for files
 * that were put back by the SQL that docs/operations/faults.md has for it.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { backUpServer } from '../support/backups.ts';
import { eventually, killed, polledAgain, startCluster, type Cluster } from '../support/cluster.ts';
import { watch, type WatchStream } from '../support/event-stream.ts';
import { startPostgres } from '../support/postgres.ts';
import { inSoak } from '../support/soak.ts';
import { Client } from '../support/strata.ts';

let cluster: Cluster;
let scratch: string;
beforeAll(async () => {
  scratch = mkdtempSync(join(tmpdir(), 'strata-restore-'));
  chmodSync(scratch, 0o755);
  cluster = await startCluster({ gateways: 2, once: !inSoak, postgres: startPostgres });
});
afterAll(async () => {
  await cluster?.stop();
  rmSync(scratch, { recursive: true, force: true });
});

const at = (gateway: number, by: Client = cluster.tenant.admin): Client =>
  new Client(cluster.gateways[gateway]!.url, by.token);
const agentPath = (): string => `/tenants/${cluster.tenant.id}/config/agents/restored`;
const tenantStream = (): string => `/tenants/${cluster.tenant.id}/config/watch`;
const globalPath = '/config/global/restored';
const setsPath = (): string => `/tenants/${cluster.tenant.id}/config/changesets`;
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

/** Each is a change of its own, of which streams show the last alone. */
async function proposeSet(): Promise<void> {
  const items = [{ action: 'put', path: agentPath(), body: {} }];
  const { status, text } = await at(0).post(setsPath(), { title: 'Restored', reason: 'A', items });
  if (status !== 201) throw new Error(`${status} ${text}`);
}

/**
 * Uses up ids of transactions, so that those that were lost are not only older than any cursor, but
 * given out again.
 */
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
  // As `npm run backup` and `npm run restore` do it: the server is killed.
  async 'a backup'({ database, postgres }) {
    const goBack = await backUpServer(postgres, join(scratch, 'backup'));
    const [now] = await database.query<{ moment: string }>(
      `SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS moment`,
    );
    return () => goBack(now!.moment);
  },
};

test.each([
  ['a backup', 'to a moment', 0],
  ...(inSoak
    ? ([
        ['the files of the server', 'quietly', 0],
        ['the database', 'quietly', 0],
        ['the database', 'while writes continue', 8],
        ['the files of the server', 'while writes continue', 8],
        // Then only gateways have observed what was lost.
        ['the database', 'while the services start again', 0],
      ] as const)
    : []),
])(
  '%s, %s: no one answers what was lost, streams and clients are told',
  async (what, when, writesAtOnce) => {
    const kept = {
      agent: await eventually(() => writeAgent('kept')),
      global: await eventually(() => writeGlobal('kept')),
    };
    await proposeSet();
    const goBack = await backups[what]!(cluster);
    // To copy the files, the server was stopped: until a gateway has observed it again, its streams
    // are refused, or end.
    for (const gateway of [0, 1])
      await eventually(async () => {
        const { status, headers } = await at(gateway).get(agentPath());
        expect([status, headers.get('x-config-stale')]).toEqual([200, null]);
      });
    const opened = (by: Client, path: string): Promise<WatchStream> =>
      eventually(async () => {
        const stream = await watch(by, path);
        expect(stream.status).toBe(200);
        return stream;
      });
    const streams = await Promise.all([
      opened(at(0), tenantStream()),
      opened(at(1), tenantStream()),
      opened(at(0, cluster.platform), '/config/watch'),
    ]);
    const sets = await opened(at(0), `${setsPath()}/watch`);
    const lost = { ...kept };
    for (const each of [1, 2, 3]) {
      await eventually(proposeSet);
      lost.agent = await eventually(() => writeAgent(`lost ${each}`));
      lost.global = await eventually(() => writeGlobal(`lost ${each}`));
    }
    const seen = () => sets.events.filter(({ event }) => event === 'changeset.changed');
    const [, , lastSet] = await eventually(async () => {
      expect(seen().length).toBeGreaterThanOrEqual(3);
      return seen();
    });
    const newest = [lost.agent, lost.agent, lost.global];
    await Promise.all(
      streams.map((stream, index) => stream.until(({ id }) => id === newest[index])),
    );

    // A database that goes back by less than that, without a start of its server, looks the same to
    // a poll.
    await Promise.all([0, 1].map((gateway) => polledAgain(at(gateway, cluster.platform))));

    const startAgain = when === 'while the services start again' ? [...cluster.services] : [];
    await Promise.all(startAgain.map(killed));
    await goBack();
    await useTransactionIds();
    await Promise.all(startAgain.map((service) => cluster.revive(service)));
    if (writesAtOnce > 0) {
      await eventually(() => writeAgent('at once'));
      await eventually(() => writeGlobal('at once'));
      for (let each = 1; each < writesAtOnce; each += 1)
        await Promise.all([
          eventually(() => writeAgent(`at once ${each}`)),
          eventually(() => writeGlobal(`at once ${each}`)),
        ]);
    }

    for (const stream of [...streams, sets]) await stream.until(({ event }) => event === 'reset');
    sets.leave();
    await eventually(proposeSet);
    for (const gateway of [0, 1]) {
      const resumed = await watch(at(gateway), `${setsPath()}/watch`, lastSet!.id);
      await resumed.until(({ event }) => event !== 'ready');
      expect(resumed.events[1]!.event).toBe('reset');
      resumed.leave();
    }
    // Whoever continues by the numbers alone would find them again.
    await eventually(async () => {
      for (const each of [1, 2, 3, 4]) await writeAgent(`new ${each}`);
      for (const each of [1, 2, 3, 4]) await writeGlobal(`new ${each}`);
    });
    const agent = await eventually(() => writeAgent('newest'));
    const global = await eventually(() => writeGlobal('newest'));
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
      await expectNothingFits(gateway, kept, lost, { agent, global });
    }
  },
);

interface Revisions {
  readonly agent: number;
  readonly global: number;
}

/**
 * Whoever has a lost revision, as the id of an event, an entity tag or the least revision of a
 * read, is told so by this gateway.
 */
async function expectNothingFits(
  gateway: number,
  kept: Revisions,
  lost: Revisions,
  newest: Revisions,
): Promise<void> {
  const streams = [
    ['agent', tenantStream(), cluster.tenant.admin],
    ['global', '/config/watch', cluster.platform],
  ] as const;
  for (const [what, path, by] of streams)
    for (const revision of [kept[what] + 1, lost[what] - 1, lost[what]]) {
      const resumed = await watch(at(gateway, by), path, revision);
      const { id } = await resumed.until(({ event }) => event !== 'ready');
      expect([resumed.events[1]!.event, id]).toEqual(['reset', newest[what]]);
      resumed.leave();
    }
  const documents = [
    ['agent', agentPath(), at(gateway), { custom: {} }],
    ['global', globalPath, at(gateway, cluster.platform), { config_value: 1 }],
  ] as const;
  for (const [what, path, client, body] of documents) {
    const current = await client.get(path);
    for (const revision of [lost[what] - 1, lost[what]]) {
      const known = await client.get(path, { 'if-none-match': `"${revision}"` });
      expect([known.status, known.body]).toEqual([200, current.body]);
      const onto = { 'if-match': `"${revision}"` };
      expect((await client.put(path, body, onto)).status).toBe(412);
      const atLeast = await client.get(path, { 'x-min-revision': String(revision) });
      expect([atLeast.status, atLeast.body]).toEqual([200, current.body]);
    }
  }
}

/** The SQL of a section of docs/operations/faults.md, as operators run it. */
function sqlOf(section: string): string {
  const page = readFileSync(join(import.meta.dirname, '../../docs/operations/faults.md'), 'utf8');
  const [, text = ''] = page.split(`\n## ${section}\n`);
  return /```sql\n(.+?)\n```/s.exec(text)![1]!;
}

test.each([
  ['the database', undefined],
  ...(inSoak ? [['the files of the server', sqlOf('Going back to a backup')] as const] : []),
])(
  '%s, while every node is stopped: nothing that was lost is given out again',
  async (what, sql) => {
    const kept = {
      agent: await eventually(() => writeAgent('kept')),
      global: await eventually(() => writeGlobal('kept')),
    };
    const goBack = await backups[what]!(cluster);
    const losses = 4;
    const lost = { ...kept };
    // Each another value: what changes nothing makes no revision.
    while (lost.agent < kept.agent + losses)
      lost.agent = await eventually(() => writeAgent(`lost after ${lost.agent}`));
    while (lost.global < kept.global + losses)
      lost.global = await eventually(() => writeGlobal(`lost after ${lost.global}`));

    const nodes = [...cluster.services, ...cluster.gateways];
    await Promise.all(nodes.map(({ stop }) => stop()));
    await goBack();
    if (sql !== undefined) await cluster.database.query(sql);
    await Promise.all(nodes.map((node) => eventually(() => cluster.revive(node), 120_000)));

    const shown = async (): Promise<string[]> => [
      (await at(0).get(agentPath())).body.custom.value,
      (await at(1, cluster.platform).get(globalPath)).body.config_value,
    ];
    await eventually(async () => expect(await shown()).toEqual(['kept', 'kept']));
    // Before anything is written, and after each write: counted on from what was kept, each would be
    // one that was lost.
    for (let writes = 0; writes <= losses; writes += 1) {
      if (writes > 0) {
        expect(await writeAgent(`new ${writes}`)).toBeGreaterThan(lost.agent + 1);
        expect(await writeGlobal(`new ${writes}`)).toBeGreaterThan(lost.global + 1);
      }
      for (let revision = kept.agent + 1; revision <= lost.agent; revision += 1) {
        const tag = `"${revision}"`;
        const known = await at(0).get(agentPath(), { 'if-none-match': tag });
        expect([revision, known.status]).toEqual([revision, 200]);
      }
    }
    const newest = { agent: await writeAgent('newest'), global: await writeGlobal('newest') };
    for (const gateway of [0, 1]) await expectNothingFits(gateway, kept, lost, newest);
  },
);
