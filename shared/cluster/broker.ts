import { randomUUID } from 'node:crypto';
import { ServiceBroker, type BrokerOptions, type Middleware } from 'moleculer';
import type { NatsConnection } from 'nats';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { DataSource } from 'typeorm';
import { serviceCaller } from '../access.ts';
import { Coherence, type ClusterLink } from './coherence/coherence.ts';
import { createFeed, type Feed } from './coherence/feed.ts';
import { recordEvents, type AuditEventFacts } from '../commits/commit.ts';
import { startRelay } from '../commits/relay.ts';
import type { Settings } from '../settings.ts';
import { Bus } from './bus.ts';
import { contractMiddleware } from './contract-middleware.ts';
import type { LiveSettings } from '../live-settings.ts';
import { createLog, logOptions } from './log.ts';
import { createMetrics } from './metrics.ts';
import { createLocalCache, type LocalCache } from './local-cache.ts';
import { invalidateEvent, nodeService } from './cluster-service.ts';
import { chunkingMiddleware } from './chunking.ts';
import { callAs } from './request.ts';
import { serviceOf } from './service.ts';

export interface NodeOptions {
  readonly settings: LiveSettings;
  /** The commit tables, on nodes whose pieces have a database. */
  readonly commits?: DataSource;
  /** Further needs of this node by name, such as redis. */
  readonly probes?: Readonly<Record<string, () => Promise<boolean>>>;
  /** Plainly no broadcasts: the feed and the fence alone must hold (used by tests). */
  readonly silent?: boolean;
}

export interface Node {
  readonly broker: ServiceBroker;
  readonly coherence: Coherence;
  readonly localCache: LocalCache;
  readonly log: Logger;
  readonly metrics: Registry;
}

function transporter(settings: Settings): BrokerOptions['transporter'] {
  if (!settings.nats_url) return null;
  return {
    type: 'NATS',
    options: {
      // Not as `url`, whose missing credentials would take these away.
      servers: settings.nats_url.split(','),
      ...(settings.nats_user ? { user: settings.nats_user, pass: settings.nats_password } : {}),
      ...(settings.nats_token ? { token: settings.nats_token } : {}),
      ...(settings.nats_tls_ca ? { tls: { caFile: settings.nats_tls_ca } } : {}),
      reconnectTimeWait: 250,
      maxReconnectAttempts: -1,
      ignoreAuthErrorAbort: true,
      waitOnFirstConnect: true,
      pingInterval: 5000,
      maxPingOut: 2,
    },
  } as unknown as BrokerOptions['transporter'];
}

/** Strata's broker configuration: contracts in front of every action, caches, the node's own service. No service of ours is needed. */
export function nodeOptions({ settings, commits, probes = {}, silent = false }: NodeOptions): {
  options: BrokerOptions;
  coherence: Coherence;
  bus: Bus;
  log: Logger;
} {
  const { current } = settings;
  const log = createLog(current);
  const nodeId = current.node_id;
  const coherence = new Coherence({
    nodeId,
    fenceMs: current.coherence_fence_ms,
    requestTimeoutMs: current.request_timeout_ms,
    ttlMinutes: () => settings.current.cache_default_ttl,
    log,
  });
  const bus = new Bus(log);
  const feed = commits && createFeed(commits, current.coherence_fence_ms);
  let relay: ReturnType<typeof startRelay> | undefined;
  let pruning: NodeJS.Timeout | undefined;

  const lifecycle = {
    name: 'Node',
    created(broker: ServiceBroker) {
      broker.createService(
        nodeService({
          coherence,
          settings,
          health: async () => ({
            bus: !current.nats_url || (bus.connected() && (broker.transit?.connected ?? false)),
            ...(commits
              ? {
                  database: await commits.query('SELECT 1').then(
                    () => true,
                    () => false,
                  ),
                }
              : {}),
            ...Object.fromEntries(
              await Promise.all(
                Object.entries(probes).map(async ([name, probe]) => [name, await probe()] as const),
              ),
            ),
            feed: coherence.hasLease(),
          }),
        }),
      );
      if (feed && commits) broker.createService(feedService(feed, commits));
    },
    async started(broker: ServiceBroker) {
      const { transit } = broker;
      const connection = (transit?.tx as { client?: NatsConnection } | undefined)?.client;
      if (connection) {
        void bus.watch(connection, () => {
          void transit!.discoverNodes();
          coherence.pollNow();
        });
      }
      await coherence.start(
        linkOf(broker, { nodeId, fenceMs: current.coherence_fence_ms, feed, silent }),
      );
      if (!commits || !feed) return;
      relay = startRelay(
        commits,
        (events) =>
          callAs(
            broker,
            'audit.append',
            { body: events },
            {
              caller: serviceCaller('outbox'),
              requestId: events[0]?.request_id ?? randomUUID(),
            },
          ),
        log,
      );
      pruning = setInterval(() => {
        feed
          .prune()
          .catch((error: unknown) =>
            log.warn({ err: error }, 'the change feed could not be pruned'),
          );
      }, 60_000);
      pruning.unref();
    },
    async stopping() {
      clearInterval(pruning);
      await relay?.stop();
      await coherence.stop();
    },
  } as unknown as Middleware;

  const options: BrokerOptions = {
    namespace: 'strata',
    nodeID: nodeId,
    logger: {
      type: 'Pino',
      options: {
        pino: {
          options: {
            ...logOptions(current),
            level: current.log_level === 'info' ? 'warn' : current.log_level,
          },
        },
      },
    },
    logLevel: current.log_level === 'info' ? 'warn' : (current.log_level as 'warn'),
    transporter: transporter(current),
    requestTimeout: current.request_timeout_ms,
    heartbeatInterval: 2,
    heartbeatTimeout: 6,
    validator: false,
    middlewares: [
      contractMiddleware({
        coherence,
        bus,
        log,
        requestTimeoutMs: current.request_timeout_ms,
        onCommitted: () => relay?.wake(),
      }),
      lifecycle,
      chunkingMiddleware(current.request_timeout_ms),
    ],
    skipProcessEventRegistration: true,
    tracking: { enabled: true, shutdownTimeout: 10_000 },
  };
  return { options, coherence, bus, log };
}

export function createNode(options: NodeOptions): Node {
  const { options: brokerOptions, coherence, bus, log } = nodeOptions(options);
  return {
    broker: new ServiceBroker(brokerOptions),
    coherence,
    localCache: createLocalCache(coherence),
    log,
    metrics: createMetrics({ coherence, bus, commits: options.commits }),
  };
}

interface LinkOptions {
  nodeId: string;
  fenceMs: number;
  feed: Feed | undefined;
  silent: boolean;
}

/** To the feed directly where this node has the database, else over the bus, answered by any node that has. */
function linkOf(
  broker: ServiceBroker,
  { nodeId, fenceMs, feed, silent }: LinkOptions,
): ClusterLink {
  const remote = { caller: serviceCaller(nodeId), requestId: nodeId, timeout: fenceMs };
  return {
    poll: feed
      ? (cursor) => feed.poll(nodeId, cursor)
      : (cursor) => callAs(broker, 'feed.poll', { body: { node_id: nodeId, cursor } }, remote),
    leave: feed
      ? () => feed.leave(nodeId)
      : async () => {
          await callAs(broker, 'feed.leave', { body: { node_id: nodeId } }, remote);
        },
    broadcast: (change) => {
      if (!silent) void broker.broadcast(invalidateEvent, change);
    },
    ...(feed ? { leaseHolders: (id: string) => feed.leaseHolders(id) } : {}),
  };
}

const feedService = (feed: Feed, commits: DataSource) =>
  serviceOf('feed', {
    'feed.poll': ({ body: { node_id: nodeId, cursor } }) => feed.poll(nodeId, cursor),
    'feed.leave': async ({ body: { node_id: nodeId } }) => {
      await feed.leave(nodeId);
      return null;
    },
    'feed.record': async ({ body }) => {
      await recordEvents(commits.manager, body as AuditEventFacts[]);
      return null;
    },
  });
