import type { NatsConnection } from 'nats';
import { performance } from 'node:perf_hooks';
import type { Logger } from 'pino';

/** A connection that is back by then was a blip: calls made meanwhile are sent late rather than refused. */
const blipMs = 1000;

/**
 * This node's connection to NATS, as the client sees it. Moleculer notices neither that it drops nor that it comes back, and what
 * others broadcast in between never arrives.
 */
export class Bus {
  readonly figures = { drops: 0 };
  readonly #log: Logger;
  #lostAt: number | undefined;

  constructor(log: Logger) {
    this.#log = log;
  }

  connected(): boolean {
    return this.#lostAt === undefined;
  }
  /** So long that a call over it would only run into its time-out. */
  away(): boolean {
    return this.#lostAt !== undefined && performance.now() - this.#lostAt > blipMs;
  }

  /** Resolves when the connection is closed for good. */
  async watch(connection: NatsConnection, onReturn: () => void): Promise<void> {
    for await (const { type } of connection.status()) {
      if (type === 'disconnect' && this.#lostAt === undefined) {
        this.#lostAt = performance.now();
        this.figures.drops += 1;
        this.#log.warn('the connection to NATS is lost; broadcasts do not arrive');
      } else if (type === 'reconnect' && this.#lostAt !== undefined) {
        this.#log.warn(
          { ms: Math.round(performance.now() - this.#lostAt) },
          'the connection to NATS is back; the change feed has what was missed',
        );
        this.#lostAt = undefined;
        onReturn();
      }
    }
  }
}
