/**
 * How large a stored document may be. A body has the same bounds, but documents also grow by PATCH, and each is read, compared,
 * cached and kept in the history as a whole.
 */
import { StrataError } from '../errors.ts';
import { maxDepth, maxNames } from '../schema/exact-json.ts';

const maxMebibytes = 1;

/** Throws 413 for a document that is stored with more bytes of JSON, names or levels than that. */
export function refuseTooLarge(document: unknown): void {
  const limit = exceededLimit(document);
  if (limit !== undefined)
    throw new StrataError('payload_too_large', `The document would have more than ${limit}.`);
}

function exceededLimit(document: unknown): string | undefined {
  let names = 0;
  let level: readonly object[] = isContainer(document) ? [document] : [];
  for (let depth = 1; level.length > 0; depth += 1) {
    if (depth > maxDepth) return `${maxDepth} levels`;
    for (const container of level) {
      if (!Array.isArray(container)) names += Object.keys(container).length;
    }
    if (names > maxNames) return `${maxNames} names`;
    level = level.flatMap((container) => Object.values(container).filter(isContainer));
  }
  const bytes = Buffer.byteLength(JSON.stringify(document));
  return bytes > maxMebibytes * 1024 * 1024 ? `${maxMebibytes} MiB of JSON` : undefined;
}

const isContainer = (value: unknown): value is object =>
  typeof value === 'object' && value !== null;
