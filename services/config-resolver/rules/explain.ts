/** Why an effective value is what it is: where it was set, by whom, what that shadows, and what bounds did. */
import type { Static } from 'typebox';
import type { BoundInForce } from '../../../shared/bounds/bounds-in-force.ts';
import { platformBoundsKey, tenantBoundsKey } from '../../../shared/contracts/bounds.ts';
import type { Explanation } from '../../../shared/contracts/effective-config.ts';
import { pointerTo } from '../../../shared/schema/json-pointer.ts';
import type { Bounded, Held } from './apply-bounds.ts';
import {
  applied,
  boundSets,
  decidingRung,
  definitions,
  enforcedKeys,
  originOf,
  originOfPlatform,
  rungsOf,
  type AuthorAt,
  type Effective,
  type Origin,
  type Place,
  type PlaceName,
  type RungOfLayer,
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
  const rungs = rungsOf(from);
  const bounded = applied(rungs, from);
  const enforced = enforcedKeys(bounded);
  const keys = new Set([...Object.keys(bounded.values), ...enforced]);
  const explain = [...keys].map(
    (key) => [key, explanationOf(key, rungs, bounded, from, authorAt)] as const,
  );
  return { values: bounded.values, enforced, explain: Object.fromEntries(explain) };
}

type Explanations = Record<string, Static<typeof Explanation>>;

/** Every place that an explanation may name, for whoever finds out who wrote there. */
export function placesOf(from: Sources): PlaceName[] {
  const ofLayers = rungsOf(from).flatMap((rung) =>
    Object.keys(rung.values).flatMap((key) => placeAt(rung, key, from) ?? []),
  );
  const ofBounds = boundSets(from).flatMap(({ by, bounds }) =>
    by === 'type' ? [] : Object.keys(bounds).map((key) => placeOfBound(key, by, from)),
  );
  return [...ofLayers, ...ofBounds];
}

function placeAt(
  { layer, pathOf }: RungOfLayer,
  key: string,
  from: Sources,
): PlaceName | undefined {
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
  rungs: readonly RungOfLayer[],
  { values, bounded }: Bounded,
  from: Sources,
  authorAt: AuthorAt,
): Static<typeof Explanation> {
  const found = rungs.filter((rung) => Object.hasOwn(rung.values, key));
  const rungAt = ({ layer }: Pick<Held, 'layer'>): RungOfLayer | undefined =>
    layer === null ? undefined : rungs[rungs.length - 1 - layer];
  const result = bounded.get(key);
  const { asked = null, enforced, warned = [] } = result ?? {};
  const deciding = decidingRung(key, rungs, result);
  const askedBy = asked && rungAt(asked)?.layer.name;
  const writtenOn = (rung: RungOfLayer): Origin =>
    writtenAt(rung.layer.origin(from, key), placeAt(rung, key, from), from, authorAt);
  return {
    ...(Object.hasOwn(values, key) && { value: values[key] }),
    ...(deciding
      ? {
          layer: deciding.layer.name,
          ...writtenOn(deciding),
          path: deciding.pathOf(key),
        }
      : originOfBound(key, enforced!, from, authorAt)),
    shadowed: found
      .filter((rung) => rung !== deciding)
      .map((rung) => ({
        layer: rung.layer.name,
        value: rung.values[key],
        path: rung.pathOf(key),
        ...writtenOn(rung),
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

/** Where a value comes from that no layer holds: the bound that put it there. */
function originOfBound(
  key: string,
  { by }: BoundInForce,
  from: Sources,
  authorAt: AuthorAt,
): Place {
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
