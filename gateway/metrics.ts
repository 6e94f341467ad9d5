import type { FastifyInstance } from 'fastify';
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

/** The gateway's own figures, beside those of its node. */
export function observeRequests(app: FastifyInstance, metrics: Registry, openStreams: () => number): void {
  const registers = [metrics];
  const requests = new Counter({ name: 'strata_http_requests_total', help: 'Requests by method, route and status', labelNames: ['method', 'route', 'status'], registers });
  const seconds = new Histogram({
    name: 'strata_http_request_seconds', help: 'Time to answer', labelNames: ['method', 'route'], buckets: [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10], registers,
  });
  new Gauge({ name: 'strata_watch_streams', help: 'Open watch streams', registers, collect() { this.set(openStreams()); } });
  app.addHook('onResponse', async (request, reply) => {
    const route = request.routeOptions.url ?? 'none';
    requests.inc({ method: request.method, route, status: reply.statusCode });
    // How long a stream stayed open says nothing about answering.
    if (reply.getHeader('content-type') !== 'text/event-stream') seconds.observe({ method: request.method, route }, reply.elapsedTime / 1000);
  });
}
