/** Which of the documents that are written decide over automation, by their names in the history. */
import type { Call } from '../contract-runtime/request.ts';
import { ProposedDocument } from '../contracts/decisions.ts';
import type { DecisionsImpact } from '../contracts/impact.ts';
import type { DocumentActions } from '../documents/document.ts';
import { isOutage } from '../errors.ts';

const deciding = ProposedDocument.properties.config_type.enum;

/** None for a document that decides nothing, which may hold secrets. */
export function decidingDocument(
  { kind }: DocumentActions<object, unknown>,
  address: object,
  document: unknown,
): ProposedDocument[] {
  const config_type = deciding.find((each) => each === kind.configType);
  if (!config_type) return [];
  const owner = 'tenant_id' in address ? 'tenant' : 'platform';
  return [{ owner, config_type, resource_id: kind.resourceId(address), document }];
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
