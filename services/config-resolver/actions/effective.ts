/** The effective configuration of one question, and of every agent type of a tenant. */
import type { Handlers, Request } from '../../../shared/cluster/request.ts';
import type { ParamsOf } from '../../../shared/contracts/index.ts';
import { platformScope, tenantScope } from '../../../shared/contracts/revision-scopes.ts';
import { invalid, StrataError } from '../../../shared/errors.ts';
import { momentOf } from '../../../shared/schema/moment.ts';
import type { Settings } from '../../../shared/settings.ts';
import { effectiveValues, explainValues, type Sources } from '../rules/layers.ts';
import { unknownNames } from '../rules/unknown.ts';
import { refuseUnknown } from './refuse-unknown.ts';

/** Which effective configuration is asked for. */
type Question = Omit<ParamsOf<'config-resolver.resolve'>, 'explain' | 'min_revision' | 'strict'>;

/** `as_of` as a revision or, in the form that Strata writes timestamps, a moment. Throws 422 for a date that does not exist. */
function revisionOrMoment(asOf: string | undefined): number | string | undefined {
  if (asOf === undefined) return undefined;
  if (/^[0-9]+$/.test(asOf)) return Number(asOf);
  const moment = momentOf(asOf);
  if (!moment)
    throw invalid([{ path: '/as_of', message: 'is neither a revision nor a timestamp' }]);
  return moment.toISOString();
}

const noSuchTenant = (): StrataError => new StrataError('not_found', 'There is no such tenant.');

export function effectiveActions(settings: () => Settings) {
  /** Two calls, one after the other: the instance names the service type that the platform's layers are asked for. */
  async function sourcesOf(question: Question, request: Request): Promise<Sources> {
    const { tenant_id, agent_type, service_id, service_type: asked } = question;
    const asOf = revisionOrMoment(question.as_of);
    const tenant = await request.call('tenant-config.layers', {
      tenant_id,
      ...(agent_type !== undefined && { agent_type }),
      ...(service_id !== undefined && { service_id }),
      ...(asOf !== undefined && { as_of: asOf }),
    });
    // Every tenant has risk limits; only in the past there may have been none yet.
    if (tenant.risk === null && asOf === undefined) throw noSuchTenant();

    const serviceType = tenant.service?.document.service_type ?? asked ?? null;
    if (asked !== undefined && asked !== serviceType) {
      const message = `is not the type of ${service_id}, which is ${serviceType}`;
      throw invalid([{ path: '/service_type', message }]);
    }
    const platform = await request.call(
      'global-config.layers',
      serviceType === null ? {} : { service_types: [serviceType] },
    );
    return { tenantId: tenant_id, serviceType, tenant, platform, settings: settings() };
  }

  return {
    async 'config-resolver.resolve'(params, request) {
      const sources = await sourcesOf(params, request);
      const { tenant, platform, serviceType } = sources;
      const unknown = unknownNames(params, sources);
      if (params.strict) await refuseUnknown(unknown, params, request);
      return {
        value: {
          tenant_id: params.tenant_id,
          agent_type: params.agent_type ?? null,
          service_type: serviceType,
          service_id: params.service_id ?? null,
          revision: { tenant: tenant.revision, platform: platform.revision },
          unknown,
          values: effectiveValues(sources),
          ...(params.explain && { explain: explainValues(sources) }),
        },
        asOf: {
          [tenantScope(params.tenant_id)]: tenant.newest,
          [platformScope]: platform.revision,
        },
      };
    },

    async 'config-resolver.configurations'({ tenant_id }, request) {
      if (tenant_id === undefined) throw invalid([{ path: '/tenant_id', message: 'is required' }]);
      const { agents, ...tenant } = await request.call('tenant-config.layers.by-agent', {
        tenant_id,
      });
      if (tenant.risk === null) throw noSuchTenant();
      const platform = await request.call('global-config.layers', {});
      const shared = { tenantId: tenant_id, serviceType: null, platform, settings: settings() };
      const configurations = agents.map((agent) => {
        const layers = { ...tenant, agent, service: null };
        return [agent.document.agent_type, effectiveValues({ ...shared, tenant: layers })] as const;
      });
      return {
        value: {
          tenant_id,
          revision: { tenant: tenant.revision, platform: platform.revision },
          configurations: Object.fromEntries(configurations),
        },
        asOf: { [tenantScope(tenant_id)]: tenant.newest, [platformScope]: platform.revision },
      };
    },
  } satisfies Handlers;
}
