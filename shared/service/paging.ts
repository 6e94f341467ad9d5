import { invalid } from '../errors.ts';

/** A cursor is the sort key of the last item, opaque to clients. */
export const encodeCursor = (key: string | number): string => Buffer.from(String(key)).toString('base64url');

export function decodeCursor(cursor: string | undefined): string | undefined {
  if (cursor === undefined) return undefined;
  const key = Buffer.from(cursor, 'base64url').toString();
  if (encodeCursor(key) !== cursor || key.includes('\0')) throw invalid([{ path: '/cursor', message: 'is not a next_cursor of this list' }]);
  return key;
}
export function decodeNumberCursor(cursor: string | undefined): number | undefined {
  const key = decodeCursor(cursor);
  if (key === undefined) return undefined;
  if (!/^[0-9]{1,15}$/.test(key)) throw invalid([{ path: '/cursor', message: 'is not a next_cursor of this list' }]);
  return Number(key);
}

/** Of a list that is sorted by time and id. */
export function decodeTimeCursor(cursor: string | undefined): { readonly time: string; readonly id: string } | undefined {
  const key = decodeCursor(cursor);
  if (key === undefined) return undefined;
  const [, time, id] = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) ([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/.exec(key) ?? [];
  if (time === undefined || id === undefined || new Date(time).toJSON() !== time) throw invalid([{ path: '/cursor', message: 'is not a next_cursor of this list' }]);
  return { time, id };
}

/** A page from `limit + 1` rows. */
export function pageOf<Row, Item>(rows: readonly Row[], limit: number, key: (row: Row) => string | number, item: (row: Row) => Item) {
  const shown = rows.slice(0, limit);
  return { items: shown.map(item), next_cursor: rows.length > limit ? encodeCursor(key(shown.at(-1)!)) : null };
}

export const defaultLimit = 50;
