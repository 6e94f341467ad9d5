/** RFC 9110, section 13: If-Match and If-None-Match against a resource whose entity tag is its revision. */
import { StrataError } from '../errors.ts';

interface Current {
  readonly revision: number;
  readonly updated_by: string;
  readonly updated_at: string;
}
interface Conditions {
  readonly if_match?: string | undefined;
  readonly if_none_match?: '*' | undefined;
}

export const etag = (revision: number): string => `"${revision}"`;

/** Weak tags never match strongly, so `W/"5"` matches nothing. */
const matches = (header: string, revision: number): boolean =>
  header.trim() === '*' || header.split(',').some((tag) => tag.trim() === etag(revision));

/** Throws 412 that says what is current and who made it so. */
export function checkPreconditions(
  { if_match: ifMatch, if_none_match: ifNoneMatch }: Conditions,
  current: Current | null,
): void {
  const failed =
    (ifMatch !== undefined && (current === null || !matches(ifMatch, current.revision))) ||
    (ifNoneMatch !== undefined && current !== null);
  if (!failed) return;
  if (current === null)
    throw new StrataError(
      'precondition_failed',
      'The resource does not exist, so it has no entity tag to match.',
    );
  throw new StrataError(
    'precondition_failed',
    `The resource is at revision ${current.revision}, written by ${current.updated_by} at ${current.updated_at}. Read it again before writing.`,
    {
      headers: {
        etag: etag(current.revision),
        'x-updated-by': current.updated_by,
        'last-modified': new Date(current.updated_at).toUTCString(),
      },
    },
  );
}
