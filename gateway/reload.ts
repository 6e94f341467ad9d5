import type { ServiceBroker } from 'moleculer';
import type { Static } from 'typebox';
import { serviceCaller } from '../shared/access.ts';
import { callAs } from '../shared/cluster/request.ts';
import { tenantScope } from '../shared/contracts/revision-scopes.ts';
import type { ResultOf } from '../shared/contracts/index.ts';
import type { ReloadError, ReloadRequest } from '../shared/contracts/cluster.ts';
import { StrataError } from '../shared/errors.ts';
import { auditFacts } from '../shared/commits/commit.ts';
import type { OwnHandlers, OwnRequest } from './routes.ts';

/** A node that has not answered by then is reported. */
const nodeTimeoutMs = 5000;
/** A tenant's cache keys begin with its id; what a tenant names itself comes after, and may look like one. */
const tenantIn = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/;
type Asking = Pick<OwnRequest, 'caller' | 'requestId'>;

/** What concerns every node of the cluster: `/config/reload` and `/configurations/cache/invalidate`. */
export function ownHandlers(broker: ServiceBroker) {
  const nodes = (): string[] =>
    (
      broker.registry.getNodeList({ onlyAvailable: true, withServices: false }) as { id: string }[]
    ).map(({ id }) => id);
  const record = (event: Parameters<typeof auditFacts>[0], by: Asking) =>
    callAs(
      broker,
      'feed.record',
      { body: [auditFacts(event, by)] },
      { caller: serviceCaller('gateway'), requestId: by.requestId },
    );

  return {
    async 'gateway.reload'(params: Record<string, unknown>, by: Asking) {
      const body = params.body as Static<typeof ReloadRequest>;
      const options = {
        caller: serviceCaller('gateway'),
        requestId: by.requestId,
        timeout: nodeTimeoutMs,
      };
      const errors: Static<typeof ReloadError>[] = [];
      const all = nodes();
      const ask = async (
        part: typeof body,
        asked: readonly string[],
      ): Promise<ResultOf<'node.reload'>[]> => {
        const answers = await Promise.all(
          asked.map(async (node) => {
            try {
              return await callAs(
                broker,
                'node.reload',
                { body: part },
                { ...options, nodeID: node },
              );
            } catch (error) {
              errors.push({
                node,
                action: 'reload',
                message:
                  (error as Error).name === 'RequestTimeoutError'
                    ? `did not answer in ${nodeTimeoutMs / 1000} s`
                    : (error as Error).message,
              });
              return undefined;
            }
          }),
        );
        return answers.filter((each) => each !== undefined);
      };
      const { reload_env: reloadEnv = false, dry_run: dryRun = false, ...clearing } = body;
      const environments = reloadEnv ? await ask({ reload_env: true, dry_run: dryRun }, all) : [];
      const reached = all.filter((node) => !errors.some((error) => error.node === node));
      // Effective values hold environment defaults. They are cleared once every node has its new ones, else one that is not there
      // yet would hand the old ones to a node that is.
      const cleared = await ask(
        reloadEnv
          ? { ...clearing, invalidate: { all: true }, dry_run: dryRun }
          : { ...clearing, dry_run: dryRun },
        reached,
      );
      const answered = [...environments, ...cleared];
      errors.push(...answered.flatMap((each) => each.errors));
      const union = (field: 'changed_settings' | 'requires_restart' | 'reinitialized'): string[] =>
        [...new Set(answered.flatMap((each) => each[field]))].sort();
      const tenants = body.invalidate?.tenant_ids ?? [];
      const summary = {
        status: errors.length === 0 ? ('ok' as const) : ('partial' as const),
        reloaded_env: reloadEnv && answered.some((each) => each.reloaded_env),
        invalidated: {
          all:
            tenants.length === 0 &&
            (body.invalidate?.all === true || body.reinit?.dynamic_config_service === true),
          tenant_ids: tenants,
        },
        reinitialized: union('reinitialized'),
        timestamp: new Date().toISOString(),
        requires_restart: union('requires_restart'),
        changed_settings: union('changed_settings'),
        nodes: all.filter((node) => !errors.some((error) => error.node === node)),
        ...(dryRun ? { dry_run: true as const } : {}),
        ...(errors.length > 0 ? { errors } : {}),
      };
      const actor =
        by.caller.type === 'user'
          ? { type: 'operator' as const, id: by.caller.id }
          : { type: by.caller.type, id: by.caller.id };
      await record(
        {
          action: 'config_reloaded',
          tenant_id: null,
          target: null,
          actor,
          payload: { request: body, status: summary.status, nodes: summary.nodes },
        },
        by,
      );
      return summary;
    },

    async 'config-resolver.invalidate'(params: Record<string, unknown>, by: Asking) {
      const {
        tenant_id: tenantId,
        body: { keys },
      } = params as { tenant_id: string; body: { keys?: string[] } };
      const owns = (key: string): boolean => tenantIn.exec(key)?.[0] === tenantId;
      const foreign = keys?.find((key) => !owns(key));
      if (foreign !== undefined)
        throw new StrataError('tenant_mismatch', 'A key does not belong to your tenant.');
      const answers = await Promise.all(
        nodes().map((node) =>
          callAs(
            broker,
            'node.drop',
            { body: { tenant_id: tenantId, ...(keys ? { keys } : {}) } },
            {
              caller: serviceCaller('gateway'),
              requestId: by.requestId,
              nodeID: node,
              timeout: nodeTimeoutMs,
            },
          ),
        ),
      );
      const invalidated =
        keys ?? [...new Set(answers.flatMap((each) => each.dropped))].filter(owns).sort();
      await record(
        {
          action: 'config.cache.invalidated',
          tenant_id: tenantId,
          target: tenantScope(tenantId),
          payload: { keys: keys ?? null },
        },
        by,
      );
      return {
        tenant_id: tenantId,
        invalidated,
        nodes: answers.length,
        timestamp: new Date().toISOString(),
      };
    },
  } satisfies OwnHandlers;
}
