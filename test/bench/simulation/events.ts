/**
 * The clockwork of the simulation: an event queue, a random generator that repeats itself, and
 * processes that share the cores of a host. Times are milliseconds. Used by `visible-write.ts`.
 */

/** A function that gives numbers from 0 up to 1, the same for the same seed (mulberry32). */
export type Random = () => number;

export function seeded(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/**
 * Quantiles at equal steps, the least first: a distribution as it was measured, without a formula.
 */
export type Quantiles = readonly number[];

export function sample(quantiles: Quantiles, random: Random): number {
  if (quantiles.length === 0) return 0;
  const place = random() * (quantiles.length - 1);
  const below = Math.floor(place);
  const above = Math.min(below + 1, quantiles.length - 1);
  return quantiles[below]! + (quantiles[above]! - quantiles[below]!) * (place - below);
}

/** Of a Poisson process: how long until its next event. */
export const untilNext = (perMs: number, random: Random): number =>
  perMs > 0 ? -Math.log(1 - random()) / perMs : Infinity;

interface Event {
  readonly time: number;
  /** Of two events at one time, the one that was planned first comes first. */
  readonly order: number;
  readonly run: () => void;
}

const isBefore = (one: Event, other: Event): boolean =>
  one.time === other.time ? one.order < other.order : one.time < other.time;

/** A binary heap of what is still to come. */
export class EventQueue {
  now = 0;
  #planned = 0;
  readonly #heap: Event[] = [];

  /** Throws where an event would come before what causes it, which is now. */
  at(time: number, run: () => void): void {
    if (!(time >= this.now))
      throw new Error(`an event at ${time} ms is planned at ${this.now} ms, after it`);
    this.#planned += 1;
    this.#heap.push({ time, order: this.#planned, run });
    this.#rise();
  }

  after(ms: number, run: () => void): void {
    this.at(this.now + ms, run);
  }

  /** Runs one event after the other, until none is left or `isOver`. */
  run(isOver: () => boolean = () => false): void {
    while (this.#heap.length > 0 && !isOver()) {
      const { time, run } = this.#takeFirst();
      this.now = time;
      run();
    }
  }

  #rise(): void {
    const heap = this.#heap;
    let child = heap.length - 1;
    while (child > 0) {
      const parent = (child - 1) >> 1;
      if (!isBefore(heap[child]!, heap[parent]!)) return;
      [heap[child], heap[parent]] = [heap[parent]!, heap[child]!];
      child = parent;
    }
  }

  #takeFirst(): Event {
    const heap = this.#heap;
    const first = heap[0]!;
    const last = heap.pop()!;
    if (heap.length > 0) {
      heap[0] = last;
      this.#sink();
    }
    return first;
  }

  #sink(): void {
    const heap = this.#heap;
    let parent = 0;
    for (;;) {
      const left = 2 * parent + 1;
      if (left >= heap.length) return;
      const right = left + 1;
      const isRightFirst = right < heap.length && isBefore(heap[right]!, heap[left]!);
      const child = isRightFirst ? right : left;
      if (!isBefore(heap[child]!, heap[parent]!)) return;
      [heap[child], heap[parent]] = [heap[parent]!, heap[child]!];
      parent = child;
    }
  }
}

interface Task {
  readonly ms: number;
  readonly done: () => void;
}

/**
 * A machine. A process that has work and finds every core taken waits for its turn, one task at a
 * time.
 */
export class Host {
  readonly queue: EventQueue;
  #freeCores: number;
  readonly #ready: Process[] = [];

  constructor(queue: EventQueue, cores: number) {
    this.queue = queue;
    this.#freeCores = cores;
  }

  offer(process: Process): void {
    this.#ready.push(process);
    this.#dispatch();
  }

  /** Something beside the processes takes the next core that is free, such as a thread of V8. */
  stall(ms: number): void {
    const thief = new Process(this);
    thief.do(ms, () => {});
  }

  #dispatch(): void {
    while (this.#freeCores > 0 && this.#ready.length > 0) {
      const process = this.#ready.shift()!;
      this.#freeCores -= 1;
      const { ms, done } = process.take();
      this.queue.after(ms, () => {
        this.#freeCores += 1;
        done();
        process.release();
        this.#dispatch();
      });
    }
  }
}

/** What slows a process beside its own tasks. */
export interface Burden {
  /** The share of the time in which it does something else, and for how long at a time. */
  readonly share: number;
  readonly ms: number;
}

const noBurden: Burden = { share: 0, ms: 0 };

/**
 * What a task costs a process beside its own processor time, such as a pause of the garbage
 * collector.
 */
type Extra = (ms: number, wasIdle: boolean) => number;

/**
 * One thread, such as an event loop: its tasks follow each other in the order in which they came.
 */
export class Process {
  /** Processor time that it has used. */
  usedMs = 0;
  readonly #host: Host;
  readonly #tasks: Task[] = [];
  #isActive = false;
  readonly #extra: Extra;

  constructor(host: Host, extra: Extra = () => 0) {
    this.#host = host;
    this.#extra = extra;
  }

  do(ms: number, done: () => void): void {
    this.#tasks.push({ ms: ms + this.#extra(ms, !this.#isActive), done });
    if (this.#isActive) return;
    this.#isActive = true;
    this.#host.offer(this);
  }

  take(): Task {
    const task = this.#tasks.shift()!;
    this.usedMs += task.ms;
    return task;
  }

  release(): void {
    this.#isActive = this.#tasks.length > 0;
    if (this.#isActive) this.#host.offer(this);
  }
}

/**
 * A process that has a core for itself and a burden that is not simulated event by event: an M/D/1
 * queue in its stationary state. Who comes while it is idle may find it at its burden, and what
 * comes of that later delays each task by its share.
 */
export function burdened(random: Random, { share, ms }: Burden = noBurden): Extra {
  if (share <= 0) return () => 0;
  if (share >= 1) return () => Infinity;
  return (own, wasIdle) => {
    const isBusy = wasIdle && random() < share;
    const residual = isBusy ? ms * random() : 0;
    return residual + (own * share) / (1 - share);
  };
}
