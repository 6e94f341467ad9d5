import { StrataError } from '../errors.ts';
import { Semaphore } from './semaphore.ts';

/** Work of which so much of each tenant is done at a time; the rest waits in order. */
export class Turns {
  readonly #atOnce: number;
  readonly #tenants = new Map<string, Semaphore>();

  constructor(atOnce: number) {
    this.#atOnce = atOnce;
  }

  /** Throws `timeout` where the turn comes after `until`, by performance.now(). */
  async take<T>(tenantId: string, until: number, work: () => Promise<T>): Promise<T> {
    const semaphore = this.#tenants.get(tenantId) ?? new Semaphore(this.#atOnce);
    this.#tenants.set(tenantId, semaphore);
    try {
      return await semaphore.run(() => {
        if (performance.now() >= until) throw new StrataError('timeout');
        return work();
      });
    } finally {
      if (semaphore.isUnused && this.#tenants.get(tenantId) === semaphore)
        this.#tenants.delete(tenantId);
    }
  }
}
