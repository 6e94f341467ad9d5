import { Counter, Gauge, type Registry } from 'prom-client';

/** Upper bounds in seconds. */
const bounds = [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10];

/** Of one route and method. Plain numbers, counted at every request and put into Prometheus' form when it asks. */
class Tally {
  readonly statuses = new Map<number, number>();
  /** Not cumulative; the last is beyond all bounds. */
  readonly buckets = Array<number>(bounds.length + 1).fill(0);
  sum = 0;

  count(status: number, seconds: number | undefined): void {
    this.statuses.set(status, (this.statuses.get(status) ?? 0) + 1);
    if (seconds === undefined) return;
    let bucket = 0;
    while (bucket < bounds.length && seconds > bounds[bucket]!) bucket += 1;
    this.buckets[bucket]! += 1;
    this.sum += seconds;
  }
}

/** The gateway's own figures, beside those of its node. What it gives is called once for each answer, without `seconds` where they say nothing about answering. */
export function observeRequests(
  metrics: Registry,
  openStreams: () => number,
): (method: string, route: string, status: number, seconds: number | undefined) => void {
  const registers = [metrics];
  const tallies = new Map<string, Map<string, Tally>>();
  const tallyOf = (method: string, route: string): Tally => {
    let methods = tallies.get(route);
    if (!methods) tallies.set(route, (methods = new Map()));
    let tally = methods.get(method);
    if (!tally) methods.set(method, (tally = new Tally()));
    return tally;
  };
  const each = () =>
    [...tallies].flatMap(([route, methods]) =>
      [...methods].map(([method, tally]) => ({ labels: { method, route }, tally })),
    );

  new Counter({
    name: 'strata_http_requests_total',
    help: 'Requests by method, route and status',
    labelNames: ['method', 'route', 'status'],
    registers,
    collect() {
      this.reset();
      for (const { labels, tally } of each())
        for (const [status, count] of tally.statuses) this.inc({ ...labels, status }, count);
    },
  });
  const name = 'strata_http_request_seconds';
  // prom-client's own histogram cannot be given counts.
  metrics.registerMetric({
    name,
    get: async () => ({
      name,
      help: 'Time to answer',
      type: 'histogram',
      aggregator: 'sum',
      values: each().flatMap(({ labels, tally }) => {
        let total = 0;
        const buckets = tally.buckets.map((count, index) => ({
          metricName: `${name}_bucket`,
          labels: { ...labels, le: bounds[index] ?? '+Inf' },
          value: (total += count),
        }));
        return [
          ...buckets,
          { metricName: `${name}_sum`, labels, value: tally.sum },
          { metricName: `${name}_count`, labels, value: total },
        ];
      }),
    }),
  } as never);
  new Gauge({
    name: 'strata_watch_streams',
    help: 'Open watch streams',
    registers,
    collect() {
      this.set(openStreams());
    },
  });

  return (method, route, status, seconds) => tallyOf(method, route).count(status, seconds);
}
