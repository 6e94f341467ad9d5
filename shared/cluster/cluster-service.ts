import type { Context, ServiceSchema } from 'moleculer';
import type { Coherence } from './coherence/coherence.ts';
import type { CacheName } from '../contracts/contract.ts';
import { tenantScope } from '../contracts/revision-scopes.ts';
import type { Change } from '../commits/commit.ts';
import type { LiveSettings } from '../live-settings.ts';
import type { Handlers } from './request.ts';
import { serviceOf } from './service.ts';

export interface NodeServiceOptions {
  readonly coherence: Coherence;
  readonly settings: LiveSettings;
  /** Names what this node needs and whether it answers: `{ database: true, … }`. */
  readonly health: () => Promise<Record<string, boolean>>;
}

export const invalidateEvent = 'cache.invalidate';
export const acknowledgedEvent = (nodeId: string): string => `cache.acknowledged.${nodeId}`;

/** On every node: applies broadcast changes and acknowledges them, drops, reloads, and tells its health. */
export function nodeService({ coherence, settings, health }: NodeServiceOptions): ServiceSchema {
  const dynamic: CacheName = 'dynamic_config_service';
  const handlers: Handlers = {
    'node.reload': async ({ body }) => {
      const {
        reload_env: reloadEnv = false,
        dry_run: dryRun = false,
        invalidate,
        reinit = {},
      } = body;
      const tenants = invalidate?.tenant_ids ?? [];
      const answer = {
        changed_settings: [] as string[],
        requires_restart: [] as string[],
        reinitialized: [] as string[],
        reloaded_env: false,
        errors: [] as { node: string; action: string; message: string }[],
      };
      if (reloadEnv) {
        try {
          const { changed, requires_restart } = dryRun ? settings.preview() : settings.reload();
          Object.assign(answer, {
            changed_settings: changed,
            requires_restart,
            reloaded_env: true,
          });
        } catch (error) {
          answer.errors.push({
            node: settings.current.node_id,
            action: 'reload_env',
            message: (error as Error).message,
          });
        }
      }
      const clear = (cache: CacheName, scopes: readonly string[]): void => {
        if (dryRun) return;
        if (scopes.length === 0) coherence.caches[cache].flush();
        for (const scope of scopes) coherence.caches[cache].flushScope(scope);
      };
      if (reinit.configuration_service) {
        clear('configuration_service', []);
        answer.reinitialized.push('configuration_service');
      }
      if (reinit.dynamic_config_service) {
        clear(dynamic, tenants.map(tenantScope));
        answer.reinitialized.push('dynamic_config_service');
      } else if (invalidate && (invalidate.all || tenants.length > 0)) {
        clear(dynamic, tenants.map(tenantScope));
      }
      return answer;
    },
    'node.drop': async ({ body: { tenant_id: tenantId, keys } }) => {
      const scope = tenantScope(tenantId);
      const dropped = new Set<string>();
      for (const cache of [
        coherence.caches.configuration_service,
        coherence.caches.dynamic_config_service,
      ]) {
        for (const key of cache.keys(scope)) if (!keys || keys.includes(key)) dropped.add(key);
      }
      if (keys) coherence.caches.configuration_service.flushKeys(keys);
      else coherence.caches.configuration_service.flushScope(scope);
      coherence.caches.dynamic_config_service.flushScope(scope);
      return { dropped: [...dropped] };
    },
    'node.caches': async ({ body: { keys = false } }) =>
      Object.fromEntries(
        Object.entries(coherence.caches).map(([name, cache]) => [
          name,
          { ...cache.stats(), ...(keys ? { keys: cache.keys() } : {}) },
        ]),
      ),
    'node.health': health,
  };
  return {
    ...serviceOf('node', handlers),
    events: {
      [invalidateEvent]: {
        handler(ctx: Context<Change>) {
          coherence.apply(ctx.params);
          if (ctx.nodeID && ctx.nodeID !== ctx.broker.nodeID) {
            ctx.broker.emit(acknowledgedEvent(ctx.nodeID), {
              id: ctx.params.id,
              scope: ctx.params.scope,
              node: ctx.broker.nodeID,
            });
          }
        },
      },
      [acknowledgedEvent(settings.current.node_id)]: {
        handler(ctx: Context<{ id: string; scope: string; node: string }>) {
          coherence.acknowledge(ctx.params, ctx.params.node);
        },
      },
    },
  };
}
