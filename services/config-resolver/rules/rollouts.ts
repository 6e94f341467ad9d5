/**
 * The platform's layers as one tenant has them: with the candidates of the rollouts on whose side it
 * is. They come with the layers, in the same snapshot, so that a reader needs nothing else to know.
 */
import type { PlatformLayers } from '../../../shared/contracts/layers.ts';
import type { RolloutInLayers, RolloutSide } from '../../../shared/contracts/rollout-sides.ts';
import type { StoredGlobalEntry } from '../../../shared/contracts/global-entries.ts';
import type { ServiceType } from '../../../shared/contracts/service-types.ts';
import { platformName } from '../../../shared/commits/actor-names.ts';
import { hasCandidate } from '../../../shared/rollouts/side.ts';
import type { Sources } from './layers.ts';

type Platform = Sources['platform'];

export const sidesOf = (
  rollouts: readonly RolloutInLayers[] | undefined,
  tenantId: string,
): RolloutSide[] =>
  (rollouts ?? []).map((rollout) => ({
    id: rollout.id,
    stage: rollout.stage,
    side: hasCandidate(rollout, tenantId) ? 'candidate' : 'base',
  }));

const candidatesOf = (rollouts: readonly RolloutInLayers[] | undefined, tenantId: string) =>
  (rollouts ?? [])
    .filter((rollout) => hasCandidate(rollout, tenantId))
    .flatMap(({ items, ...rollout }) => items.map((item) => ({ ...item, rollout })));

// They passed their schemas when the rollout was planned.
const entryOf = (document: unknown): StoredGlobalEntry | null => {
  const entry = document as StoredGlobalEntry | null;
  return entry?.is_public ? entry : null;
};

/** The key of `candidateOf`: a document by its name in the history. */
export const candidateName = (type: string, resourceId: string): string => `${type} ${resourceId}`;

type Candidates = ReturnType<typeof candidatesOf>;
type Rollout = Candidates[number]['rollout'];

/** Both layers with the candidates instead of what they have by the same name. */
function withCandidates<
  Entry extends { readonly document: { readonly config_key: string } },
  Type,
  Platform extends { entries: Entry[]; service_types: Record<string, Type> },
>(
  platform: Platform,
  candidates: Candidates,
  entryFrom: (entry: StoredGlobalEntry, rollout: Rollout) => Entry,
  typeFrom: (type: ServiceType, rollout: Rollout) => Type,
): Platform {
  const entries = new Map(platform.entries.map((entry) => [entry.document.config_key, entry]));
  const types = new Map(Object.entries(platform.service_types));
  for (const { config_type: kind, resource_id: name, document, rollout } of candidates) {
    if (kind === 'service_type_config') {
      // It stays active and has its name: nothing else of it is staged.
      const type = document as ServiceType;
      types.set(type.service_type, typeFrom(type, rollout));
      continue;
    }
    const entry = entryOf(document);
    if (entry === null) entries.delete(name);
    else entries.set(name, entryFrom(entry, rollout));
  }
  return { ...platform, entries: [...entries.values()], service_types: Object.fromEntries(types) };
}

/** The layers themselves where the tenant has no candidate. */
export function platformOf(platform: Platform, tenantId: string): Platform {
  const candidates = candidatesOf(platform.rollouts, tenantId);
  if (candidates.length === 0) return platform;
  const writtenBy = ({ revision, updated_by, updated_at }: Rollout) => ({
    revision,
    updated_by,
    updated_by_name: platformName,
    updated_at,
  });
  const candidateOf = new Map(
    candidates.map(({ config_type: type, resource_id: id, rollout }) => [
      candidateName(type, id),
      rollout.id,
    ]),
  );
  const ofTenant = withCandidates(
    platform,
    candidates,
    (entry, rollout): Platform['entries'][number] => ({
      ...writtenBy(rollout),
      document: { ...entry, ...writtenBy(rollout) },
    }),
    (document, rollout): Platform['service_types'][string] => ({
      ...writtenBy(rollout),
      document,
    }),
  );
  return { ...ofTenant, candidateOf };
}

/** The same of layers that are cut down to some keys, of which nobody asks who wrote them. */
export function cutPlatformOf(platform: PlatformLayers, tenantId: string): PlatformLayers {
  const candidates = candidatesOf(platform.rollouts, tenantId);
  if (candidates.length === 0) return platform;
  return withCandidates(
    platform,
    candidates,
    ({ config_key, config_value }): PlatformLayers['entries'][number] => ({
      document: { config_key, config_value },
    }),
    ({ default_settings, scaling_limits, monitoring_defaults }, { revision }) => ({
      document: { default_settings, scaling_limits, monitoring_defaults },
      revision,
    }),
  );
}
