import { EntitySchema, type EntitySchemaColumnOptions } from 'typeorm';
import { migration, type Schema } from '../../shared/database/open.ts';

export interface EventRow {
  chain: string;
  seq: number;
  id: string;
  action: string;
  actor_type: string;
  actor_id: string;
  tenant_id: string | null;
  target: string | null;
  payload: unknown;
  request_id: string | null;
  occurred_at: Date;
  hash: string;
}
export interface ChainRow {
  chain: string;
  seq: number;
  hash: string;
}

const text: EntitySchemaColumnOptions = { type: 'text' };
const maybe: EntitySchemaColumnOptions = { type: 'text', nullable: true };

export const EventEntity = new EntitySchema<EventRow>({
  name: 'AuditEvent',
  tableName: 'events',
  schema: 'audit',
  columns: {
    chain: { type: 'text', primary: true },
    seq: { type: 'int8', primary: true },
    id: { type: 'uuid', unique: true },
    action: text,
    actor_type: text,
    actor_id: text,
    tenant_id: { type: 'uuid', nullable: true },
    target: maybe,
    payload: { type: 'json' },
    request_id: maybe,
    occurred_at: { type: 'timestamptz' },
    hash: text,
  },
  indices: [{ name: 'events_time', columns: ['occurred_at', 'chain', 'seq'] }],
});
export const ChainEntity = new EntitySchema<ChainRow>({
  name: 'AuditChain',
  tableName: 'chains',
  schema: 'audit',
  columns: { chain: { type: 'text', primary: true }, seq: { type: 'int8' }, hash: text },
});

/** `chains` holds each chain's head; the events themselves are never changed: the database refuses it. */
export const auditSchema: Schema = {
  schema: 'audit',
  entities: [EventEntity, ChainEntity],
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
  ],
};
