/**
 * The queue for hashing passwords, which costs a whole core each time. It is shared out over
 * networks, so that whoever floods it keeps out nobody but themselves:
 *
 * | Rule | Guards against |
 * |---|---|
 * | networks take turns | a newcomer waiting behind all that a flood has queued |
 * | a network has at most `shareLimit` in the queue | a flood from one network |
 * | where the queue is full, the newest of the network with the most in it gives way | a flood from several networks |
 */
import { StrataError } from '../../../shared/errors.ts';

export interface HashingQueueOptions {
  /** How many run at the same time. */
  readonly concurrency: number;
  /** How many wait, all networks together. */
  readonly queueLimit: number;
  /** How many wait of one network. */
  readonly shareLimit: number;
}

interface Waiting {
  readonly admit: () => void;
  readonly refuse: (reason: StrataError) => void;
}

/**
 * Runs work of a network when it is its turn; throws `service_unavailable` where there is no room
 * to wait.
 */
export type InTurn = <T>(network: string, work: () => Promise<T>) => Promise<T>;

const tooMany = (): StrataError =>
  new StrataError('service_unavailable', 'Too many sign-ins at once. Try again.');

export function createHashingQueue({
  concurrency,
  queueLimit,
  shareLimit,
}: HashingQueueOptions): InTurn {
  let running = 0;
  let queued = 0;
  /** Who waits, by network; the network whose turn is next comes first. None is empty. */
  const waiting = new Map<string, Waiting[]>();

  function longestQueue(): Waiting[] {
    return [...waiting.values()].reduce((longest, queue) =>
      queue.length > longest.length ? queue : longest,
    );
  }

  /** Room for one more of a network that has `own` in the queue. */
  function makeRoom(own: number): void {
    if (own >= shareLimit) throw tooMany();
    if (queued < queueLimit) return;
    const longest = longestQueue();
    // A network makes no other give way until it has as many itself.
    if (longest.length <= own + 1) throw tooMany();
    queued -= 1;
    longest.pop()!.refuse(tooMany());
  }

  function wait(network: string): Promise<void> {
    const queue = waiting.get(network) ?? [];
    makeRoom(queue.length);
    return new Promise((admit, refuse) => {
      queue.push({ admit, refuse });
      waiting.set(network, queue);
      queued += 1;
    });
  }

  /** The first in the queue of the network whose turn it is, which then goes to the end. */
  function takeNext(): Waiting | undefined {
    for (const [network, queue] of waiting) {
      const next = queue.shift();
      queued -= 1;
      waiting.delete(network);
      if (queue.length > 0) waiting.set(network, queue);
      return next;
    }
    return undefined;
  }

  async function enter(network: string): Promise<void> {
    if (running >= concurrency) return wait(network);
    running += 1;
    return undefined;
  }

  function leave(): void {
    const next = takeNext();
    // Whoever leaves hands its slot over, so `running` stays as it is.
    if (next) next.admit();
    else running -= 1;
  }

  return async (network, work) => {
    await enter(network);
    try {
      return await work();
    } finally {
      leave();
    }
  };
}
