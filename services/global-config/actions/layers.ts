/**
 * What config-resolver asks of the platform: its two layers, and its bounds, as they are or were.
 */
import { In, type DataSource, type EntityManager } from 'typeorm';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import { readSnapshot, revisionOf } from '../../../shared/commits/commit.ts';
import type { Bounds } from '../../../shared/contracts/bounds.ts';
import type { Budgets } from '../../../shared/contracts/budgets.ts';
import type { Freezes } from '../../../shared/contracts/freezes.ts';
import type { StoredGlobalEntry } from '../../../shared/contracts/global-entries.ts';
import { platformScope, tenantScope } from '../../../shared/contracts/revision-scopes.ts';
import type { RolloutInLayers } from '../../../shared/contracts/rollout-sides.ts';
import type { StoredRollout } from '../../../shared/contracts/rollouts.ts';
import { defaultConfiguration, type ServiceType } from '../../../shared/contracts/service-types.ts';
import type { Stored } from '../../../shared/documents/document-kind.ts';
import { boundsKind } from '../documents/bounds.ts';
import { budgetsKind } from '../documents/budgets.ts';
import { freezesKind } from '../documents/freezes.ts';
import { storedEntry } from '../documents/global-entry.ts';
import { storedServiceType } from '../documents/service-type.ts';
import { GlobalEntity, ServiceTypeEntity } from '../schema.ts';
import {
  documentsAt,
  keyAuthors,
  requireKnown,
  revisionAt,
  withdrawnSince,
} from '../stores/history.ts';
import { isPurgedAt } from '../stores/purges.ts';
import { inLayers, isUnderWay, rolloutsUnderWay, withdrawnByRevert } from '../stores/rollouts.ts';
import { described } from './entries.ts';

/**
 * What the effective configuration is made of: the public entries, and of the types that are asked
 * for what is active.
 */
interface LayerDocuments {
  readonly entries: readonly Stored<StoredGlobalEntry>[];
  readonly types: readonly Stored<ServiceType>[];
  readonly bounds: Stored<Bounds> | null;
  readonly budgets: Stored<Budgets> | null;
  readonly freezes: Stored<Freezes> | null;
  readonly rollouts: readonly RolloutInLayers[];
}

/** With all service types unless only some are wanted. */
async function currentLayers(
  manager: EntityManager,
  wanted?: readonly string[],
): Promise<LayerDocuments> {
  const entries = await manager.findBy(GlobalEntity, { is_public: true });
  const types =
    wanted?.length === 0
      ? []
      : await manager.findBy(ServiceTypeEntity, {
          ...(wanted && { service_type: In(wanted) }),
          configuration_name: defaultConfiguration,
          is_active: true,
        });
  return {
    entries: entries.map(storedEntry),
    types: types.map(storedServiceType),
    bounds: (await boundsKind.load(manager, {})).current,
    budgets: (await budgetsKind.load(manager, {})).current,
    freezes: (await freezesKind.load(manager, {})).current,
    rollouts: await rolloutsUnderWay(manager),
  };
}

async function layersAt(
  manager: EntityManager,
  wanted: readonly string[],
  revision: number,
): Promise<LayerDocuments> {
  const isPublic = `(document->>'is_public')::boolean`;
  const isActive = `(document->>'is_active')::boolean`;
  const types =
    wanted.length === 0
      ? []
      : await documentsAt<ServiceType>(manager, 'service_type_config', revision, isActive);
  const [bounds = null] = await documentsAt<Bounds>(manager, 'bounds_config', revision);
  const [budgets = null] = await documentsAt<Budgets>(manager, 'budgets_config', revision);
  const [freezes = null] = await documentsAt<Freezes>(manager, 'freezes_config', revision);
  const rollouts = await documentsAt<StoredRollout>(
    manager,
    'rollout_config',
    revision,
    isUnderWay,
  );
  return {
    entries: await documentsAt<StoredGlobalEntry>(manager, 'global_config', revision, isPublic),
    types: types.filter(
      ({ document: { service_type: type, configuration_name: name } }) =>
        wanted.includes(type) && name === defaultConfiguration,
    ),
    bounds,
    budgets,
    freezes,
    rollouts: rollouts.toSorted(byCreation).map(inLayers),
  };
}

/** As those of now are read. */
const byCreation = (one: Stored<StoredRollout>, other: Stored<StoredRollout>): number =>
  one.document.created_at < other.document.created_at ? -1 : 1;

/** Without the entries that were public then and made private since; `withheld` where there are any. */
async function shownNow(manager: EntityManager, layers: LayerDocuments, revision: number) {
  const reverted = await withdrawnByRevert(manager, layers.rollouts, revision);
  const withdrawn = new Set([...(await withdrawnSince(manager, revision)), ...reverted]);
  const entries = layers.entries.filter(({ document }) => !withdrawn.has(document.config_key));
  let withheld = entries.length < layers.entries.length;
  const rollouts = layers.rollouts.map((rollout) => {
    const items = rollout.items.filter(
      ({ config_type: type, resource_id: key }) => type !== 'global_config' || !withdrawn.has(key),
    );
    withheld ||= items.length < rollout.items.length;
    return { ...rollout, items };
  });
  return { layers: { ...layers, entries, rollouts }, withheld };
}

const byType = (types: readonly Stored<ServiceType>[]) =>
  Object.fromEntries(types.map((stored) => [stored.document.service_type, stored]));

/** Throws where a revision or moment is asked for that the history does not know. */
async function revisionAsOf(
  manager: EntityManager,
  asOf: number | string | undefined,
  newest: number,
): Promise<number> {
  if (asOf === undefined || asOf === newest) return newest;
  if (typeof asOf === 'string') return revisionAt(manager, new Date(asOf));
  await requireKnown(manager, asOf);
  return asOf;
}

export const layerActions = (db: DataSource) =>
  ({
    /** One snapshot: with all service types, so that one answer serves every context. */
    'global-config.layers.now': () =>
      readSnapshot(db, platformScope, async (manager) => {
        const { entries, types, ...others } = await currentLayers(manager);
        return {
          revision: await revisionOf(manager, platformScope),
          ...others,
          rollouts: [...others.rollouts],
          entries: entries.map(described),
          service_types: byType(types),
        };
      }),

    'global-config.layers.authors': async ({ body: { places, revision } }) => ({
      authors: await keyAuthors(db.manager, places, revision),
    }),

    /**
     * One snapshot: entries, service types and bounds are exactly those of the revision, at a
     * moment when the tenant had its.
     */
    'global-config.layers': ({
      service_types: wanted = [],
      tenant_id: tenantId,
      as_of: asOf,
      with_withdrawn: withWithdrawn = false,
    }) =>
      db.transaction('REPEATABLE READ', async (manager) => {
        const newest = await revisionOf(manager, platformScope);
        const tenantRevision =
          tenantId === undefined ? null : await revisionOf(manager, tenantScope(tenantId));
        const revision = await revisionAsOf(manager, asOf, newest);
        const isPast = asOf !== undefined && asOf !== newest;
        const stored = isPast
          ? await layersAt(manager, wanted, revision)
          : await currentLayers(manager, wanted);
        const { layers, withheld } =
          isPast && !withWithdrawn
            ? await shownNow(manager, stored, revision)
            : { layers: stored, withheld: false };
        const isPurged = isPast && (await isPurgedAt(manager, revision));
        const { entries, types, ...others } = layers;
        return {
          revision,
          newest,
          tenant_revision: tenantRevision,
          withheld: withheld || isPurged,
          ...others,
          rollouts: [...others.rollouts],
          entries: entries.map(described),
          service_types: byType(types),
        };
      }),
  }) satisfies Handlers;
