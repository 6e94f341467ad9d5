/**
 * RFC 9110, section 13: If-Match and If-None-Match against a resource whose entity tag is its
 * revision.
 */
import { StrataError } from '../errors.ts';
import type { Stored } from './document-kind.ts';

type Current = Omit<Stored<unknown>, 'document'>;

interface Preconditions {
  readonly if_match?: string;
  readonly if_none_match?: '*';
}

/**
 * A header that names an author for people: percent-encoded UTF-8, since names are not ASCII.
 * Absent where nobody knows it.
 */
export const authorName = (name: string | null | undefined): Record<string, string> =>
  name ? { 'x-updated-by-name': encodeURIComponent(name) } : {};

export const etag = (revision: number): string => `"${revision}"`;

/** Throws 412, which says what is current and who made it so, to those who may read that. */
export function checkPreconditions(
  { if_match: ifMatch, if_none_match: ifNoneMatch }: Preconditions,
  current: Current | null,
  isShown: boolean,
): void {
  const matchFails = ifMatch !== undefined && !matches(ifMatch, current);
  const noneMatchFails = ifNoneMatch !== undefined && current !== null;
  if (matchFails || noneMatchFails)
    throw isShown ? preconditionFailed(current) : new StrataError('precondition_failed');
}

/**
 * `*` matches whatever exists. Tags are compared strongly (8.8.3.2), so a weak one such as `W/"5"`
 * matches nothing.
 */
function matches(ifMatch: string, current: Current | null): boolean {
  if (current === null) return false;
  if (ifMatch.trim() === '*') return true;
  return ifMatch.split(',').some((tag) => tag.trim() === etag(current.revision));
}

function preconditionFailed(current: Current | null): StrataError {
  if (current === null)
    return new StrataError(
      'precondition_failed',
      'The resource does not exist, so it has no entity tag to match.',
    );
  const { revision, updated_by: author, updated_by_name: name, updated_at: time } = current;
  return new StrataError(
    'precondition_failed',
    `The resource is at revision ${revision}, written by ${name ?? author} at ${time}. Read it again before writing.`,
    {
      headers: {
        etag: etag(revision),
        'x-updated-by': author,
        ...authorName(name),
        'last-modified': new Date(time).toUTCString(),
      },
    },
  );
}
