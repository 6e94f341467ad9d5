/** The table of change sets, which tenant-config and global-config have one of each. */
import type { Caller } from '../access.ts';
import type { ApplyWhen, ChangeSetState } from '../contracts/change-sets.ts';
import {
  int8,
  json,
  nullable,
  primary,
  text,
  textOf,
  time,
  uuid,
  type RowOf,
  type Table,
} from '../database/table.ts';
import type { Claims } from '../documents/managed-fields.ts';
import type { Difference } from '../schema/diff.ts';

/** Whoever wrote, edited or approved it, as it is kept. */
export interface StoredPerson {
  readonly type: Caller['type'];
  readonly id: string;
  /** Who stands behind them: themselves, and whoever made their key. */
  readonly principals: readonly string[];
  /** The API key, or the rule of trust in a workload, that they came with last. */
  readonly key?: string;
}

export interface StoredItem {
  readonly action: 'put' | 'patch' | 'delete';
  readonly path: string;
  /** As it was sent; absent where the kind of document holds secrets. */
  readonly body?: unknown;
  /** The revision of the document that it is based on; null where there was none. */
  readonly base: number | null;
  /** As they are stored, secrets sealed; null for no document. */
  readonly before: unknown;
  readonly after: unknown;
  /** Secrets masked. */
  readonly changes: readonly Difference[];
}

export interface StoredApproval extends StoredPerson {
  readonly at: string;
  readonly comment: string | null;
}

export interface Content extends Claims {
  readonly title: string;
  readonly reason: string;
  readonly apply: ApplyWhen;
  readonly items: readonly StoredItem[];
  /** The last one proposed what the items are; it is written in their name. */
  readonly authors: readonly StoredPerson[];
  readonly required: number;
  readonly groups: readonly string[];
  /** When approval was asked for (RFC 3339); null for a draft. */
  readonly submitted_at: string | null;
  readonly approved_by: readonly StoredApproval[];
  readonly break_glass?: {
    readonly by: string;
    readonly at: string;
    readonly reason: string;
    readonly reviewed_by: string | null;
  };
  readonly note: string | null;
  readonly ended_by: string | null;
  readonly revisions?: readonly number[];
  readonly moved?: readonly (Difference & { readonly resource: string })[];
}

/** What an index of those has; metrics.ts asks for them in the same words. */
const unreviewed = `state = 'applied' AND content->'break_glass'->>'at' IS NOT NULL
  AND content->'break_glass'->>'reviewed_by' IS NULL`;

export const changeSetEntity = (table: Table) =>
  table('change_sets', {
    id: primary(uuid),
    /** Null for the platform's. */
    tenant_id: nullable(uuid),
    state: textOf<ChangeSetState>(),
    digest: text,
    content: json<Content>(),
    created_at: time,
    /** Each change makes it another one: what was read is as it was while this is the same. */
    updated_at: time,
    /** When it is applied, once it is scheduled; when its reviewers are reminded, while it is pending. */
    due_at: nullable(time),
    /** Of its last change, in the scope of change sets; null where it was before they were counted. */
    revision: nullable(int8),
  });
export type ChangeSetRow = RowOf<ReturnType<typeof changeSetEntity>>;

export const changeSetTable = (schema: string): string[] => [
  `CREATE TABLE ${schema}.change_sets (
    id uuid PRIMARY KEY, tenant_id uuid, state text NOT NULL, digest text NOT NULL, content json NOT NULL,
    created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL, due_at timestamptz
  )`,
  `CREATE INDEX change_sets_newest ON ${schema}.change_sets (tenant_id, created_at, id)`,
  `CREATE INDEX change_sets_due ON ${schema}.change_sets (due_at) WHERE state = 'scheduled'`,
];

/** For those that metrics count. */
export const waitingChangeSets = (schema: string): string[] => [
  `CREATE INDEX change_sets_waiting ON ${schema}.change_sets (state) WHERE state IN ('pending', 'suspended')`,
  `CREATE INDEX change_sets_unreviewed ON ${schema}.change_sets (state) WHERE ${unreviewed}`,
];

/** For metrics: each has a part of a content, which may have megabytes. */
export const timedChangeSets = (schema: string): string[] => [
  `CREATE INDEX change_sets_submitted ON ${schema}.change_sets ((content->>'submitted_at')) WHERE state = 'pending'`,
  `CREATE INDEX change_sets_missed ON ${schema}.change_sets (updated_at)
    WHERE state = 'suspended' AND json_typeof(content->'apply') = 'object'`,
];

/** For streams of them. */
export const countedChangeSets = (schema: string): string[] => [
  `ALTER TABLE ${schema}.change_sets ADD COLUMN revision int8`,
  `CREATE INDEX change_sets_changes ON ${schema}.change_sets (tenant_id, revision)`,
];

/** For reminders of those that wait for a review. */
export const remindedChangeSets = (schema: string): string[] => [
  `CREATE INDEX change_sets_reminders ON ${schema}.change_sets (due_at) WHERE state = 'pending'`,
];
