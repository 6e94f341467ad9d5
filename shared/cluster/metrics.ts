/** Prometheus figures of a node. They are bounded in number: no label holds an id. */
import { collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { DataSource } from 'typeorm';
import type { Coherence } from './coherence/coherence.ts';
import type { Bus } from './bus.ts';

export interface NodeParts {
  readonly coherence: Coherence;
  readonly bus: Bus;
  readonly commits: DataSource | undefined;
}

/** What every node measures. Its pieces add their own figures to the same registry. */
export function createMetrics({ coherence, bus, commits }: NodeParts): Registry {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  new Gauge({
    name: 'strata_cache',
    help: 'Cache figures: entries, bytes, hits, misses, drops and what was kept out',
    labelNames: ['cache', 'figure'],
    registers,
    collect() {
      for (const [cache, store] of Object.entries(coherence.caches)) {
        for (const [figure, value] of Object.entries(store.stats()))
          this.set({ cache, figure }, value);
      }
    },
  });
  new Gauge({
    name: 'strata_coherence',
    help: 'Caching lease: polls of the change feed, failures, fences, age of the last good poll',
    labelNames: ['figure'],
    registers,
    collect() {
      const { polls, pollFailures, fences, fencedOut } = coherence.figures;
      const figures = {
        polls,
        poll_failures: pollFailures,
        fences,
        fenced_out: fencedOut,
        poll_age_ms: coherence.pollAgeMs(),
        trusted: Number(coherence.hasLease()),
      };
      for (const [figure, value] of Object.entries(figures))
        if (Number.isFinite(value)) this.set({ figure }, value);
    },
  });
  const acknowledgements = new Histogram({
    name: 'strata_acknowledgement_seconds',
    help: 'From the commit of a change until every node that may cache has dropped what it made old, or the fence',
    buckets: [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5],
    registers,
  });
  coherence.onPublished((ms) => acknowledgements.observe(ms / 1000));
  new Gauge({
    name: 'strata_bus',
    help: 'NATS: whether the connection is there, how often it was lost, and how many packets were refused',
    labelNames: ['figure'],
    registers,
    collect() {
      this.set({ figure: 'connected' }, Number(bus.connected()));
      this.set({ figure: 'drops' }, bus.figures.drops);
      this.set({ figure: 'refused' }, bus.figures.refused);
    },
  });
  if (commits) {
    new Gauge({
      name: 'strata_outbox_events',
      help: 'Audit events that wait for the audit service, the same on every node with a database',
      registers,
      async collect() {
        const [row] = await commits
          .query<{ waiting: number }[]>('SELECT count(*)::int AS waiting FROM strata.outbox')
          .catch(() => []);
        if (row) this.set(row.waiting);
      },
    });
  }
  return registry;
}
