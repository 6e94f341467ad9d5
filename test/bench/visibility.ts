/**
 * How long until a committed write is answered, which is when every node that may cache has dropped what it made old, beside a bare
 * NATS publish that as many subscribers reply to. All nodes run in one process, a new one each round, so both are upper bounds for a
 * real cluster. `visibility.ts <nodes> <writes>`
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { connect, createInbox, type NatsConnection } from 'nats';
import { serviceCaller } from '../../shared/access.ts';
import { createNode, type Node } from '../../shared/cluster/broker.ts';
import { liveSettings } from '../../shared/live-settings.ts';
import { migrate, openDatabase } from '../../shared/database/open.ts';
import { commitChange, type Change } from '../../shared/commits/commit.ts';
import { commitSchema } from '../../shared/commits/schema.ts';
import { loadSettings } from '../../shared/settings.ts';
import { createDatabase, startPostgres } from '../support/postgres.ts';
import { startNats } from '../support/servers.ts';
import { secretKey } from '../support/strata.ts';
import type { Comparison, Group } from './report.ts';

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

function timesOf(all: readonly number[]): Times {
  const sorted = all.toSorted((a, b) => a - b);
  const at = (share: number): number => {
    const index = Math.min(sorted.length - 1, Math.floor(sorted.length * share));
    return Math.round(sorted[index]! * 100) / 100;
  };
  return { p50: at(0.5), p99: at(0.99) };
}

async function measureVisibility(nodes: number, writes: number): Promise<Visibility> {
  const [postgres, nats] = await Promise.all([startPostgres(), startNats()]);
  const database = await createDatabase(postgres.url);
  const options = { url: database.url, poolSize: 8, timeoutMs: 10_000, ssl: false };
  await migrate(options, [commitSchema]);
  const db = await openDatabase(options, commitSchema);
  const node = (nodeId: string, commits?: typeof db): Node =>
    createNode({
      settings: liveSettings(
        loadSettings(
          { NODE_ID: nodeId, NATS_URL: nats.url, SECRET_KEY: secretKey, LOG_LEVEL: 'silent' },
          { pieces: [] },
        ),
        {},
        [],
      ),
      ...(commits ? { commits } : {}),
    });
  const writer = node('writer', db);
  const readers = Array.from({ length: nodes }, (_each, index) => node(`reader-${index}`));
  const raw: NatsConnection[] = [];
  try {
    await writer.broker.start();
    await Promise.all(readers.map(({ broker }) => broker.start()));
    await Promise.all(readers.map(({ broker }) => broker.waitForServices('feed')));
    raw.push(
      ...(await Promise.all(
        Array.from({ length: nodes + 1 }, () => connect({ servers: nats.url })),
      )),
    );
    const [publisher, ...subscribers] = raw;
    for (const subscriber of subscribers)
      subscriber.subscribe('raw', {
        callback: (_error, message) => {
          message.respond(message.data);
        },
      });
    await Promise.all(raw.map((each) => each.flush()));
    // A new node does not hear broadcasts for its first second, and holds a lease from its second poll on.
    await delay(3000);

    const payload = new TextEncoder().encode(
      JSON.stringify({ id: '1234567', scope: 'tenant:x', revision: 1, keys: ['risk_config_x'] }),
    );
    const fanOut = async (): Promise<number> => {
      const began = performance.now();
      await new Promise<void>((resolve) => {
        const inbox = createInbox();
        let replies = 0;
        publisher!.subscribe(inbox, {
          max: nodes,
          callback: () => {
            replies += 1;
            if (replies === nodes) resolve();
          },
        });
        publisher!.publish('raw', payload, { reply: inbox });
      });
      return performance.now() - began;
    };
    const known = readers.map(() => 0);
    readers.forEach(({ coherence }, index) =>
      coherence.onChange(({ revision }) => {
        known[index] = Math.max(known[index]!, revision);
      }),
    );
    const by = { caller: serviceCaller('bench'), requestId: 'bench', heardOf: () => 0 };
    const write = async (): Promise<{ commit: number; whole: number }> => {
      const committed: Change[] = [];
      const began = performance.now();
      await commitChange(db, { ...by, committed }, 'tenant:x', async () => ({
        result: undefined,
        keys: ['risk_config_x'],
        events: [],
      }));
      const commit = performance.now() - began;
      await writer.coherence.publish(committed);
      const whole = performance.now() - began;
      assert(
        known.every((revision) => revision >= committed[0]!.revision),
        'a write was answered before every node knew it',
      );
      return { commit, whole };
    };
    // Until code is compiled: the worst of a hundred is what is looked at.
    for (let warm = 0; warm < 500; warm += 1) {
      await fanOut();
      await write();
    }
    const found = { strata: [] as number[], commit: [] as number[], raw: [] as number[] };
    for (let turn = 0; turn < writes; turn += 1) {
      found.raw.push(await fanOut());
      const { commit, whole } = await write();
      found.commit.push(commit);
      found.strata.push(whole);
    }
    return {
      nodes,
      writes,
      strata: timesOf(found.strata),
      commit: timesOf(found.commit),
      raw: timesOf(found.raw),
    };
  } finally {
    await Promise.all(raw.map((each) => each.close()));
    await Promise.all(readers.map(({ broker }) => broker.stop()));
    await writer.broker.stop();
    await db.destroy();
    await nats.stop('SIGKILL');
    await postgres.stop();
  }
}

/** The goal: twice the fan-out, and the commit. */
export const visibility: Group = async ({ rounds, seconds }) => {
  const rows: Comparison[] = [];
  for (const nodes of [3, 10, 30]) {
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
      what: `a write answered and visible on ${nodes} nodes, p99`,
      peer: 'twice a bare NATS publish with as many replies, p99, and the commit',
      unit: 'ms',
      goal: { atMost: 1 },
      strata: found.map(({ strata }) => strata.p99),
      baseline: found.map(({ raw, commit }) => 2 * raw.p99 + commit.p99),
    });
  }
  return { rows };
};

if (import.meta.main) {
  const [nodes, writes] = process.argv.slice(2).map(Number) as [number, number];
  process.stdout.write(`${JSON.stringify(await measureVisibility(nodes, writes))}\n`);
  process.exit();
}
