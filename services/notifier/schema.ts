/** The tables of the notifier. Every timer is a row and every clock the database's. */
import { EntitySchema, type EntitySchemaColumnOptions } from 'typeorm';
import { migration, type Schema } from '../../shared/database/open.ts';
import type { NoticeType } from '../../shared/contracts/notifier.ts';

export interface ApprovalRow {
  id: string;
  tenant_id: string;
  state: 'pending' | 'approved' | 'denied' | 'expired' | 'exhausted';
  action: string;
  risk_level: 'low' | 'medium' | 'high' | 'critical';
  title: string;
  description: string | null;
  resource: unknown;
  cost_impact: number | null;
  metadata: unknown;
  hop: number;
  max_hops: number;
  window_seconds: number;
  chain: string[];
  /** Sealed: the configuration and the recipients at the time of asking. */
  frozen: string;
  requested_by: { type: string; id: string };
  request_id: string;
  idempotency_key: string | null;
  request_hash: string;
  created_at: Date;
  expires_at: Date;
  /** Whether expires_at was asked for; else it moves so that escalation can end first. */
  expires_fixed: boolean;
  /** When the next hop is due; null while acknowledged and once settled. */
  escalates_at: Date | null;
  acknowledged_by: string | null;
  acknowledged_at: Date | null;
  decided_by: string | null;
  decided_at: Date | null;
  comment: string | null;
  via: 'api' | 'link' | null;
}
export interface DeliveryRow {
  id: string;
  tenant_id: string;
  approval_id: string;
  type: NoticeType;
  hop: number;
  channel: 'webhook' | 'email' | 'chat';
  /** What shares a fate: in flight limits and the circuit breaker count by it. */
  endpoint_key: string;
  /** Place in the frozen configuration, or the recipient's address. */
  place: string;
  target: string;
  /** The exact bytes of every attempt, as text. */
  body: string;
  state: 'pending' | 'delivered' | 'failed' | 'cancelled';
  attempts: number;
  /** Attempts of this round: a replay begins a new one. */
  round: number;
  next_attempt_at: Date;
  lease: string | null;
  lease_until: Date | null;
  created_at: Date;
  settled_at: Date | null;
  reason: string | null;
}
export interface AttemptRow {
  delivery_id: string;
  n: number;
  at: Date;
  duration_ms: number;
  status: number | null;
  answer: string | null;
  error: string | null;
}
export interface EndpointRow {
  key: string;
  served_at: Date;
  failures: number;
  blocked_until: Date | null;
  paused_revision: number | null;
}

const text: EntitySchemaColumnOptions = { type: 'text' };
const maybe: EntitySchemaColumnOptions = { type: 'text', nullable: true };
const uuid: EntitySchemaColumnOptions = { type: 'uuid' };
const int: EntitySchemaColumnOptions = { type: 'int4' };
const time: EntitySchemaColumnOptions = { type: 'timestamptz' };
const later: EntitySchemaColumnOptions = { type: 'timestamptz', nullable: true };
const json: EntitySchemaColumnOptions = { type: 'json', nullable: true };
const schema = 'notifier';

export const ApprovalEntity = new EntitySchema<ApprovalRow>({
  name: 'Approval',
  tableName: 'approvals',
  schema,
  columns: {
    id: { type: 'uuid', primary: true },
    tenant_id: uuid,
    state: text,
    action: text,
    risk_level: text,
    title: text,
    description: maybe,
    resource: json,
    cost_impact: { type: 'float8', nullable: true },
    metadata: json,
    hop: int,
    max_hops: int,
    window_seconds: int,
    chain: { type: 'text', array: true },
    frozen: text,
    requested_by: { type: 'json' },
    request_id: text,
    idempotency_key: maybe,
    request_hash: text,
    created_at: time,
    expires_at: time,
    expires_fixed: { type: 'boolean' },
    escalates_at: later,
    acknowledged_by: maybe,
    acknowledged_at: later,
    decided_by: maybe,
    decided_at: later,
    comment: maybe,
    via: maybe,
  },
  indices: [
    { name: 'approvals_idempotency', columns: ['tenant_id', 'idempotency_key'], unique: true },
    { name: 'approvals_tenant', columns: ['tenant_id', 'created_at', 'id'] },
  ],
});
export const DeliveryEntity = new EntitySchema<DeliveryRow>({
  name: 'Delivery',
  tableName: 'deliveries',
  schema,
  columns: {
    id: { type: 'uuid', primary: true },
    tenant_id: uuid,
    approval_id: uuid,
    type: text,
    hop: int,
    channel: text,
    endpoint_key: text,
    place: text,
    target: text,
    body: text,
    state: text,
    attempts: int,
    round: int,
    next_attempt_at: time,
    lease: { type: 'uuid', nullable: true },
    lease_until: later,
    created_at: time,
    settled_at: later,
    reason: maybe,
  },
  indices: [
    { name: 'deliveries_tenant', columns: ['tenant_id', 'created_at', 'id'] },
    { name: 'deliveries_approval', columns: ['approval_id'] },
    {
      name: 'deliveries_waiting',
      columns: ['endpoint_key', 'next_attempt_at'],
      where: `state = 'pending'`,
    },
    {
      name: 'deliveries_leased',
      columns: ['endpoint_key', 'lease_until'],
      where: `state = 'pending'`,
    },
  ],
});
export const AttemptEntity = new EntitySchema<AttemptRow>({
  name: 'Attempt',
  tableName: 'attempts',
  schema,
  columns: {
    delivery_id: { type: 'uuid', primary: true },
    n: { type: 'int4', primary: true },
    at: time,
    duration_ms: int,
    status: { type: 'int4', nullable: true },
    answer: maybe,
    error: maybe,
  },
});
export const EndpointEntity = new EntitySchema<EndpointRow>({
  name: 'Endpoint',
  tableName: 'endpoints',
  schema,
  columns: {
    key: { type: 'text', primary: true },
    served_at: time,
    failures: int,
    blocked_until: later,
    paused_revision: { type: 'int8', nullable: true },
  },
});

export const notifierSchema: Schema = {
  schema,
  entities: [ApprovalEntity, DeliveryEntity, AttemptEntity, EndpointEntity],
  migrations: [
    migration(
      'Notifier1763700000006',
      `CREATE TABLE notifier.approvals (
      id uuid PRIMARY KEY, tenant_id uuid NOT NULL, state text NOT NULL, action text NOT NULL, risk_level text NOT NULL, title text NOT NULL,
      description text, resource json, cost_impact float8, metadata json, hop int4 NOT NULL, max_hops int4 NOT NULL, window_seconds int4 NOT NULL,
      chain text[] NOT NULL, frozen text NOT NULL, requested_by json NOT NULL, request_id text NOT NULL, idempotency_key text, request_hash text NOT NULL,
      created_at timestamptz NOT NULL, expires_at timestamptz NOT NULL, expires_fixed boolean NOT NULL, escalates_at timestamptz,
      acknowledged_by text, acknowledged_at timestamptz, decided_by text, decided_at timestamptz, comment text, via text
    )`,
      'CREATE UNIQUE INDEX approvals_idempotency ON notifier.approvals (tenant_id, idempotency_key)',
      'CREATE INDEX approvals_tenant ON notifier.approvals (tenant_id, created_at, id)',
      `CREATE INDEX approvals_due ON notifier.approvals ((least(escalates_at, expires_at))) WHERE state = 'pending'`,
      `CREATE TABLE notifier.deliveries (
      id uuid PRIMARY KEY, tenant_id uuid NOT NULL, approval_id uuid NOT NULL, type text NOT NULL, hop int4 NOT NULL, channel text NOT NULL,
      endpoint_key text NOT NULL, place text NOT NULL, target text NOT NULL, body text NOT NULL, state text NOT NULL, attempts int4 NOT NULL,
      round int4 NOT NULL, next_attempt_at timestamptz NOT NULL, lease uuid, lease_until timestamptz, created_at timestamptz NOT NULL,
      settled_at timestamptz, reason text
    )`,
      'CREATE INDEX deliveries_tenant ON notifier.deliveries (tenant_id, created_at, id)',
      'CREATE INDEX deliveries_approval ON notifier.deliveries (approval_id)',
      `CREATE INDEX deliveries_waiting ON notifier.deliveries (endpoint_key, next_attempt_at) WHERE state = 'pending'`,
      `CREATE INDEX deliveries_leased ON notifier.deliveries (endpoint_key, lease_until) WHERE state = 'pending'`,
      `CREATE TABLE notifier.attempts (
      delivery_id uuid NOT NULL, n int4 NOT NULL, at timestamptz NOT NULL, duration_ms int4 NOT NULL, status int4, answer text, error text,
      PRIMARY KEY (delivery_id, n)
    )`,
      `CREATE TABLE notifier.endpoints (
      key text PRIMARY KEY, served_at timestamptz NOT NULL, failures int4 NOT NULL, blocked_until timestamptz, paused_revision int8
    )`,
    ),
  ],
};
