/** From a question to what its answer is merged from. */
import type { Request } from '../../../shared/cluster/request.ts';
import type { Address } from '../../../shared/contracts/effective-config.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { invalid, StrataError } from '../../../shared/errors.ts';
import type { Sources } from '../rules/layers.ts';
import type { Together } from './layers-in-memory.ts';

/** Which effective configuration is asked for. */
export type Question = Address & { readonly tenant_id: string };

/** The names that these contexts have layers for. */
export const namesOf = (contexts: readonly Address[]) => ({
  agent_types: named(contexts, 'agent_type'),
  service_ids: named(contexts, 'service_id'),
});

/**
 * Each once and in order, so that the same contexts are found in memory however they were asked
 * for.
 */
const named = (contexts: readonly Address[], field: keyof Address): string[] =>
  [...new Set(contexts.flatMap((context) => context[field] ?? []))].toSorted();

/**
 * What one context is merged from, of layers that were read for it, perhaps among others. Throws
 * 422 where the instance is of another type than is asked for.
 */
export function sourcesOf(
  question: Question,
  { tenant, platform }: Together,
  environment: Sources['environment'],
): Sources {
  const { agent_type: agentType, service_id: serviceId } = question;
  const own = {
    revision: tenant.revision,
    risk: tenant.risk,
    bounds: tenant.bounds,
    agent: tenant.agents.find(({ document }) => document.agent_type === agentType) ?? null,
    service: tenant.services.find(({ document }) => document.service_id === serviceId) ?? null,
  };
  const serviceType = serviceTypeOf(question, own);
  return { tenantId: question.tenant_id, serviceType, tenant: own, platform, environment };
}

/** The instance names the service type. */
function serviceTypeOf(
  { service_id: serviceId, service_type: asked }: Question,
  { service }: Pick<Sources['tenant'], 'service'>,
): string | null {
  const serviceType = service?.document.service_type ?? asked;
  if (asked !== undefined && asked !== serviceType) {
    const message = `is not the type of ${serviceId}, which is ${serviceType}`;
    throw invalid([{ path: '/service_type', message }]);
  }
  return serviceType ?? null;
}

/** What an answer is merged from, and from when. */
export interface SourcesThen extends Sources {
  readonly tenant: ResultOf<'tenant-config.layers'>;
  readonly platform: ResultOf<'global-config.layers'>;
}

interface PastOptions {
  readonly platformAsOf?: number;
  /** Also entries that were withdrawn since: for what is read as it is now. */
  readonly withWithdrawn?: boolean;
}

/** The risk configuration is made with the tenant and never deleted. */
const beforeTenant = (): StrataError =>
  new StrataError('before_history', 'The tenant was made later than that.');

/**
 * The sources at a revision or moment of the tenant's past. Tenant and platform count their own
 * revisions: what they have in common is the time, unless a revision of the platform is asked for
 * as well.
 */
export async function sourcesThen(
  question: Question,
  asOf: number | string,
  environment: Sources['environment'],
  { call }: Pick<Request, 'call'>,
  { platformAsOf, withWithdrawn = false }: PastOptions = {},
): Promise<SourcesThen> {
  const { tenant_id, agent_type, service_id } = question;
  const tenant = await call('tenant-config.layers', {
    tenant_id,
    ...(agent_type !== undefined && { agent_type }),
    ...(service_id !== undefined && { service_id }),
    as_of: asOf,
  });
  if (tenant.risk === null && !withWithdrawn) throw beforeTenant();
  const serviceType = serviceTypeOf(question, tenant);
  const at = platformAsOf ?? tenant.at;
  const platform = await call('global-config.layers', {
    tenant_id,
    service_types: serviceType === null ? [] : [serviceType],
    ...(at !== null && { as_of: at }),
    ...(withWithdrawn && { with_withdrawn: true }),
  });
  return { tenantId: tenant_id, serviceType, tenant, platform, environment };
}
