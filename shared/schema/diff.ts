import { isDeepStrictEqual } from 'node:util';

/** One difference; a side that does not exist is left out. `path` is a JSON Pointer (RFC 6901). */
export interface Difference {
  readonly path: string;
  readonly before?: unknown;
  readonly after?: unknown;
}

const isPlain = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
export const pointerPart = (name: string): string =>
  name.replaceAll('~', '~0').replaceAll('/', '~1');

/** The smallest differing members: descends into objects on both sides, takes arrays as a whole. `undefined` is no document. */
export function diff(before: unknown, after: unknown, path = ''): Difference[] {
  if (isDeepStrictEqual(before, after)) return [];
  if (isPlain(before) || isPlain(after)) {
    const left = isPlain(before) ? before : before === undefined ? {} : undefined;
    const right = isPlain(after) ? after : after === undefined ? {} : undefined;
    if (left && right && (path === '' || (isPlain(before) && isPlain(after)))) {
      const names = new Set([...Object.keys(left), ...Object.keys(right)]);
      return [...names].flatMap((name) =>
        diff(own(left, name), own(right, name), `${path}/${pointerPart(name)}`),
      );
    }
  }
  return [
    {
      path,
      ...(before === undefined ? {} : { before }),
      ...(after === undefined ? {} : { after }),
    },
  ];
}

const own = (value: Record<string, unknown>, name: string): unknown =>
  Object.hasOwn(value, name) ? value[name] : undefined;
