/** The bounds that a tenant's documents keep to. The platform's are `global-config`'s. */
import type { BoundSet } from '../../../shared/bounds/bounds-in-force.ts';
import type { Request } from '../../../shared/cluster/request.ts';
import type { Bounds } from '../../../shared/contracts/bounds.ts';
import { codeOf, StrataError } from '../../../shared/errors.ts';

interface Answer {
  readonly document: Bounds;
  readonly revision: number;
  readonly stale?: true;
}

/** The set of an owner's bounds; none where nothing is stored. Throws 503 where what is known of them may be old. */
async function boundsOf(by: 'platform' | 'tenant', asked: Promise<Answer>): Promise<BoundSet[]> {
  try {
    const { document, revision, stale } = await asked;
    if (stale)
      throw new StrataError(
        'service_unavailable',
        'The bounds cannot be checked now, so nothing is written. Try again.',
      );
    return [{ by, bounds: document, revision }];
  } catch (error) {
    if (codeOf(error) === 'not_found') return [];
    throw error;
  }
}

/** The platform's bounds, from this node's memory. */
export const platformBounds = ({ call }: Pick<Request, 'call'>): Promise<BoundSet[]> =>
  boundsOf('platform', call('global-config.bounds.get', {}));
