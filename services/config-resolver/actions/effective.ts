/** The effective configuration of one question, and of every agent type of a tenant. */
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import { platformScope, tenantScope } from '../../../shared/contracts/revision-scopes.ts';
import { invalid, StrataError } from '../../../shared/errors.ts';
import { momentOf } from '../../../shared/schema/moment.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import type { Environments } from '../rules/environments.ts';
import {
  effectiveValues,
  environmentDefaults,
  environmentFingerprint,
  layersWithoutHistory,
  type Sources,
} from '../rules/layers.ts';
import { explainValues } from '../rules/explain.ts';
import { overTimeOf } from '../rules/over-time.ts';
import { effectiveChanges } from '../rules/preview.ts';
import { platformOf, sidesOf } from '../rules/rollouts.ts';
import { unknownNames } from '../rules/unknown.ts';
import { noteEnvironment } from './digests.ts';
import { authorsOf } from './authors.ts';
import { neverStill, noSuchTenant, type LayersInMemory } from './layers-in-memory.ts';
import { refuseUnknown } from './refuse-unknown.ts';
import { sourcesNow, sourcesThen, sourcesWith, type SourcesThen } from './sources.ts';

/**
 * `as_of` as a revision or, in the form that Strata writes timestamps, a moment. Throws 422 for a
 * date that does not exist.
 */
function revisionOrMoment(asOf: string | undefined): number | string | undefined {
  if (asOf === undefined) return undefined;
  if (/^[0-9]+$/.test(asOf)) return Number(asOf);
  const moment = momentOf(asOf);
  if (!moment)
    throw invalid([{ path: '/as_of', message: 'is neither a revision nor a timestamp' }]);
  return moment.toISOString();
}

/** On which sides of rollouts the tenant is, where there are any. */
const saidOf = ({ rollouts = [] }: Pick<Sources['platform'], 'rollouts'>, tenantId: string) =>
  rollouts.length === 0 ? {} : { rollouts: sidesOf(rollouts, tenantId) };

/** From when the values are, and what is not as it was. */
const asOfShown = ({ tenant, platform }: SourcesThen) => ({
  at: tenant.at,
  now: [...layersWithoutHistory],
  ...(platform.withheld === true && { withheld: true as const }),
});

/**
 * Of the configurations of all agent types together; each holds all public entries of the platform.
 */
const maxMebibytes = 16;
const tooLargeTogether = (): StrataError =>
  new StrataError(
    'payload_too_large',
    `The configurations of all agent types are larger than ${maxMebibytes} MiB together. Ask for each by its agent_type.`,
  );

/** How often the platform is read before giving up: once, unless the tenant goes back. */
const maxPlatformReads = 5;

/**
 * The layers of tenant and platform as they were together at one moment.
 *
 * They are two reads, and the second follows from the first, so a write of the tenant and then one
 * of the platform may come in between: an older tenant under a newer platform, which never was. So
 * the platform's read says which revision the tenant had at its moment, and where that is another,
 * the tenant's layers are read again as of exactly that one. Throws `service_unavailable` where
 * that never fits.
 */
async function readTogether<
  Tenant extends { readonly revision: number },
  Platform extends { readonly tenant_revision: number | null },
>(
  readTenant: (asOf: number | undefined) => Promise<Tenant>,
  readPlatform: () => Promise<Platform>,
): Promise<{ tenant: Tenant; platform: Platform }> {
  let tenant = await readTenant(undefined);
  for (let reads = 0; reads < maxPlatformReads; reads += 1) {
    const platform = await readPlatform();
    const moment = platform.tenant_revision!;
    if (tenant.revision !== moment) tenant = await readTenant(moment);
    if (tenant.revision === moment) return { tenant, platform };
  }
  throw neverStill();
}

export function effectiveActions(
  settings: () => Settings,
  environments: Environments,
  inMemory: LayersInMemory,
) {
  return {
    async 'config-resolver.resolve'(params, request) {
      const current = settings();
      // Nobody waits for it: it is for those who come back to a stream, and asked again then.
      noteEnvironment(environments, current, request).catch(() => undefined);
      const environment = environmentDefaults(current);
      const asOf = revisionOrMoment(params.as_of);
      const past =
        asOf === undefined ? undefined : await sourcesThen(params, asOf, environment, request);
      const sources = past ?? (await sourcesNow(params, environment, inMemory, request));
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
          ...(past && { as_of: asOfShown(past) }),
          ...saidOf(platform, params.tenant_id),
          unknown,
          ...(params.explain
            ? {
                ...explainValues(sources, await authorsOf(sources, request)),
                ...overTimeOf(sources, params),
              }
            : effectiveValues(sources)),
          environment: environmentFingerprint(environment),
        },
        asOf: {
          [tenantScope(params.tenant_id)]: past?.tenant.newest ?? tenant.revision,
          [platformScope]: past?.platform.newest ?? platform.revision,
        },
      };
    },

    /** The layers are those of now, and only the document is exchanged. */
    async 'config-resolver.preview'({ body: { before, after, ...name }, ...question }, request) {
      const environment = environmentDefaults(settings());
      const sources = await sourcesNow(question, environment, inMemory, request);
      const as = (document: unknown): Sources =>
        sourcesWith(question, sources, { ...name, document });
      return { effective: effectiveChanges(as(before), as(after)) };
    },

    async 'config-resolver.configurations'({ tenant_id }, request) {
      if (tenant_id === undefined) throw invalid([{ path: '/tenant_id', message: 'is required' }]);
      const { tenant: layers, platform: ofAll } = await readTogether(
        async (at) => {
          const asOf = at === undefined ? {} : { as_of: at };
          const read = await request.call('tenant-config.layers.by-agent', { tenant_id, ...asOf });
          if (read.risk === null) throw noSuchTenant();
          return read;
        },
        () => request.call('global-config.layers', { tenant_id }),
      );
      const { agents, ...tenant } = layers;
      const platform = platformOf(ofAll, tenant_id);
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
          ...saidOf(platform, tenant_id),
          configurations: Object.fromEntries(configurations),
        },
        asOf: { [tenantScope(tenant_id)]: tenant.revision, [platformScope]: platform.revision },
      };
    },
  } satisfies Handlers;
}
