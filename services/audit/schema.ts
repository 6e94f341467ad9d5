/**
 * The tables of audit. `chains` holds each chain's head; events are never changed, and go only
 * where their hash is kept: a trigger refuses anything else.
 */
import type { AuditEventFacts } from '../../shared/commits/commit.ts';
import { migration, type Schema } from '../../shared/database/open.ts';
import {
  flag,
  int4,
  int8,
  json,
  nullable,
  primary,
  text,
  textOf,
  time,
  uuid,
  tablesOf,
  type RowOf,
} from '../../shared/database/table.ts';

const schema = 'audit';
const { table, entities } = tablesOf(schema);

/** The event as it was handed over, which is what its hash is over. */
export const eventFrom = (row: EventRow): AuditEventFacts => ({
  id: row.id,
  action: row.action,
  actor: { type: row.actor_type, id: row.actor_id },
  tenant_id: row.tenant_id,
  target: row.target,
  payload: row.payload,
  request_id: row.request_id,
  occurred_at: row.occurred_at.toISOString(),
});

export const EventEntity = table('events', {
  chain: primary(text),
  seq: primary(int8),
  id: uuid,
  action: text,
  actor_type: textOf<AuditEventFacts['actor']['type']>(),
  actor_id: text,
  tenant_id: nullable(uuid),
  target: nullable(text),
  payload: json(),
  request_id: nullable(text),
  occurred_at: time,
  hash: text,
});
export type EventRow = RowOf<typeof EventEntity>;

export const ChainEntity = table('chains', {
  chain: primary(text),
  seq: int8,
  hash: text,
});
export type ChainRow = RowOf<typeof ChainEntity>;

/** How far an event destination has come: stores/destinations.ts. */
export const DestinationEntity = table('destinations', {
  chain: primary(text),
  name: primary(text),
  /** Of the document that the row follows. */
  revision: int8,
  /** Origin of its address. */
  target: text,
  max_seconds: int4,
  /** Why nothing is sent; null where something is. */
  stopped: nullable(textOf<'paused' | 'gone'>()),
  /** The last event that it has accepted: the cursor. */
  seq: int8,
  /** Between the cursor and this event there is none that it wants. */
  searched: int8,
  /** The newest event of the chain. */
  head: int8,
  /** Whether it gets checkpoints. */
  checkpoints: { ...flag, default: false },
  /** Of the last checkpoint that it has accepted, and of the newest one for it: audit.checkpoints.number. */
  checkpoint_sent: { ...int8, default: 0 },
  checkpoint_head: { ...int8, default: 0 },
  /** When somebody may take it to send, where a head is ahead. */
  due_at: time,
  /** Of the one who sends now, if anybody does. */
  lease: nullable(uuid),
  failures: { ...int4, default: 0 },
  /** The most events of a batch since one was refused as too large. */
  most_events: nullable(int4),
  /** The end of a batch that failed, so that its repetition is the same batch. */
  until_seq: nullable(int8),
  /** An event that was refused as too large by itself. */
  too_large_seq: nullable(int8),
  /** How often its cursor was moved back: a part of the names of batches. */
  replays: { ...int4, default: 0 },
  delivered_at: nullable(time),
  status: nullable(int4),
  error: nullable(text),
});
export type DestinationRow = RowOf<typeof DestinationEntity>;

export const auditSchema: Schema = {
  schema,
  entities,
  migrations: [
    migration(
      'Audit1763700000003',
      `CREATE TABLE audit.events (
      chain text NOT NULL, seq int8 NOT NULL, id uuid NOT NULL UNIQUE, action text NOT NULL, actor_type text NOT NULL, actor_id text NOT NULL,
      tenant_id uuid, target text, payload json NOT NULL, request_id text, occurred_at timestamptz NOT NULL, hash text NOT NULL,
      PRIMARY KEY (chain, seq)
    )`,
      'CREATE INDEX events_time ON audit.events (occurred_at, chain, seq)',
      'CREATE TABLE audit.chains (chain text PRIMARY KEY, seq int8 NOT NULL, hash text NOT NULL)',
      `CREATE FUNCTION audit.refuse() RETURNS trigger LANGUAGE plpgsql AS
     $$ BEGIN RAISE EXCEPTION 'audit events are append-only' USING ERRCODE = 'insufficient_privilege'; END $$`,
      'CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit.events FOR EACH STATEMENT EXECUTE FUNCTION audit.refuse()',
    ),
    migration(
      'AuditAccounts1763700000502',
      `CREATE INDEX events_account ON audit.events (target, occurred_at, chain, seq) WHERE action LIKE 'auth.%'`,
    ),
    migration(
      'AuditEventsOfChains1764100000001',
      'CREATE INDEX events_chain_time ON audit.events (chain, occurred_at, seq)',
    ),
    // Chains whose tenant was erased (stores/erased-chains.ts): erased_at is null while some of the
    // events are there, proof_seq the number of the event in the platform's chain that tells of it.
    migration(
      'AuditErasedChains1764400000001',
      'CREATE TABLE audit.erased_chains (chain text PRIMARY KEY, erased_at timestamptz, proof_seq int8)',
      'CREATE TABLE audit.erased_links (chain text, seq int8, hash text NOT NULL, PRIMARY KEY (chain, seq))',
      // What erases events says so for its own transaction: nothing else removes one, not even by
      // mistake.
      `CREATE OR REPLACE FUNCTION audit.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
         IF TG_OP = 'DELETE' AND current_setting('strata.erases_audit', true) = 'on' THEN RETURN NULL; END IF;
         RAISE EXCEPTION 'audit events are append-only' USING ERRCODE = 'insufficient_privilege';
       END $$`,
    ),
    migration(
      'AuditCuts1764400000002',
      `CREATE TABLE audit.cuts (
         chain text PRIMARY KEY, seq int8 NOT NULL, hash text NOT NULL, cut_at timestamptz NOT NULL, cut_by text NOT NULL,
         public_key text NOT NULL, signature text NOT NULL
       )`,
    ),
    migration(
      'AuditPurges1764900000003',
      `-- Of events of the platform's chain about this document, up to this revision, the changes are purged.
      CREATE TABLE audit.purges (prefix text, target text, below int8 NOT NULL, PRIMARY KEY (prefix, target))`,
      'CREATE TABLE audit.purged_links (seq int8 PRIMARY KEY, proof_seq int8 NOT NULL)',
      `CREATE OR REPLACE FUNCTION audit.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
         IF TG_OP = 'DELETE' AND current_setting('strata.erases_audit', true) = 'on' THEN RETURN NULL; END IF;
         IF TG_OP = 'UPDATE' AND current_setting('strata.purges_audit', true) = 'on' THEN RETURN NULL; END IF;
         RAISE EXCEPTION 'audit events are append-only' USING ERRCODE = 'insufficient_privilege';
       END $$`,
    ),
    migration(
      'AuditCheckpoints1765100000001',
      `CREATE TABLE audit.checkpoints (
         chain text, seq int8, hash text NOT NULL, made_at timestamptz NOT NULL, note text NOT NULL, PRIMARY KEY (chain, seq)
       )`,
      'CREATE INDEX checkpoints_time ON audit.checkpoints (made_at)',
    ),
    migration(
      'AuditDestinations1765700000042',
      `CREATE TABLE audit.destinations (
         chain text, name text, revision int8 NOT NULL, target text NOT NULL, max_seconds int NOT NULL, stopped text,
         seq int8 NOT NULL, searched int8 NOT NULL, head int8 NOT NULL, due_at timestamptz NOT NULL, lease uuid,
         failures int NOT NULL DEFAULT 0, most_events int, until_seq int8, too_large_seq int8,
         replays int NOT NULL DEFAULT 0, delivered_at timestamptz, status int, error text, PRIMARY KEY (chain, name)
       )`,
      'CREATE INDEX destinations_due ON audit.destinations (due_at) WHERE head > searched AND stopped IS NULL',
      // Chains whose event_destinations were written, up to the event of this number; retry_at is when
      // the document is read again, where that failed.
      'CREATE TABLE audit.destination_changes (chain text PRIMARY KEY, seq int8 NOT NULL, retry_at timestamptz NOT NULL)',
    ),
    migration(
      'AuditMailNotices1766000000001',
      // Events that people are still to be told of by mail: see stores/mail-notices.ts.
      'CREATE TABLE audit.mail_notices (event_id uuid PRIMARY KEY, due_at timestamptz NOT NULL)',
      'CREATE INDEX mail_notices_due ON audit.mail_notices (due_at)',
    ),
    migration(
      'AuditPushedCheckpoints1766000000002',
      // One node signs at a time, so that those that are committed later have higher numbers.
      'ALTER TABLE audit.checkpoints ADD COLUMN number bigint GENERATED BY DEFAULT AS IDENTITY',
      'CREATE INDEX checkpoints_number ON audit.checkpoints (number)',
      `ALTER TABLE audit.destinations ADD COLUMN checkpoints boolean NOT NULL DEFAULT false,
         ADD COLUMN checkpoint_sent int8 NOT NULL DEFAULT 0, ADD COLUMN checkpoint_head int8 NOT NULL DEFAULT 0`,
      'DROP INDEX audit.destinations_due',
      `CREATE INDEX destinations_due ON audit.destinations (due_at)
         WHERE (head > searched OR checkpoint_head > checkpoint_sent) AND stopped IS NULL`,
    ),
    migration(
      'AuditFirstDestinationChanges1766600000001',
      // The first of the events that seq is the last of; null from a node of an earlier release.
      'ALTER TABLE audit.destination_changes ADD COLUMN first_seq int8',
    ),
  ],
};
