/**
 * What every node has: the broker's options with the contracts in front of each action, coherent
 * caches, the node's own service and, beside a database, the change feed and the audit relay. Used
 * by start.ts for its roles, by the operator's console, and by moleculer.config.ts for neighbours,
 * which need no service of Strata's on their node.
 */
import { ServiceBroker, type BrokerOptions } from 'moleculer';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { Settings } from '../settings/settings.ts';
import { Bus, natsTransporter } from '../bus/bus.ts';
import { chunkingMiddleware } from '../bus/chunking.ts';
import { Coherence } from '../coherence/coherence.ts';
import { contractMiddleware } from '../contract-runtime/contract-middleware.ts';
import type { DerivedReads } from '../contract-runtime/derived-reads.ts';
import { Discovery, discoveryMiddleware, heartbeats } from '../bus/discovery.ts';
import { createLocalCache, type LocalCache } from '../contract-runtime/local-cache.ts';
import { brokerLog, createLog } from '../telemetry/log.ts';
import { createMetrics } from '../telemetry/metrics.ts';
import { nodeLifecycle, type NodeNeeds } from './node-lifecycle.ts';
import { nodesOf, type NodeAbout } from './nodes.ts';
import { sealingMiddleware } from '../bus/sealing.ts';
import { RunningCalls, unansweredCallsMiddleware } from '../bus/unanswered-calls.ts';

/**
 * Its subjects on NATS, `MOL-strata-nodes.…`, are for sealed packets alone. Neighbours have others
 * (`gateway/neighbours.ts`), also those of another installation, since no NATS_NAMESPACE ends like
 * this.
 */
const nodesNamespace = ({ nats_namespace: namespace }: Settings): string => `${namespace}-nodes`;

export interface NodeOptions extends NodeNeeds {
  /**
   * What this node answers from its own memory by the rules of a service; otherwise the service is
   * asked.
   */
  readonly derivedReads?: DerivedReads;
  /** What this node says of itself to the others; none for one that only looks. */
  readonly about?: NodeAbout;
}

export interface Node {
  readonly broker: ServiceBroker;
  readonly coherence: Coherence;
  readonly localCache: LocalCache;
  readonly log: Logger;
  readonly metrics: Registry;
}

/** A node that is not started yet: its broker's options and the parts that these refer to. */
export function nodeOptions(given: NodeOptions) {
  const { settings, commits, derivedReads = {}, about } = given;
  const { current } = settings;
  const log = createLog(current);
  settings.onReload(({ log_level: level }) => {
    log.level = level;
  });
  const bus = new Bus(log);
  const running = new RunningCalls();
  const coherence = new Coherence({
    nodeId: current.node_id,
    fenceMs: current.coherence_fence_ms,
    requestTimeoutMs: current.request_timeout_ms,
    ttlMinutes: () => settings.current.cache_default_ttl,
    staleIdentityMs: () => settings.current.access_token_ttl_seconds * 1000,
    log,
  });
  const metrics = createMetrics({ coherence, bus, commits });
  const lifecycle = nodeLifecycle({ ...given, coherence, bus, running, metrics, log });
  const contracts = contractMiddleware({
    coherence,
    bus,
    log,
    requestTimeoutMs: current.request_timeout_ms,
    onCommitted: lifecycle.onCommitted,
    derivedReads,
  });
  // The one that is named first is the nearest to NATS, so that each chunk is sealed.
  const transport =
    current.nats_url === null
      ? []
      : [
          discoveryMiddleware(),
          unansweredCallsMiddleware(bus, running),
          sealingMiddleware(current, current.node_id, bus),
          chunkingMiddleware(current.request_timeout_ms),
        ];

  const options: BrokerOptions = {
    namespace: nodesNamespace(current),
    nodeID: current.node_id,
    metadata: { ...about },
    ...brokerLog(log),
    transporter: natsTransporter(current),
    requestTimeout: current.request_timeout_ms,
    ...heartbeats,
    registry: { discoverer: new Discovery() },
    // The contract middleware checks parameters.
    validator: false,
    middlewares: [contracts, lifecycle.middleware, ...transport],
    // start.ts handles signals.
    skipProcessEventRegistration: true,
    // A broker that stops lets running requests end, this long at most.
    tracking: { enabled: true, shutdownTimeout: 10_000 },
  };
  return { options, coherence, metrics, log };
}

export function createNode(options: NodeOptions): Node {
  const { options: brokerOptions, coherence, metrics, log } = nodeOptions(options);
  return {
    broker: new ServiceBroker(brokerOptions),
    coherence,
    localCache: createLocalCache(coherence),
    log,
    metrics,
  };
}

export interface Joining {
  /** Says that the rest of the node is there. */
  readonly made: Promise<unknown>;
  /** The services that it calls on other nodes. */
  readonly calls: readonly string[];
}

/**
 * Starts the broker, so that the node joins, once `made` says that the rest of it is there: others
 * wait for a node that has joined and is busy. It connects to NATS meanwhile, and asks who is
 * there. Moleculer gives other nodes half a second to answer, of which it takes as much as the
 * services that it calls need: of a node that answers later it hears later, as of one that starts
 * later.
 */
export async function joinOnceMade(broker: ServiceBroker, { made, calls }: Joining): Promise<void> {
  const { transit } = broker;
  if (!transit) await made;
  else {
    const connect = transit.connect.bind(transit);
    transit.connect = async () => {
      await Promise.all([Promise.race([connect(), observed(broker, calls)]), made]);
      // As Moleculer notes itself after its half second. Until then it would not say to others what
      // this node hosts.
      transit.connected = true;
      transit.isReady = true;
    };
  }
  await broker.start();
}

/**
 * Resolves once other nodes have said that they host each of these services; without any, once one
 * has said what it hosts.
 */
function observed(broker: ServiceBroker, services: readonly string[]): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  function look(): void {
    const offered = new Set(nodesOf(broker).flatMap((node) => node.services));
    if (!services.every((name) => offered.has(name))) return;
    broker.localBus.off('$services.changed', look);
    resolve();
  }
  broker.localBus.on('$services.changed', look);
  return promise;
}
