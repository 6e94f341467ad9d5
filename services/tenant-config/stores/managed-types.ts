/**
 * The managed service types, which are `global-config`'s: instances and risk overrides name them,
 * and keep to their limits.
 */
import type { Request } from '../../../shared/contract-runtime/request.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { StrataError } from '../../../shared/errors.ts';

export type ManagedTypes = ResultOf<'global-config.service-types.active'>['items'];

/**
 * The managed service types, from this node's memory. Throws 503 where `global-config` cannot be
 * asked and what is known may be old: nothing is written by that.
 */
export async function managedTypes({ call }: Pick<Request, 'call'>): Promise<ManagedTypes> {
  const { items, stale } = await call('global-config.service-types.active', {});
  if (stale)
    throw new StrataError(
      'service_unavailable',
      'The service types cannot be checked now, so nothing is written. Try again.',
    );
  return items;
}
