/** A document as it is stored, with who wrote it last. */
import { call, Problem } from '../api.ts';
import type { JsonObject } from '../../shared/schema/json-pointer.ts';

export interface Stored {
  /** Null where there is none yet. */
  readonly document: JsonObject | null;
  readonly revision: number | undefined;
  readonly updatedBy: string | null;
  /** What they are called, where the answer says so. */
  readonly updatedByName?: string;
  readonly updatedAt: string | null;
}

const none: Stored = { document: null, revision: undefined, updatedBy: null, updatedAt: null };

export async function readStored(address: string, aborted?: AbortSignal): Promise<Stored> {
  try {
    const { body, headers } = await call<JsonObject | null>(
      'GET',
      address,
      aborted ? { signal: aborted } : {},
    );
    const revision = headers.get('x-config-revision');
    const modified = headers.get('last-modified');
    const name = headers.get('x-updated-by-name');
    return {
      document: body,
      revision: revision === null ? undefined : Number(revision),
      updatedBy: headers.get('x-updated-by'),
      ...(name !== null && { updatedByName: decodeURIComponent(name) }),
      updatedAt: modified === null ? null : new Date(modified).toISOString(),
    };
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return none;
    throw error;
  }
}
