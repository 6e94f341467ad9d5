/**
 * Lets what waits for a name have its turn in the order in which it came: at most `most` at a time,
 * and one turn of a name at a time. Names do not wait for each other.
 */
export class BatchQueue<Entry> {
  readonly #most: number;
  readonly #take: (name: string, entries: readonly Entry[]) => Promise<readonly Entry[]>;
  /** By name, while a turn of it is taken: what waits for the next. */
  readonly #waiting = new Map<string, Entry[]>();

  /** `take` resolves to those that it has left for the next turn, and does not throw. */
  constructor(
    most: number,
    take: (name: string, entries: readonly Entry[]) => Promise<readonly Entry[]>,
  ) {
    this.#most = most;
    this.#take = take;
  }

  add(name: string, entry: Entry): void {
    const waiting = this.#waiting.get(name);
    if (waiting) {
      waiting.push(entry);
      return;
    }
    const first = [entry];
    this.#waiting.set(name, first);
    void this.#takeBatches(name, first);
  }

  async #takeBatches(name: string, waiting: Entry[]): Promise<void> {
    while (waiting.length > 0) {
      const left = await this.#take(name, waiting.splice(0, this.#most));
      waiting.unshift(...left);
    }
    this.#waiting.delete(name);
  }
}
