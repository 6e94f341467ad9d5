/** config-resolver: six layers to one effective configuration. Holds no data; what it answers is cached on the caller's node. */
import type { ServiceSchema } from 'moleculer';
import type { Handlers } from '../../shared/cluster/request.ts';
import { serviceOf } from '../../shared/cluster/service.ts';
import { platformScope, tenantScope } from '../../shared/contracts/revision-scopes.ts';
import type { ParamsOf } from '../../shared/contracts/index.ts';
import { invalid, StrataError } from '../../shared/errors.ts';
import type { Request } from '../../shared/cluster/request.ts';
import { momentOf } from '../../shared/schema/moment.ts';
import type { Settings } from '../../shared/settings.ts';
import { effectiveValues, explainValues, type Sources } from './rules/layers.ts';

export { layeredMerge, resolveValue } from './rules/layered-merge.ts';

type Wanted = Omit<ParamsOf<'config-resolver.resolve'>, 'explain' | 'min_revision'>;

const revisionOrTime = (asOf: string | undefined): number | string | undefined => {
  if (asOf === undefined || /^[0-9]+$/.test(asOf))
    return asOf === undefined ? undefined : Number(asOf);
  const moment = momentOf(asOf);
  if (!moment)
    throw invalid([{ path: '/as_of', message: 'is neither a revision nor a timestamp' }]);
  return moment.toISOString();
};

export function configResolverService({
  settings,
}: {
  readonly settings: () => Settings;
}): ServiceSchema {
  /** At most two calls: the instance names the service type that the platform's layers are asked for. */
  async function sources(
    { tenant_id: tenantId, agent_type, service_id, service_type: asked, as_of }: Wanted,
    request: Request,
  ): Promise<Sources> {
    const moment = revisionOrTime(as_of);
    const tenant = await request.call('tenant-config.layers', {
      tenant_id: tenantId,
      ...(agent_type !== undefined && { agent_type }),
      ...(service_id !== undefined && { service_id }),
      ...(moment !== undefined && { as_of: moment }),
    });
    if (tenant.risk === null && moment === undefined)
      throw new StrataError('not_found', 'There is no such tenant.');
    const serviceType = tenant.service?.document.service_type ?? asked ?? null;
    if (asked !== undefined && asked !== serviceType) {
      throw invalid([
        {
          path: '/service_type',
          message: `is not the type of ${service_id}, which is ${serviceType}`,
        },
      ]);
    }
    const platform = await request.call(
      'global-config.layers',
      serviceType === null ? {} : { service_types: [serviceType] },
    );
    return { tenantId, serviceType, tenant, platform, settings: settings() };
  }

  const handlers: Handlers = {
    async 'config-resolver.resolve'(params, request) {
      const from = await sources(params, request);
      const revision = { tenant: from.tenant.revision, platform: from.platform.revision };
      return {
        value: {
          tenant_id: params.tenant_id,
          agent_type: params.agent_type ?? null,
          service_type: from.serviceType,
          service_id: params.service_id ?? null,
          revision,
          values: effectiveValues(from),
          ...(params.explain ? { explain: explainValues(from) } : {}),
        },
        asOf: {
          [tenantScope(params.tenant_id)]: from.tenant.newest,
          [platformScope]: revision.platform,
        },
      };
    },

    async 'config-resolver.configurations'({ tenant_id: tenantId }, request) {
      if (tenantId === undefined) throw invalid([{ path: '/tenant_id', message: 'is required' }]);
      // The revision first: what is read after it includes at least that.
      const bare = await sources({ tenant_id: tenantId }, request);
      const revision = { tenant: bare.tenant.revision, platform: bare.platform.revision };
      const types = await request.call('tenant-config.agents.types', { tenant_id: tenantId });
      const all = await Promise.all(
        types.map(
          async (agentType) =>
            [
              agentType,
              await sources({ tenant_id: tenantId, agent_type: agentType }, request),
            ] as const,
        ),
      );
      return {
        value: {
          tenant_id: tenantId,
          revision,
          configurations: Object.fromEntries(
            all.map(([agentType, from]) => [agentType, effectiveValues(from)]),
          ),
        },
        asOf: { [tenantScope(tenantId)]: revision.tenant, [platformScope]: revision.platform },
      };
    },
  };
  return serviceOf('config-resolver', handlers);
}
