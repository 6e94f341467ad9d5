/**
 * ConfigurationHistory: one row for each write of a document, of the tenants' and of the platform's
 * alike. What a row has, how a write becomes one, and what readers are shown of it.
 */
import type { EntityManager, SelectQueryBuilder } from 'typeorm';
import type { Request } from '../contract-runtime/request.ts';
import { idsByAddress, namesIn, type Realm } from '../commits/actor-names.ts';
import type { WriteAction } from '../contracts/history.ts';
import {
  flag,
  int8,
  json,
  nullable,
  primary,
  text,
  textOf,
  time,
  uuid,
  type RowWith,
} from '../database/table.ts';
import { invalid } from '../errors.ts';
import { diff } from '../schema/diff.ts';
import { momentOf } from '../schema/moment.ts';
import { concealSecrets } from '../security/document-secrets.ts';
import type { Stored, WriteRecord } from './document-kind.ts';
import { decodeCursor, defaultLimit, readPage } from './paging.ts';

/**
 * The columns but for those that say whose history it is. `before` and `after` are null where there
 * was no document.
 */
export const historyColumns = <ConfigType extends string>() => ({
  revision: primary(int8),
  config_type: textOf<ConfigType>(),
  resource_id: text,
  action: textOf<WriteAction>(),
  changed_by: text,
  changed_at: time,
  reason: nullable(text),
  request_id: nullable(text),
  before: nullable(json()),
  after: nullable(json()),
  /** The change set that it was a part of; null for a write by itself. */
  changeset_id: nullable(uuid),
  /** Whether it was written without the approvals that it needed. */
  break_glass: { ...flag, default: false },
});
export type HistoryRow<ConfigType extends string> = RowWith<
  ReturnType<typeof historyColumns<ConfigType>>
>;

/** A document, as the history names it. */
export interface HistoryName<ConfigType extends string> {
  readonly configType: ConfigType;
  readonly resourceId: string;
}

/** The row of a write. */
export const historyRowOf = <ConfigType extends string>(
  { configType, resourceId }: HistoryName<ConfigType>,
  record: WriteRecord<unknown>,
  request: Pick<Request, 'caller' | 'requestId' | 'changeSet'>,
): HistoryRow<ConfigType> => ({
  revision: record.revision,
  config_type: configType,
  resource_id: resourceId,
  action: record.action,
  changed_by: request.caller.id,
  changed_at: new Date(record.at),
  reason: record.reason,
  request_id: request.requestId,
  before: record.before,
  after: record.after,
  changeset_id: request.changeSet?.id ?? null,
  break_glass: request.changeSet?.isEmergency === true,
});

type Left = Pick<HistoryRow<string>, 'after' | 'revision' | 'changed_by' | 'changed_at'>;

/**
 * The document after this entry of its history; null where the entry is its end. It passed its
 * kind's schema when it was written, so its type is taken on trust.
 */
export const leftBehind = <Document>(row: Left): Stored<Document> | null =>
  row.after === null
    ? null
    : {
        document: row.after as Document,
        revision: row.revision,
        updated_by: row.changed_by,
        updated_at: row.changed_at.toISOString(),
      };

type Summary<ConfigType extends string> = Omit<
  HistoryRow<ConfigType>,
  'reason' | 'request_id' | 'before' | 'after' | 'break_glass'
>;

/**
 * That something changed, to what and by whom; without the values, which readers of a stream need
 * not be allowed to see.
 */
export const historySummary = <ConfigType extends string>(row: Summary<ConfigType>) => ({
  revision: row.revision,
  config_type: row.config_type,
  resource_id: row.resource_id,
  action: row.action,
  changed_by: row.changed_by,
  changed_at: row.changed_at.toISOString(),
  ...(row.changeset_id !== null && { changeset_id: row.changeset_id }),
});

/** An item of the list. */
export const historyEntry = <ConfigType extends string>(row: HistoryRow<ConfigType>) => ({
  ...historySummary(row),
  reason: row.reason,
  request_id: row.request_id,
  ...(row.break_glass && { break_glass: true as const }),
  changes: diff(row.before ?? undefined, row.after ?? undefined).map((change) =>
    concealSecrets(change),
  ),
});

/** Which side of which entry a rollback restores. */
export interface TakeBack {
  readonly revision: number;
  readonly side: 'before' | 'after';
}

/** Throws 422 unless exactly one of both is given. */
export function takeBackOf({
  revision,
  undo,
}: {
  readonly revision?: number;
  readonly undo?: number;
}): TakeBack {
  if (revision !== undefined && undo !== undefined)
    throw invalid([
      { path: '/undo', message: 'is not for a body with revision: give one of them' },
    ]);
  if (undo !== undefined) return { revision: undo, side: 'before' };
  if (revision !== undefined) return { revision, side: 'after' };
  throw invalid([{ path: '/revision', message: 'is missing: give revision, or undo' }]);
}

/** One entry in full. */
export const historyDetail = <ConfigType extends string>(row: HistoryRow<ConfigType>) => ({
  ...historyEntry(row),
  before: concealSecrets(row.before),
  after: concealSecrets(row.after),
});

/** What a list of the history is asked for. */
export interface HistoryListParams<ConfigType extends string> {
  readonly config_type?: ConfigType;
  readonly resource_id?: string;
  /** An id, or an address. */
  readonly changed_by?: string;
  readonly since?: string;
  readonly until?: string;
  readonly limit?: number;
  readonly cursor?: string;
}

/**
 * A page of a history, the newest first. `rows` gives all rows of whose history it is, under the
 * alias `h`, for each step again.
 */
export async function historyPage<Row extends HistoryRow<string>>(
  manager: EntityManager,
  rows: () => SelectQueryBuilder<Row>,
  {
    config_type,
    resource_id,
    changed_by: author,
    since,
    until,
    limit = defaultLimit,
    cursor,
  }: HistoryListParams<Row['config_type']>,
  realm: Realm,
) {
  const ids = author?.includes('@') ? await idsByAddress(manager, realm, author) : [];
  const authors = author === undefined ? undefined : [author, ...ids];
  const rowsAfter = (key: string | undefined): SelectQueryBuilder<Row> => {
    const query = rows();
    if (config_type !== undefined) query.andWhere('h.config_type = :config_type', { config_type });
    if (resource_id !== undefined) query.andWhere('h.resource_id = :resource_id', { resource_id });
    if (authors) query.andWhere('h.changed_by = ANY (:authors)', { authors });
    if (since !== undefined) query.andWhere('h.changed_at >= :since', { since: momentOf(since)! });
    if (until !== undefined) query.andWhere('h.changed_at < :until', { until: momentOf(until)! });
    if (key !== undefined) query.andWhere('h.revision < :before', { before: Number(key) });
    return query.orderBy('h.revision', 'DESC');
  };
  const page = await readPage({
    limit,
    after: decodeCursor(cursor, 'number'),
    rowsAfter,
    keyOf: (row) => row.revision,
    itemOf: (row) => historyEntry<Row['config_type']>(row),
  });
  return { ...page, items: await withAuthors(manager, realm, page.items) };
}

/** Entries with what the realm calls their authors, asked for once. */
export async function withAuthors<Entry extends { readonly changed_by: string }>(
  manager: EntityManager,
  realm: Realm,
  entries: readonly Entry[],
): Promise<(Entry & { changed_by_name: string | null })[]> {
  const ids = entries.map(({ changed_by: id }) => id);
  const names = await namesIn(manager, realm, ids);
  return entries.map((entry) => ({ ...entry, changed_by_name: names.of(entry.changed_by) }));
}
