/** The gateway's own metrics, beside those of its node. */
import { Counter, type Histogram, type Registry } from 'prom-client';
import { contractTable } from '../../shared/contracts/index.ts';
import { addMetric } from '../../shared/telemetry/metric.ts';

/** Upper bounds of the buckets, in seconds. */
const bounds = [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10];

/**
 * Called after each response. `seconds` is undefined where the duration says nothing about response
 * times.
 */
export type CountRequest = (
  method: string,
  route: string,
  status: number,
  seconds: number | undefined,
) => void;

/**
 * Counts of one route and method: plain numbers, counted at every request and put into Prometheus'
 * form when it asks.
 */
class Tally {
  readonly statuses = new Map<number, number>();
  /** Not cumulative; the last counts what is beyond all bounds. */
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

interface Labelled {
  readonly labels: { readonly method: string; readonly route: string };
  readonly tally: Tally;
}

/** By route, then method: two look-ups cost less than putting a key together. */
class Tallies {
  readonly #byRoute = new Map<string, Map<string, Tally>>();

  of(method: string, route: string): Tally {
    const known = this.#byRoute.get(route)?.get(method);
    if (known) return known;
    const tally = new Tally();
    const byMethod = this.#byRoute.get(route) ?? new Map<string, Tally>();
    byMethod.set(method, tally);
    this.#byRoute.set(route, byMethod);
    return tally;
  }

  all(): Labelled[] {
    return [...this.#byRoute].flatMap(([route, byMethod]) =>
      [...byMethod].map(([method, tally]) => ({ labels: { method, route }, tally })),
    );
  }
}

/** What is measured of watch streams. */
export interface StreamMetrics {
  /** How many are open. */
  readonly open: () => number;
  /** How often this gateway has asked for what they share, by what it is. */
  readonly reads: () => Readonly<Record<'changes' | 'values' | 'past', number>>;
}
export interface Streams extends StreamMetrics {
  /** How many may be open. */
  readonly max: () => number;
}

/** Registers the metrics, and returns what counts a request. */
export function observeRequests(metrics: Registry, streams: Streams): CountRequest {
  const registers = [metrics];
  const tallies = new Tallies();
  // Prometheus sees no increase in a series that begins with 1, and StrataPartialReload rings at one.
  for (const { rest, response } of Object.values(contractTable))
    if (rest && response === 'reload') tallies.of(rest.method, rest.path).statuses.set(207, 0);
  new Counter({
    name: 'strata_http_requests_total',
    help: 'Requests by method, route and status',
    labelNames: ['method', 'route', 'status'],
    registers,
    collect() {
      this.reset();
      for (const { labels, tally } of tallies.all()) {
        for (const [status, count] of tally.statuses) this.inc({ ...labels, status }, count);
      }
    },
  });
  metrics.registerMetric(responseTimes(tallies));
  addMetric(metrics, {
    name: 'strata_watch_streams',
    help: 'Open watch streams',
    read: streams.open,
  });
  addMetric(metrics, {
    name: 'strata_watch_streams_limit',
    help: 'How many watch streams this gateway takes: WATCH_MAX_STREAMS',
    read: streams.max,
  });
  addMetric(metrics, {
    name: 'strata_watch_reads_total',
    help: 'Reads for all watch streams together: changes of a scope, effective values of a tenant, and past ones for those who come back',
    labelNames: ['what'],
    read: () =>
      Object.entries(streams.reads()).map(([what, value]) => ({ labels: { what }, value })),
  });
  return (method, route, status, seconds) => tallies.of(method, route).count(status, seconds);
}

/**
 * A histogram of the tallies. prom-client's own cannot be given counts, so this is what a registry
 * asks of one when it is scraped, which is less than the type asks for.
 */
function responseTimes(tallies: Tallies): Histogram {
  const name = 'strata_http_request_seconds';
  const histogram = {
    name,
    get: async () => ({
      name,
      help: 'Time to answer',
      type: 'histogram',
      aggregator: 'sum',
      values: tallies.all().flatMap((each) => samplesOf(name, each)),
    }),
  };
  return histogram as unknown as Histogram;
}

/** Cumulative buckets, sum and count, as Prometheus wants them. */
function samplesOf(name: string, { labels, tally }: Labelled) {
  let count = 0;
  const buckets = tally.buckets.map((inBucket, index) => {
    count += inBucket;
    return {
      metricName: `${name}_bucket`,
      labels: { ...labels, le: bounds[index] ?? '+Inf' },
      value: count,
    };
  });
  return [
    ...buckets,
    { metricName: `${name}_sum`, labels, value: tally.sum },
    { metricName: `${name}_count`, labels, value: count },
  ];
}
