/** A tenant's bounds, one document, which keeps to the platform's. */
import { boundsProblems } from '../../../shared/bounds/bounds-document.ts';
import type { BoundSet } from '../../../shared/bounds/bounds-in-force.ts';
import { Bounds } from '../../../shared/contracts/bounds.ts';
import type { TenantAddress } from '../../../shared/contracts/tenant-document.ts';
import type { DocumentKind } from '../../../shared/documents/document-kind.ts';
import { tightensBounds } from '../../../shared/documents/tightening.ts';
import { BoundsEntity } from '../schema.ts';
import { platformBounds } from '../stores/bounds.ts';
import { managedTypes } from '../stores/managed-types.ts';
import { single } from './tenant-document.ts';

interface Context {
  readonly above: readonly BoundSet[];
  readonly serviceTypes: readonly string[];
}

export const boundsKind: DocumentKind<TenantAddress, Bounds, Context> = {
  ...single<Bounds>(BoundsEntity, 'bounds'),
  schema: Bounds,
  async prepare(_address, request) {
    const [above, types] = await Promise.all([platformBounds(request), managedTypes(request)]);
    return { above, serviceTypes: types.map(({ service_type }) => service_type) };
  },
  check: ({ next, current, context }) => ({
    refused: boundsProblems({ by: 'tenant', next, current, ...context }),
  }),
  tightens: tightensBounds,
};
