/**
 * How large a stored document may be. A body has the same bounds, but documents also grow by PATCH,
 * and each is read, compared, cached and kept in the history as a whole.
 */
import { StrataError } from '../errors.ts';
import { maxDepth, maxNames, maxValues } from '../schema/exact-json.ts';

const maxMebibytes = 1;

/**
 * The document's bytes of JSON. Throws 413 for one that is stored with more of them, of names or of
 * levels than that.
 */
export function sizeWithinLimits(document: unknown): number {
  let names = 0;
  let values = 0;
  let level: readonly object[] = isContainer(document) ? [document] : [];
  for (let depth = 1; level.length > 0; depth += 1) {
    if (depth > maxDepth) throw tooLarge(`${maxDepth} levels`);
    for (const container of level) {
      if (Array.isArray(container)) values += container.length;
      else names += Object.keys(container).length;
    }
    if (names > maxNames) throw tooLarge(`${maxNames} names`);
    if (values + names > maxValues) throw tooLarge(`${maxValues} values`);
    level = level.flatMap((container) =>
      // An array is not copied first: half a million numbers are in no way large.
      (Array.isArray(container) ? container : Object.values(container)).filter(isContainer),
    );
  }
  const bytes = Buffer.byteLength(JSON.stringify(document));
  if (bytes > maxMebibytes * 1024 * 1024) throw tooLarge(`${maxMebibytes} MiB of JSON`);
  return bytes;
}

const tooLarge = (limit: string): StrataError =>
  new StrataError('payload_too_large', `The document would have more than ${limit}.`);

const isContainer = (value: unknown): value is object =>
  typeof value === 'object' && value !== null;
