/**
 * The figures as they were named before each had a name of its own. They mix counters, gauges and
 * milliseconds under one label, so that `rate` and `sum` mislead. Dashboards have one release to
 * follow; then this file goes.
 */
import { Gauge, type Registry } from 'prom-client';
import type { Bus } from './bus.ts';
import type { Coherence } from './coherence/coherence.ts';

interface DeprecatedGauge {
  readonly name: string;
  /** What to use instead. */
  readonly instead: string;
  readonly read: () => Readonly<Record<string, number>> | Promise<Readonly<Record<string, number>>>;
}

/** A gauge with one series for each figure. */
export function showDeprecated(registry: Registry, { name, instead, read }: DeprecatedGauge): void {
  new Gauge({
    name,
    help: deprecated(instead),
    labelNames: ['figure'],
    registers: [registry],
    async collect() {
      for (const [figure, value] of Object.entries(await read()))
        if (Number.isFinite(value)) this.set({ figure }, value);
    },
  });
}

const deprecated = (instead: string): string =>
  `Deprecated, and gone with the next release: use ${instead}`;

export function showDeprecatedFigures(
  registry: Registry,
  { coherence, bus }: { readonly coherence: Coherence; readonly bus: Bus },
): void {
  new Gauge({
    name: 'strata_cache',
    help: deprecated('strata_cache_hits_total and the other figures that begin with strata_cache_'),
    labelNames: ['cache', 'figure'],
    registers: [registry],
    collect() {
      for (const [cache, store] of Object.entries(coherence.caches)) {
        for (const [figure, value] of Object.entries(store.stats()))
          this.set({ cache, figure }, value);
      }
    },
  });
  showDeprecated(registry, {
    name: 'strata_coherence',
    instead: 'the figures that begin with strata_coherence_',
    read() {
      const { polls, pollFailures, fences, fencedOut } = coherence.figures;
      return {
        polls,
        poll_failures: pollFailures,
        fences,
        fenced_out: fencedOut,
        poll_age_ms: coherence.pollAgeMs(),
        trusted: Number(coherence.hasLease()),
      };
    },
  });
  showDeprecated(registry, {
    name: 'strata_bus',
    instead: 'the figures that begin with strata_bus_',
    read: () => ({
      connected: Number(bus.connected()),
      drops: bus.figures.drops,
      refused: bus.figures.refused,
    }),
  });
}
