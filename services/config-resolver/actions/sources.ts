/** From a question to what its answer is merged from. */
import type { Request } from '../../../shared/contract-runtime/request.ts';
import type { Address } from '../../../shared/contracts/effective-config.ts';
import type { ParamsOf, ResultOf } from '../../../shared/contracts/index.ts';
import { platformScope, tenantScope } from '../../../shared/contracts/revision-scopes.ts';
import { invalid, StrataError } from '../../../shared/errors.ts';
import type { Sources } from '../rules/layers.ts';
import { platformOf } from '../rules/rollouts.ts';
import { neverStill, type LayersInMemory, type Together } from './layers-in-memory.ts';

/** Which effective configuration is asked for. */
export type ContextAddress = Address & { readonly tenant_id: string };

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
  question: ContextAddress,
  { tenant, platform }: Together,
  environment: Sources['environment'],
): Sources {
  const { agent_type: agentType, service_id: serviceId } = question;
  const service = tenant.services.find(({ document }) => document.service_id === serviceId) ?? null;
  const projectId = service?.document.project_id;
  const own = {
    revision: tenant.revision,
    risk: tenant.risk,
    bounds: tenant.bounds,
    budgets: tenant.budgets,
    freezes: tenant.freezes,
    agent: tenant.agents.find(({ document }) => document.agent_type === agentType) ?? null,
    service,
    project: tenant.projects?.find(({ document }) => document.project_id === projectId) ?? null,
  };
  const serviceType = serviceTypeOf(question, own);
  const ofTenant = platformOf(platform, question.tenant_id);
  return {
    tenantId: question.tenant_id,
    serviceType,
    tenant: own,
    platform: ofTenant,
    environment,
  };
}

/** The instance names the service type. */
function serviceTypeOf(
  { service_id: serviceId, service_type: asked }: ContextAddress,
  { service }: Pick<Sources['tenant'], 'service'>,
): string | null {
  const serviceType = service?.document.service_type ?? asked;
  if (asked !== undefined && asked !== serviceType) {
    const message = `is not the type of ${serviceId}, which is ${serviceType}`;
    throw invalid([{ path: '/service_type', message }]);
  }
  return serviceType ?? null;
}

/** The sources as they are, of one moment, which is no older than the caller wants. */
export async function sourcesNow(
  question: ContextAddress,
  environment: Sources['environment'],
  inMemory: LayersInMemory,
  request: Pick<Request, 'call' | 'least'>,
): Promise<Sources> {
  const { tenant_id: tenantId } = question;
  const least = {
    tenant: request.least[tenantScope(tenantId)] ?? 0,
    platform: request.least[platformScope] ?? 0,
  };
  const together = await inMemory.together(tenantId, namesOf([question]), least, request);
  if (together) return sourcesOf(question, together, environment);
  const { tenant, platform } = await inMemory.moment(tenantId, request);
  const then = { platformAsOf: platform, withWithdrawn: true };
  const sources = await sourcesThen(question, tenant, environment, request, then);
  // The moment is past already, and something of it was purged.
  if (sources.platform.withheld) throw neverStill();
  return sources;
}

/** What the sources are once a document is another one, or is gone. */
export function sourcesWith(
  question: ContextAddress,
  sources: Sources,
  { config_type: type, resource_id: id, document }: ProposedDocument,
): Sources {
  const { tenant } = sources;
  // Who wrote it is nobody's question here.
  const stored =
    document === null
      ? null
      : ({ document, revision: 0, updated_by: 'nobody', updated_at: '' } as const);
  const next = {
    ...tenant,
    ...(type === 'tenant_risk_config' && { risk: stored as Sources['tenant']['risk'] }),
    ...(type === 'agent_config' &&
      id === question.agent_type && { agent: stored as Sources['tenant']['agent'] }),
    ...(type === 'service_config' &&
      id === question.service_id && { service: stored as Sources['tenant']['service'] }),
  };
  return { ...sources, tenant: next, serviceType: serviceTypeOf(question, next) };
}

/** A document that passed its kind's rules, as the history names it; null for none. */
export interface ProposedDocument {
  readonly config_type: ParamsOf<'config-resolver.preview'>['body']['config_type'];
  readonly resource_id: string;
  readonly document: unknown;
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
  new StrataError('before_history', 'The tenant did not exist then.');

/**
 * The sources at a revision or moment of the tenant's past. Tenant and platform count their own
 * revisions: what they have in common is the time, unless a revision of the platform is asked for
 * as well.
 */
export async function sourcesThen(
  question: ContextAddress,
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
  // Layers of an earlier time come with the rollouts of that time.
  const ofTenant = { ...platform, ...platformOf(platform, tenant_id) };
  return { tenantId: tenant_id, serviceType, tenant, platform: ofTenant, environment };
}
