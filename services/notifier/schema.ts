/**
 * The tables of the notifier, for whoever reads or writes them: approvals, deliveries, attempts and
 * endpoints.
 *
 * Every timer is a column and every clock the database's, so that a node that dies loses no timer
 * and nodes need not agree on the time. The entities say what a row holds, the migrations make the
 * tables; a house test (test/services/schema-drift.test.ts) holds the columns of both equal.
 */
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
import {
  arrayOf,
  flag,
  float8,
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
  /**
   * On whose behalf, where a gateway asked by the Authorization API; with the account of the person
   * whom it knows by mail address.
   */
  for?: { type: string; id: string; user_id?: string };
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

/** Where a notice goes: one endpoint, chat space or mail address. */
export type Destination = Pick<DeliveryRow, 'channel' | 'place' | 'target' | 'endpoint_key'>;

/** A part of a budget that an automation may spend, as the ledger has it. */
export interface Hold {
  readonly budget: string;
  /** When the bucket begins in which it was made. */
  readonly bucket: string;
  /** A decimal. */
  readonly amount: string;
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

const schema = 'notifier';
const { table, entities } = tablesOf(schema);

/**
 * One request for approval. Whoever locks its row while it is pending decides, escalates or ends
 * it.
 */
export const ApprovalEntity = table('approvals', {
  id: primary(uuid),
  tenant_id: uuid,
  state: textOf<ApprovalState>(),
  action: text,
  risk_level: textOf<RiskLevel>(),
  title: text,
  description: nullable(text),
  resource: nullable(json<string | Record<string, unknown>>()),
  cost_impact: nullable(float8),
  /** What an automation says of why it asks (rules/asked-because.ts); null where none asks. */
  cost_currency: nullable(text),
  asked_because: nullable(arrayOf(text)),
  metadata: nullable(json<Record<string, unknown>>()),
  /** Escalations so far: 0 asks the first group of the chain. */
  hop: int4,
  max_hops: int4,
  window_seconds: int4,
  /** Approver groups in the order in which they are asked. */
  chain: arrayOf(text),
  /** What the approval is about; null where nothing that has configuration. */
  context: nullable(json<ApprovalContext>()),
  /** As it was when the approval was made; null for those from before there was one. */
  policy: nullable(json<FrozenPolicy>()),
  /** Those who have approved so far, in order; null for none. */
  approved_by: nullable(json<StoredApprover[]>()),
  /**
   * The FrozenConfig (rules/frozen-config.ts), sealed: what the configuration was when the approval
   * was asked for.
   */
  frozen: text,
  requested_by: json<StoredRequester>(),
  request_id: text,
  idempotency_key: nullable(text),
  /**
   * SHA-256 of the request, which tells a repetition of an idempotency key from another request
   * with it.
   */
  request_hash: text,
  created_at: time,
  expires_at: time,
  /** Whether expires_at was asked for; if not, it moves so that the escalation can end first. */
  expires_fixed: flag,
  /**
   * When the next hop is due; null while acknowledged, and once the approval is not pending any
   * more.
   */
  escalates_at: nullable(time),
  /** When those who are asked then are reminded; null once they were, and where nobody is. */
  reminds_at: nullable(time),
  acknowledged_by: nullable(text),
  acknowledged_at: nullable(time),
  decided_by: nullable(text),
  /** What people called them when they decided; null where that was before it was kept. */
  decided_by_name: nullable(text),
  decided_at: nullable(time),
  comment: nullable(text),
  via: nullable(textOf<DecisionVia>()),
  /**
   * Of its last change, in the scope `approvals:<tenant>`; null where that was before they were
   * counted.
   */
  revision: nullable(int8),
  /** An automation waits for its end, and has not taken notice of it yet. */
  awaited: { ...flag, default: true },
});
export type ApprovalRow = RowOf<typeof ApprovalEntity>;
/** What readers of an approval are shown, without `frozen`, which names each of its approvers. */
export type ShownApproval = Omit<ApprovalRow, 'frozen'>;
export const shownOfApproval = Object.keys(ApprovalEntity.options.columns).filter(
  (column) => column !== 'frozen',
);

/** One notice to one destination: a row of the queue while it is pending. */
export const DeliveryEntity = table('deliveries', {
  id: primary(uuid),
  tenant_id: uuid,
  /** Null where it tells of a budget or a change set. */
  approval_id: nullable(uuid),
  type: textOf<DeliveredType>(),
  hop: int4,
  channel: textOf<Channel>(),
  /** The key of the destination's endpoint. */
  endpoint_key: text,
  /**
   * Which of the channel's destinations in the frozen configuration: the index of a webhook
   * endpoint, `google_chat`, `teams`, or a mail address in lower case.
   */
  place: text,
  /** The destination as people are shown it: the origin of the endpoint, or the mail address. */
  target: text,
  /** The exact bytes of every attempt, as text. */
  body: text,
  state: textOf<DeliveryState>(),
  /** Attempts recorded in all. */
  attempts: int4,
  /**
   * Attempts recorded since it was queued, or replayed last: 0 says that the next one is a first
   * send.
   */
  round: int4,
  next_attempt_at: time,
  /**
   * Id of the worker that has claimed it. It stays when the claim ends without a record, as a sign
   * that the notice may have been sent.
   */
  lease: nullable(uuid),
  /** When the claim ends, unless the worker renews it. */
  lease_until: nullable(time),
  created_at: time,
  settled_at: nullable(time),
  reason: nullable(text),
  /** Its endpoint's `due_at` does not count it yet: no worker has looked at it. */
  fresh: { ...flag, default: true },
  /** A sealed FrozenConfig (rules/frozen-config.ts) where it has no approval that keeps one. */
  frozen: nullable(text),
});
export type DeliveryRow = RowOf<typeof DeliveryEntity>;

/** One recorded attempt at a delivery, as the delivery log shows it. */
export const AttemptEntity = table('attempts', {
  delivery_id: primary(uuid),
  n: primary(int4),
  at: time,
  duration_ms: int4,
  status: nullable(int4),
  answer: nullable(text),
  error: nullable(text),
});

/**
 * What works or fails together: one webhook endpoint or chat space of a tenant, or all of a
 * tenant's mail. Sends in flight, the circuit breaker and the pause are counted by it.
 */
export const EndpointEntity = table('endpoints', {
  key: primary(text),
  /**
   * When deliveries were last claimed from it; the longest ago comes first. Notices that wait for
   * it make it at most 12 h ago.
   */
  served_at: time,
  /** Failures in a row. */
  failures: int4,
  /** While the circuit breaker is open: when its next probe may pass. */
  blocked_until: nullable(time),
  /** Revision of the configuration with which it answered 410 Gone; null unless it is paused. */
  paused_revision: nullable(int8),
  /**
   * When it may have something to give, leaving out what is fresh; never later than it does. Null
   * where nothing waits.
   */
  due_at: nullable(time),
});

/** What automation asked to do, and how far that went. */
export const AutomationEntity = table('automations', {
  id: primary(uuid),
  tenant_id: uuid,
  state: textOf<AutomationState>(),
  intent: json<Intent>(),
  decided: json<Pick<Decided, 'decision' | 'reasons' | 'warnings' | 'retry_at' | 'revision'>>(),
  approval_id: nullable(uuid),
  ttl_seconds: int4,
  requested_by: json<{ type: string; id: string }>(),
  request_id: text,
  idempotency_key: nullable(text),
  request_hash: text,
  created_at: time,
  /** When its approval was granted: its place among those that wait for a slot. */
  granted_at: nullable(time),
  started_at: nullable(time),
  /** When its slot, or its place among those that wait, is given up; null once it has ended. */
  expires_at: nullable(time),
  ended_at: nullable(time),
  outcome: nullable(text),
  /** What is done to what, exactly; null where that was not said. */
  resource: nullable(json()),
  parameters: nullable(json()),
  /** Stands for exactly this action; null for those from before it was kept. */
  action_digest: nullable(text),
  /** When and by whom it was redeemed, which is once; null: not yet. */
  redeemed_at: nullable(time),
  redeemed_by: nullable(text),
  /** Whom its grants are for; null: whoever verifies them as from here. */
  audience: nullable(text),
  /** What it holds of budgets, or held; null for nothing. */
  holds: nullable(json<readonly Hold[]>()),
  /** What it cost, as who finished it says; null where nobody did. */
  actual_cost: nullable(float8),
  /** Null for those from before it was kept. */
  weighed: nullable(json<Weighed>()),
});
export type AutomationRow = RowOf<typeof AutomationEntity>;

/** A recorded answer of `decide`. */
export const DecisionEntity = table('decisions', {
  decision_id: primary(uuid),
  tenant_id: uuid,
  /** By the clock of the node that decided. */
  decided_at: time,
  at: time,
  intent: json<Intent>(),
  decided: json<Pick<RecordedDecision, 'reasons' | 'warnings' | 'retry_at' | 'budgets'>>(),
  decision: textOf<Decided['decision']>(),
  /** The rule that decided; `none` for none. */
  rule: text,
  service_id: nullable(text),
  tenant_revision: int8,
  platform_revision: int8,
  is_rollback_proven: flag,
  stale: flag,
});
export type DecisionRow = RowOf<typeof DecisionEntity>;

/** A budget that has come to its `warn_at`. */
export const BudgetWarningEntity = table('budget_warnings', {
  tenant_id: primary(uuid),
  /** As `ledgerKey` names it. */
  budget: primary(text),
  /** Until when nothing more is said of it. */
  until: time,
  /** What people are still to be told of it; null once the notices are queued. */
  notice: nullable(json<BudgetNotice['data']>()),
  /** When some node queues the notices; null once they are. */
  notice_due_at: nullable(time),
});
export type BudgetWarningRow = RowOf<typeof BudgetWarningEntity>;

export const notifierSchema: Schema = {
  schema,
  entities,
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
      // One row per tenant that ever had an automation; whoever gives or takes slots locks it.
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
      // When somebody looks at those who wait for a slot, if nothing that frees one is observed
      // before; null where nobody waits.
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
      // What a budget has spent and holds in five minutes: see stores/ledger.ts.
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
      // What grants are signed with (stores/grant-keys.ts): x is of the public key, as a JWK has it.
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
