/** The bounds that a tenant's documents keep to. The platform's are `global-config`'s. */
import type { BoundSet } from '../../../shared/bounds/bounds-in-force.ts';
import type { Request } from '../../../shared/contract-runtime/request.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { ifFound, isOutage, StrataError } from '../../../shared/errors.ts';

type Calling = Pick<Request, 'call'>;
type Answer = ResultOf<'global-config.bounds.get'>;

const setOf = (
  by: 'platform' | 'tenant',
  { document, revision, updated_by: id, updated_by_name: name }: Answer,
): BoundSet => ({
  by,
  bounds: document,
  revision,
  ...(by === 'tenant' && { author: name ?? id }),
});

/**
 * The platform's bounds, from this node's memory. Throws 503 where what is known of them may be
 * old.
 */
export async function platformBounds({ call }: Calling): Promise<BoundSet[]> {
  const answer = await ifFound(call('global-config.bounds.get', {}));
  if (answer?.stale)
    throw new StrataError(
      'service_unavailable',
      'The guardrails cannot be checked now, so nothing is written. Try again.',
    );
  return answer ? [setOf('platform', answer)] : [];
}

/**
 * The bounds that refuse values of a tenant's documents, from this node's memory. Where
 * `global-config` is away, the platform's as they are known, or none: a value that is stored
 * meanwhile is held within them whenever it is read.
 */
export async function boundsForValues(tenantId: string, { call }: Calling): Promise<BoundSet[]> {
  const [ofPlatform, ofTenant] = await Promise.all([
    ifFound(call('global-config.bounds.get', {})).catch((error: unknown) => {
      if (isOutage(error)) return null;
      throw error;
    }),
    ifFound(call('tenant-config.bounds.get', { tenant_id: tenantId })),
  ]);
  return [
    ...(ofPlatform ? [setOf('platform', ofPlatform)] : []),
    ...(ofTenant ? [setOf('tenant', ofTenant)] : []),
  ];
}
