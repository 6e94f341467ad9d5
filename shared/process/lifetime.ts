/**
 * What a process has opened, for start.ts: closed in turn when a signal, or a start that fails,
 * ends the process.
 */
/** A signal asked for the end while the start was under way. */
export class Interrupted extends Error {}

/** What has been opened so far, in order, and whether a signal has asked for the end. */
export class Lifetime {
  readonly #closers: (() => Promise<unknown>)[] = [];
  readonly #signal = new AbortController();
  #ending: Promise<readonly unknown[]> | undefined;

  /** Remembers how to close what was just opened. */
  closeWith(close: () => Promise<unknown>): void {
    this.#closers.push(close);
  }

  /** Calls the listener once a signal asks for the end. */
  onInterrupt(listener: () => void): void {
    this.#signal.signal.addEventListener('abort', listener, { once: true });
  }

  interrupt(): void {
    this.#signal.abort(new Interrupted());
  }

  /**
   * Takes a step of the start that may last. Throws Interrupted as soon as a signal asks for the
   * end, and leaves the step alone.
   */
  async whileWanted<T>(step: () => Promise<T>): Promise<T> {
    const { signal } = this.#signal;
    signal.throwIfAborted();
    const interrupted = new Promise<never>((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason as Interrupted), { once: true });
    });
    return Promise.race([step(), interrupted]);
  }

  /**
   * Last opened, first closed: the gateway drains before the services, and the database goes last.
   * What cannot be closed keeps nothing else open, above all no embedded database. Resolves to the
   * errors of whatever could not.
   */
  end(): Promise<readonly unknown[]> {
    this.#ending ??= this.#closeAll();
    return this.#ending;
  }

  async #closeAll(): Promise<readonly unknown[]> {
    const failures: unknown[] = [];
    for (const close of this.#closers.toReversed()) {
      try {
        await close();
      } catch (error) {
        failures.push(error);
      }
    }
    return failures;
  }
}
