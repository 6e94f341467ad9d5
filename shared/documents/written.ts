/** What a write of a document answers, and what it was inside its transaction. */
import type { Problem } from '../errors.ts';
import type { Difference } from '../schema/diff.ts';
import type { Required as RequiredApproval } from './change-policy.ts';

/** What a write answers: what it did, or what it would do. */
export type WrittenDocument<Document> =
  | {
      outcome: 'created' | 'updated' | 'deleted';
      document: Document | null;
      revision: number;
      updated_by: string;
      updated_by_name?: string | null;
      updated_at: string;
      requires_restart?: true;
      warnings?: Problem[];
    }
  | { dry_run: true; changes: Difference[]; invalidates: string[]; warnings?: Problem[] };

/**
 * A write inside its transaction: what it answers, and the document around it; null where there is
 * none.
 */
export interface Attempt<Document> {
  readonly answer: WrittenDocument<Document>;
  readonly before: Document | null;
  readonly after: Document | null;
  /** The revision of the document before; null where there was none. */
  readonly baseRevision: number | null;
  /** What policies ask for it; null where it needs no approval. */
  readonly required: RequiredApproval | null;
}
