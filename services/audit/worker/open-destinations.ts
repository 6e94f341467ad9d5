/** The event_destinations of whoever a chain is of, their secrets open, from the document's owner. */
import type { Call } from '../../../shared/contract-runtime/request.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { tenantOfChain } from '../../../shared/security/audit-chain.ts';

export function openDestinations(
  call: Call,
  chain: string,
): Promise<ResultOf<'tenant-config.event-destinations.open'>> {
  const tenantId = tenantOfChain(chain);
  return tenantId === null
    ? call('global-config.event-destinations.open', {})
    : call('tenant-config.event-destinations.open', { tenant_id: tenantId });
}
