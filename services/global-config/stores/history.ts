/**
 * ConfigurationHistory of the platform: one row for each of its revisions since the history began,
 * over the baseline of what stood then. What was before that is in the audit only.
 */
import type { EntityManager } from 'typeorm';
import type { Request } from '../../../shared/contract-runtime/request.ts';
import type { PlatformConfigType } from '../../../shared/contracts/history.ts';
import { columnsOf } from '../../../shared/database/columns.ts';
import {
  storedFrom,
  type Stored,
  type WriteRecord,
} from '../../../shared/documents/document-kind.ts';
import {
  historyRowOf,
  type HistoryName,
  type TakeBack,
} from '../../../shared/documents/history.ts';
import {
  authorsOf,
  changesOfPlace,
  type KeyAuthor,
  type Place,
} from '../../../shared/documents/key-changes.ts';
import { StrataError } from '../../../shared/errors.ts';
import { HistoryEntity, type HistoryRow, type SingleRow } from '../schema.ts';
import { refusePurged } from './purges.ts';

export async function recordHistory(
  manager: EntityManager,
  name: HistoryName<PlatformConfigType>,
  record: WriteRecord<unknown>,
  request: Pick<Request, 'caller' | 'requestId' | 'changeSet'>,
): Promise<void> {
  await manager.insert(HistoryEntity, columnsOf<HistoryRow>(historyRowOf(name, record, request)));
}

/** From where on the history is whole. */
interface Beginning {
  readonly revision: number;
  readonly at: Date;
}

async function beginningOf(manager: EntityManager): Promise<Beginning> {
  const [row] = await manager.query<Beginning[]>(
    'SELECT revision, at FROM global_config.history_beginning',
  );
  return row!;
}

const beforeHistory = ({ revision, at }: Beginning): StrataError =>
  new StrataError(
    'before_history',
    `The platform's history is whole from revision ${revision} on, of ${at.toISOString()}. What was before is in the audit only.`,
  );

/**
 * Throws `before_history` where the revision may have been and is not known, 404 where there is
 * none.
 */
export async function findEntry(manager: EntityManager, revision: number): Promise<HistoryRow> {
  const row = await manager.findOneBy(HistoryEntity, { revision });
  if (row) return row;
  throw await unknownRevision(manager, revision);
}

/** Throws as `findEntry`, but for the revision with which the history begins, which the baseline has. */
export async function requireKnown(manager: EntityManager, revision: number): Promise<void> {
  const { revision: first } = await beginningOf(manager);
  if (revision !== first) await findEntry(manager, revision);
}

/** A document as it was, which is null where there was none. */
export interface Restored extends Pick<HistoryRow, 'config_type' | 'resource_id'> {
  readonly document: unknown;
}

/**
 * What a revision left behind, or found. As `findEntry`, and 409 where that was purged; it also
 * knows what the last write of a document left behind that was before the history began.
 */
export async function findRestored(
  manager: EntityManager,
  { revision, side }: TakeBack,
): Promise<Restored> {
  const entry = await manager.findOneBy(HistoryEntity, { revision });
  if (entry) {
    const { config_type, resource_id } = entry;
    await refusePurged(manager, entry, side);
    return { config_type, resource_id, document: entry[side] };
  }
  if (side === 'before') throw await unknownRevision(manager, revision);
  const [baseline] = await manager.query<Restored[]>(
    `SELECT config_type, resource_id, document FROM global_config.history_baseline WHERE revision = $1`,
    [revision],
  );
  if (baseline) return baseline;
  throw await unknownRevision(manager, revision);
}

/**
 * The platform's newest revision at a moment: times rise with revisions. Throws `before_history`
 * where that is not known.
 */
export async function revisionAt(manager: EntityManager, moment: Date): Promise<number> {
  const beginning = await beginningOf(manager);
  if (moment < beginning.at) throw beforeHistory(beginning);
  const [row] = await manager.query<{ revision: number }[]>(
    `SELECT revision FROM global_config.configuration_history WHERE changed_at <= $1
     ORDER BY changed_at DESC, revision DESC LIMIT 1`,
    [moment],
  );
  return row?.revision ?? beginning.revision;
}

/**
 * What all documents of a kind were at a revision that is not before the history: what the last
 * entry of each until then left behind, else the baseline. `holds` is a condition in SQL on
 * `document`.
 */
export async function documentsAt<Document>(
  manager: EntityManager,
  configType: PlatformConfigType,
  revision: number,
  holds = 'true',
): Promise<Stored<Document>[]> {
  const rows = await manager.query<Omit<SingleRow, 'id'>[]>(
    `WITH last AS (
       SELECT resource_id, max(revision) AS revision FROM global_config.configuration_history
       WHERE config_type = $1 AND revision <= $2 AND action <> 'purge'
         AND revision > (SELECT revision FROM global_config.history_beginning)
       GROUP BY resource_id
     )
     SELECT revision, updated_by, updated_at, document FROM (
       SELECT resource_id, revision, changed_by AS updated_by, changed_at AS updated_at, after AS document
       FROM global_config.configuration_history WHERE revision IN (SELECT revision FROM last)
       UNION ALL
       SELECT resource_id, revision, updated_by, updated_at, document
       FROM global_config.history_baseline
       WHERE config_type = $1 AND resource_id NOT IN (SELECT resource_id FROM last)
     ) AS left_behind WHERE document IS NOT NULL AND ${holds} ORDER BY resource_id`,
    [configType, revision],
  );
  return rows.map((row) => storedFrom<Document>(row));
}

/**
 * The keys of entries that were withdrawn after a revision: made private, or made again as private
 * ones. That one was deleted while it was public withdraws nothing: it decided values until then.
 */
export async function withdrawnSince(
  manager: EntityManager,
  revision: number,
): Promise<ReadonlySet<string>> {
  const rows = await manager.query<{ key: string }[]>(
    `SELECT DISTINCT resource_id AS key FROM global_config.configuration_history
     WHERE config_type = 'global_config' AND revision > $1 AND (after->>'is_public')::boolean = false`,
    [revision],
  );
  return new Set(rows.map(({ key }) => key));
}

async function unknownRevision(manager: EntityManager, revision: number): Promise<StrataError> {
  const beginning = await beginningOf(manager);
  if (revision <= beginning.revision) return beforeHistory(beginning);
  return new StrataError('not_found', 'The history has no such revision.');
}

/**
 * Who set what stood at these places of the platform's documents at a revision. Of what stood
 * before the history began it is known who wrote the document last.
 */
export const keyAuthors = (
  manager: EntityManager,
  places: readonly Place[],
  revision: number,
): Promise<(KeyAuthor | null)[]> =>
  authorsOf(
    manager,
    places,
    `(SELECT revision, changed_by, changed_at FROM ${changesOfPlace('global_config')}
       AND revision <= $4 AND revision > (SELECT revision FROM global_config.history_beginning)
       ORDER BY revision DESC LIMIT 1)
     UNION ALL
     SELECT revision, updated_by, updated_at FROM global_config.history_baseline
     WHERE config_type = p.config_type AND resource_id = p.resource_id`,
    [revision],
  );
