/**
 * Waiting for a tenant's automations, or its approvals, to change: whoever changes one says so on
 * the bus, and what is missed is found at the next look.
 */
const lookAgainMs = 1000;

export class TenantChanges {
  readonly #waiting = new Map<string, Set<() => void>>();
  readonly #stopping = new AbortController();
  readonly #broadcast: (tenantId: string) => void;

  constructor(broadcast: (tenantId: string) => void) {
    this.#broadcast = broadcast;
  }

  /** Tells every node. */
  announce(tenantId: string): void {
    this.#broadcast(tenantId);
  }

  /** Called on every node where something changed. Without a tenant: anywhere. */
  changed(tenantId?: string): void {
    const tenants = tenantId === undefined ? [...this.#waiting.keys()] : [tenantId];
    for (const tenant of tenants) for (const wake of this.#waiting.get(tenant) ?? []) wake();
  }

  /** What is read, once it fits, `ms` milliseconds are over or the node stops. */
  async until<T>(
    ms: number,
    tenantId: string,
    read: () => Promise<T>,
    fits: (value: T) => boolean,
  ): Promise<T> {
    const deadline = performance.now() + ms;
    for (;;) {
      const value = await read();
      const left = deadline - performance.now();
      if (fits(value) || left <= 0 || this.#stopping.signal.aborted) return value;
      await this.#nextChange(tenantId, Math.min(left, lookAgainMs));
    }
  }

  stop(): void {
    this.#stopping.abort();
    this.changed();
  }

  #nextChange(tenantId: string, ms: number): Promise<void> {
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(tenantId) ?? new Set();
      this.#waiting.set(tenantId, waiting);
      const wake = (): void => {
        clearTimeout(timer);
        waiting.delete(wake);
        if (waiting.size === 0 && this.#waiting.get(tenantId) === waiting)
          this.#waiting.delete(tenantId);
        resolve();
      };
      const timer = setTimeout(wake, ms);
      waiting.add(wake);
    });
  }
}
