/** The six layers of one key as rungs, highest first, from what `explain=true` answers. */
import type { LayerName } from '../../shared/contracts/effective-config.ts';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { nameBeside } from '../format.ts';

export type Explanations = NonNullable<ResultOf<'config-resolver.resolve'>['explain']>;
export type Explained = Explanations[string];

/**
 * The layer that decides first at the front; a test holds the order equal to that of the contract.
 */
export const layers = [
  'service_instance',
  'agent',
  'tenant_risk',
  'service_type',
  'global',
  'env',
] as const satisfies readonly LayerName[];

export const layerTitles: Readonly<Record<Explained['layer'], string>> = {
  service_instance: 'Service instance',
  agent: 'Agent configuration',
  tenant_risk: 'Tenant risk limits',
  service_type: 'Service type',
  global: 'Global entry',
  env: 'Environment default',
  bounds: 'Bound',
};

export interface Rung {
  readonly layer: LayerName;
  /** `overruled`: it would decide, and a bound put another value in its place. */
  readonly state: 'decides' | 'overruled' | 'shadowed' | 'unset';
  readonly value?: unknown;
  /** Of the value inside its document. */
  readonly path?: string;
  readonly updatedBy?: string | null;
  /** What they are called, where the answer says so. */
  readonly updatedByName?: string | undefined;
  readonly updatedAt?: string | null;
  readonly revision?: number | null;
  /** Whether removing it lets what is below show through. */
  readonly isClearable: boolean;
}

interface Held {
  readonly value: unknown;
  readonly path: string;
}

/**
 * Who wrote a layer, and when, is that of its document: where the layer is shadowed here, another
 * key that it decides says so. Global entries are each a document of their own.
 */
export function ladderOf(explained: Explained, all: Explanations): Rung[] {
  const asked = explained.enforced?.asked;
  return layers.map((layer) => {
    const held = heldBy(layer, explained);
    if (held === undefined) return { layer, state: 'unset', isClearable: false };
    const decides = explained.layer === layer;
    const isOverruled = !decides && asked?.layer === layer;
    const written = decides ? explained : writtenIn(layer, all);
    return {
      layer,
      state: decides ? 'decides' : isOverruled ? 'overruled' : 'shadowed',
      ...held,
      updatedBy: written?.updated_by ?? null,
      updatedByName: written && nameBeside(written, 'updated_by'),
      updatedAt: written?.updated_at ?? null,
      revision: written?.revision ?? null,
      isClearable: isClearable(layer, held.path),
    };
  });
}

function heldBy(layer: LayerName, explained: Explained): Held | undefined {
  const { value, path, shadowed } = explained;
  if (explained.layer === layer) return { value, path };
  return shadowed.find((each) => each.layer === layer);
}

const writtenIn = (layer: LayerName, all: Explanations): Explained | undefined =>
  layer === 'global' ? undefined : Object.values(all).find((each) => each.layer === layer);

/** The risk limits themselves are always there; what a service type has instead of them can go. */
const isClearable = (layer: LayerName, path: string): boolean =>
  layer === 'service_instance' ||
  layer === 'agent' ||
  (layer === 'tenant_risk' && path.startsWith('/service_overrides/'));

export const glyphOf = ({ state }: Rung): string => state;
