import type { FastifyInstance } from 'fastify';
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { Coherence } from '../shared/coherence/coherence.ts';

/** Prometheus figures of this process: requests, caches, the caching lease. No label holds an id, so their number is bounded. */
export function createMetrics(app: FastifyInstance, coherence: Coherence, openStreams: () => number): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const registers = [registry];
  const requests = new Counter({ name: 'strata_http_requests_total', help: 'Requests by method, route and status', labelNames: ['method', 'route', 'status'], registers });
  const seconds = new Histogram({
    name: 'strata_http_request_seconds', help: 'Time to answer', labelNames: ['method', 'route'], buckets: [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10], registers,
  });
  new Gauge({
    name: 'strata_cache', help: 'Cache figures: entries, bytes, hits, misses, drops and what was kept out', labelNames: ['cache', 'figure'], registers,
    collect() {
      for (const [cache, store] of Object.entries(coherence.caches)) {
        for (const [figure, value] of Object.entries(store.stats())) this.set({ cache, figure }, value);
      }
    },
  });
  new Gauge({
    name: 'strata_coherence', help: 'Caching lease: polls of the change feed, failures, fences, age of the last good poll', labelNames: ['figure'], registers,
    collect() {
      const { polls, pollFailures, fences, fencedOut, lastAcknowledgementMs } = coherence.figures;
      const figures = {
        polls, poll_failures: pollFailures, fences, fenced_out: fencedOut, last_acknowledgement_ms: lastAcknowledgementMs,
        poll_age_ms: coherence.pollAgeMs(), trusted: Number(coherence.trusted()),
      };
      for (const [figure, value] of Object.entries(figures)) if (Number.isFinite(value)) this.set({ figure }, value);
    },
  });
  new Gauge({ name: 'strata_watch_streams', help: 'Open watch streams', registers, collect() { this.set(openStreams()); } });
  app.addHook('onResponse', async (request, reply) => {
    const route = request.routeOptions.url ?? 'none';
    requests.inc({ method: request.method, route, status: reply.statusCode });
    // How long a stream stayed open says nothing about answering.
    if (reply.getHeader('content-type') !== 'text/event-stream') seconds.observe({ method: request.method, route }, reply.elapsedTime / 1000);
  });
  return registry;
}
