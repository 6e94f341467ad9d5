/**
 * The tables of the notifier, for whoever reads or writes them: approvals, deliveries, attempts and
 * endpoints.
 *
 * Every timer is a column and every clock the database's, so that a node that dies loses no timer
 * and nodes need not agree on the time. The interfaces say what a row holds, the entities map them
 * for TypeORM, the migration makes the tables; a house test (test/services/schema-drift.test.ts) holds
 * entities and migration equal.
 */
import { EntitySchema, type EntitySchemaColumnOptions } from 'typeorm';
import type { BudgetNotice, BudgetUsage } from '../../shared/contracts/budget-usage.ts';
import type { AutomationState } from '../../shared/contracts/automations.ts';
import type { Decided, Intent } from '../../shared/contracts/decide.ts';
import type { RecordedDecision } from '../../shared/contracts/decisions.ts';
import type {
  ApprovalState,
  Channel,
  DecisionRight,
  DecisionVia,
  DeliveredType,
  DeliveryState,
  RiskLevel,
} from '../../shared/contracts/notifier.ts';
import { migration, type Schema } from '../../shared/database/open.ts';

export interface ApprovalContext {
  agent_type?: string;
  service_id?: string;
  service_type?: string;
}

/** What of the tenant's approval_policy concerns one approval. */
export interface FrozenPolicy {
  required: number;
  allow_self: boolean;
  machines: boolean;
}

export interface StoredKey {
  id: string;
  name: string;
  /** User id of whoever made the key; null where that is not known. */
  made_by: string | null;
}

/** Whoever asked. Those from before names and keys were kept have the first two alone. */
export interface StoredRequester {
  type: string;
  id: string;
  name?: string;
  api_key?: StoredKey | null;
  /** On whose behalf, where a gateway asked by the Authorization API. */
  for?: { type: string; id: string };
}

export interface StoredApprover {
  type: string;
  id: string;
  name: string;
  /** Mail address of a person. */
  email: string | null;
  api_key: StoredKey | null;
  at: string;
  comment: string | null;
  via: DecisionVia;
  right: DecisionRight;
}

/**
 * One request for approval. Whoever locks its row while it is pending decides, escalates or ends
 * it.
 */
export interface ApprovalRow {
  id: string;
  tenant_id: string;
  state: ApprovalState;
  action: string;
  risk_level: RiskLevel;
  title: string;
  description: string | null;
  resource: string | Record<string, unknown> | null;
  cost_impact: number | null;
  /** What an automation says of why it asks (rules/asked-because.ts); null where none asks. */
  cost_currency: string | null;
  asked_because: string[] | null;
  metadata: Record<string, unknown> | null;
  /** Escalations so far: 0 asks the first group of the chain. */
  hop: number;
  max_hops: number;
  window_seconds: number;
  /** Approver groups in the order in which they are asked. */
  chain: string[];
  /** What the approval is about; null where nothing that has configuration. */
  context: ApprovalContext | null;
  /** As it was when the approval was made; null for those from before there was one. */
  policy: FrozenPolicy | null;
  /** Those who have approved so far, in order; null for none. */
  approved_by: StoredApprover[] | null;
  /**
   * The FrozenConfig (rules/frozen-config.ts), sealed: what the configuration was when the approval
   * was asked for.
   */
  frozen: string;
  requested_by: StoredRequester;
  request_id: string;
  idempotency_key: string | null;
  /**
   * SHA-256 of the request, which tells a repetition of an idempotency key from another request
   * with it.
   */
  request_hash: string;
  created_at: Date;
  expires_at: Date;
  /** Whether expires_at was asked for; if not, it moves so that the escalation can end first. */
  expires_fixed: boolean;
  /**
   * When the next hop is due; null while acknowledged, and once the approval is not pending any
   * more.
   */
  escalates_at: Date | null;
  /** When those who are asked then are reminded; null once they were, and where nobody is. */
  reminds_at: Date | null;
  acknowledged_by: string | null;
  acknowledged_at: Date | null;
  decided_by: string | null;
  /** What people called them when they decided; null where that was before it was kept. */
  decided_by_name: string | null;
  decided_at: Date | null;
  comment: string | null;
  via: DecisionVia | null;
  /**
   * Of its last change, in the scope `approvals:<tenant>`; null where that was before they were
   * counted.
   */
  revision: number | null;
  /** An automation waits for its end, and has not taken notice of it yet. */
  awaited: boolean;
}

/** One notice to one destination: a row of the queue while it is pending. */
export interface DeliveryRow {
  id: string;
  tenant_id: string;
  /** Null where it tells of a budget or a change set. */
  approval_id: string | null;
  type: DeliveredType;
  hop: number;
  channel: Channel;
  /** EndpointRow.key of the destination. */
  endpoint_key: string;
  /**
   * Which of the channel's destinations in the frozen configuration: the index of a webhook
   * endpoint, `google_chat`, `teams`, or a mail address in lower case.
   */
  place: string;
  /** The destination as people are shown it: the origin of the endpoint, or the mail address. */
  target: string;
  /** The exact bytes of every attempt, as text. */
  body: string;
  state: DeliveryState;
  /** Attempts recorded in all. */
  attempts: number;
  /**
   * Attempts recorded since it was queued, or replayed last: 0 says that the next one is a first
   * send.
   */
  round: number;
  next_attempt_at: Date;
  /**
   * Id of the worker that has claimed it. It stays when the claim ends without a record, as a sign
   * that the notice may have been sent.
   */
  lease: string | null;
  /** When the claim ends, unless the worker renews it. */
  lease_until: Date | null;
  created_at: Date;
  settled_at: Date | null;
  reason: string | null;
  /** Its endpoint's `due_at` does not count it yet: no worker has looked at it. */
  fresh: boolean;
  /** A sealed FrozenConfig (rules/frozen-config.ts) where it has no approval that keeps one. */
  frozen: string | null;
}

/** Where a notice goes: one endpoint, chat space or mail address. */
export type Destination = Pick<DeliveryRow, 'channel' | 'place' | 'target' | 'endpoint_key'>;

/** One recorded attempt at a delivery, as the delivery log shows it. */
export interface AttemptRow {
  delivery_id: string;
  n: number;
  at: Date;
  duration_ms: number;
  status: number | null;
  answer: string | null;
  error: string | null;
}

/**
 * What works or fails together: one webhook endpoint or chat space of a tenant, or all of a
 * tenant's mail. Sends in flight, the circuit breaker and the pause are counted by it.
 */
export interface EndpointRow {
  key: string;
  /**
   * When deliveries were last claimed from it; the longest ago comes first. Notices that wait for
   * it make it at most 12 h ago.
   */
  served_at: Date;
  /** Failures in a row. */
  failures: number;
  /** While the circuit breaker is open: when its next probe may pass. */
  blocked_until: Date | null;
  /** Revision of the configuration with which it answered 410 Gone; null unless it is paused. */
  paused_revision: number | null;
  /**
   * When it may have something to give, leaving out what is fresh; never later than it does. Null
   * where nothing waits.
   */
  due_at: Date | null;
}

/** What automation asked to do, and how far that went. */
/** A part of a budget that an automation may spend, as the ledger has it. */
export interface Hold {
  readonly budget: string;
  /** When the bucket begins in which it was made. */
  readonly bucket: string;
  /** A decimal. */
  readonly amount: string;
}
export interface AutomationRow {
  id: string;
  tenant_id: string;
  state: AutomationState;
  intent: Intent;
  decided: Pick<Decided, 'decision' | 'reasons' | 'warnings' | 'retry_at' | 'revision'>;
  approval_id: string | null;
  ttl_seconds: number;
  requested_by: { type: string; id: string };
  request_id: string;
  idempotency_key: string | null;
  request_hash: string;
  created_at: Date;
  /** When its approval was granted: its place among those that wait for a slot. */
  granted_at: Date | null;
  started_at: Date | null;
  /** When its slot, or its place among those that wait, is given up; null once it has ended. */
  expires_at: Date | null;
  ended_at: Date | null;
  outcome: string | null;
  /** What is done to what, exactly; null where that was not said. */
  resource: unknown;
  parameters: unknown;
  /** Stands for exactly this action; null for those from before it was kept. */
  action_digest: string | null;
  /** When and by whom it was redeemed, which is once; null: not yet. */
  redeemed_at: Date | null;
  redeemed_by: string | null;
  /** Whom its grants are for; null: whoever verifies them as from here. */
  audience: string | null;
  /** What it holds of budgets, or held; null for nothing. */
  holds: readonly Hold[] | null;
  /** What it cost, as who finished it says; null where nobody did. */
  actual_cost: number | null;
  /** Null for those from before it was kept. */
  weighed: Weighed | null;
}

/** What an automation was decided by beside the configuration, so that it can be decided again. */
export interface Weighed {
  /** The moment by which its limits were looked at. */
  readonly at: string;
  /** Whether what it takes back was found. */
  readonly is_proven: boolean;
  /** What the budgets that it counts against had, as decimals. */
  readonly balances: readonly Pick<BudgetUsage, 'by' | 'name' | 'spent' | 'held'>[];
}

/** A recorded answer of `decide`. */
export interface DecisionRow {
  decision_id: string;
  tenant_id: string;
  /** By the clock of the node that decided. */
  decided_at: Date;
  at: Date;
  intent: Intent;
  decided: Pick<RecordedDecision, 'reasons' | 'warnings' | 'retry_at' | 'budgets'>;
  decision: Decided['decision'];
  /** The rule that decided; `none` for none. */
  rule: string;
  service_id: string | null;
  tenant_revision: number;
  platform_revision: number;
  is_rollback_proven: boolean;
  stale: boolean;
}

const text: EntitySchemaColumnOptions = { type: 'text' };
const optionalText: EntitySchemaColumnOptions = { type: 'text', nullable: true };
const uuid: EntitySchemaColumnOptions = { type: 'uuid' };
const integer: EntitySchemaColumnOptions = { type: 'int4' };
const time: EntitySchemaColumnOptions = { type: 'timestamptz' };
const optionalTime: EntitySchemaColumnOptions = { type: 'timestamptz', nullable: true };
const optionalJson: EntitySchemaColumnOptions = { type: 'json', nullable: true };
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
    description: optionalText,
    resource: optionalJson,
    cost_impact: { type: 'float8', nullable: true },
    cost_currency: optionalText,
    asked_because: { type: 'text', array: true, nullable: true },
    metadata: optionalJson,
    hop: integer,
    max_hops: integer,
    window_seconds: integer,
    chain: { type: 'text', array: true },
    context: optionalJson,
    policy: optionalJson,
    approved_by: optionalJson,
    frozen: text,
    requested_by: { type: 'json' },
    request_id: text,
    idempotency_key: optionalText,
    request_hash: text,
    created_at: time,
    expires_at: time,
    expires_fixed: { type: 'boolean' },
    escalates_at: optionalTime,
    reminds_at: optionalTime,
    acknowledged_by: optionalText,
    acknowledged_at: optionalTime,
    decided_by: optionalText,
    decided_by_name: optionalText,
    decided_at: optionalTime,
    comment: optionalText,
    via: optionalText,
    revision: { type: 'int8', nullable: true },
    awaited: { type: 'boolean', default: true },
  },
  indices: [
    { name: 'approvals_idempotency', columns: ['tenant_id', 'idempotency_key'], unique: true },
    { name: 'approvals_tenant', columns: ['tenant_id', 'created_at', 'id'] },
    { name: 'approvals_pending', columns: ['tenant_id'], where: `state = 'pending'` },
    { name: 'approvals_ended', columns: ['created_at'], where: `state <> 'pending'` },
    { name: 'approvals_changes', columns: ['tenant_id', 'revision'] },
    { name: 'approvals_awaited', columns: ['tenant_id'], where: `awaited AND state <> 'pending'` },
  ],
});
export const DeliveryEntity = new EntitySchema<DeliveryRow>({
  name: 'Delivery',
  tableName: 'deliveries',
  schema,
  columns: {
    id: { type: 'uuid', primary: true },
    tenant_id: uuid,
    approval_id: { type: 'uuid', nullable: true },
    type: text,
    hop: integer,
    channel: text,
    endpoint_key: text,
    place: text,
    target: text,
    body: text,
    state: text,
    attempts: integer,
    round: integer,
    next_attempt_at: time,
    lease: { type: 'uuid', nullable: true },
    lease_until: optionalTime,
    created_at: time,
    settled_at: optionalTime,
    reason: optionalText,
    fresh: { type: 'boolean', default: true },
    frozen: optionalText,
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
    { name: 'deliveries_settled', columns: ['settled_at'], where: `state <> 'pending'` },
    {
      name: 'deliveries_fresh',
      columns: ['endpoint_key'],
      where: `state = 'pending' AND fresh`,
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
    duration_ms: integer,
    status: { type: 'int4', nullable: true },
    answer: optionalText,
    error: optionalText,
  },
});
export const EndpointEntity = new EntitySchema<EndpointRow>({
  name: 'Endpoint',
  tableName: 'endpoints',
  schema,
  columns: {
    key: { type: 'text', primary: true },
    served_at: time,
    failures: integer,
    blocked_until: optionalTime,
    paused_revision: { type: 'int8', nullable: true },
    due_at: optionalTime,
  },
  indices: [{ name: 'endpoints_due', columns: ['due_at'], where: 'due_at IS NOT NULL' }],
});

export const AutomationEntity = new EntitySchema<AutomationRow>({
  name: 'Automation',
  tableName: 'automations',
  schema,
  columns: {
    id: { type: 'uuid', primary: true },
    tenant_id: uuid,
    state: text,
    intent: { type: 'json' },
    decided: { type: 'json' },
    approval_id: { type: 'uuid', nullable: true },
    ttl_seconds: integer,
    requested_by: { type: 'json' },
    request_id: text,
    idempotency_key: optionalText,
    request_hash: text,
    created_at: time,
    granted_at: optionalTime,
    started_at: optionalTime,
    expires_at: optionalTime,
    ended_at: optionalTime,
    outcome: optionalText,
    resource: { type: 'json', nullable: true },
    parameters: { type: 'json', nullable: true },
    action_digest: optionalText,
    redeemed_at: optionalTime,
    redeemed_by: optionalText,
    audience: optionalText,
    holds: { type: 'json', nullable: true },
    actual_cost: { type: 'float8', nullable: true },
    weighed: optionalJson,
  },
  indices: [
    { name: 'automations_idempotency', columns: ['tenant_id', 'idempotency_key'], unique: true },
    { name: 'automations_tenant', columns: ['tenant_id', 'created_at', 'id'] },
    {
      name: 'automations_live',
      columns: ['tenant_id'],
      where: `state IN ('waiting_approval', 'waiting_slot', 'running')`,
    },
    { name: 'automations_ended', columns: ['ended_at'], where: 'ended_at IS NOT NULL' },
    {
      name: 'automations_expiring',
      columns: ['expires_at'],
      where: `state IN ('waiting_slot', 'running')`,
    },
    {
      name: 'automations_waiting',
      columns: ['tenant_id', 'granted_at', 'created_at', 'id'],
      where: `state = 'waiting_slot'`,
    },
  ],
});
/** One row per tenant that ever had an automation; whoever gives or takes slots locks it. */
export interface AutomationTenantRow {
  tenant_id: string;
  /**
   * When somebody looks at those who wait for a slot, if nothing that frees one is observed before;
   * null where nobody waits.
   */
  look_at: Date | null;
}
export const AutomationTenantEntity = new EntitySchema<AutomationTenantRow>({
  name: 'AutomationTenant',
  tableName: 'automation_tenants',
  schema,
  columns: { tenant_id: { type: 'uuid', primary: true }, look_at: optionalTime },
  indices: [
    { name: 'automation_tenants_look', columns: ['look_at'], where: 'look_at IS NOT NULL' },
  ],
});

export const DecisionEntity = new EntitySchema<DecisionRow>({
  name: 'Decision',
  tableName: 'decisions',
  schema,
  columns: {
    decision_id: { type: 'uuid', primary: true },
    tenant_id: uuid,
    decided_at: time,
    at: time,
    intent: { type: 'json' },
    decided: { type: 'json' },
    decision: text,
    rule: text,
    service_id: optionalText,
    tenant_revision: { type: 'int8' },
    platform_revision: { type: 'int8' },
    is_rollback_proven: { type: 'boolean' },
    stale: { type: 'boolean' },
  },
  indices: [
    { name: 'decisions_tenant', columns: ['tenant_id', 'decided_at', 'decision_id'] },
    { name: 'decisions_decided', columns: ['decided_at'] },
  ],
});

/** What a budget has spent and holds in five minutes (stores/ledger.ts). */
export const LedgerEntity = new EntitySchema({
  name: 'Ledger',
  tableName: 'ledger',
  schema,
  columns: {
    tenant_id: { type: 'uuid', primary: true },
    budget: { type: 'text', primary: true },
    bucket: { type: 'timestamptz', primary: true },
    spent: { type: 'numeric' },
    held: { type: 'numeric' },
  },
  indices: [{ name: 'ledger_bucket', columns: ['bucket'] }],
});
/** A budget that has come to its `warn_at`. */
export interface BudgetWarningRow {
  tenant_id: string;
  /** As `ledgerKey` names it. */
  budget: string;
  /** Until when nothing more is said of it. */
  until: Date;
  /** What people are still to be told of it; null once the notices are queued. */
  notice: BudgetNotice['data'] | null;
  /** When some node queues the notices; null once they are. */
  notice_due_at: Date | null;
}
export const BudgetWarningEntity = new EntitySchema<BudgetWarningRow>({
  name: 'BudgetWarning',
  tableName: 'budget_warnings',
  schema,
  columns: {
    tenant_id: { type: 'uuid', primary: true },
    budget: { type: 'text', primary: true },
    until: time,
    notice: optionalJson,
    notice_due_at: optionalTime,
  },
  indices: [
    {
      name: 'budget_warnings_due',
      columns: ['notice_due_at'],
      where: 'notice_due_at IS NOT NULL',
    },
  ],
});

/** What grants are signed with (stores/grant-keys.ts). */
export const GrantKeyEntity = new EntitySchema({
  name: 'GrantKey',
  tableName: 'grant_keys',
  schema,
  columns: {
    kid: { type: 'uuid', primary: true },
    /** Of the public key, as a JWK has it. */
    x: text,
    /** The private key. */
    sealed: text,
    created_at: time,
  },
});

export const SlackMessageEntity = new EntitySchema({
  name: 'SlackMessage',
  tableName: 'slack_messages',
  schema,
  columns: {
    tenant_id: { type: 'uuid', primary: true },
    approval_id: { type: 'uuid', primary: true },
    channel: { type: 'text', primary: true },
    ts: { type: 'text', primary: true },
  },
});
export const SlackLeaseEntity = new EntitySchema({
  name: 'SlackLease',
  tableName: 'slack_leases',
  schema,
  columns: {
    tenant_id: { type: 'uuid', primary: true },
    holder: { type: 'uuid' },
    held_until: time,
  },
});

export const notifierSchema: Schema = {
  schema,
  entities: [
    ApprovalEntity,
    DeliveryEntity,
    AttemptEntity,
    EndpointEntity,
    AutomationEntity,
    AutomationTenantEntity,
    DecisionEntity,
    LedgerEntity,
    BudgetWarningEntity,
    GrantKeyEntity,
    SlackMessageEntity,
    SlackLeaseEntity,
  ],
  migrations: [
    migration(
      'Notifier1763700000006',
      `CREATE TABLE notifier.approvals (
         id uuid PRIMARY KEY,
         tenant_id uuid NOT NULL,
         state text NOT NULL,
         action text NOT NULL,
         risk_level text NOT NULL,
         title text NOT NULL,
         description text,
         resource json,
         cost_impact float8,
         metadata json,
         hop int4 NOT NULL,
         max_hops int4 NOT NULL,
         window_seconds int4 NOT NULL,
         chain text[] NOT NULL,
         frozen text NOT NULL,
         requested_by json NOT NULL,
         request_id text NOT NULL,
         idempotency_key text,
         request_hash text NOT NULL,
         created_at timestamptz NOT NULL,
         expires_at timestamptz NOT NULL,
         expires_fixed boolean NOT NULL,
         escalates_at timestamptz,
         acknowledged_by text,
         acknowledged_at timestamptz,
         decided_by text,
         decided_at timestamptz,
         comment text,
         via text
       )`,
      'CREATE UNIQUE INDEX approvals_idempotency ON notifier.approvals (tenant_id, idempotency_key)',
      'CREATE INDEX approvals_tenant ON notifier.approvals (tenant_id, created_at, id)',
      `CREATE INDEX approvals_due ON notifier.approvals ((least(escalates_at, expires_at))) WHERE state = 'pending'`,
      `CREATE TABLE notifier.deliveries (
         id uuid PRIMARY KEY,
         tenant_id uuid NOT NULL,
         approval_id uuid NOT NULL,
         type text NOT NULL,
         hop int4 NOT NULL,
         channel text NOT NULL,
         endpoint_key text NOT NULL,
         place text NOT NULL,
         target text NOT NULL,
         body text NOT NULL,
         state text NOT NULL,
         attempts int4 NOT NULL,
         round int4 NOT NULL,
         next_attempt_at timestamptz NOT NULL,
         lease uuid,
         lease_until timestamptz,
         created_at timestamptz NOT NULL,
         settled_at timestamptz,
         reason text
       )`,
      'CREATE INDEX deliveries_tenant ON notifier.deliveries (tenant_id, created_at, id)',
      'CREATE INDEX deliveries_approval ON notifier.deliveries (approval_id)',
      `CREATE INDEX deliveries_waiting ON notifier.deliveries (endpoint_key, next_attempt_at) WHERE state = 'pending'`,
      `CREATE INDEX deliveries_leased ON notifier.deliveries (endpoint_key, lease_until) WHERE state = 'pending'`,
      `CREATE TABLE notifier.attempts (
         delivery_id uuid NOT NULL,
         n int4 NOT NULL,
         at timestamptz NOT NULL,
         duration_ms int4 NOT NULL,
         status int4,
         answer text,
         error text,
         PRIMARY KEY (delivery_id, n)
       )`,
      `CREATE TABLE notifier.endpoints (
         key text PRIMARY KEY,
         served_at timestamptz NOT NULL,
         failures int4 NOT NULL,
         blocked_until timestamptz,
         paused_revision int8
       )`,
    ),
    migration(
      'CountPendingApprovals1763900000001',
      `CREATE INDEX approvals_pending ON notifier.approvals (tenant_id) WHERE state = 'pending'`,
    ),
    migration(
      'NotifierRetention1764100000001',
      `CREATE INDEX approvals_ended ON notifier.approvals (created_at) WHERE state <> 'pending'`,
      `CREATE INDEX deliveries_settled ON notifier.deliveries (settled_at) WHERE state <> 'pending'`,
    ),
    migration(
      'Automations1764200000001',
      `CREATE TABLE notifier.automations (
         id uuid PRIMARY KEY,
         tenant_id uuid NOT NULL,
         state text NOT NULL,
         intent json NOT NULL,
         decided json NOT NULL,
         approval_id uuid,
         ttl_seconds int4 NOT NULL,
         requested_by json NOT NULL,
         request_id text NOT NULL,
         idempotency_key text,
         request_hash text NOT NULL,
         created_at timestamptz NOT NULL,
         granted_at timestamptz,
         started_at timestamptz,
         expires_at timestamptz,
         ended_at timestamptz,
         outcome text
       )`,
      'CREATE UNIQUE INDEX automations_idempotency ON notifier.automations (tenant_id, idempotency_key)',
      'CREATE INDEX automations_tenant ON notifier.automations (tenant_id, created_at, id)',
      `CREATE INDEX automations_live ON notifier.automations (tenant_id)
         WHERE state IN ('waiting_approval', 'waiting_slot', 'running')`,
      'CREATE INDEX automations_ended ON notifier.automations (ended_at) WHERE ended_at IS NOT NULL',
      'CREATE TABLE notifier.automation_tenants (tenant_id uuid PRIMARY KEY)',
    ),
    migration(
      'ApprovalPolicies1764300000001',
      'ALTER TABLE notifier.approvals ADD COLUMN context json, ADD COLUMN policy json, ADD COLUMN approved_by json',
    ),
    migration(
      'ApprovalRevisions1764300000002',
      'ALTER TABLE notifier.approvals ADD COLUMN revision int8',
      'CREATE INDEX approvals_changes ON notifier.approvals (tenant_id, revision)',
    ),
    migration(
      'ApprovalDeciderNames1764300000003',
      'ALTER TABLE notifier.approvals ADD COLUMN decided_by_name text',
    ),
    // Rows of nodes of the release before count as waited for, and as fresh, until somebody looks.
    migration(
      'DueIndexes1765000000001',
      `ALTER TABLE notifier.automation_tenants ADD COLUMN look_at timestamptz`,
      'CREATE INDEX automation_tenants_look ON notifier.automation_tenants (look_at) WHERE look_at IS NOT NULL',
      `UPDATE notifier.automation_tenants t SET look_at = now()
       WHERE EXISTS (SELECT FROM notifier.automations a WHERE a.tenant_id = t.tenant_id AND a.state = 'waiting_slot')`,
      `CREATE INDEX automations_expiring ON notifier.automations (expires_at) WHERE state IN ('waiting_slot', 'running')`,
      `CREATE INDEX automations_waiting ON notifier.automations (tenant_id, granted_at, created_at, id)
         WHERE state = 'waiting_slot'`,
      'ALTER TABLE notifier.approvals ADD COLUMN awaited boolean NOT NULL DEFAULT false',
      `UPDATE notifier.approvals p SET awaited = true FROM notifier.automations a
       WHERE a.state = 'waiting_approval' AND p.id = a.approval_id`,
      'ALTER TABLE notifier.approvals ALTER COLUMN awaited SET DEFAULT true',
      `CREATE INDEX approvals_awaited ON notifier.approvals (tenant_id) WHERE awaited AND state <> 'pending'`,
      'ALTER TABLE notifier.deliveries ADD COLUMN fresh boolean NOT NULL DEFAULT true',
      `CREATE INDEX deliveries_fresh ON notifier.deliveries (endpoint_key) WHERE state = 'pending' AND fresh`,
      'ALTER TABLE notifier.endpoints ADD COLUMN due_at timestamptz',
      'CREATE INDEX endpoints_due ON notifier.endpoints (due_at) WHERE due_at IS NOT NULL',
    ),
    // worker/slot-clock.ts says why. Where it was observed last, it may move on by five seconds.
    migration(
      'SlotClock1765000000004',
      `CREATE TABLE notifier.slot_clock (
         only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
         observed_at timestamptz NOT NULL
       ) WITH (fillfactor = 10)`,
      'INSERT INTO notifier.slot_clock (observed_at) VALUES (clock_timestamp())',
      `CREATE FUNCTION notifier.slot_now() RETURNS timestamptz LANGUAGE sql STABLE AS $$
         SELECT LEAST(clock_timestamp(), observed_at + interval '5 seconds') FROM notifier.slot_clock $$`,
    ),
    migration(
      'Budgets1765100000003',
      'ALTER TABLE notifier.automations ADD COLUMN holds json, ADD COLUMN actual_cost float8',
      `CREATE TABLE notifier.ledger (
         tenant_id uuid NOT NULL, budget text NOT NULL, bucket timestamptz NOT NULL, spent numeric NOT NULL,
         held numeric NOT NULL, PRIMARY KEY (tenant_id, budget, bucket)
       )`,
      'CREATE INDEX ledger_bucket ON notifier.ledger (bucket)',
      `CREATE TABLE notifier.budget_warnings (
         tenant_id uuid NOT NULL, budget text NOT NULL, until timestamptz NOT NULL, PRIMARY KEY (tenant_id, budget)
       )`,
    ),
    migration(
      'ExactActions1765100000004',
      `ALTER TABLE notifier.automations ADD COLUMN resource json, ADD COLUMN parameters json,
         ADD COLUMN action_digest text, ADD COLUMN redeemed_at timestamptz, ADD COLUMN redeemed_by text`,
    ),
    migration(
      'BudgetNotices1765200000001',
      'ALTER TABLE notifier.deliveries ALTER COLUMN approval_id DROP NOT NULL, ADD COLUMN frozen text',
      'ALTER TABLE notifier.budget_warnings ADD COLUMN notice json, ADD COLUMN notice_due_at timestamptz',
      `CREATE INDEX budget_warnings_due ON notifier.budget_warnings (notice_due_at) WHERE notice_due_at IS NOT NULL`,
    ),
    migration(
      'Grants1765200000002',
      `CREATE TABLE notifier.grant_keys (
         kid uuid PRIMARY KEY, x text NOT NULL, sealed text NOT NULL, created_at timestamptz NOT NULL
       )`,
      'ALTER TABLE notifier.automations ADD COLUMN audience text',
    ),
    // Nodes of the release before ask by the first two alone: what is pending is found by its tenant's index.
    migration(
      'Reminders1765300000001',
      'ALTER TABLE notifier.approvals ADD COLUMN reminds_at timestamptz',
      'DROP INDEX notifier.approvals_due',
      `CREATE INDEX approvals_due ON notifier.approvals ((least(escalates_at, expires_at, reminds_at)))
         WHERE state = 'pending'`,
    ),
    migration(
      'Decisions1765300000002',
      'ALTER TABLE notifier.automations ADD COLUMN weighed json',
      `CREATE TABLE notifier.decisions (
         decision_id uuid PRIMARY KEY, tenant_id uuid NOT NULL, decided_at timestamptz NOT NULL,
         at timestamptz NOT NULL, intent json NOT NULL, decided json NOT NULL, decision text NOT NULL,
         rule text NOT NULL, service_id text, tenant_revision int8 NOT NULL, platform_revision int8 NOT NULL,
         is_rollback_proven boolean NOT NULL, stale boolean NOT NULL
       )`,
      'CREATE INDEX decisions_tenant ON notifier.decisions (tenant_id, decided_at, decision_id)',
      'CREATE INDEX decisions_decided ON notifier.decisions (decided_at)',
    ),
    migration(
      'AskedBecause1765400000001',
      'ALTER TABLE notifier.approvals ADD COLUMN cost_currency text, ADD COLUMN asked_because text[]',
    ),
    migration(
      'Slack1766300000001',
      `CREATE TABLE notifier.slack_messages (
         tenant_id uuid NOT NULL, approval_id uuid NOT NULL, channel text NOT NULL, ts text NOT NULL,
         PRIMARY KEY (tenant_id, approval_id, channel, ts)
       )`,
      `CREATE TABLE notifier.slack_leases (
         tenant_id uuid PRIMARY KEY, holder uuid NOT NULL, held_until timestamptz NOT NULL
       )`,
    ),
  ],
};
