/**
 * How long until a committed write is answered, which is when every node that may cache has dropped
 * what it made old, beside a bare NATS publish that as many subscribers reply to. The lease holders
 * and the subscribers are in the same processes, ten of each in one; the writer is in this one, a
 * new one each round. `visibility.ts <nodes> <writes>`
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { connect, createInbox, type NatsConnection } from 'nats';
import { createFeed } from '../../shared/coherence/feed.ts';
import { serviceCaller } from '../../shared/access.ts';
import { migrate, openDatabase } from '../../shared/database/open.ts';
import { commitChange, type Change } from '../../shared/commits/commit.ts';
import { commitSchema } from '../../shared/commits/schema.ts';
import { createDatabase, startPostgres } from '../support/postgres.ts';
import { startNats } from '../support/servers.ts';
import { bareNode, machineMs } from './bare-node.ts';
import { bothCores, startProgram, type Program } from './machine.ts';
import type { Known } from './peers/lease-holders.ts';
import { median, type Comparison, type Fact, type Group } from './report.ts';

/** Percentiles, in milliseconds. */
interface Times {
  readonly p50: number;
  readonly p99: number;
}
interface Visibility {
  readonly nodes: number;
  readonly writes: number;
  /** From the beginning of a write to its answer. */
  readonly strata: Times;
  /** The part of it that the database takes. */
  readonly commit: Times;
  /** From a bare publish to the last reply. */
  readonly raw: Times;
}
interface Write {
  readonly revision: number;
  readonly commit: number;
  readonly whole: number;
  /** machineMs() */
  readonly answeredAt: number;
}

/** Lease holders in one process, at most. */
const perProcess = 10;
/** Until code is compiled: the worst of a hundred is what is looked at. */
const warmUps = 500;

function timesOf(all: readonly number[]): Times {
  const sorted = all.toSorted((a, b) => a - b);
  const at = (share: number): number => {
    const index = Math.min(sorted.length - 1, Math.floor(sorted.length * share));
    return Math.round(sorted[index]! * 100) / 100;
  };
  return { p50: at(0.5), p99: at(0.99) };
}

/** From the publish until all of so many subscribers have replied, in milliseconds. */
async function fanOut(
  publisher: NatsConnection,
  payload: Uint8Array,
  nodes: number,
): Promise<number> {
  const began = machineMs();
  await new Promise<void>((resolve) => {
    const inbox = createInbox();
    let replies = 0;
    publisher.subscribe(inbox, {
      max: nodes,
      callback: () => {
        replies += 1;
        if (replies === nodes) resolve();
      },
    });
    publisher.publish('raw', payload, { reply: inbox });
  });
  return machineMs() - began;
}

/** Fails where a write was answered before every node had dropped what it made old. */
async function checkVisible(
  publisher: NatsConnection,
  names: readonly string[],
  nodes: number,
  writes: readonly Write[],
): Promise<void> {
  const received = await Promise.all(names.map((name) => publisher.request(`known.${name}`)));
  const known = received.flatMap((message) => message.json<Known>());
  for (const { revision, answeredAt } of writes) {
    const ofWrite = known.filter(([each]) => each === revision);
    const dropped = ofWrite.reduce((sum, [, count]) => sum + count, 0);
    assert.equal(dropped, nodes, `so many nodes have observed revision ${revision}`);
    const last = Math.max(...ofWrite.map(([, , at]) => at));
    assert(last <= answeredAt, `revision ${revision} was answered before every node knew it`);
  }
}

async function measureVisibility(nodes: number, writes: number): Promise<Visibility> {
  const [postgres, nats] = await Promise.all([startPostgres(), startNats()]);
  const database = await createDatabase(postgres.url);
  const options = { url: database.url, poolSize: 8, timeoutMs: 10_000, ssl: false };
  await migrate(options, [commitSchema]);
  const db = await openDatabase(options, commitSchema);
  await createFeed(db).meet();
  const writer = bareNode('writer', nats.url, db);
  const holders: Program[] = [];
  const publisher = await connect({ servers: nats.url });
  try {
    await writer.broker.start();
    const names: string[] = [];
    for (let left = nodes; left > 0; left -= perProcess) {
      const name = `holders-${names.length}`;
      names.push(name);
      const count = String(Math.min(perProcess, left));
      const file = 'test/bench/peers/lease-holders.ts';
      holders.push(await startProgram(file, [nats.url, name, count], bothCores));
    }

    const payload = new TextEncoder().encode(
      JSON.stringify({ id: '1234567', scope: 'tenant:x', revision: 1, keys: ['risk_config_x'] }),
    );
    const by = { caller: serviceCaller('bench'), requestId: 'bench' };
    const write = async (): Promise<Write> => {
      const committed: Change[] = [];
      const began = machineMs();
      await commitChange(db, { ...by, committed }, 'tenant:x', async () => ({
        result: undefined,
        keys: ['risk_config_x'],
        events: [],
      }));
      const commit = machineMs() - began;
      await writer.coherence.publish(committed);
      const answeredAt = machineMs();
      const { revision } = committed[0]!;
      return { revision, commit, whole: answeredAt - began, answeredAt };
    };
    const raw: number[] = [];
    const strata: Write[] = [];
    for (let turn = 0; turn < warmUps + writes; turn += 1) {
      raw.push(await fanOut(publisher, payload, nodes));
      strata.push(await write());
    }
    await checkVisible(publisher, names, nodes, strata);
    const measured = strata.slice(warmUps);
    return {
      nodes,
      writes,
      strata: timesOf(measured.map(({ whole }) => whole)),
      commit: timesOf(measured.map(({ commit }) => commit)),
      raw: timesOf(raw.slice(warmUps)),
    };
  } finally {
    for (const each of holders) await each.stop();
    await publisher.close();
    await writer.broker.stop();
    await db.destroy();
    await nats.stop('SIGKILL');
    await postgres.stop();
  }
}

/** How the row names so many nodes. */
const named = (nodes: number): string =>
  nodes > perProcess
    ? `${nodes} lease holders (${nodes / perProcess} processes of ${perProcess})`
    : `${nodes} lease holders (one process)`;

/** The goal: twice the fan-out, and the commit. */
export const visibility: Group = async ({ rounds, seconds }) => {
  const rows: Comparison[] = [];
  const facts: Fact[] = [];
  for (const nodes of [3, 10, 30, 100]) {
    const found: Visibility[] = [];
    for (let round = 0; round < rounds; round += 1) {
      const { stdout } = await promisify(execFile)(process.execPath, [
        fileURLToPath(import.meta.url),
        String(nodes),
        String(Math.ceil(seconds * 250)),
      ]);
      found.push(JSON.parse(stdout) as Visibility);
    }
    rows.push({
      what: `a write answered and visible on ${named(nodes)}, p99`,
      peer: 'twice a bare NATS publish with as many replies, p99, and the commit',
      unit: 'ms',
      goal: { atMost: 1 },
      strata: found.map(({ strata }) => strata.p99),
      baseline: found.map(({ raw, commit }) => 2 * raw.p99 + commit.p99),
    });
    const medians = (part: 'strata' | 'commit' | 'raw'): string => {
      const p50 = median(found.map((each) => each[part].p50));
      const p99 = median(found.map((each) => each[part].p99));
      return `${p50.toFixed(2)}, ${p99.toFixed(2)}`;
    };
    facts.push({
      what: `${named(nodes)}, p50 and p99: the write / its commit / the bare fan-out`,
      result: `${medians('strata')} / ${medians('commit')} / ${medians('raw')} ms`,
    });
  }
  return { rows, facts };
};

if (import.meta.main) {
  const [nodes, writes] = process.argv.slice(2).map(Number) as [number, number];
  process.stdout.write(`${JSON.stringify(await measureVisibility(nodes, writes))}\n`);
  process.exit();
}
