/** Rollouts as their rows, and what readers of layers are given of them. */
import { In, type EntityManager } from 'typeorm';
import type { RolloutInLayers } from '../../../shared/contracts/rollout-sides.ts';
import type { RolloutState, StoredRollout } from '../../../shared/contracts/rollouts.ts';
import type { DocumentKind, Stored } from '../../../shared/documents/document-kind.ts';
import { StrataError } from '../../../shared/errors.ts';
import { cohortOf } from '../../../shared/rollouts/side.ts';
import { storedRollout } from '../documents/rollout.ts';
import { RolloutEntity, type RolloutRow } from '../schema.ts';

/** In these some tenants have its candidates. */
const underWay: readonly RolloutState[] = ['running', 'held'];
/** In these it may come to that. */
const open: readonly RolloutState[] = ['planned', ...underWay];

const inStates = (manager: EntityManager, states: readonly RolloutState[]): Promise<RolloutRow[]> =>
  manager.find(RolloutEntity, { where: { state: In([...states]) }, order: { created_at: 'ASC' } });

export async function rolloutsUnderWay(manager: EntityManager): Promise<RolloutInLayers[]> {
  const rows = await inStates(manager, underWay);
  return rows.map((row) => inLayers(storedRollout(row)));
}

/** In SQL, of a `document` of the history. */
export const isUnderWay = `document->>'state' IN (${underWay.map((state) => `'${state}'`).join(', ')})`;

export function inLayers({
  document,
  revision,
  updated_by,
  updated_at,
}: Stored<StoredRollout>): RolloutInLayers {
  const stage = document.stage!;
  return {
    id: document.id,
    stage,
    ...cohortOf(document, stage),
    revision,
    updated_by,
    updated_at,
    items: document.items.map(({ config_type, resource_id, after }) => ({
      config_type,
      resource_id,
      document: after,
    })),
  };
}

/**
 * The keys of private entries that these rollouts made public, and a revert after a revision private
 * again. The history of the entries has nothing of that.
 */
export async function withdrawnByRevert(
  manager: EntityManager,
  rollouts: readonly RolloutInLayers[],
  revision: number,
): Promise<string[]> {
  if (rollouts.length === 0) return [];
  const rows = await manager.query<{ key: string }[]>(
    `SELECT item->>'resource_id' AS key FROM unnest($1::text[]) AS id CROSS JOIN LATERAL (
       SELECT after FROM global_config.configuration_history
       WHERE config_type = 'rollout_config' AND resource_id = id AND revision > $2
       ORDER BY revision DESC LIMIT 1
     ) AS last, json_array_elements(after->'items') AS item
     WHERE after->>'state' = 'reverted' AND item->>'config_type' = 'global_config'
       AND item->'before'->>'is_public' = 'false'`,
    [rollouts.map(({ id }) => id), revision],
  );
  return rows.map(({ key }) => key);
}

type Named = { readonly config_type: string; readonly resource_id: string };
const isSame = (one: Named, other: Named): boolean =>
  one.config_type === other.config_type && one.resource_id === other.resource_id;

/** Throws 409 where another rollout is to write one of these, or does so. Under the platform's lock. */
export async function requireNoOther(
  manager: EntityManager,
  id: string,
  items: readonly Named[],
): Promise<void> {
  const others = (await inStates(manager, open)).filter((row) => row.id !== id);
  for (const other of others) {
    const both = items.find((item) => other.document.items.some((each) => isSame(each, item)));
    if (both)
      throw new StrataError(
        'conflict',
        `${both.resource_id} is rolled out by ${other.id}, which is ${other.document.state}. Complete or revert that first.`,
      );
  }
}

/** Every reader of layers has the candidates of all of them. */
const mostOpen = 10;

/** Throws 422 where no more may be planned. Under the platform's lock. */
export async function requireRoom(manager: EntityManager): Promise<void> {
  if ((await inStates(manager, open)).length < mostOpen) return;
  throw new StrataError(
    'quota_exceeded',
    `There are ${mostOpen} open rollouts, as many as there may be.`,
  );
}

const mostEnded = 1000;

/** The oldest ones that ended go; the history has them still. */
export const removeOldest = (manager: EntityManager): Promise<unknown> =>
  manager.query(
    `DELETE FROM global_config.rollouts WHERE id IN (
       SELECT id FROM global_config.rollouts WHERE state <> ALL ($1)
       ORDER BY created_at DESC OFFSET ${mostEnded})`,
    [open],
  );

/**
 * The kind of a layer, whose documents are written by nobody else while a rollout of them is under
 * way: otherwise a tenant would have neither side, and a revert something else to go back to.
 */
export const heldByRollouts = <Address, Document, Context>(
  kind: DocumentKind<Address, Document, Context>,
): DocumentKind<Address, Document, Context> => ({
  ...kind,
  async checkInTransaction(manager, address, next, current, context) {
    const name = { config_type: kind.configType, resource_id: kind.resourceId(address) };
    const holding = (await inStates(manager, underWay)).find(({ document }) =>
      document.items.some((item) => isSame(item, name)),
    );
    if (holding)
      throw new StrataError(
        'conflict',
        `${name.resource_id} is rolled out by ${holding.id}, which is ${holding.state}. Advance or revert that first.`,
      );
    return (await kind.checkInTransaction?.(manager, address, next, current, context)) ?? [];
  },
});
