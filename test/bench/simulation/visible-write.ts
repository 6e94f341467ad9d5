/**
 * How long a write takes until it is answered, which is when every node that may cache has dropped
 * what it made old: the path of `Coherence.publish` (shared/coherence/coherence.ts) as a
 * simulation of discrete events. It knows no measurement by itself: what each step takes is measured
 * apart (../costs.ts), and what is assumed beside that is a table in docs/scaling.md.
 */
import {
  burdened,
  EventQueue,
  Host,
  Process,
  sample,
  seeded,
  untilNext,
  type Burden,
  type Quantiles,
  type Random,
} from './events.ts';

/** What the steps take, in milliseconds of processor time where nothing else is said. */
export interface Costs {
  readonly machine: string;
  readonly at: string;
  /**
   * From where a process has written a message until another works on it: time, not processor time.
   */
  readonly wakeMs: number;
  /**
   * What the first message of a write costs a process beside the others: it is woken, and code and
   * data are no more at hand.
   */
  readonly cold: { readonly nodeMs: number; readonly writerMs: number; readonly busMs: number };
  /**
   * A transaction of `commitChange`. `late`: by how much one takes longer than half of them, which
   * is time, not processor time.
   */
  readonly commit: {
    readonly statements: number;
    readonly loopMs: number;
    readonly databaseMs: number;
    readonly wakeMs: number;
    readonly late: Quantiles;
  };
  /** A read of the lease table. */
  readonly leases: {
    readonly loopMs: number;
    readonly databaseMs: number;
    readonly loopPerRowMs: number;
    readonly databasePerRowMs: number;
  };
  /**
   * A broadcast, at the writer. `late` likewise, of one to a single node and its acknowledgement.
   */
  readonly publish: {
    readonly fixedMs: number;
    readonly eachMs: number;
    readonly late: Quantiles;
  };
  /** At a node: from the broadcast's arrival until the acknowledgement is handed over. */
  readonly receiveMs: number;
  /** An acknowledgement, at the writer. */
  readonly acknowledgedMs: number;
  /**
   * At each event that is sent or received, for each name of an event that any node listens to:
   * each node has one of its own.
   */
  readonly scanMs: number;
  /** NATS: a message from one client to another. */
  readonly busMs: number;
  /** A heartbeat, at its sender, at each receiver and at NATS for each receiver. */
  readonly beat: { readonly sendMs: number; readonly receiveMs: number; readonly busMs: number };
  /** A poll of the feed, at the node that asks, at the one that answers and in the database. */
  readonly poll: { readonly askMs: number; readonly answerMs: number; readonly databaseMs: number };
  /** The garbage collector: after how much processor time of a process, and for how long. */
  readonly pauses: { readonly everyMs: number; readonly ms: Quantiles };
  /**
   * V8's own threads, which collect and compile beside the loop: after how much of its processor
   * time one of them takes a core, and for how long, on average.
   */
  readonly threads: { readonly everyMs: number; readonly ms: number };
}

/** Nodes that are near each other. The writer is in the first region. */
export interface Region {
  readonly nodes: number;
  /** To and from the first region, in milliseconds. */
  readonly oneWayMs: number;
  /** Of each message beside that, on average; exponentially distributed. */
  readonly jitterMs: number;
}

export interface Apart {
  /** Of each region: heartbeats are shared out among them. */
  readonly busServers: number;
  readonly feedNodes: number;
  readonly databaseCores: number;
}

export interface Layout {
  readonly regions: readonly Region[];
  /**
   * All of it on one host of so many cores, the nodes shared out among so many processes beside the
   * writer's; or each node and the database with cores of its own, NATS for each region and each
   * group, and so many nodes that answer polls of the feed.
   */
  readonly where: { readonly cores: number; readonly processes: number } | Apart;
  /**
   * Nodes behind each gatherer, which alone holds a lease and acknowledges for them; undefined as
   * it is today, when each node does.
   */
  readonly gathered?: number;
}

/** For whoever counts what happens. */
export interface Observer {
  readonly onReceived?: (write: number, node: number, at: number) => void;
  readonly onAcknowledged?: (write: number, node: number, at: number) => void;
  readonly onWrite?: (write: number, times: WriteTimes) => void;
}

export interface WriteTimes {
  readonly began: number;
  readonly committed: number;
  readonly answered: number;
}

export interface Result {
  /** Of each write, from its beginning to its answer, in their order. */
  readonly ms: readonly number[];
  readonly p50: number;
  readonly p99: number;
  /** Of the writer's core, for each write. */
  readonly writerMs: number;
  /** What has more to do than it can, whatever is written; then there are no times. */
  readonly saturated?: string;
}

const beatMs = { mean: 2000, spread: 1000 };
const pollIntervalMs = 500;
/** Between the answer of a write and the beginning of the next, on average. */
const thinkMs = 2;

export function percentile(all: readonly number[], share: number): number {
  const sorted = all.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}

interface Node {
  readonly process: Process;
  readonly region: Region;
}

interface Stage {
  readonly queue: EventQueue;
  readonly random: Random;
  readonly costs: Costs;
  readonly layout: Layout;
  readonly writer: Process;
  readonly nodes: readonly Node[];
  readonly database: Process;
  readonly busOf: (region: Region) => Process;
  /** Of a group behind a gatherer, such as a leaf node of NATS. */
  readonly groupBus: () => Process;
}

/** The writes of one client, one after the other. */
export function simulate(
  layout: Layout,
  costs: Costs,
  { writes, seed, observer = {} }: { writes: number; seed: number; observer?: Observer },
): Result {
  const saturated = 'busServers' in layout.where ? saturation(layout, costs) : undefined;
  if (saturated !== undefined) return { ms: [], p50: NaN, p99: NaN, writerMs: NaN, saturated };
  const stage = build(layout, costs, seeded(seed));
  const { queue, random, writer } = stage;
  const ms: number[] = [];
  const usedBefore = writer.usedMs;
  const next = (): void => {
    const write = ms.length;
    const began = queue.now;
    commit(stage, () => {
      const committed = queue.now;
      publish(stage, write, observer, () => {
        ms.push(queue.now - began);
        observer.onWrite?.(write, { began, committed, answered: queue.now });
        if (ms.length < writes) queue.after(untilNext(1 / thinkMs, random), next);
      });
    });
  };
  queue.after(untilNext(1 / pollIntervalMs, random), next);
  queue.run(() => ms.length >= writes);
  return {
    ms,
    p50: percentile(ms, 0.5),
    p99: percentile(ms, 0.99),
    writerMs: (writer.usedMs - usedBefore) / writes,
  };
}

function build(layout: Layout, costs: Costs, random: Random): Stage {
  const queue = new EventQueue();
  const stage =
    'cores' in layout.where
      ? onOneHost(queue, layout, layout.where, costs, random)
      : apart(queue, layout, costs, random);
  if ('cores' in layout.where) {
    startBeats(stage);
    startPolls(stage);
  }
  return stage;
}

const regionOfEach = ({ regions }: Layout): Region[] =>
  regions.flatMap((region) => Array.from({ length: region.nodes }, () => region));

/**
 * What comes by the processor time that a process has used: the sum of what came in this much of
 * it.
 */
function byUse(everyMs: number, random: Random, comes: () => number): (ms: number) => number {
  let leftMs = untilNext(1 / everyMs, random);
  return (ms) => {
    let sum = 0;
    for (leftMs -= ms; leftMs <= 0; leftMs += untilNext(1 / everyMs, random)) sum += comes();
    return sum;
  };
}

/** Pauses of the garbage collector. */
const pausing = ({ pauses }: Costs, random: Random): ((ms: number) => number) =>
  byUse(pauses.everyMs, random, () => sample(pauses.ms, random));

function onOneHost(
  queue: EventQueue,
  layout: Layout,
  { cores, processes }: { readonly cores: number; readonly processes: number },
  costs: Costs,
  random: Random,
): Stage {
  const host = new Host(queue, cores);
  const program = (): Process => {
    const paused = pausing(costs, random);
    const beside = byUse(costs.threads.everyMs, random, () => {
      host.stall(untilNext(1 / costs.threads.ms, random));
      return 0;
    });
    return new Process(host, (ms) => paused(ms) + beside(ms));
  };
  const writer = program();
  const others = Array.from({ length: processes }, program);
  const nodes = regionOfEach(layout).map((region, index) => ({
    region,
    process: others[index % processes]!,
  }));
  const bus = new Process(host);
  return {
    queue,
    random,
    costs,
    layout,
    writer,
    nodes,
    database: new Process(host),
    busOf: () => bus,
    groupBus: () => bus,
  };
}

const countOf = ({ regions }: Layout): number => regions.reduce((sum, { nodes }) => sum + nodes, 0);

const apartOf = ({ where }: Layout): Apart =>
  'busServers' in where ? where : { busServers: 1, feedNodes: 1, databaseCores: 1 };

/** How many hold leases: the nodes, or their gatherers. */
const holdersOf = (layout: Layout): number => Math.ceil(countOf(layout) / (layout.gathered ?? 1));

/**
 * How many nodes hear each other. A gatherer's nodes are a bus by themselves, and the gatherers
 * another.
 */
const observedBy = (layout: Layout): number => Math.max(layout.gathered ?? 0, holdersOf(layout));

/** What each part does beside the writes that are looked at, in a cluster of this layout. */
export function burdens(layout: Layout, costs: Costs): Record<string, Burden> {
  const gatherers = holdersOf(layout);
  const received = observedBy(layout);
  const { busServers: servers, feedNodes, databaseCores } = apartOf(layout);
  const perMs = { beats: received / beatMs.mean, polls: gatherers / pollIntervalMs };
  const pollAtNode = layout.gathered === undefined ? 0 : layout.gathered / pollIntervalMs;
  const { beat, poll } = costs;
  const beatBurden = perMs.beats * beat.receiveMs;
  return {
    node: { share: beatBurden + pollAtNode * poll.answerMs, ms: beat.receiveMs },
    writer: {
      share: beatBurden + (perMs.polls * poll.answerMs) / feedNodes,
      ms: poll.answerMs,
    },
    PostgreSQL: { share: (perMs.polls * poll.databaseMs) / databaseCores, ms: poll.databaseMs },
    NATS: { share: (perMs.beats * received * beat.busMs) / servers, ms: received * beat.busMs },
  };
}

function saturation(layout: Layout, costs: Costs): string | undefined {
  const full = Object.entries(burdens(layout, costs)).find(([, { share }]) => share >= 1);
  return full && `${full[0]} has ${full[1].share.toFixed(1)} times what it can do`;
}

function apart(queue: EventQueue, layout: Layout, costs: Costs, random: Random): Stage {
  const burden = burdens(layout, costs);
  const own = (name: string, isProgram = true): Process => {
    const slowed = burdened(random, burden[name]);
    const paused = isProgram ? pausing(costs, random) : () => 0;
    return new Process(new Host(queue, 1), (ms, wasIdle) => slowed(ms, wasIdle) + paused(ms));
  };
  const buses = new Map(layout.regions.map((region) => [region, own('NATS', false)]));
  return {
    queue,
    random,
    costs,
    layout,
    writer: own('writer'),
    nodes: regionOfEach(layout).map((region) => ({ region, process: own('node') })),
    database: own('PostgreSQL', false),
    busOf: (region) => buses.get(region)!,
    groupBus: () => own('NATS', false),
  };
}

/** What is paid once in each direction of a write by each process: costs.cold. */
class Cold {
  readonly #costs: Costs['cold'];
  readonly #warm = new Map<Process, Set<string>>();

  constructor(costs: Costs) {
    this.#costs = costs.cold;
  }

  ms(process: Process, part: keyof Costs['cold'], direction: 'out' | 'back'): number {
    const warm = this.#warm.get(process) ?? new Set();
    this.#warm.set(process, warm);
    const work = `${part} ${direction}`;
    if (warm.has(work)) return 0;
    warm.add(work);
    return this.#costs[part];
  }
}

/** Over NATS. `busMs` is what a server takes for it. */
function send(
  stage: Stage,
  from: Region,
  to: Region,
  busMs: (bus: Process) => number,
  then: () => void,
): void {
  const { queue, random, costs, busOf } = stage;
  const pass = (region: Region, next: () => void): void => {
    const bus = busOf(region);
    bus.do(busMs(bus), next);
  };
  const arrive = (): void => queue.after(costs.wakeMs, then);
  queue.after(costs.wakeMs, () => {
    const cross = (): void => {
      const far = from.oneWayMs > 0 ? from : to;
      const jitter = far.jitterMs > 0 ? untilNext(1 / far.jitterMs, random) : 0;
      queue.after(far.oneWayMs + jitter, () => pass(to, arrive));
    };
    pass(from, from === to ? arrive : cross);
  });
}

function commit(stage: Stage, then: () => void): void {
  const { queue, random, writer, database, costs } = stage;
  const { statements, loopMs, databaseMs, wakeMs, late } = costs.commit;
  const statement = (left: number): void =>
    writer.do(loopMs / statements, () => {
      if (left === 0) {
        queue.after(sample(late, random), then);
        return;
      }
      queue.after(wakeMs, () =>
        database.do(databaseMs / statements, () => {
          queue.after(wakeMs, () => statement(left - 1));
        }),
      );
    });
  statement(statements);
}

/**
 * As `Coherence.publish`: broadcast, read the lease table, and wait for the acknowledgement of each
 * holder.
 */
function publish(stage: Stage, write: number, observer: Observer, then: () => void): void {
  const { queue, random, writer, database, costs, nodes, layout } = stage;
  const groups = groupsOf(nodes, layout.gathered);
  const scanMs = costs.scanMs * observedBy(layout);
  let missing = groups.length;
  let haveLeases = false;
  const finish = (): void => {
    if (missing === 0 && haveLeases) queue.after(sample(costs.publish.late, random), then);
  };
  const count = (): void => {
    missing -= 1;
    finish();
  };
  const cold = new Cold(costs);
  const acknowledge = (): void => {
    const coldMs = cold.ms(writer, 'writerMs', 'back');
    writer.do(costs.acknowledgedMs + scanMs + coldMs, count);
  };
  const { publish: broadcast, leases } = costs;
  writer.do(broadcast.fixedMs + scanMs + groups.length * broadcast.eachMs, () => {
    for (const group of groups) deliver({ ...stage, cold }, group, write, observer, acknowledge);
    const rows = groups.length + 1;
    queue.after(costs.commit.wakeMs, () =>
      database.do(leases.databaseMs + rows * leases.databasePerRowMs, () =>
        queue.after(costs.commit.wakeMs, () =>
          writer.do(leases.loopMs + rows * leases.loopPerRowMs, () => {
            haveLeases = true;
            finish();
          }),
        ),
      ),
    );
  });
}

interface Member extends Node {
  readonly index: number;
}

/** Those that share an acknowledgement; the first of them gathers it. Each is of one region. */
function groupsOf(nodes: readonly Node[], size = 1): Member[][] {
  const groups: Member[][] = [];
  for (const [index, node] of nodes.entries()) {
    const last = groups.at(-1);
    const hasRoom = last && last.length < size && last[0]!.region === node.region;
    if (hasRoom) last.push({ ...node, index });
    else groups.push([{ ...node, index }]);
  }
  return groups;
}

const groupBuses = new WeakMap<Process, Process>();

/** The same for each write. */
function busOfGroup(stage: Stage, gatherer: Process): Process {
  const bus = groupBuses.get(gatherer) ?? stage.groupBus();
  groupBuses.set(gatherer, bus);
  return bus;
}

function deliver(
  stage: Stage & { readonly cold: Cold },
  [first, ...members]: readonly Member[],
  write: number,
  observer: Observer,
  then: () => void,
): void {
  const { queue, costs, layout, cold } = stage;
  const here = layout.regions[0]!;
  const { process, region, index } = first!;
  let missing = members.length;
  const noteReceived = (node: number): void => observer.onReceived?.(write, node, queue.now);
  const noteAcknowledged = (node: number): void =>
    observer.onAcknowledged?.(write, node, queue.now);
  const out = (bus: Process): number => costs.busMs + cold.ms(bus, 'busMs', 'out');
  const back = (bus: Process): number => costs.busMs + cold.ms(bus, 'busMs', 'back');
  const answer = (): void => send(stage, region, here, back, then);
  // It finds the list of the broadcast's listeners, this node among them, and the writer's for the
  // acknowledgement.
  const scanMs = 3 * costs.scanMs * observedBy(layout);
  const receive = (node: Process, more: number, next: () => void): void =>
    node.do(costs.receiveMs + scanMs + more + cold.ms(node, 'nodeMs', 'out'), next);

  const ownBus = members.length === 0 ? stage.busOf(region) : busOfGroup(stage, process);
  const within = (busMs: (bus: Process) => number, next: () => void): void =>
    queue.after(costs.wakeMs, () =>
      ownBus.do(busMs(ownBus), () => queue.after(costs.wakeMs, next)),
    );

  const handOnMs = costs.publish.fixedMs + members.length * costs.publish.eachMs;
  const passOn = (): void => {
    noteReceived(index);
    noteAcknowledged(index);
    if (members.length === 0) answer();
    for (const member of members) within(out, () => atMember(member));
  };
  const atMember = (member: Member): void =>
    receive(member.process, 0, () => {
      noteReceived(member.index);
      within(back, () => acknowledgedBy(member));
    });
  const acknowledgedBy = (member: Member): void => {
    const coldMs = cold.ms(process, 'writerMs', 'back');
    process.do(costs.acknowledgedMs + coldMs, () => {
      noteAcknowledged(member.index);
      missing -= 1;
      if (missing === 0) answer();
    });
  };
  send(stage, here, region, out, () =>
    receive(process, members.length === 0 ? 0 : handOnMs, passOn),
  );
}

/** Each node's heartbeats, with an interval of its own, as Moleculer draws it. */
function startBeats(stage: Stage): void {
  const { queue, random, costs, writer, nodes, layout, busOf } = stage;
  const bus = busOf(layout.regions[0]!);
  const all = [writer, ...nodes.map(({ process }) => process)];
  const perProcess = new Map<Process, number>();
  for (const process of all) perProcess.set(process, (perProcess.get(process) ?? 0) + 1);
  const { sendMs, receiveMs, busMs } = costs.beat;
  for (const sender of all) {
    const interval = beatMs.mean + (random() - 0.5) * beatMs.spread;
    const beat = (): void => {
      queue.after(interval, beat);
      sender.do(sendMs, () =>
        bus.do(busMs * all.length, () => {
          for (const [process, count] of perProcess) process.do(receiveMs * count, () => {});
        }),
      );
    };
    queue.after(interval * random(), beat);
  }
}

/** Each node's polls of the feed, which the writer's node answers. */
function startPolls(stage: Stage): void {
  const { queue, random, costs, writer, nodes, database, layout } = stage;
  const here = layout.regions[0]!;
  const { askMs, answerMs, databaseMs } = costs.poll;
  /** Two statements, one after the other. */
  const answerPoll = (then: () => void): void => {
    const lastStatement = (): void =>
      database.do(databaseMs / 2, () => writer.do(answerMs / 3, then));
    writer.do(answerMs / 3, () =>
      database.do(databaseMs / 2, () => writer.do(answerMs / 3, lastStatement)),
    );
  };
  const again = (poll: () => void): void => queue.after(pollIntervalMs, poll);
  for (const { process } of nodes) {
    const poll = (): void =>
      process.do(askMs / 2, () =>
        send(
          stage,
          here,
          here,
          () => costs.busMs,
          () =>
            answerPoll(() =>
              send(
                stage,
                here,
                here,
                () => costs.busMs,
                () => process.do(askMs / 2, () => again(poll)),
              ),
            ),
        ),
      );
    queue.after(pollIntervalMs * random(), poll);
  }
  const ownPoll = (): void => answerPoll(() => again(ownPoll));
  queue.after(pollIntervalMs * random(), ownPoll);
}
