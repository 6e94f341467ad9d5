/** Pages of lists. A page ends with a cursor, the sort key of its last item in base64url, opaque to clients. */
import { defaultPageSize } from '../contracts/contract.ts';
import { invalid } from '../errors.ts';
import { momentOf } from '../schema/moment.ts';

export const defaultLimit = defaultPageSize;

const encodeCursor = (key: string | number): string =>
  Buffer.from(String(key)).toString('base64url');

const uuid = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}';
const timestamp = '\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z';

/** The sort keys that lists have. A key that begins with a timestamp has it before the first space. */
const keyForms = {
  text: /^[^\0]*$/,
  id: new RegExp(`^${uuid}$`),
  number: /^[0-9]{1,15}$/,
  time: new RegExp(`^${timestamp} ${uuid}$`),
  chain: new RegExp(`^${timestamp} (?:platform|${uuid}) [0-9]{1,15}$`),
};
type KeyForm = keyof typeof keyForms;

function isKey(key: string, form: KeyForm): boolean {
  if (!keyForms[form].test(key)) return false;
  if (form !== 'time' && form !== 'chain') return true;
  const [time = ''] = key.split(' ');
  return momentOf(time)?.toJSON() === time;
}

/** The sort key behind a cursor; undefined for the first page. Throws 422 for a cursor that no list of this form has given. */
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

/** For a list that is sorted by a number. */
export function decodeNumberCursor(cursor: string | undefined): number | undefined {
  const key = decodeCursor(cursor, 'number');
  return key === undefined ? undefined : Number(key);
}

/** For a list that is sorted by time and id. */
export function decodeTimeCursor(
  cursor: string | undefined,
): { readonly time: string; readonly id: string } | undefined {
  const [time, id] = decodeCursor(cursor, 'time')?.split(' ') ?? [];
  return time === undefined || id === undefined ? undefined : { time, id };
}

/** A page from `limit + 1` rows: the last, where it is there, says only that there is another page. */
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
