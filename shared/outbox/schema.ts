import { EntitySchema } from 'typeorm';
import { migration, type Schema } from '../database/open.ts';

export interface RevisionRow { scope: string; revision: number }
export interface ChangeRow { id: string; scope: string; revision: number; keys: string[]; created_at: Date }
export interface LeaseRow { node_id: string; cursor: string; renewed_at: Date }
export interface FeedStateRow { only: boolean; pruned: string }
export interface OutboxRow { seq: number; event_id: string; event: unknown; created_at: Date }

const RevisionEntity = new EntitySchema<RevisionRow>({
  name: 'Revision', tableName: 'revisions', schema: 'strata',
  columns: { scope: { type: 'text', primary: true }, revision: { type: 'int8' } },
});
const ChangeEntity = new EntitySchema<ChangeRow>({
  name: 'Change', tableName: 'changes', schema: 'strata',
  columns: {
    id: { type: 'xid8' as 'text', primary: true }, scope: { type: 'text', primary: true }, revision: { type: 'int8' },
    keys: { type: 'text', array: true }, created_at: { type: 'timestamptz' },
  },
});
const LeaseEntity = new EntitySchema<LeaseRow>({
  name: 'Lease', tableName: 'leases', schema: 'strata',
  columns: { node_id: { type: 'text', primary: true }, cursor: { type: 'xid8' as 'text' }, renewed_at: { type: 'timestamptz' } },
});
const FeedStateEntity = new EntitySchema<FeedStateRow>({
  name: 'FeedState', tableName: 'feed_state', schema: 'strata',
  columns: { only: { type: 'boolean', primary: true, default: true }, pruned: { type: 'xid8' as 'text' } },
});
const OutboxEntity = new EntitySchema<OutboxRow>({
  name: 'Outbox', tableName: 'outbox', schema: 'strata',
  columns: {
    seq: { type: 'int8', primary: true, generated: 'increment' }, event_id: { type: 'uuid', unique: true }, event: { type: 'json' },
    created_at: { type: 'timestamptz' },
  },
});

/** The tables that every commit writes beside its own rows: revision counters, the change feed, caching leases, the outbox. */
export const commitSchema: Schema = {
  schema: 'strata',
  entities: [RevisionEntity, ChangeEntity, LeaseEntity, FeedStateEntity, OutboxEntity],
  migrations: [migration('CommitTables1763700000000', `
    CREATE TABLE strata.revisions (scope text PRIMARY KEY, revision int8 NOT NULL);
    INSERT INTO strata.revisions VALUES ('platform', 0), ('auth', 0);
    CREATE TABLE strata.changes (
      id xid8 NOT NULL, scope text NOT NULL, revision int8 NOT NULL, keys text[] NOT NULL, created_at timestamptz NOT NULL,
      PRIMARY KEY (id, scope)
    );
    CREATE TABLE strata.feed_state (only boolean PRIMARY KEY DEFAULT true CHECK (only), pruned xid8 NOT NULL);
    INSERT INTO strata.feed_state (pruned) VALUES ('0');
    CREATE TABLE strata.leases (node_id text PRIMARY KEY, cursor xid8 NOT NULL, renewed_at timestamptz NOT NULL);
    CREATE TABLE strata.outbox (
      seq bigserial PRIMARY KEY, event_id uuid NOT NULL UNIQUE, event json NOT NULL, created_at timestamptz NOT NULL
    )`)],
};
