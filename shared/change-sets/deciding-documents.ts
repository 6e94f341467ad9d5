/** Which of the documents that are written decide over automation, by their names in the history. */
import type { Call } from '../contract-runtime/request.ts';
import type { ProposedDocument } from '../contracts/decisions.ts';
import type { DecisionsImpact } from '../contracts/impact.ts';
import { isOutage } from '../errors.ts';

type Address = Readonly<Record<string, unknown>>;
type Named = Pick<ProposedDocument, 'owner' | 'config_type' | 'resource_id'>;
type Row = readonly [
  ProposedDocument['owner'],
  ProposedDocument['config_type'],
  idOf: (address: Address) => unknown,
];

const ofTenant = ({ tenant_id }: Address): unknown => tenant_id;
const ofPlatform = (): string => 'platform';

/** By the beginning of the names of their actions. */
const deciding: Readonly<Record<string, Row>> = {
  'tenant-config.risk': ['tenant', 'tenant_risk_config', ofTenant],
  'tenant-config.agents': ['tenant', 'agent_config', ({ agent_type }) => agent_type],
  'tenant-config.services': ['tenant', 'service_config', ({ service_id }) => service_id],
  'tenant-config.projects': ['tenant', 'project_config', ({ project_id }) => project_id],
  'tenant-config.bounds': ['tenant', 'bounds_config', ofTenant],
  'tenant-config.budgets': ['tenant', 'budgets_config', ofTenant],
  'tenant-config.freezes': ['tenant', 'freezes_config', ofTenant],
  'global-config.entries': ['platform', 'global_config', ({ key }) => key],
  'global-config.service-types': [
    'platform',
    'service_type_config',
    (type) => `${String(type.service_type)}/${String(type.configuration_name)}`,
  ],
  'global-config.bounds': ['platform', 'bounds_config', ofPlatform],
  'global-config.budgets': ['platform', 'budgets_config', ofPlatform],
  'global-config.freezes': ['platform', 'freezes_config', ofPlatform],
};

/** None for a document that decides nothing, which may hold secrets. */
export function decidingDocument(
  actions: string,
  address: Address,
  document: unknown,
): ProposedDocument[] {
  const row = deciding[actions];
  if (!row) return [];
  const [owner, config_type, idOf] = row;
  const name: Named = { owner, config_type, resource_id: String(idOf(address)) };
  return [{ ...name, document }];
}

/**
 * What they would make of past decisions; undefined where none is kept, and while the service that
 * keeps them is away.
 */
export async function decisionsImpact(
  call: Call,
  documents: readonly ProposedDocument[],
  tenantId: string | null,
): Promise<DecisionsImpact | undefined> {
  const ofTenant = tenantId === null ? {} : { tenant_id: tenantId };
  try {
    const body = { ...ofTenant, documents: [...documents] };
    const found = await call('config-resolver.decisions.impact', { body });
    return found.tenants === 0 && found.complete ? undefined : found;
  } catch (error) {
    if (isOutage(error)) return undefined;
    throw error;
  }
}
