/**
 * The service `cluster`, which every node hosts: what it does when the cluster is operated, and
 * what it hears of changes.
 */
import type { Context, ServiceBroker, ServiceSchema } from 'moleculer';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import { serviceCaller } from '../access.ts';
import type { Coherence } from '../coherence/coherence.ts';
import { settingsReloadedKey, settingsReplacedKey } from '../contracts/feed.ts';
import { contractOf } from '../contracts/index.ts';
import { tenantScope } from '../contracts/revision-scopes.ts';
import type { Change } from '../commits/commit.ts';
import type { LiveSettings } from '../settings/live-settings.ts';
import { fileWarnings } from '../settings/settings.ts';
import { readBacklog } from './backlog.ts';
import { clusterNodes } from './cluster-nodes.ts';
import { clusterOperations } from './cluster-operations.ts';
import { callAs, type Handlers } from '../contract-runtime/request.ts';
import { serviceOf } from '../contract-runtime/service.ts';
import { schemaOf } from '../contract-runtime/skew.ts';
import type { RunningCalls } from '../bus/unanswered-calls.ts';

export interface ClusterServiceOptions {
  readonly broker: ServiceBroker;
  readonly coherence: Coherence;
  readonly settings: LiveSettings;
  readonly running: RunningCalls;
  readonly log: Logger;
  /** Names what this node needs and whether it answers: `{ database: true, … }`. */
  readonly health: () => Promise<Record<string, boolean>>;
  /** What this node measures. */
  readonly metrics: Registry;
}

/** A committed change, broadcast to every node. */
export const invalidateEvent = 'cache.invalidate';
/** A node's answer to such a broadcast, sent to the node that made it. */
export const acknowledgedEvent = (nodeId: string): string => `cache.acknowledged.${nodeId}`;

export function clusterService(options: ClusterServiceOptions): ServiceSchema {
  const { broker, coherence, settings } = options;
  reloadWithTheOthers(options);
  return {
    ...serviceOf('cluster', {
      ...clusterOperations(broker),
      ...clusterNodes(broker),
      ...nodeHandlers(options),
    }),
    events: {
      [invalidateEvent]: {
        handler({ params: change, nodeID: sender }: Context<Change>) {
          coherence.apply(change);
          if (!sender || sender === broker.nodeID) return;
          const { id, scope } = change;
          broker.emit(acknowledgedEvent(sender), { id, scope, holder: coherence.holder });
        },
      },
      [acknowledgedEvent(settings.current.node_id)]: {
        handler({ params }: Context<{ id: string; scope: string; holder: string }>) {
          coherence.acknowledge(params, params.holder);
        },
      },
    },
  };
}

/** Of the held keys those that are named; a body names a thousand, and a node holds very many. */
export function heldOf(named: readonly string[], held: readonly string[]): string[] {
  const wanted = new Set(named);
  return held.filter((key) => wanted.has(key));
}

/**
 * A node that was away during a reload reads of it in the feed, and then reloads its own
 * environment: else it would continue by settings that all others have given up. Where that changes
 * anything, others may have kept what it answered until now, so it has them forget once more. For
 * the others it changes nothing.
 */
function reloadWithTheOthers({ broker, coherence, settings, log }: ClusterServiceOptions): void {
  const options = { caller: serviceCaller('cluster'), requestId: 'reload' };
  const warn = (error: unknown): void =>
    log.warn({ err: error }, 'this node has not made up for a reload');
  coherence.onChange(({ keys }) => {
    if (!keys.includes(settingsReplacedKey) && !keys.includes(settingsReloadedKey)) return;
    try {
      const { changed } = settings.reload();
      if (changed.length > 0) callAs(broker, 'feed.settings-replaced', {}, options).catch(warn);
    } catch (error) {
      warn(error);
    }
  });
}

/** What this node does and says by itself when it is asked with its node id. */
function nodeHandlers({
  coherence,
  settings,
  running,
  health,
  metrics,
  log,
}: ClusterServiceOptions): Handlers {
  const { caches } = coherence;
  const { configuration_service: stored, dynamic_config_service: effective } = caches;
  return {
    'cluster.node.reload-environment': async ({ body: { dry_run: dryRun } }) => {
      try {
        const { changed, requires_restart } = dryRun ? settings.preview() : settings.reload();
        for (const warning of dryRun ? [] : fileWarnings()) log.warn(warning);
        return { changed_settings: changed, requires_restart, problem: null };
      } catch (error) {
        const problem = (error as Error).message;
        return { changed_settings: [], requires_restart: [], problem };
      }
    },

    'cluster.node.clear': async ({ body }) => {
      if (body.dry_run) return null;
      const { all, tenant_ids: tenantIds } = body.dynamic_config_service;
      if (body.configuration_service) stored.flush();
      if (all) effective.flush();
      for (const tenantId of tenantIds) effective.flushScope(tenantScope(tenantId));
      return null;
    },

    'cluster.node.drop': async ({ body: { tenant_id: tenantId, keys } }) => {
      const scope = tenantScope(tenantId);
      const held = [...stored.keys(scope), ...effective.keys(scope)];
      const dropped = keys ? heldOf(keys, held) : held;
      if (keys) stored.flushKeys(keys);
      else stored.flushScope(scope);
      // Effective values are made of stored ones, so they go with any of them.
      effective.flushScope(scope);
      return { dropped: [...new Set(dropped)] };
    },

    'cluster.node.caches': async ({ body: { keys = false } }) => {
      const statistics = Object.entries(caches).map(([name, cache]) => {
        const { entries, bytes, hits, misses, drops, stale } = cache.stats();
        const shown = { entries, bytes, hits, misses, drops, stale };
        return [name, keys ? { ...shown, keys: cache.keys() } : shown];
      });
      return Object.fromEntries(statistics);
    },

    'cluster.node.health': () => health(),

    'cluster.node.backlog': () => readBacklog(metrics),

    'cluster.node.unknown-calls': async ({ body }) => ({ unknown: running.unknownOf(body.ids) }),

    'cluster.node.takes': async ({ body: { action } }) => ({
      schema: contractOf(action) ? schemaOf(action) : null,
    }),
  };
}
