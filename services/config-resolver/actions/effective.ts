/** The effective configuration of one question, and of every agent type of a tenant. */
import type { Handlers, Request } from '../../../shared/cluster/request.ts';
import type { ParamsOf, ResultOf } from '../../../shared/contracts/index.ts';
import { platformScope, tenantScope } from '../../../shared/contracts/revision-scopes.ts';
import { invalid, StrataError } from '../../../shared/errors.ts';
import { momentOf } from '../../../shared/schema/moment.ts';
import type { Settings } from '../../../shared/settings.ts';
import {
  effectiveValues,
  environmentDefaults,
  environmentFingerprint,
  explainValues,
  layersWithoutHistory,
  type Sources,
} from '../rules/layers.ts';
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

/** Of the configurations of all agent types together; each holds all public entries of the platform. */
const maxMebibytes = 16;
const tooLargeTogether = (): StrataError =>
  new StrataError(
    'payload_too_large',
    `The configurations of all agent types are larger than ${maxMebibytes} MiB together. Ask for each by its agent_type.`,
  );

const noSuchTenant = (): StrataError => new StrataError('not_found', 'There is no such tenant.');

/** How often the platform is read before giving up: once, unless the tenant's part changes what is asked of it every time. */
const maxPlatformReads = 5;

/**
 * The layers of tenant and platform as they were together at one moment.
 *
 * They are two reads, and the second follows from the first, so a write of the tenant and then one of the platform may come in between:
 * an older tenant under a newer platform, which never was. So the platform's read says which revision the tenant had at its moment,
 * and where that is another, the tenant's layers are read again as of exactly that one. `asked` names what the platform is asked for by
 * the tenant's layers. Throws `service_unavailable` where that changes too often.
 */
async function readTogether<
  Tenant extends { readonly revision: number },
  Platform extends { readonly tenant_revision: number | null },
>(
  readTenant: (asOf: number | undefined) => Promise<Tenant>,
  readPlatform: (tenant: Tenant) => Promise<Platform>,
  asked: (tenant: Tenant) => readonly string[] = () => [],
): Promise<{ tenant: Tenant; platform: Platform }> {
  let tenant = await readTenant(undefined);
  for (let reads = 0; reads < maxPlatformReads; reads += 1) {
    const platform = await readPlatform(tenant);
    const moment = platform.tenant_revision!;
    const asFor = asked(tenant);
    if (tenant.revision !== moment) tenant = await readTenant(moment);
    const fits = asked(tenant).join() === asFor.join();
    if (fits && tenant.revision === moment) return { tenant, platform };
  }
  throw new StrataError(
    'service_unavailable',
    'The configuration changes faster than it can be read. Try again.',
  );
}

/** What an answer is merged from, and from when. */
interface SourcesThen extends Sources {
  readonly tenant: ResultOf<'tenant-config.layers'>;
  readonly platform: ResultOf<'global-config.layers'>;
}

export function effectiveActions(settings: () => Settings) {
  async function sourcesOf(question: Question, request: Request): Promise<SourcesThen> {
    const { tenant_id, agent_type, service_id, service_type: asked } = question;
    const asOf = revisionOrMoment(question.as_of);
    const readTenant = async (at: number | string | undefined) => {
      const tenant = await request.call('tenant-config.layers', {
        tenant_id,
        ...(agent_type !== undefined && { agent_type }),
        ...(service_id !== undefined && { service_id }),
        ...(at !== undefined && { as_of: at }),
      });
      // Every tenant has risk limits; only in the past there may have been none yet.
      if (tenant.risk === null && asOf === undefined) throw noSuchTenant();
      return tenant;
    };
    /** The instance names the service type that the platform's layers are asked for. */
    const typesOf = ({ service }: Sources['tenant']): string[] => {
      const serviceType = service?.document.service_type ?? asked;
      if (asked !== undefined && asked !== serviceType) {
        const message = `is not the type of ${service_id}, which is ${serviceType}`;
        throw invalid([{ path: '/service_type', message }]);
      }
      return serviceType === undefined ? [] : [serviceType];
    };
    const readPlatform = (tenant: Sources['tenant'], at: string | null = null) =>
      request.call('global-config.layers', {
        tenant_id,
        service_types: typesOf(tenant),
        ...(at !== null && { as_of: at }),
      });

    /** Tenant and platform count their own revisions: what they have in common is the time. */
    const readPast = async (asOf: number | string) => {
      const tenant = await readTenant(asOf);
      return { tenant, platform: await readPlatform(tenant, tenant.at) };
    };
    const { tenant, platform } =
      asOf === undefined
        ? await readTogether(readTenant, readPlatform, typesOf)
        : await readPast(asOf);
    const [serviceType = null] = typesOf(tenant);
    const environment = environmentDefaults(settings());
    return { tenantId: tenant_id, serviceType, tenant, platform, environment };
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
          ...(params.as_of !== undefined && {
            as_of: { at: tenant.at, now: [...layersWithoutHistory] },
          }),
          unknown,
          ...(params.explain ? explainValues(sources) : effectiveValues(sources)),
          environment: environmentFingerprint(sources.environment),
        },
        asOf: {
          [tenantScope(params.tenant_id)]:
            params.as_of === undefined ? tenant.revision : tenant.newest,
          [platformScope]: params.as_of === undefined ? platform.revision : platform.newest,
        },
      };
    },

    async 'config-resolver.configurations'({ tenant_id }, request) {
      if (tenant_id === undefined) throw invalid([{ path: '/tenant_id', message: 'is required' }]);
      const { tenant: layers, platform } = await readTogether(
        async (at) => {
          const asOf = at === undefined ? {} : { as_of: at };
          const read = await request.call('tenant-config.layers.by-agent', { tenant_id, ...asOf });
          if (read.risk === null) throw noSuchTenant();
          return read;
        },
        () => request.call('global-config.layers', { tenant_id }),
      );
      const { agents, ...tenant } = layers;
      const environment = environmentDefaults(settings());
      const shared = { tenantId: tenant_id, serviceType: null, platform, environment };
      let bytes = 0;
      const configurations = agents.map((agent) => {
        const layers = { ...tenant, agent, service: null };
        const { values } = effectiveValues({ ...shared, tenant: layers });
        bytes += Buffer.byteLength(JSON.stringify(values));
        if (bytes > maxMebibytes * 1024 * 1024) throw tooLargeTogether();
        return [agent.document.agent_type, values] as const;
      });
      return {
        value: {
          tenant_id,
          revision: { tenant: tenant.revision, platform: platform.revision },
          configurations: Object.fromEntries(configurations),
        },
        asOf: { [tenantScope(tenant_id)]: tenant.revision, [platformScope]: platform.revision },
      };
    },
  } satisfies Handlers;
}
