/** Actions on global entries. */
import type { DataSource } from 'typeorm';
import type { Handlers, Request } from '../../../shared/contract-runtime/request.ts';
import { namesIn, platformRealm } from '../../../shared/commits/actor-names.ts';
import type {
  GlobalEntry,
  GlobalEntryAddress,
  StoredGlobalEntry,
} from '../../../shared/contracts/global-entries.ts';
import type { Stored } from '../../../shared/documents/document-kind.ts';
import type { WrittenDocument } from '../../../shared/documents/document.ts';
import { decodeCursor, defaultLimit, readPage } from '../../../shared/documents/paging.ts';
import { storedEntry } from '../documents/global-entry.ts';
import type { PlatformDocuments } from '../documents/platform-documents.ts';
import { GlobalEntity } from '../schema.ts';
import type { Planner } from './plan.ts';

type Described<T> = Omit<T, 'document'> & { document: GlobalEntry };

/** A reader of an entry finds its revision, author and time in the body too. */
export function described<T extends Stored<StoredGlobalEntry>>(stored: T): Described<T> {
  const { revision, updated_by, updated_by_name, updated_at } = stored;
  const written = {
    revision,
    updated_by,
    ...(updated_by_name !== undefined && { updated_by_name }),
    updated_at,
  };
  return { ...stored, document: { ...stored.document, ...written } };
}

function describedWrite(written: WrittenDocument<StoredGlobalEntry>): WrittenDocument<GlobalEntry> {
  if ('dry_run' in written) return written;
  const { document } = written;
  return document === null ? { ...written, document } : described({ ...written, document });
}

/** The request of a write whose answer is described before it is judged. */
const describing = (request: Request): Request => ({
  ...request,
  checkAnswer: (answer) =>
    request.checkAnswer(describedWrite(answer as WrittenDocument<StoredGlobalEntry>)),
});

/** A write of an entry that is answered as entries are read. */
export const writing =
  <Params, Others extends unknown[]>(
    write: (
      params: Params,
      request: Request,
      ...others: Others
    ) => Promise<WrittenDocument<StoredGlobalEntry>>,
  ) =>
  async (
    params: Params,
    request: Request,
    ...others: Others
  ): Promise<WrittenDocument<GlobalEntry>> =>
    describedWrite(await write(params, describing(request), ...others));

export function entryActions(
  db: DataSource,
  { entries }: Pick<PlatformDocuments, 'entries'>,
  planner: Planner,
) {
  return {
    ...planner.handlersOf('entries', {
      async get(address: GlobalEntryAddress) {
        const { value, asOf } = await entries.get(address);
        return { value: value && described(value), asOf };
      },
      put: writing(entries.put),
      patch: writing(entries.patch),
      delete: writing(entries.delete),
    }),

    async 'global-config.entries.list'({ limit = defaultLimit, cursor }) {
      const rowsAfter = (key: string | undefined) => {
        const query = db.manager.createQueryBuilder(GlobalEntity, 'g');
        if (key !== undefined) query.where('g.config_key > :key', { key });
        return query.orderBy('g.config_key', 'ASC');
      };
      const page = await readPage({
        limit,
        after: decodeCursor(cursor),
        rowsAfter,
        keyOf: (row) => row.config_key,
        itemOf: (row) => described(storedEntry(row)).document,
      });
      const authors = page.items.map(({ updated_by: id }) => id);
      const names = await namesIn(db.manager, platformRealm, authors);
      const items = page.items.map((item) => ({
        ...item,
        updated_by_name: names.of(item.updated_by),
      }));
      return { ...page, items };
    },
  } satisfies Handlers;
}
