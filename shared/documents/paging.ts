import { invalid } from '../errors.ts';
import { momentOf } from '../schema/moment.ts';

/** A cursor is the sort key of the last item, opaque to clients. */
export const encodeCursor = (key: string | number): string =>
  Buffer.from(String(key)).toString('base64url');

const uuid = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}';
const millisecond = '\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z';
const forms = {
  text: /^[^\0]*$/,
  id: new RegExp(`^${uuid}$`),
  number: /^[0-9]{1,15}$/,
  time: new RegExp(`^${millisecond} ${uuid}$`),
  chain: new RegExp(`^${millisecond} (?:platform|${uuid}) [0-9]{1,15}$`),
};

/** The sort key behind a cursor; throws 422 for one that no list of this form has given. */
export function decodeCursor(
  cursor: string | undefined,
  form: keyof typeof forms = 'text',
): string | undefined {
  if (cursor === undefined) return undefined;
  const key = Buffer.from(cursor, 'base64url').toString();
  const [time] = form === 'time' || form === 'chain' ? key.split(' ') : [];
  if (
    encodeCursor(key) !== cursor ||
    !forms[form].test(key) ||
    (time !== undefined && momentOf(time)?.toJSON() !== time)
  ) {
    throw invalid([{ path: '/cursor', message: 'is not a next_cursor of this list' }]);
  }
  return key;
}
export function decodeNumberCursor(cursor: string | undefined): number | undefined {
  const key = decodeCursor(cursor, 'number');
  return key === undefined ? undefined : Number(key);
}

/** Of a list that is sorted by time and id. */
export function decodeTimeCursor(
  cursor: string | undefined,
): { readonly time: string; readonly id: string } | undefined {
  const [time, id] = decodeCursor(cursor, 'time')?.split(' ') ?? [];
  return time === undefined || id === undefined ? undefined : { time, id };
}

/** A page from `limit + 1` rows. */
export function pageOf<Row, Item>(
  rows: readonly Row[],
  limit: number,
  key: (row: Row) => string | number,
  item: (row: Row) => Item,
) {
  const shown = rows.slice(0, limit);
  return {
    items: shown.map(item),
    next_cursor: rows.length > limit ? encodeCursor(key(shown.at(-1)!)) : null,
  };
}

export const defaultLimit = 50;
