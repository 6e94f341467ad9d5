/**
 * Figures that are read when Prometheus asks, for whatever counts or knows something anyway.
 *
 * Names follow https://prometheus.io/docs/practices/naming/: one name for one metric, `_total` for
 * what only grows, seconds and bytes.
 */
import { Counter, Gauge, type Registry } from 'prom-client';
import { within } from '../concurrency/within.ts';

export interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface Metric {
  /** A counter's ends with `_total`, and no other. */
  readonly name: string;
  readonly help: string;
  readonly labelNames?: readonly string[];
  /**
   * A single number where there are no labels. Undefined, and numbers that are not finite, are not
   * shown: nobody knows them now.
   */
  readonly read: () => Readings | Promise<Readings>;
}
type Readings = number | undefined | readonly Sample[];

/** What both kinds of metrics of prom-client have. */
interface Fillable {
  reset(): void;
  remove(): void;
  inc(labels: Record<string, string>, value: number): void;
}

export function addMetric(registry: Registry, described: Metric): void {
  const { name, help, read } = described;
  const labelNames = [...(described.labelNames ?? [])];
  async function fill(metric: Fillable): Promise<void> {
    const samples = samplesOf(await read());
    metric.reset();
    // A metric without labels is reset to 0, which may not be what it is.
    if (labelNames.length === 0) metric.remove();
    for (const { labels, value } of samples) metric.inc({ ...labels }, value);
  }
  const registers = [registry];
  const options = { name, help, labelNames, registers };
  if (name.endsWith('_total')) {
    const counter: Counter = new Counter({ ...options, collect: () => fill(counter) });
  } else {
    const gauge: Gauge = new Gauge({ ...options, collect: () => fill(gauge) });
  }
}

function samplesOf(readings: Readings): readonly Sample[] {
  const samples = typeof readings === 'object' ? readings : unlabelled(readings);
  return samples.filter(({ value }) => Number.isFinite(value));
}

const unlabelled = (value: number | undefined): readonly Sample[] =>
  value === undefined ? [] : [{ labels: {}, value }];

/** Less than what Prometheus and those who look after nodes wait for the whole page. */
const patienceMs = 700;

/**
 * What the database says, for metrics; undefined where it does not say so in time, so that a
 * database that is away or stalls leaves every other metric of the node in sight. It is not asked
 * again before it has answered.
 */
export function askedOfDatabase<T>(ask: () => Promise<T | undefined>) {
  let running: Promise<T | undefined> | undefined;
  async function askOnce(): Promise<T | undefined> {
    try {
      return await ask();
    } catch {
      return undefined;
    } finally {
      running = undefined;
    }
  }
  return (): Promise<T | undefined> => {
    running ??= askOnce();
    return within(patienceMs, running).catch(() => undefined);
  };
}
