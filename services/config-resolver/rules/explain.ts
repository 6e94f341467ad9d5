/** Why an effective value is what it is: where it was set, by whom, what that shadows, and what bounds did. */
import type { Static } from 'typebox';
import type { BoundInForce, BoundSet } from '../../../shared/bounds/bounds-in-force.ts';
import { platformBoundsKey, tenantBoundsKey } from '../../../shared/contracts/bounds.ts';
import type { Explanation } from '../../../shared/contracts/effective-config.ts';
import { pointerTo } from '../../../shared/schema/json-pointer.ts';
import type { ActingBound, Bounded, Held } from './apply-bounds.ts';
import {
  applied,
  boundSets,
  decidingPart,
  definitions,
  enforcedKeys,
  originOf,
  originOfPlatform,
  layerPartsOf,
  type AuthorAt,
  type Effective,
  type Origin,
  type Place,
  type PlaceName,
  type LayerPart,
  type Sources,
} from './layers.ts';
import { candidateName } from './rollouts.ts';

/**
 * What `effectiveValues` is, and for every key why: where its value was set, what that shadows, and
 * what bounds did.
 */
export function explainValues(
  from: Sources,
  authorAt: AuthorAt = () => undefined,
): Effective & { explain: Explanations } {
  const parts = layerPartsOf(from);
  const bounded = applied(parts, from);
  const enforced = enforcedKeys(bounded);
  const keys = new Set([...Object.keys(bounded.values), ...enforced]);
  const explain = [...keys].map(
    (key) => [key, explanationOf(key, parts, bounded, from, authorAt)] as const,
  );
  return { values: bounded.values, enforced, explain: Object.fromEntries(explain) };
}

type Explanations = Record<string, Static<typeof Explanation>>;

/**
 * Every place that an explanation of these keys may name, for whoever finds out who wrote there. All
 * keys by default.
 */
export function placesOf(
  from: Sources,
  isWanted: (key: string) => boolean = () => true,
): PlaceName[] {
  const ofLayers = layerPartsOf(from).flatMap((part) =>
    Object.keys(part.values)
      .filter(isWanted)
      .flatMap((key) => placeAt(part, key, from) ?? []),
  );
  const ofBounds = boundSets(from).flatMap(({ by, bounds }) =>
    by === 'type'
      ? []
      : limitNames(by, bounds)
          .filter(isWanted)
          .map((key) => placeOfBound(key, by, from)),
  );
  return [...ofLayers, ...ofBounds];
}

/** Either limit of a service type may hold either number of an instance. */
const limitNames = (by: BoundSet['by'], bounds: BoundSet['bounds']): readonly string[] =>
  by === 'service_type' ? ['min_instances', 'max_instances'] : Object.keys(bounds);

function placeAt({ layer, pathOf }: LayerPart, key: string, from: Sources): PlaceName | undefined {
  const document = layer.document(from, key);
  return document && { ...document, path: pathOf(key) };
}

function placeOfBound(
  key: string,
  by: Exclude<BoundInForce['by'], 'type'>,
  from: Sources,
): PlaceName {
  if (by === 'service_type')
    return {
      ...definitions.service_type.document(from, key)!,
      path: pointerTo(['scaling_limits', key]),
    };
  return {
    owner: by,
    config_type: 'bounds_config',
    resource_id: by === 'tenant' ? from.tenantId : 'platform',
    path: pointerTo([key]),
  };
}

/**
 * Where a value stands, and who set it there, or wrote the document where that is not known. A
 * candidate is by its rollout.
 */
function writtenAt(
  origin: Origin,
  place: PlaceName | undefined,
  { platform }: Sources,
  authorAt: AuthorAt,
): Origin {
  if (place === undefined) return origin;
  const rollout =
    place.owner === 'platform' &&
    platform.candidateOf?.get(candidateName(place.config_type, place.resource_id));
  return rollout ? { ...origin, rollout } : { ...origin, ...authorAt(place) };
}

function explanationOf(
  key: string,
  parts: readonly LayerPart[],
  { values, bounded }: Bounded,
  from: Sources,
  authorAt: AuthorAt,
): Static<typeof Explanation> {
  const found = parts.filter((part) => Object.hasOwn(part.values, key));
  const partAt = ({ layer }: Pick<Held, 'layer'>): LayerPart | undefined =>
    layer === null ? undefined : parts[parts.length - 1 - layer];
  const result = bounded.get(key);
  const { asked = null, enforced, warned = [] } = result ?? {};
  const deciding = decidingPart(key, parts, result);
  const askedBy = asked && partAt(asked)?.layer.name;
  const writtenOn = (part: LayerPart): Origin =>
    writtenAt(part.layer.origin(from, key), placeAt(part, key, from), from, authorAt);
  return {
    ...(Object.hasOwn(values, key) && { value: values[key] }),
    ...(deciding
      ? {
          layer: deciding.layer.name,
          ...writtenOn(deciding),
          path: deciding.pathOf(key),
        }
      : originOfBound(values[key], enforced!, from, authorAt)),
    shadowed: found
      .filter((part) => part !== deciding)
      .map((part) => ({
        layer: part.layer.name,
        value: part.values[key],
        path: part.pathOf(key),
        ...writtenOn(part),
      })),
    ...(enforced && {
      enforced: {
        ...shownBound(enforced),
        asked: asked && { layer: askedBy!, value: asked.value },
      },
    }),
    ...(warned.length > 0 && { warned: warned.map(shownBound) }),
  };
}

const shownBound = ({ by, rule, revision }: BoundInForce) => ({ by, rule, revision });

/**
 * Where a value comes from that no layer holds: the bound that put it there, which may be on the
 * other key of its pair.
 */
function originOfBound(
  value: unknown,
  { by, key: bound, rule }: ActingBound,
  from: Sources,
  authorAt: AuthorAt,
): Place {
  const limit = value === rule.minimum ? 'min_instances' : 'max_instances';
  const key = by === 'service_type' ? limit : bound;
  // A type has no value of its own to put there.
  const place = placeOfBound(key, by === 'type' ? 'platform' : by, from);
  const { path } = place;
  if (by === 'service_type') {
    const origin = definitions.service_type.origin(from, key);
    return { layer: 'service_type', ...writtenAt(origin, place, from, authorAt), path };
  }
  const { platform, tenant, tenantId } = from;
  const origin =
    by === 'tenant'
      ? originOf(tenantBoundsKey({ tenant_id: tenantId }), tenant.bounds)
      : originOfPlatform(platformBoundsKey, platform.bounds);
  return { layer: 'bounds', ...writtenAt(origin, place, from, authorAt), path };
}
