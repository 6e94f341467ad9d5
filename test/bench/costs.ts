/**
 * What the steps of a visible write cost one by one, each measured apart: the constants of
 * `npm run simulate`, which `bench.json` has as `costs`. Nothing here is measured with the numbers
 * of nodes that the simulation is compared at, but with one node and with ten.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { performance, PerformanceObserver } from 'node:perf_hooks';
import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises';
import { ServiceBroker } from 'moleculer';
import { connect } from 'nats';
import type { DataSource } from 'typeorm';
import { serviceCaller } from '../../shared/access.ts';
import type { Node } from '../../shared/node/broker.ts';
import { acknowledgedEvent, invalidateEvent } from '../../shared/node/cluster-service.ts';
import { createFeed } from '../../shared/coherence/feed.ts';
import { commitChange, type Change } from '../../shared/commits/commit.ts';
import { commitSchema } from '../../shared/commits/schema.ts';
import { migrate, openDatabase } from '../../shared/database/open.ts';
import { createDatabase, startPostgres } from '../support/postgres.ts';
import { startNats } from '../support/servers.ts';
import { bareNode } from './bare-node.ts';
import { bothCores, childrenOf, machine, startProgram } from './machine.ts';
import { median, type Group } from './report.ts';
import type { Quantiles } from './simulation/events.ts';
import type { Costs } from './simulation/visible-write.ts';

const rounds = 1000;
const warmUps = 500;
const few = 1;
const many = 10;
const leaseRows = 200;
/**
 * Heartbeats of a node and polls of its feed, each second: `broker.ts`, and four polls in
 * COHERENCE_FENCE_MS.
 */
const perSecond = { beats: 0.5, polls: 2 };

/**
 * Steps of a tenth of a hundredth at the upper end would be guesses: a thousand rounds have ten of
 * them.
 */
function quantilesOf(all: readonly number[], steps = 200): Quantiles {
  const sorted = all.toSorted((a, b) => a - b);
  if (sorted.length === 0) return [];
  return Array.from({ length: steps + 1 }, (_each, step) => {
    const place = Math.round((step / steps) * (sorted.length - 1));
    return Number(sorted[place]!.toFixed(4));
  });
}

/** Processor time of a process so far, all its threads, in milliseconds (proc(5), schedstat). */
function cpuOf(pid: number): number {
  let ns = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`))
    ns += Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]);
  return ns / 1e6;
}

/** Of its main thread alone: for Node, what its event loop waits for. */
const loopOf = (pid: number): number =>
  Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6;

/**
 * Of a process's other threads, which for Node are V8's: their processor time in milliseconds, and
 * how often one was given a core.
 */
function besideLoop(pid: number): { readonly ms: number; readonly times: number } {
  const others = readdirSync(`/proc/${pid}/task`).filter((thread) => Number(thread) !== pid);
  const each = others.map((thread) =>
    readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ').map(Number),
  );
  return {
    ms: each.reduce((sum, [ns]) => sum + ns!, 0) / 1e6,
    times: each.reduce((sum, [, , slices]) => sum + slices!, 0),
  };
}

/** A backend may have ended. */
function ifAlive(pid: number): number {
  try {
    return loopOf(pid);
  } catch {
    return 0;
  }
}

interface Used {
  readonly own: number;
  readonly other: number;
  readonly bus: number;
  readonly database: number;
}

interface Watched {
  readonly other?: number;
  readonly bus: number;
  readonly database: number;
}

/** Of each backend, also of those that have ended since: the pool closes what is idle. */
const backendMs = new Map<number, number>();

function used({ other, bus, database }: Watched): Used {
  for (const pid of childrenOf(database)) backendMs.set(pid, ifAlive(pid));
  return {
    own: loopOf(process.pid),
    other: other === undefined ? 0 : loopOf(other),
    bus: cpuOf(bus),
    database: [...backendMs.values()].reduce((sum, ms) => sum + ms, 0),
  };
}

interface Measured {
  /** Of each time, in milliseconds. */
  readonly ms: readonly number[];
  /** Of one time, without what is used anyway. */
  readonly each: Used;
}

const nothing: Used = { own: 0, other: 0, bus: 0, database: 0 };

/** `idle`: what is used in a millisecond anyway. */
async function measure(
  times: number,
  watched: Watched,
  work: (time: number) => Promise<unknown>,
  idle = nothing,
): Promise<Measured> {
  const ms: number[] = [];
  const before = used(watched);
  const began = performance.now();
  for (let time = 0; time < times; time += 1) {
    const start = performance.now();
    await work(time);
    ms.push(performance.now() - start);
  }
  const tookMs = performance.now() - began;
  const after = used(watched);
  const share = (part: keyof Used): number =>
    Math.max(0, after[part] - before[part] - idle[part] * tookMs) / times;
  return {
    ms,
    each: {
      own: share('own'),
      other: share('other'),
      bus: share('bus'),
      database: share('database'),
    },
  };
}

/**
 * The median of each, so that pauses, which are measured apart, are not counted twice. `before` is
 * not measured: what is done after something else costs more than what is repeated.
 */
async function measureMedians(
  times: number,
  { other, bus, database }: Watched,
  work: (time: number) => Promise<unknown>,
  before: () => Promise<unknown>,
): Promise<Measured> {
  const backends = childrenOf(database);
  const usedByOthers = (): Omit<Used, 'own'> => ({
    other: other === undefined ? 0 : loopOf(other),
    bus: cpuOf(bus),
    database: backends.reduce((sum, pid) => sum + ifAlive(pid), 0),
  });
  const ms: number[] = [];
  const parts: Record<keyof Used, number[]> = { own: [], other: [], bus: [], database: [] };
  for (let time = 0; time < times; time += 1) {
    await before();
    const was = usedByOthers();
    const ownBefore = process.threadCpuUsage();
    const start = performance.now();
    await work(time);
    ms.push(performance.now() - start);
    const { user, system } = process.threadCpuUsage(ownBefore);
    await nextTurn();
    const is = usedByOthers();
    parts.own.push((user + system) / 1000);
    parts.other.push(is.other - was.other);
    parts.bus.push(is.bus - was.bus);
    parts.database.push(is.database - was.database);
  }
  const { own, other: others, bus: buses, database: databases } = parts;
  return {
    ms,
    each: {
      own: median(own),
      other: median(others),
      bus: median(buses),
      database: median(databases),
    },
  };
}

/** By how much each time was later than half of them. */
function lateness(all: readonly number[]): Quantiles {
  const middle = median([...all]);
  return quantilesOf(all.map((ms) => Math.max(0, ms - middle)));
}

interface Holders {
  readonly commit: Measured;
  readonly broadcast: Measured;
  /** The part of a broadcast that holds the writer's event loop before anything is sent. */
  readonly handingOverMs: number;
  readonly beat: Measured;
  readonly idle: Used;
  /** A bare round trip to one of them. */
  readonly roundTrip: Measured;
}

interface Stage {
  readonly writer: Node;
  readonly natsUrl: string;
  readonly watched: Watched;
  readonly commit: () => Promise<unknown>;
}

async function measureHolders(
  count: number,
  { writer, natsUrl, watched, commit }: Stage,
): Promise<Holders> {
  const file = 'test/bench/peers/lease-holders.ts';
  const holders = await startProgram(file, [natsUrl, `costs-${count}`, String(count)], bothCores);
  const client = await connect({ servers: natsUrl });
  try {
    const all = { ...watched, other: holders.pid };
    const { broker, coherence } = writer;
    let acknowledged = 0;
    let resolve = (): void => {};
    const acknowledge = coherence.acknowledge.bind(coherence);
    coherence.acknowledge = (change, holder) => {
      acknowledge(change, holder);
      acknowledged += 1;
      if (acknowledged === count) resolve();
    };
    const handingOver: number[] = [];
    const broadcast = async (revision: number): Promise<void> => {
      const done = Promise.withResolvers<void>();
      acknowledged = 0;
      resolve = done.resolve;
      const change: Change = {
        id: String(1_000_000 + revision),
        scope: 'tenant:x',
        revision,
        keys: ['risk_config_x'],
      };
      const began = performance.now();
      void broker.broadcast(invalidateEvent, change);
      handingOver.push(performance.now() - began);
      await done.promise;
    };
    const beat = async (): Promise<void> => {
      await broker.registry.discoverer.beat();
      await delay(1);
    };
    const trip = async (): Promise<void> => {
      await client.request('raw', 'x', { timeout: 5000 });
    };
    // A new node does not hear broadcasts for its first second.
    await delay(3000);
    await measure(warmUps, all, broadcast);
    await measure(100, all, beat);
    await measure(warmUps, all, trip);
    const { each: inOneSecond } = await measure(5, all, () => delay(1000));
    const idle: Used = {
      own: inOneSecond.own / 1000,
      other: inOneSecond.other / 1000,
      bus: inOneSecond.bus / 1000,
      database: inOneSecond.database / 1000,
    };
    handingOver.length = 0;
    const broadcasts = await measureMedians(
      rounds,
      all,
      (time) => broadcast(warmUps + time),
      commit,
    );
    let revision = warmUps + rounds;
    const broadcastNext = (): Promise<void> => broadcast((revision += 1));
    return {
      commit: await measureMedians(rounds, all, commit, broadcastNext),
      broadcast: broadcasts,
      handingOverMs: median(handingOver),
      beat: await measure(300, all, beat, idle),
      idle,
      roundTrip: await measureMedians(rounds, all, trip, commit),
    };
  } finally {
    await client.close();
    await holders.stop();
  }
}

function commitTo(db: DataSource): () => Promise<unknown> {
  const by = { caller: serviceCaller('bench'), requestId: 'bench' };
  return () =>
    commitChange(db, { ...by, committed: [] }, 'tenant:y', async () => ({
      result: undefined,
      keys: ['risk_config_y'],
      events: [],
    }));
}

interface LeaseReads {
  readonly read: Measured;
  /**
   * Of one lease more, from reads that follow each other: less than what one read differs from the
   * next.
   */
  readonly row: Pick<Used, 'own' | 'database'>;
}

async function measureLeases(
  db: DataSource,
  watched: Watched,
  before: () => Promise<unknown>,
): Promise<LeaseReads> {
  const feed = createFeed(db);
  const read = (): Promise<unknown> => feed.leases('0');
  await measure(200, watched, read);
  const first = await measureMedians(300, watched, read, before);
  const { each: without } = await measure(300, watched, read);
  await db.query(
    `INSERT INTO strata.leases SELECT 'costs ' || gen_random_uuid(), gen_random_uuid()::text, 2000, pg_current_snapshot()
     FROM generate_series(1, $1)`,
    [leaseRows],
  );
  const { each: more } = await measure(300, watched, read);
  await db.query(`DELETE FROM strata.leases WHERE holder LIKE 'costs %'`);
  const row = (part: 'own' | 'database'): number => (more[part] - without[part]) / leaseRows;
  return { read: first, row: { own: row('own'), database: row('database') } };
}

/**
 * What Moleculer takes to look at the list of one event's listeners, which it does with all of them
 * at each event, sent or received.
 */
async function measureScan(): Promise<number> {
  const broker = new ServiceBroker({ logger: false });
  const lists = 1000;
  const names = Array.from({ length: lists }, (_each, index) => acknowledgedEvent(`node-${index}`));
  const handlers = names.map((name) => [name, { handler: () => {} }] as const);
  broker.createService({ name: 'many', events: Object.fromEntries(handlers) });
  await broker.start();
  const none = acknowledgedEvent('nobody');
  const scan = async (): Promise<unknown> => broker.registry.events.getAllEndpoints(none);
  const alone: Watched = { bus: process.pid, database: process.pid };
  await measure(warmUps, alone, scan);
  const { each } = await measure(rounds, alone, scan);
  await broker.stop();
  return each.own / lists;
}

/** BEGIN, the counter, the change record, COMMIT. */
const statements = 4;

const rounded = <T>(value: T): T =>
  JSON.parse(
    JSON.stringify(value, (_key, each: unknown) =>
      typeof each === 'number' ? Number(each.toFixed(5)) : each,
    ),
  ) as T;

export async function measureCosts(): Promise<Costs> {
  const scanMs = await measureScan();
  const [postgres, nats] = await Promise.all([startPostgres(), startNats()]);
  const database = await createDatabase(postgres.url);
  const options = { url: database.url, poolSize: 8, timeoutMs: 10_000, ssl: false };
  await migrate(options, [commitSchema]);
  const db = await openDatabase(options, commitSchema);
  await createFeed(db).meet();
  const writer = bareNode('writer', nats.url, db);
  try {
    await writer.broker.start();
    const watched: Watched = { bus: nats.pid, database: postgres.pid! };
    const commitOne = commitTo(db);
    await measure(warmUps, watched, commitOne);
    const leases = await measureLeases(db, watched, commitOne);

    const pauses: number[] = [];
    const observer = new PerformanceObserver((list) => {
      pauses.push(...list.getEntries().map(({ duration }) => duration));
    });
    const stage: Stage = { writer, natsUrl: nats.url, watched, commit: commitOne };
    const one = await measureHolders(few, stage);
    await nextTurn();
    observer.observe({ entryTypes: ['gc'] });
    const before = loopOf(process.pid);
    const besideBefore = besideLoop(process.pid);
    const ten = await measureHolders(many, stage);
    await nextTurn();
    const loopMs = loopOf(process.pid) - before;
    const beside = besideLoop(process.pid);
    const [besideMs, besideTimes] = [
      beside.ms - besideBefore.ms,
      beside.times - besideBefore.times,
    ];
    observer.disconnect();

    const { commit } = one;
    const commitMs = median([...commit.ms]);
    const betweenMs = Math.max(0, commitMs - commit.each.own - commit.each.database);
    const perNode = (part: keyof Used): number =>
      (ten.broadcast.each[part] - one.broadcast.each[part]) / (many - few);
    const [receiveMs, busMs] = [perNode('other'), perNode('bus') / 2];
    const publishEachMs = (ten.handingOverMs - one.handingOverMs) / (many - few);
    const acknowledgedMs = Math.max(0, perNode('own') - publishEachMs);
    const trip = one.roundTrip;
    const tripMs = median(trip.ms);
    const beatsReceived = (many + 1) * perSecond.beats;
    const beatReceiveMs = ten.beat.each.other / many;
    const pollsPerMs = (many * perSecond.polls) / 1000;
    const beatsAtProcess = (beatsReceived * many * beatReceiveMs) / 1000;
    const beatsAtWriter = (beatsReceived * beatReceiveMs) / 1000;
    return rounded({
      machine,
      at: new Date().toISOString().slice(0, 10),
      cold: {
        nodeMs: Math.max(0, one.broadcast.each.other - receiveMs),
        writerMs: Math.max(0, one.broadcast.each.own - one.handingOverMs - acknowledgedMs),
        // There and back.
        busMs: Math.max(0, one.broadcast.each.bus / 2 - busMs),
      },
      wakeMs: Math.max(0, tripMs - trip.each.own - trip.each.other - trip.each.bus) / 4,
      commit: {
        statements,
        loopMs: commit.each.own,
        databaseMs: commit.each.database,
        wakeMs: betweenMs / (2 * statements),
        late: lateness(commit.ms),
      },
      leases: {
        loopMs: leases.read.each.own,
        databaseMs: leases.read.each.database,
        loopPerRowMs: leases.row.own,
        databasePerRowMs: leases.row.database,
      },
      publish: {
        fixedMs: one.handingOverMs - publishEachMs,
        eachMs: publishEachMs,
        late: lateness(one.broadcast.ms),
      },
      receiveMs,
      acknowledgedMs,
      scanMs,
      busMs,
      beat: {
        sendMs: ten.beat.each.own,
        receiveMs: beatReceiveMs,
        busMs: ten.beat.each.bus / (many + 1),
      },
      poll: {
        askMs: Math.max(0, ten.idle.other - beatsAtProcess) / pollsPerMs,
        answerMs: Math.max(0, ten.idle.own - beatsAtWriter) / pollsPerMs,
        databaseMs: ten.idle.database / pollsPerMs,
      },
      pauses: { everyMs: loopMs / Math.max(1, pauses.length), ms: quantilesOf(pauses, 50) },
      threads: {
        everyMs: loopMs / Math.max(1, besideTimes),
        ms: besideMs / Math.max(1, besideTimes),
      },
    });
  } finally {
    await writer.broker.stop();
    await db.destroy();
    await nats.stop('SIGKILL');
    await postgres.stop();
  }
}

const shown = (ms: number): string => `${(ms * 1000).toFixed(0)} µs`;

/** Facts alone: nothing here is better or worse than something else. */
export const costs: Group = async () => {
  const found = await measureCosts();
  const { commit, publish, receiveMs, acknowledgedMs, busMs, beat, poll, leases } = found;
  const commitMs = commit.loopMs + commit.databaseMs + 2 * commit.statements * commit.wakeMs;
  return {
    rows: [],
    costs: found,
    facts: [
      { what: 'a commit, half of them in less', result: shown(commitMs) },
      { what: 'a broadcast, at the writer, for each node', result: shown(publish.eachMs) },
      {
        what: 'a broadcast at a node, with its acknowledgement',
        result: shown(receiveMs),
      },
      { what: 'an acknowledgement at the writer', result: shown(acknowledgedMs) },
      { what: 'a message in NATS', result: shown(busMs) },
      {
        what: 'a lease in the lease table, read: at the writer / in PostgreSQL',
        result: `${(leases.loopPerRowMs * 1000).toFixed(1)} / ${(leases.databasePerRowMs * 1000).toFixed(1)} µs`,
      },
      { what: 'a heartbeat at a node', result: shown(beat.receiveMs) },
      {
        what: 'a poll of the feed: at the node / at the one that answers / in PostgreSQL',
        result: `${shown(poll.askMs)} / ${shown(poll.answerMs)} / ${shown(poll.databaseMs)}`,
      },
    ],
  };
};
