/** A document as it is stored, with who wrote it last. */
import { call, get, Problem } from '../api.ts';
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

interface Newest {
  readonly items: readonly { readonly revision: number; readonly action: string }[];
}

/** Of these a tenant and the platform have one each, or none. */
const single = /\/config\/(bounds|budgets|freezes|change-policy|event-destinations)$/;

/**
 * Whether there is one at all. Most have none, and browsers print every 404 as an error. The
 * tenant's history has each of its writes; the platform's may have begun later, so there a trial of
 * no change says what it would make. What came after that history has all of its writes there.
 */
async function exists(address: string, kind: string): Promise<boolean> {
  const isRecent = kind === 'change-policy' || kind === 'event-destinations';
  if (address === `/config/${kind}` && !isRecent) {
    const trial = await call<{ readonly changes: readonly unknown[] }>(
      'PATCH',
      `${address}?dry_run=true`,
      { body: {} },
    );
    return trial.body.changes.length === 0;
  }
  const history = address.replace(/[a-z-]+$/, 'history');
  const type = `${kind.replaceAll('-', '_')}_config`;
  const newest = await get<Newest>(`${history}?config_type=${type}&limit=1`);
  const [entry] = newest.items;
  if (entry?.action !== 'rollback') return entry !== undefined && entry.action !== 'delete';
  const { after } = await get<{ readonly after: unknown }>(`${history}/${entry.revision}`);
  return after !== null;
}

export async function readStored(address: string, aborted?: AbortSignal): Promise<Stored> {
  try {
    const [, kind] = single.exec(address) ?? [];
    if (kind !== undefined && !(await exists(address, kind))) return none;
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
