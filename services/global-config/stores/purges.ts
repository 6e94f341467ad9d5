/**
 * Purges: past values of a document that a platform admin took out of the history. The rows stay,
 * with who, when and why; their documents are gone. One row of `purges` for each document says of
 * which revisions they are.
 */
import type { EntityManager } from 'typeorm';
import { StrataError } from '../../../shared/errors.ts';
import type { HistoryRow } from '../schema.ts';

type Name = Pick<HistoryRow, 'config_type' | 'resource_id'>;

interface PurgeRow extends Name {
  /** The first revision whose document is gone. */
  readonly since: number;
  /** The first whose document is left; what it replaced is gone. */
  readonly below: number;
  readonly purged_by: string;
  readonly purged_at: Date;
  readonly reason: string;
}

const purgesOf = (manager: EntityManager, names: readonly Name[]): Promise<PurgeRow[]> =>
  manager.query<PurgeRow[]>(
    `SELECT p.* FROM global_config.purges p
     JOIN json_to_recordset($1) AS n (config_type text, resource_id text) USING (config_type, resource_id)`,
    [JSON.stringify([...new Map(names.map((name) => [nameIn(name), name])).values()])],
  );
const nameIn = ({ config_type: type, resource_id: id }: Name): string => `${type} ${id}`;

/** Entries with what was purged of them. */
export async function withPurges<Entry extends Name & { readonly revision: number }>(
  manager: EntityManager,
  entries: readonly Entry[],
) {
  const names = entries.map(({ config_type, resource_id }) => ({ config_type, resource_id }));
  const purges = new Map((await purgesOf(manager, names)).map((row) => [nameIn(row), row]));
  return entries.map((entry) => {
    const purge = purges.get(nameIn(entry));
    if (!purge || entry.revision > purge.below) return entry;
    const { purged_by: by, purged_at: at, reason } = purge;
    return { ...entry, purged: { by, at: at.toISOString(), reason } };
  });
}

/** Whether a document that stood at this revision was purged. */
export async function isPurgedAt(manager: EntityManager, revision: number): Promise<boolean> {
  const [found] = await manager.query<unknown[]>(
    'SELECT FROM global_config.purges WHERE since <= $1 AND below > $1 LIMIT 1',
    [revision],
  );
  return found !== undefined;
}

/** Throws 409 where that side of an entry was purged, so that nobody takes it for a deletion. */
export async function refusePurged(
  manager: EntityManager,
  {
    config_type,
    resource_id,
    revision,
    action,
  }: Pick<HistoryRow, keyof Name | 'revision' | 'action'>,
  side: 'before' | 'after',
): Promise<void> {
  if (action === 'purge')
    throw new StrataError('conflict', 'A purge cannot be taken back: the values are gone.');
  const [purge] = await purgesOf(manager, [{ config_type, resource_id }]);
  if (!purge || (side === 'after' ? revision >= purge.below : revision > purge.below)) return;
  throw new StrataError(
    'conflict',
    `What ${resource_id} was then was purged from the history at ${purge.purged_at.toISOString()}: ${purge.reason}`,
  );
}

interface Known {
  /** The revision that left the document of now behind, or its absence. */
  readonly below: number;
  readonly since: number;
  /** Whether the history has a document that is not that of now. */
  readonly has_other: boolean;
  /** Whether the value of now is one of the past, too. */
  readonly still_in_force: boolean;
}

/**
 * What the history knows of a name; undefined where nothing. That an entry was made private changes
 * what it is shown to, not what it is.
 */
async function knownOf(
  manager: EntityManager,
  { config_type: type, resource_id: id }: Name,
): Promise<Known | undefined> {
  const valueIn = type === 'global_config' ? "->'config_value'" : '';
  const [known] = await manager.query<Known[]>(
    `WITH entries AS (
       SELECT revision, before::jsonb, after::jsonb FROM global_config.configuration_history
       WHERE config_type = $1 AND resource_id = $2 AND action <> 'purge'
     ), known AS (
       SELECT revision, after AS document FROM entries
       UNION ALL
       SELECT revision, document::jsonb FROM global_config.history_baseline
       WHERE config_type = $1 AND resource_id = $2
     ), now AS (
       SELECT revision AS below, document FROM known ORDER BY revision DESC LIMIT 1
     ), past AS (
       SELECT known.document FROM known JOIN now ON revision < below
       UNION ALL
       SELECT before FROM entries
     )
     SELECT below, (SELECT min(revision) FROM known) AS since,
       EXISTS (SELECT FROM past WHERE past.document - 'is_public' IS DISTINCT FROM now.document - 'is_public'
         AND past.document IS NOT NULL) AS has_other,
       EXISTS (SELECT FROM past WHERE (past.document${valueIn}) = (now.document${valueIn})) AS still_in_force
     FROM now`,
    [type, id],
  );
  return known;
}

/**
 * Removes all documents of the name but the one of now from the history. Returns from how many
 * entries. Throws 404 where the history knows no such document, 409 where it has no value but that
 * of now; unless the values were elsewhere, which a rollout that was reverted proposed.
 */
export async function purgePast(
  manager: EntityManager,
  name: Name,
  by: Pick<PurgeRow, 'purged_by' | 'purged_at' | 'reason'>,
  isElsewhere: boolean,
): Promise<Pick<Known, 'below' | 'still_in_force'> & { readonly entries: number }> {
  const { config_type: type, resource_id: id } = name;
  const known = await knownOf(manager, name);
  if (!known && !isElsewhere)
    throw new StrataError('not_found', 'The history knows no such document.');
  if (!known?.has_other && isElsewhere)
    return { entries: 0, below: known?.below ?? 0, still_in_force: false };
  const { below, since, has_other: hasOther, still_in_force } = known!;
  if (!hasOther)
    throw new StrataError(
      'conflict',
      'The history has no value but the one that the document holds now. Change or delete that first.',
    );
  const [, entries] = await manager.query<[unknown[], number]>(
    `UPDATE global_config.configuration_history
     SET before = NULL, after = CASE WHEN revision = $3 THEN after END
     WHERE config_type = $1 AND resource_id = $2 AND revision <= $3
       AND (before IS NOT NULL OR (after IS NOT NULL AND revision < $3))`,
    [type, id, below],
  );
  const [, baseline] = await manager.query<[unknown[], number]>(
    'DELETE FROM global_config.history_baseline WHERE config_type = $1 AND resource_id = $2 AND revision < $3',
    [type, id, below],
  );
  await manager.query(
    `INSERT INTO global_config.purges AS p (config_type, resource_id, since, below, purged_by, purged_at, reason)
     VALUES ($1, $2, $3, $4, $5, $6, $7)
     ON CONFLICT (config_type, resource_id) DO UPDATE SET
       (since, below, purged_by, purged_at, reason)
       = ROW (least(p.since, excluded.since), excluded.below, excluded.purged_by, excluded.purged_at, excluded.reason)`,
    [type, id, since, below, by.purged_by, by.purged_at, by.reason],
  );
  return { entries: entries + baseline, below, still_in_force };
}

/**
 * Change sets have documents as they were and were to be, so those of this document go. Returns how
 * many.
 */
export async function purgeChangeSets(manager: EntityManager, path: string): Promise<number> {
  const [, removed] = await manager.query<[unknown[], number]>(
    `DELETE FROM global_config.change_sets
     WHERE EXISTS (SELECT FROM json_array_elements(content->'items') item WHERE item->>'path' = $1)`,
    [path],
  );
  return removed;
}

/**
 * Rollouts that ended have the document as it was and was to be, so what the history has of them
 * goes. Returns which, for the audit, which has them too. Throws 409 where one of them is open.
 */
export async function purgeRollouts(
  manager: EntityManager,
  { config_type: type, resource_id: id }: Name,
  by: Pick<PurgeRow, 'purged_by' | 'purged_at' | 'reason'>,
): Promise<Pick<PurgeRow, 'resource_id' | 'below'>[]> {
  const hasIt = (document: string): string =>
    `EXISTS (SELECT FROM json_array_elements(${document}->'items') item
       WHERE item->>'config_type' = $1 AND item->>'resource_id' = $2)`;
  const [open] = await manager.query<{ id: string }[]>(
    `SELECT id FROM global_config.rollouts
     WHERE state IN ('planned', 'running', 'held') AND ${hasIt('document')}`,
    [type, id],
  );
  if (open)
    throw new StrataError(
      'conflict',
      `The rollout ${open.id} has it. Complete or revert it first.`,
    );
  await manager.query(`DELETE FROM global_config.rollouts WHERE ${hasIt('document')}`, [type, id]);
  const gone = await manager.query<Pick<PurgeRow, 'resource_id' | 'below'>[]>(
    `WITH gone AS (
       UPDATE global_config.configuration_history SET before = NULL, after = NULL
       WHERE config_type = 'rollout_config' AND (${hasIt('before')} OR ${hasIt('after')})
       RETURNING resource_id, revision
     )
     INSERT INTO global_config.purges AS p (config_type, resource_id, since, below, purged_by, purged_at, reason)
     SELECT 'rollout_config', resource_id, min(revision), max(revision) + 1, $3, $4, $5 FROM gone GROUP BY resource_id
     ON CONFLICT (config_type, resource_id) DO UPDATE SET below = greatest(p.below, excluded.below)
     RETURNING resource_id, below`,
    [type, id, by.purged_by, by.purged_at, by.reason],
  );
  await manager.query(
    `DELETE FROM global_config.history_baseline WHERE config_type = 'rollout_config' AND ${hasIt('document')}`,
    [type, id],
  );
  return gone;
}
