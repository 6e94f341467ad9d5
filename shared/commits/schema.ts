import { migration, type Schema } from '../database/open.ts';

/**
 * The tables that every commit writes beside its own rows: revision counters, the change feed, caching leases, the outbox.
 * Reached by SQL alone: the mapper does not know xid8.
 */
export const commitSchema: Schema = {
  schema: 'strata',
  entities: [],
  migrations: [
    migration(
      'CommitTables1763700000000',
      `
    CREATE TABLE strata.revisions (scope text PRIMARY KEY, revision int8 NOT NULL);
    INSERT INTO strata.revisions VALUES ('platform', 0), ('auth', 0);
    CREATE TABLE strata.changes (
      id xid8 NOT NULL, scope text NOT NULL, revision int8 NOT NULL, keys text[] NOT NULL, created_at timestamptz NOT NULL,
      PRIMARY KEY (id, scope)
    );
    CREATE TABLE strata.feed_state (one boolean PRIMARY KEY DEFAULT true CHECK (one), pruned xid8 NOT NULL);
    INSERT INTO strata.feed_state (pruned) VALUES ('0');
    CREATE TABLE strata.leases (node_id text PRIMARY KEY, cursor xid8 NOT NULL, renewed_at timestamptz NOT NULL);
    CREATE TABLE strata.outbox (
      seq bigserial PRIMARY KEY, event_id uuid NOT NULL UNIQUE, event json NOT NULL, created_at timestamptz NOT NULL
    )`,
    ),
    migration(
      'ChangesByRevision1763800000000',
      "CREATE INDEX changes_platform ON strata.changes (scope, revision) WHERE scope = 'platform'",
    ),
  ],
};
