/** The six layers of one key as rungs, highest first, from what `explain=true` answers. */
import type { LayerName } from '../../shared/contracts/effective-config.ts';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { namesOf } from '../../shared/schema/json-pointer.ts';
import { nameBeside } from '../format.ts';
import { layers } from '../known-values.ts';

export type Explanations = NonNullable<ResultOf<'config-resolver.resolve'>['explain']>;
export type Explained = Explanations[string];

export const layerTitles: Readonly<Record<Explained['layer'], string>> = {
  service_instance: 'Service instance',
  agent: 'Agent configuration',
  tenant_risk: 'Tenant risk limits',
  service_type: 'Service type',
  global: 'Global entry',
  env: 'Built-in default',
  bounds: 'Guardrail',
};

export interface Rung {
  readonly layer: LayerName;
  /** Which of the values that one layer may have for a key; undefined where it has but one. */
  readonly part?: string | undefined;
  /** `overruled`: it would decide, and a bound put another value in its place. */
  readonly state: 'decides' | 'overruled' | 'shadowed' | 'unset';
  readonly value?: unknown;
  /** Of the value inside its document. */
  readonly path?: string;
  /** Who set this value, when, and by which change: not who wrote its document last. */
  readonly updatedBy?: string | null;
  /** What they are called, where the answer says so. */
  readonly updatedByName?: string | undefined;
  readonly updatedAt?: string | null;
  readonly revision?: number | null;
  /** Whether removing it lets what is below show through. */
  readonly isClearable: boolean;
  /** Whether the tenant may give it another value: it is in one of its own documents. */
  readonly isEditable: boolean;
}

type Held = Omit<Explained['shadowed'][number], 'layer'> & { readonly layer: LayerName };

/** Every value that there is for the key, the highest at the front; a layer without one is unset. */
export function ladderOf(explained: Explained): Rung[] {
  const { layer: deciding, enforced, shadowed } = explained;
  const asked = enforced?.asked;
  // A bound that removes the key leaves no value, and what the layer says is what was asked for.
  const isRemoved = !Object.hasOwn(explained, 'value');
  const own: Held | undefined =
    deciding === 'bounds'
      ? undefined
      : { ...explained, layer: deciding, value: isRemoved ? asked?.value : explained.value };
  return layers.flatMap((layer): Rung[] => {
    const held = [
      ...(own?.layer === layer ? [own] : []),
      ...shadowed.filter((each) => each.layer === layer),
    ];
    if (held.length === 0)
      return [{ layer, state: 'unset', isClearable: false, isEditable: false }];
    const others = held.filter((each) => each !== own);
    return held
      .toSorted((one, other) => Number(isForAll(one.path)) - Number(isForAll(other.path)))
      .map((each) => {
        const isOverruled = isRemoved ? each === own : asked?.layer === layer && each === others[0];
        return {
          layer,
          part: partOf(layer, each.path),
          state: isOverruled ? 'overruled' : each === own ? 'decides' : 'shadowed',
          value: each.value,
          path: each.path,
          updatedBy: each.updated_by,
          updatedByName: nameBeside(each, 'updated_by'),
          updatedAt: each.updated_at,
          revision: each.revision,
          isClearable: isClearable(layer, each.path),
          isEditable: ownLayers.has(layer),
        };
      });
  });
}

/** What holds for all services yields to what holds for the one type. */
const isForAll = (path: string): boolean =>
  path.startsWith('/global_settings/') || path.startsWith('/default_settings/');

function partOf(layer: LayerName, path: string): string | undefined {
  if (layer !== 'tenant_risk') return undefined;
  const [place, serviceType] = namesOf(path);
  return place === 'service_overrides' ? `for ${serviceType}` : 'for all services';
}

const ownLayers: ReadonlySet<LayerName> = new Set(['service_instance', 'agent', 'tenant_risk']);

/** The risk limits themselves are always there; what a service type has instead of them can go. */
const isClearable = (layer: LayerName, path: string): boolean =>
  layer === 'service_instance' ||
  layer === 'agent' ||
  (layer === 'tenant_risk' && path.startsWith('/service_overrides/'));

/** What is done to the value of one layer. */
export type Way = 'edit' | 'clear';

export const glyphOf = ({ state }: Rung): string => state;

export const titleOf = ({ layer, part }: Pick<Rung, 'layer' | 'part'>): string =>
  part === undefined ? layerTitles[layer] : `${layerTitles[layer]} ${part}`;

/** The layer and part of a value that an answer names. */
export const placeTitle = (layer: Explained['layer'], path: string): string =>
  layer === 'bounds' ? layerTitles.bounds : titleOf({ layer, part: partOf(layer, path) });
