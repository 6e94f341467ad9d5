/**
 * Pages of lists. A page ends with a cursor, the sort key of its last item in base64url, opaque to
 * clients; it ends by count, and where items are large by bytes.
 */
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import type { Static, TSchema } from 'typebox';
import {
  MoreThan,
  type DataSource,
  type EntityManager,
  type EntitySchema,
  type FindOptionsOrder,
  type FindOptionsWhere,
  type ObjectLiteral,
  type SelectQueryBuilder,
} from 'typeorm';
import { defaultPageSize } from '../contracts/envelopes.ts';
import { invalid } from '../errors.ts';
import { momentOf } from '../schema/moment.ts';
import { uuid } from '../schema/uuid.ts';
import { problemsOf } from '../schema/validate.ts';

export const defaultLimit = defaultPageSize;

export const encodeCursor = (key: string | number): string =>
  Buffer.from(String(key)).toString('base64url');

const timestamp = '\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z';

/**
 * The sort keys that lists have. A key that begins with a timestamp has it before the first space.
 */
const keyForms = {
  text: /^[^\0]*$/,
  id: new RegExp(`^${uuid}$`),
  number: /^[0-9]{1,15}$/,
  time: new RegExp(`^${timestamp} ${uuid}$`),
  chain: new RegExp(`^${timestamp} (?:platform|${uuid}) [0-9]{1,15}$`),
  usage: new RegExp(`^[a-z_]{1,40} ${uuid}$`),
  link: new RegExp(`^(?:whole|broken) (?:platform|${uuid}) [0-9]{1,15} [0-9a-f]{64}$`),
};
type KeyForm = keyof typeof keyForms;

function isKey(key: string, form: KeyForm): boolean {
  if (!keyForms[form].test(key)) return false;
  if (form !== 'time' && form !== 'chain') return true;
  const [time = ''] = key.split(' ');
  return momentOf(time)?.toJSON() === time;
}

/**
 * The sort key behind a cursor; undefined for the first page. Throws 422 for a cursor that no list
 * of this form has given.
 */
export function decodeCursor(
  cursor: string | undefined,
  form: KeyForm = 'text',
): string | undefined {
  if (cursor === undefined) return undefined;
  const key = Buffer.from(cursor, 'base64url').toString();
  if (encodeCursor(key) !== cursor || !isKey(key, form))
    throw invalid([{ path: '/cursor', message: 'is not a next_cursor of this list' }]);
  return key;
}

/** Cursors that carry what was found so far, as deflated JSON of a schema. */
export const positionCursors = <Schema extends TSchema>(schema: Schema, mostBytes: number) => ({
  encode: (position: Static<Schema>): string =>
    deflateRawSync(JSON.stringify(position)).toString('base64url'),
  /** Undefined for what is no such cursor. */
  decode(cursor: string): Static<Schema> | undefined {
    try {
      const bytes = Buffer.from(cursor, 'base64url');
      const text = inflateRawSync(bytes, { maxOutputLength: mostBytes });
      const position: unknown = JSON.parse(text.toString());
      return problemsOf(schema, position).length === 0 ? (position as Static<Schema>) : undefined;
    } catch {
      return undefined;
    }
  },
});

/** The time and the id in a sort key of the form `time`. */
export function timeAndId(key: string): { readonly time: string; readonly id: string } {
  const [time = '', id = ''] = key.split(' ');
  return { time, id };
}

/** Bytes of JSON after which a page ends, unless its first item alone has more. */
const maxPageBytes = 2 * 1024 * 1024;
/** Bytes of rows that are in memory at the same time, unless one alone has more. */
const maxStepBytes = 2 * 1024 * 1024;
/** Bytes of rows that are read for one page, however small the items are that become of them. */
const maxReadBytes = 16 * 1024 * 1024;

export interface ListOf<Row extends ObjectLiteral, Item> {
  /** At most so many items. */
  readonly limit: number;
  /** The sort key after which the page begins; undefined for the first page. */
  readonly after: string | undefined;
  /** The rows after a sort key, in the order of the list. The query's alias stands for its rows. */
  readonly rowsAfter: (key: string | undefined) => SelectQueryBuilder<Row>;
  readonly keyOf: (row: Row) => string | number;
  readonly itemOf: (row: Row) => Item;
}

/**
 * A page of a list whose rows may be large. The database is asked for their sizes first, so that
 * never more is loaded than a step has room for. A page of small rows is one step.
 */
export async function readPage<Row extends ObjectLiteral, Item>({
  limit,
  after,
  rowsAfter,
  keyOf,
  itemOf,
}: ListOf<Row, Item>): Promise<{ items: Item[]; next_cursor: string | null }> {
  const sizes = await sizesOf(rowsAfter(after), limit + 1);
  const steps = stepsOf(sizes.slice(0, limit));
  const items: Item[] = [];
  let last = after;
  let bytes = 0;
  let seen = 0;
  for (const count of steps) {
    const rows = await rowsAfter(last).limit(count).getMany();
    for (const row of rows) {
      const item = itemOf(row);
      bytes += Buffer.byteLength(JSON.stringify(item));
      if (items.length > 0 && bytes > maxPageBytes)
        return { items, next_cursor: encodeCursor(last!) };
      items.push(item);
      last = String(keyOf(row));
    }
    seen += count;
  }
  const isEnd = seen >= sizes.length || last === undefined;
  return { items, next_cursor: isEnd ? null : encodeCursor(last!) };
}

/** What is asked for of a list. */
interface PageParams {
  readonly limit?: number;
  readonly cursor?: string;
}

/**
 * A page of the rows whose columns are as asked for, whatever their size, those made last first.
 * `narrow` may leave out more of the rows `a`.
 */
export function newestFirst<Row extends { readonly id: string; readonly created_at: Date }, Item>(
  { manager }: Pick<DataSource, 'manager'>,
  entity: EntitySchema<Row>,
  { limit = defaultLimit, cursor, ...asked }: PageParams & Partial<NoInfer<Row>>,
  itemOf: (row: Row) => Item,
  narrow: (query: SelectQueryBuilder<Row>) => unknown = () => undefined,
) {
  const rowsAfter = (key: string | undefined): SelectQueryBuilder<Row> => {
    const rows = manager.createQueryBuilder(entity, 'a');
    for (const [name, value] of Object.entries(asked)) {
      if (value === null) rows.andWhere(`a.${name} IS NULL`);
      else if (value !== undefined) rows.andWhere(`a.${name} = :${name}`, { [name]: value });
    }
    narrow(rows);
    if (key !== undefined)
      rows.andWhere('(a.created_at, a.id) < (:time::timestamptz, :id)', timeAndId(key));
    return rows.orderBy({ 'a.created_at': 'DESC', 'a.id': 'DESC' });
  };
  return readPage({
    limit,
    after: decodeCursor(cursor, 'time'),
    rowsAfter,
    keyOf: (row) => `${row.created_at.toISOString()} ${row.id}`,
    itemOf,
  });
}

/**
 * The sizes of what the query selects of its first rows, in bytes of text, which is more than they
 * have as JSON.
 */
async function sizesOf<Row extends ObjectLiteral>(
  query: SelectQueryBuilder<Row>,
  count: number,
): Promise<number[]> {
  const selected = query.expressionMap.selects.map(({ selection }) => selection);
  const isWhole = selected.length === 1;
  const row = isWhole ? query.alias : `ROW(${selected.join(', ')})`;
  const rows = await query
    .select(`octet_length(CAST(${row} AS text))`, 'bytes')
    .limit(count)
    .getRawMany<{ bytes: number }>();
  return rows.map(({ bytes }) => bytes);
}

/** How many rows to load at a time, until a page has read enough. */
function stepsOf(sizes: readonly number[]): number[] {
  const steps: number[] = [];
  let stepBytes = Infinity;
  let readBytes = 0;
  for (const size of sizes) {
    if (readBytes > 0 && readBytes + size > maxReadBytes) return steps;
    if (stepBytes + size > maxStepBytes) {
      steps.push(0);
      stepBytes = 0;
    }
    steps[steps.length - 1]! += 1;
    stepBytes += size;
    readBytes += size;
  }
  return steps;
}

/**
 * A page from `limit + 1` rows, which are small: the last, where it is there, says only that there
 * is another page.
 */
export function pageOf<Row, Item>(
  rows: readonly Row[],
  limit: number,
  keyOf: (row: Row) => string | number,
  itemOf: (row: Row) => Item,
): { items: Item[]; next_cursor: string | null } {
  const shown = rows.slice(0, limit);
  const last = rows.length > limit ? shown.at(-1) : undefined;
  return {
    items: shown.map(itemOf),
    next_cursor: last === undefined ? null : encodeCursor(keyOf(last)),
  };
}

/** A page of the rows that match, which are small, in the order of their ids. */
export async function pageById<Row extends { readonly id: string }, Item>(
  manager: EntityManager,
  entity: EntitySchema<Row>,
  matching: FindOptionsWhere<Row>,
  { limit = defaultLimit, cursor }: PageParams,
  itemOf: (row: Row) => Item,
) {
  const after = decodeCursor(cursor, 'id');
  const where = { ...matching, ...(after !== undefined && { id: MoreThan(after) }) };
  const order = { id: 'ASC' } as FindOptionsOrder<Row>;
  const rows = await manager.find(entity, { where, order, take: limit + 1 });
  return pageOf(rows, limit, ({ id }) => id, itemOf);
}
