/**
 * What a node does beside answering calls, from the creation of its broker to its stop: it answers
 * for itself (health, caches, reload), watches NATS, polls the change feed, and beside a database
 * also answers the feed to others, hands audit events on and removes old changes.
 */
import { randomUUID } from 'node:crypto';
import type { Middleware, ServiceBroker } from 'moleculer';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { DataSource } from 'typeorm';
import { serviceCaller } from '../access.ts';
import type { BackgroundLoop } from '../concurrency/background-loop.ts';
import { startRelay } from '../commits/relay.ts';
import type { LiveSettings } from '../settings/live-settings.ts';
import { natsConnectionOf, type Bus } from '../bus/bus.ts';
import { clusterService } from './cluster-service.ts';
import type { Coherence } from '../coherence/coherence.ts';
import { createFeed, type Feed } from '../coherence/feed.ts';
import { clusterLink, feedService } from '../coherence/feed-service.ts';
import type { Connections } from '../database/connections.ts';
import { boundedProbe, type Probe } from './health.ts';
import type { StartWork } from './readiness.ts';
import { callAs } from '../contract-runtime/request.ts';
import type { RunningCalls } from '../bus/unanswered-calls.ts';

const pruneIntervalMs = 60_000;
/**
 * Of the fence time, that polls wait for those of other nodes, which poll by the same time of day:
 * 10 ms of 2 s.
 */
const gatheredShare = 1 / 200;

/** What a node is made with. */
export interface NodeNeeds {
  readonly settings: LiveSettings;
  /** The commit tables, on nodes whose roles have a database. */
  readonly commits?: DataSource;
  /** Of the pools beside it. */
  readonly connections?: Connections;
  /** Further needs of this node by name, such as redis, each with whether it answers. */
  readonly probes?: Readonly<Record<string, Probe>>;
  /** What the start of this node has yet to do before anybody can be served. */
  readonly unfinished?: ReadonlySet<StartWork>;
  /** Sends no broadcasts, so that the feed and the fence alone must hold. For tests. */
  readonly silent?: boolean;
}

interface LifecycleOptions extends NodeNeeds {
  readonly coherence: Coherence;
  readonly bus: Bus;
  readonly running: RunningCalls;
  readonly metrics: Registry;
  readonly log: Logger;
}

export function nodeLifecycle(options: LifecycleOptions) {
  const { settings, commits, connections, silent = false, coherence, bus, log } = options;
  const { node_id: nodeId, coherence_fence_ms: fenceMs } = settings.current;
  // One process polls for itself alone.
  const gatherMs = settings.current.nats_url === null ? 0 : fenceMs * gatheredShare;
  const feed =
    commits &&
    createFeed(commits, {
      gatherMs,
      fenceMs,
      log,
      onServer: (cluster) => connections?.follow(cluster),
    });
  let relay: BackgroundLoop | undefined;
  let pruning: NodeJS.Timeout | undefined;

  return {
    middleware: {
      name: 'Node',
      created(broker) {
        // For each heartbeat Moleculer would look three times at all processors, for strategies
        // that choose nodes by it.
        broker.getCpuUsage = async () => ({ avg: 0, usages: [] });
        const health = healthCheck(broker, options);
        broker.createService(clusterService({ ...options, broker, health }));
        if (feed && commits) broker.createService(feedService(feed, commits));
      },
      // What services do when they start may write.
      async starting() {
        await feed
          ?.meet()
          .catch((error: unknown) =>
            log.debug({ err: error }, 'the database does not answer; the first poll meets it'),
          );
      },
      async started(broker) {
        watchConnection(broker, bus, coherence);
        await coherence.start(clusterLink(broker, { nodeId, fenceMs, feed, silent, log }));
        if (!feed || !commits) return;
        relay = relayToAudit(broker, commits, log);
        pruning = pruneRegularly(feed, coherence, log);
      },
      async stopping() {
        clearInterval(pruning);
        await Promise.all([relay?.stop(), coherence.stop()]);
      },
    } satisfies Middleware,
    onCommitted: () => relay?.wake(),
  };
}

/**
 * Asks what this node needs, by name, whether it answers now. What its start has yet to do is false
 * until it is done, and then left out.
 */
function healthCheck(
  broker: ServiceBroker,
  { settings, commits, probes, unfinished = new Set(), coherence, bus }: LifecycleOptions,
): () => Promise<Record<string, boolean>> {
  const isEmbedded = !settings.current.nats_url;
  const query = commits && { database: () => commits.query('SELECT 1').then(yes, no) };
  const parts = Object.entries({ ...query, ...probes }).map(
    ([name, probe]) => [name, boundedProbe(probe)] as const,
  );
  return async () => {
    const asked = parts.map(async ([name, probe]) => [name, await probe()] as const);
    const isOnBus = bus.connected() && (broker.transit?.connected ?? false);
    return {
      bus: isEmbedded || isOnBus,
      ...Object.fromEntries(await Promise.all(asked)),
      feed: coherence.hasLease(),
      ...Object.fromEntries([...unfinished].map((work) => [work, false])),
    };
  };
}

const yes = (): boolean => true;
const no = (): boolean => false;

type MoleculerNode = ReturnType<ServiceBroker['registry']['nodes']['get']>;

/**
 * As soon as the connection to NATS is back, this node asks for nodes and changes, and says that it
 * is there, since what it and others sent meanwhile is lost. Heartbeats are, too, for which nodes
 * would give each other up seconds after they can talk again.
 */
function watchConnection(broker: ServiceBroker, bus: Bus, coherence: Coherence): void {
  const connection = natsConnectionOf(broker);
  if (!connection) return;
  const { transit } = broker;
  // A node that it knows has said what it hosts, which is how it answers. Moleculer counts
  // heartbeats alone.
  broker.localBus.on('$node.updated', ({ node }: { node: MoleculerNode }) => node.heartbeat({}));
  void bus.watch(connection, () => {
    void transit!.discoverer.sendLocalNodeInfo();
    void transit!.discoverNodes();
    coherence.pollNow();
  });
}

const relayToAudit = (broker: ServiceBroker, commits: DataSource, log: Logger): BackgroundLoop =>
  startRelay(
    commits,
    (events) => {
      const requestId = events[0]?.request_id ?? randomUUID();
      const caller = serviceCaller('outbox');
      return callAs(broker, 'audit.append', { body: events }, { caller, requestId });
    },
    log,
  );

function pruneRegularly(feed: Feed, coherence: Coherence, log: Logger): NodeJS.Timeout {
  const prune = (): Promise<void> =>
    feed
      .prune(coherence.forgottenLeases())
      .catch((error: unknown) => log.warn({ err: error }, 'the change feed could not be pruned'));
  return setInterval(() => void prune(), pruneIntervalMs).unref();
}
