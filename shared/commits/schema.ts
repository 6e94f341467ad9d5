/**
 * The tables that every commit writes beside its own rows. This SQL is their only description: they
 * have no entities, because TypeORM does not know `xid8`, and the types of rows stand at the
 * queries (commit.ts, relay.ts, ../cluster/coherence/feed.ts).
 */
import { migration, type Schema } from '../database/open.ts';

export const commitSchema: Schema = {
  schema: 'strata',
  entities: [],
  migrations: [
    migration(
      'CommitTables1763700000000',
      `
      -- Each scope's counter. Its row is the lock under which the scope is written.
      CREATE TABLE strata.revisions (
        scope text PRIMARY KEY,
        revision int8 NOT NULL
      );
      INSERT INTO strata.revisions VALUES ('platform', 0), ('auth', 0);

      -- The change feed. The id is the committing transaction's, which may change several scopes.
      CREATE TABLE strata.changes (
        id xid8 NOT NULL,
        scope text NOT NULL,
        revision int8 NOT NULL,
        keys text[] NOT NULL,
        created_at timestamptz NOT NULL,
        PRIMARY KEY (id, scope)
      );

      -- One row: the highest id that was removed from the feed.
      CREATE TABLE strata.feed_state (
        one boolean PRIMARY KEY DEFAULT true CHECK (one),
        pruned xid8 NOT NULL
      );
      INSERT INTO strata.feed_state (pruned) VALUES ('0');

      -- Nodes that may serve from memory, and up to where each has read the feed.
      CREATE TABLE strata.leases (
        node_id text PRIMARY KEY,
        cursor xid8 NOT NULL,
        renewed_at timestamptz NOT NULL
      );

      -- Audit events, until the audit service has them.
      CREATE TABLE strata.outbox (
        seq bigserial PRIMARY KEY,
        event_id uuid NOT NULL UNIQUE,
        event json NOT NULL,
        created_at timestamptz NOT NULL
      )`,
    ),
    migration(
      'ChangesByRevision1763800000000',
      "CREATE INDEX changes_platform ON strata.changes (scope, revision) WHERE scope = 'platform'",
    ),
    migration(
      'LeasesByHolder1763900000000',
      `
      -- Processes that may serve from memory, for how long after the poll that made the token, and what each has read of the feed.
      -- Leases last for seconds, so none is carried over.
      DROP TABLE strata.leases;
      CREATE TABLE strata.leases (
        holder text PRIMARY KEY,
        token text NOT NULL,
        fence_ms int4 NOT NULL,
        cursor pg_snapshot
      )`,
    ),
    migration(
      'TimesOfRevisions1764000000000',
      'ALTER TABLE strata.revisions ADD COLUMN changed_at timestamptz NOT NULL DEFAULT clock_timestamp()',
    ),
    migration(
      'SeveralRevisionsInOneTransaction1764100000000',
      'ALTER TABLE strata.changes DROP CONSTRAINT changes_pkey, ADD PRIMARY KEY (id, scope, revision)',
    ),
    migration(
      'ActorNames1764200000001',
      `
      -- What people read in place of an id: see actor-names.ts. The realm is a tenant's id, or 'platform'.
      CREATE TABLE strata.actor_names (
        realm text NOT NULL,
        actor_id text NOT NULL,
        name text NOT NULL,
        address text,
        PRIMARY KEY (realm, actor_id)
      );
      CREATE INDEX actor_names_address ON strata.actor_names (realm, address) WHERE address IS NOT NULL`,
    ),
    // Nodes of a release before leave both as they are, and null where there is no row yet.
    migration(
      'PollsBeforeOfLeases1764300000000',
      'ALTER TABLE strata.leases ADD COLUMN ordinal int8, ADD COLUMN previous_token text',
    ),
    migration(
      'Shares1764500000007',
      `
      -- How much each holder has taken of something in a window that ends: see shares.ts.
      CREATE TABLE strata.shares (
        what text NOT NULL,
        holder text NOT NULL,
        taken int4 NOT NULL,
        until timestamptz NOT NULL,
        PRIMARY KEY (what, holder)
      )`,
    ),
    migration(
      'ClusterOfFeed1764600000000',
      `
      -- Which database this is: the cluster's system identifier and timeline, and the oids of the database and of a table in it, which a
      -- dump that is restored beside does not share. Servers that do not show positions of their log, such as Aurora's, show the
      -- timeline in what they write at each checkpoint, and until the first of a promoted one, at the end of its recovery.
      CREATE FUNCTION strata.cluster() RETURNS text LANGUAGE plpgsql STABLE AS $$
      DECLARE timeline text;
      BEGIN
        IF pg_is_in_recovery() THEN
          RAISE read_only_sql_transaction USING MESSAGE = 'This is a standby.';
        END IF;
        BEGIN
          timeline := left(pg_walfile_name(pg_current_wal_lsn()), 8);
        EXCEPTION WHEN OTHERS THEN
          SELECT lpad(upper(to_hex(GREATEST(c.timeline_id, r.min_recovery_end_timeline))), 8, '0') INTO timeline
          FROM pg_control_checkpoint() c, pg_control_recovery() r;
        END;
        RETURN concat_ws(' ', (SELECT system_identifier FROM pg_control_system()), timeline,
          (SELECT oid FROM pg_database WHERE datname = current_database()), 'strata.feed_state'::regclass::oid);
      END $$;

      -- The database and the start of its server that the feed and all revisions are of, empty before the first. The revisions of
      -- scopes that do not have any begin after revisions_from, which also tells the times apart at which all of them were raised.
      ALTER TABLE strata.feed_state
        ADD COLUMN cluster text NOT NULL DEFAULT '',
        ADD COLUMN started timestamptz NOT NULL DEFAULT '-infinity',
        ADD COLUMN revisions_from int8 NOT NULL DEFAULT 0,
        ADD COLUMN open_when_pruned xid8[] NOT NULL DEFAULT '{}'`,
    ),
    migration(
      'ChainsThatWait1765000000001',
      `
      -- The audit chain of an event, and whether it is out of the way of others because its chain waits: see relay.ts.
      ALTER TABLE strata.outbox
        ADD COLUMN chain text NOT NULL GENERATED ALWAYS AS (COALESCE(event->>'tenant_id', 'platform')) STORED,
        ADD COLUMN aside boolean NOT NULL DEFAULT false;
      CREATE INDEX outbox_next ON strata.outbox (seq) WHERE NOT aside;
      CREATE INDEX outbox_chains ON strata.outbox (chain, seq);

      -- Chains whose next event the audit does not accept, and when it is tried again.
      CREATE TABLE strata.chain_waits (
        chain text PRIMARY KEY,
        event_id uuid NOT NULL,
        tries int4 NOT NULL,
        error text NOT NULL,
        since timestamptz NOT NULL,
        retry_at timestamptz NOT NULL
      );
      CREATE INDEX chain_waits_due ON strata.chain_waits (retry_at);

      -- One row: the node that relays.
      CREATE TABLE strata.relay_lease (
        one boolean PRIMARY KEY DEFAULT true CHECK (one),
        holder text NOT NULL,
        until timestamptz NOT NULL
      );
      INSERT INTO strata.relay_lease (holder, until) VALUES ('', '-infinity')`,
    ),
    migration(
      'Usage1765000000002',
      `
      -- How many rows of a kind each tenant has, counted by triggers: see usage.ts.
      CREATE TABLE strata.usage (
        tenant_id uuid NOT NULL,
        what text NOT NULL,
        used int8 NOT NULL,
        PRIMARY KEY (what, tenant_id)
      );
      CREATE INDEX usage_used ON strata.usage (what, used);
      CREATE FUNCTION strata.count_usage() RETURNS trigger LANGUAGE plpgsql AS $$
      DECLARE sign int := CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END;
      BEGIN
        IF NOT EXISTS (SELECT FROM changed_rows) THEN RETURN NULL; END IF;
        INSERT INTO strata.usage AS u (tenant_id, what, used)
        SELECT tenant_id, TG_ARGV[0], sign * count(*) FROM changed_rows
        WHERE tenant_id IS NOT NULL GROUP BY tenant_id ORDER BY tenant_id
        ON CONFLICT (what, tenant_id) DO UPDATE SET used = u.used + excluded.used;
        RETURN NULL;
      END $$`,
    ),
    migration(
      'HotRows1765300000001',
      `
      -- Rows that are updated over and over have room for their next versions beside them, and are cleared by number, however many
      -- rows there are. What no snapshot needs any more goes within a minute.
      ALTER TABLE strata.revisions SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
      ALTER TABLE strata.leases SET (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
      ALTER TABLE strata.feed_state SET (fillfactor = 20);
      ALTER TABLE strata.outbox SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
      ALTER TABLE strata.changes SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000)`,
    ),
    migration(
      'ChangePolicies1765400000001',
      // A copy of the scope's change_policy, which every write of the scope finds with its revision.
      'ALTER TABLE strata.revisions ADD COLUMN change_policy json',
    ),
    migration(
      'ManagedFields1765600000001',
      `
      -- The fields of documents that a folder owns: see ../documents/managed-fields.ts. The counter of a scope says whether there are any.
      ALTER TABLE strata.revisions ADD COLUMN managed boolean NOT NULL DEFAULT false;
      CREATE TABLE strata.managed_fields (
        scope text NOT NULL,
        path text NOT NULL,
        fields json NOT NULL,
        removed_at timestamptz,
        PRIMARY KEY (scope, path)
      );
      CREATE INDEX managed_fields_removed ON strata.managed_fields (scope, removed_at) WHERE removed_at IS NOT NULL`,
    ),
    migration(
      'TemporaryChanges1766200000001',
      `
      -- Changes that end by themselves: see ../documents/temporary-changes.ts. The counter of a scope says whether there ever was one.
      ALTER TABLE strata.revisions ADD COLUMN temporary boolean NOT NULL DEFAULT false;
      CREATE TABLE strata.temporary_changes (
        id uuid PRIMARY KEY,
        scope text NOT NULL,
        path text NOT NULL,
        until timestamptz NOT NULL,
        -- When its end is tried: at until, and later where that was refused.
        due_at timestamptz NOT NULL,
        revision int8 NOT NULL,
        fields json NOT NULL,
        made json NOT NULL,
        changed_by text NOT NULL,
        reason text,
        managed_by text,
        created_at timestamptz NOT NULL,
        ended_at timestamptz,
        note text
      );
      CREATE INDEX temporary_changes_due ON strata.temporary_changes (due_at) WHERE ended_at IS NULL;
      CREATE INDEX temporary_changes_open ON strata.temporary_changes (scope, until, id) WHERE ended_at IS NULL;
      CREATE INDEX temporary_changes_ended ON strata.temporary_changes (scope, ended_at) WHERE ended_at IS NOT NULL;
      CREATE INDEX temporary_changes_made ON strata.temporary_changes (scope, revision)`,
    ),
  ],
};
