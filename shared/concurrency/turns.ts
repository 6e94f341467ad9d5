import { StrataError } from '../errors.ts';
import { Semaphore } from './semaphore.ts';

/** Work of which so much under each name is done at a time; the rest waits in order. */
export class Turns {
  readonly #atOnce: number;
  readonly #byName = new Map<string, Semaphore>();

  constructor(atOnce: number) {
    this.#atOnce = atOnce;
  }

  /** How much is done under the name, or waits. */
  sizeOf(name: string): number {
    return this.#byName.get(name)?.size ?? 0;
  }

  /** Throws `timeout` where the turn comes after `until`, by performance.now(). */
  async take<T>(name: string, until: number, work: () => Promise<T>): Promise<T> {
    const semaphore = this.#byName.get(name) ?? new Semaphore(this.#atOnce);
    this.#byName.set(name, semaphore);
    try {
      return await semaphore.run(() => {
        if (performance.now() >= until) throw new StrataError('timeout');
        return work();
      });
    } finally {
      if (semaphore.size === 0 && this.#byName.get(name) === semaphore) this.#byName.delete(name);
    }
  }
}
