/**
 * What every node measures, for Prometheus. The metrics are bounded in number: no label holds an
 * id.
 */
import { collectDefaultMetrics, Histogram, Registry } from 'prom-client';
import type { DataSource } from 'typeorm';
import type { Bus } from '../bus/bus.ts';
import type { CoherentCache } from '../coherence/cache.ts';
import type { Coherence } from '../coherence/coherence.ts';
import { triesUntilAside } from '../commits/relay.ts';
import { askedOfDatabase, addMetric, type Sample } from './metric.ts';
import { readinessStatuses, type Readiness, type ReadinessCheck } from '../node/readiness.ts';

export interface NodeParts {
  readonly coherence: Coherence;
  readonly bus: Bus;
  readonly commits: DataSource | undefined;
}

/**
 * Gauges of prom-client whose names say that they are counters; the same by type have names of
 * their own.
 */
const misnamed = [
  'nodejs_active_handles_total',
  'nodejs_active_requests_total',
  'nodejs_active_resources_total',
];

/**
 * How often prom-client wakes the event loop to see how late it is. The lag includes it; at 20 ms it
 * was a fifth of what an idle node costs.
 */
const lagIntervalMs = 50;

/** What every node measures. Its roles add their own metrics to the same registry. */
export function createMetrics({ coherence, bus, commits }: NodeParts): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: lagIntervalMs });
  for (const name of misnamed) registry.removeSingleMetric(name);
  showCaches(registry, coherence);
  showCoherence(registry, coherence);
  showBus(registry, bus);
  if (commits) {
    showOutbox(registry, commits);
    showOldestSnapshot(registry, commits);
    showArchive(registry, commits);
  }
  return registry;
}

type CacheStats = ReturnType<CoherentCache['stats']>;
type CoherenceCounters = Coherence['counters'];

/** Of each metric, the count that it shows. */
const cacheMetrics: Readonly<Record<string, readonly [keyof CacheStats, string]>> = {
  strata_cache_hits_total: ['hits', 'Reads answered from memory'],
  strata_cache_misses_total: ['misses', 'Reads that were not answered from memory'],
  strata_cache_drops_total: ['drops', 'Entries removed because a change made them outdated'],
  strata_cache_outdated_loads_total: [
    'outdatedLoads',
    'Loads whose answer was not cached, because a change came while they were in flight',
  ],
  strata_cache_refused_answers_total: [
    'rejectedBelowFloor',
    'Answers of owners from before a change that this node knew of; they were asked again',
  ],
  strata_cache_stale_answers_total: [
    'stale',
    'Reads answered with the last known value, marked stale, because the owner was away',
  ],
  strata_cache_read_through_total: [
    'readThrough',
    'Loads while this node had no lease, so that nothing was cached or shared',
  ],
  strata_cache_entries: ['entries', 'Entries in memory'],
  strata_cache_bytes: ['bytes', 'Memory of the entries, by an estimate'],
  strata_cache_floors: [
    'floors',
    'Keys and scopes whose least revision is remembered after a change',
  ],
};

const coherenceMetrics: Readonly<Record<string, readonly [keyof CoherenceCounters, string]>> = {
  strata_coherence_polls_total: ['polls', 'Successful polls of the change feed'],
  strata_coherence_poll_failures_total: [
    'pollFailures',
    'Polls of the change feed without an answer, or without a bus',
  ],
  strata_coherence_fenced_out_polls_total: [
    'fencedOut',
    'Of these, polls that failed while the node had no lease',
  ],
  strata_coherence_fences_total: [
    'fences',
    'Writes that waited for all of the fence, because a node that may cache did not answer',
  ],
  strata_coherence_resets_total: [
    'resets',
    'How often the database was replaced, restarted or restored, so that the cache was emptied',
  ],
  strata_coherence_flushes_total: [
    'flushes',
    'How often the change feed no longer had what a node had missed, so that its memory was emptied',
  ],
};

function showCaches(registry: Registry, coherence: Coherence): void {
  for (const [name, [count, help]] of Object.entries(cacheMetrics)) {
    const read = (): Sample[] =>
      Object.entries(coherence.caches).map(([cache, store]) => ({
        labels: { cache },
        value: store.stats()[count],
      }));
    addMetric(registry, { name, help, labelNames: ['cache'], read });
  }
}

function showCoherence(registry: Registry, coherence: Coherence): void {
  for (const [name, [count, help]] of Object.entries(coherenceMetrics))
    addMetric(registry, { name, help, read: () => coherence.counters[count] });
  addMetric(registry, {
    name: 'strata_coherence_poll_age_seconds',
    help: 'Since the last successful poll of the change feed began',
    read: () => coherence.pollAgeMs() / 1000,
  });
  addMetric(registry, {
    name: 'strata_coherence_lease',
    help: '1 while this node may answer from memory, else 0: it reads through',
    read: () => Number(coherence.hasLease()),
  });
  const acknowledgements = new Histogram({
    name: 'strata_acknowledgement_seconds',
    help: 'From the commit of a change until every node that may cache has dropped what it made old, or the fence',
    buckets: [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5],
    registers: [registry],
  });
  coherence.onPublished((ms) => acknowledgements.observe(ms / 1000));
}

function showBus(registry: Registry, bus: Bus): void {
  addMetric(registry, {
    name: 'strata_bus_connected',
    help: '1 while the connection to NATS is there, and without NATS; else 0',
    read: () => Number(bus.connected()),
  });
  addMetric(registry, {
    name: 'strata_bus_disconnects_total',
    help: 'How often the connection to NATS was lost',
    read: () => bus.counters.drops,
  });
  addMetric(registry, {
    name: 'strata_bus_refused_packets_total',
    help: 'Packets that were not from a node of Strata, or had arrived before',
    read: () => bus.counters.refused,
  });
}

interface OutboxRow {
  readonly waiting: number;
  readonly oldest_seconds: number;
  readonly chains_aside: number;
}

/** A long outbox is not read whole by each scrape. */
const mostCounted = 10_000;

function showOutbox(registry: Registry, commits: DataSource): void {
  const outbox = askedOfDatabase(async () => {
    const [row] = await commits.query<OutboxRow[]>(
      `SELECT (SELECT count(*)::int FROM (SELECT FROM strata.outbox LIMIT ${mostCounted}) AS counted) AS waiting,
         greatest(0, coalesce(extract(epoch FROM clock_timestamp() -
           (SELECT created_at FROM strata.outbox WHERE NOT aside ORDER BY seq LIMIT 1)), 0))::float8 AS oldest_seconds,
         (SELECT count(*)::int FROM strata.chain_waits WHERE tries >= $1) AS chains_aside`,
      [triesUntilAside],
    );
    return row;
  });
  addMetric(registry, {
    name: 'strata_outbox_events',
    help: `Audit events that wait for the audit service, the same on every node with a database; counted up to ${mostCounted}`,
    read: async () => (await outbox())?.waiting,
  });
  addMetric(registry, {
    name: 'strata_outbox_oldest_seconds',
    help: 'For how long the oldest of them has waited whose chain is not set aside; 0 where none waits',
    read: async () => (await outbox())?.oldest_seconds,
  });
  addMetric(registry, {
    name: 'strata_audit_chains_aside',
    help: 'Audit chains that are set aside, because the audit service refuses their next event; the same on every node with a database',
    read: async () => (await outbox())?.chains_aside,
  });
}

/**
 * Whoever reads by an old snapshot, such as a dump or an analyst, keeps PostgreSQL from removing
 * older versions of rows. Sessions of other users show where this one has `pg_read_all_stats`.
 */
function showOldestSnapshot(registry: Registry, commits: DataSource): void {
  addMetric(registry, {
    name: 'strata_database_oldest_snapshot_seconds',
    help: 'How long the oldest transaction of the database has been open that keeps older versions of rows, the same on every node with a database',
    read: askedOfDatabase(async () => {
      const [row] = await commits.query<{ seconds: number }[]>(
        `SELECT COALESCE(max(extract(epoch FROM clock_timestamp() - began)), 0)::float8 AS seconds FROM (
           SELECT xact_start AS began FROM pg_stat_activity
           WHERE datname = current_database() AND COALESCE(backend_xmin, backend_xid) IS NOT NULL
           UNION ALL SELECT prepared FROM pg_prepared_xacts WHERE database = current_database()
         ) AS open`,
      );
      return row?.seconds;
    }),
  });
}

interface ArchiveRow {
  readonly is_failing: boolean;
  readonly failures: number;
}

/**
 * Of whatever archives the log: the backups of the embedded server, or what the operators of
 * another have set up.
 */
function showArchive(registry: Registry, commits: DataSource): void {
  const archive = askedOfDatabase(async () => {
    const [row] = await commits.query<ArchiveRow[]>(
      `SELECT COALESCE(last_failed_time > COALESCE(last_archived_time, '-infinity'), false) AS is_failing,
              failed_count::float8 AS failures
       FROM pg_stat_archiver`,
    );
    return row;
  });
  addMetric(registry, {
    name: 'strata_archive_failing',
    help: "1 where PostgreSQL's newest attempt to archive its log failed, else 0; the same on every node with a database",
    read: async () => {
      const row = await archive();
      return row && Number(row.is_failing);
    },
  });
  addMetric(registry, {
    name: 'strata_archive_failures_total',
    help: 'Attempts of PostgreSQL to archive its log that failed',
    read: async () => (await archive())?.failures,
  });
}

export interface NodeIdentity {
  readonly version: string;
  /** Names of the roles that it hosts. */
  readonly roles: readonly string[];
  readonly readiness: ReadinessCheck;
}

/** What a node is and whether it can serve, once it serves. */
export function showNode(registry: Registry, { version, roles, readiness }: NodeIdentity): void {
  addMetric(registry, {
    name: 'strata_build_info',
    help: '1, with the release that this node runs',
    labelNames: ['version'],
    read: () => [{ labels: { version }, value: 1 }],
  });
  addMetric(registry, {
    name: 'strata_hosted_piece',
    help: '1 for each role that this node hosts',
    labelNames: ['piece'],
    read: () => roles.map((role) => ({ labels: { piece: role }, value: 1 })),
  });
  addMetric(registry, {
    name: 'strata_node_status',
    help: 'What GET /readyz says: 1 for the status that holds, 0 for the others',
    labelNames: ['status'],
    read: async () => statusSamples(await readiness.ask()),
  });
  addMetric(registry, {
    name: 'strata_dependency_up',
    help: 'What GET /readyz says of each part of the node and each role that it calls: 1 where it answers, else 0',
    labelNames: ['dependency'],
    read: async () => dependencySamples(await readiness.ask()),
  });
}

const statusSamples = ({ status: held }: Readiness): Sample[] =>
  readinessStatuses.map((status) => ({ labels: { status }, value: Number(status === held) }));

const dependencySamples = ({ checks }: Readiness): Sample[] =>
  Object.entries(checks).map(([dependency, isUp]) => ({
    labels: { dependency },
    value: Number(isUp),
  }));
