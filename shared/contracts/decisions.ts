/**
 * Decisions that were recorded: the answers of `decide`, with what was asked and the revisions that
 * they were made by. The notifier keeps them, beside the automations; a tenant says by its risk limit
 * `record_decisions` which, and a caller by `record`.
 */
import { Type, type Static } from 'typebox';
import type { BudgetUsage } from './budget-usage.ts';
import { action, internal, internalRead, type Access } from './contract.ts';
import { AutomationDecision, Decided, DecisionReason, decisionRules, Intent } from './decide.ts';
import { Explanation, Revisions, stale } from './effective-config.ts';
import { listing } from './envelopes.ts';
import {
  described,
  DescribedObject,
  Nullable,
  Optional,
  ServiceId,
  strict,
  StrictObject,
  TenantId,
  Timestamp,
  TitledObject,
  Uuid,
} from './fields.ts';
import { DecisionsImpact } from './impact.ts';
import { deciderRoles } from './notifier.ts';
import { PlanItem } from './plan.ts';

const DecisionRule = Type.Enum([...decisionRules, 'none'], {
  title: 'DecisionRule',
  description: 'The rule that decides; `none` where none applies, which allows',
});
export type DecisionRule = Static<typeof DecisionRule>;

const record = {
  decision_id: described(Uuid, 'As it was answered'),
  decided_at: described(Timestamp, 'When it was answered'),
  at: described(Timestamp, 'When it would have acted'),
  intent: Intent,
  is_rollback_proven: Type.Boolean({ description: 'Whether what it takes back was found' }),
  decision: AutomationDecision,
  reasons: Decided.properties.reasons,
  warnings: Decided.properties.warnings,
  retry_at: Decided.properties.retry_at,
  budgets: Decided.properties.budgets,
  revision: described(Revisions, 'Of the configuration that decided'),
  stale: Type.Optional(stale),
};
const recorded = { title: 'RecordedDecision', description: 'A decision that was recorded' };
export const RecordedDecision = StrictObject(record, { ...recorded });
export type RecordedDecision = Static<typeof RecordedDecision>;
const DecisionOfTenant = StrictObject({ tenant_id: TenantId, ...record });
export type DecisionOfTenant = Static<typeof DecisionOfTenant>;

/** https://www.openpolicyagent.org/docs/management-decision-logs, of its fields those that there are. */
const OpaDecision = TitledObject(
  'OpaDecision',
  "A decision that was recorded, by the names of OPA's decision logs",
  {
    decision_id: record.decision_id,
    timestamp: record.decided_at,
    path: Type.Literal('strata/decide', { description: 'What was asked' }),
    input: DescribedObject('What automation said', {
      tenant_id: TenantId,
      at: record.at,
      ...Intent.properties,
    }),
    result: DescribedObject('What was answered', {
      decision: record.decision,
      reasons: record.reasons,
      warnings: record.warnings,
      retry_at: record.retry_at,
      stale: record.stale,
    }),
    bundles: Type.Record(
      Type.String(),
      StrictObject({ revision: Type.String({ description: 'Of the configuration that decided' }) }),
      { description: 'The configurations that decided: `tenant` and `platform`' },
    ),
  },
);
export type OpaDecision = Static<typeof OpaDecision>;

/** What the notifier kept of a decision, so that it can be replayed. */
export interface Replayable {
  readonly id: string;
  readonly source: 'decide' | 'automation';
  readonly decided_at: string;
  /** When it would have acted, and by when its budgets were looked at. */
  readonly at: string;
  readonly judged_at: string;
  readonly intent: Intent;
  /** Null where that was not kept, as are balances. */
  readonly is_proven: boolean | null;
  readonly balances: readonly Pick<BudgetUsage, 'by' | 'name' | 'spent' | 'held'>[] | null;
  readonly decision: Decided['decision'];
  readonly reasons: readonly DecisionReason[];
  readonly tenant: number;
  readonly platform: number;
  readonly has_started: boolean;
  readonly actual_cost: number | null;
  /** Its decision is a later one than the first. */
  readonly is_regranted: boolean;
}

const Count = TitledObject('DecisionCount', 'How often a rule decided so', {
  from: described(Timestamp, 'When the hour or day begins, in UTC'),
  rule: DecisionRule,
  decision: AutomationDecision,
  source: Type.Enum(['decide', 'automation'], {
    description: 'Recorded answers of `decide`, or automations that were asked for',
  }),
  count: Type.Integer({ description: 'How many' }),
});

/** A document that deciding goes by, as the history names it; null: there would be none. */
export const ProposedDocument = StrictObject({
  owner: Type.Enum(['tenant', 'platform']),
  config_type: Type.Enum([
    'global_config',
    'service_type_config',
    'tenant_risk_config',
    'agent_config',
    'service_config',
    'project_config',
    'bounds_config',
    'budgets_config',
    'freezes_config',
  ]),
  resource_id: Type.String(),
  document: Type.Unknown(),
});
export type ProposedDocument = Static<typeof ProposedDocument>;
const proposal = {
  items: Optional.Array(PlanItem, {
    minItems: 1,
    maxItems: 100,
    description: "Writes of the tenant's documents, as a change set has them",
  }),
  changeset_id: Type.Optional(described(Uuid, 'A change set of the tenant')),
};
const either = { ...strict, minProperties: 1, maxProperties: 1 };

/** What a replay has found so far. */
const Changes = Type.Record(Type.String(), Type.Integer(), {
  description: 'How many decisions change, such as `allow→deny`',
  examples: [{ 'allow→deny': 3 }],
});
const ofRule = DescribedObject('How many a rule decides', {
  before: Type.Integer({ description: 'How many it decided' }),
  after: Type.Integer({ description: 'How many it would have decided' }),
});
const Amount = (description: string) => Type.String({ description, examples: ['120.5'] });
const totals = {
  total: Type.Integer({ description: 'Decisions that were replayed' }),
  same: Type.Integer({ description: 'Those that the proposal leaves as they are' }),
  changed: Changes,
  by_rule: Type.Record(Type.String(), ofRule, { description: 'By the rule that decides' }),
  by_service: Type.Array(
    DescribedObject('A service instance', {
      service_id: Nullable(Type.String({ description: 'Null: for none' })),
      total: Type.Integer({ description: 'Decisions that were replayed' }),
      changed: Changes,
    }),
    { description: 'By service instance' },
  ),
  cost: DescribedObject('Costs, as decimals', {
    before: Amount('The `cost_impact` of all that was allowed, added up as it is'),
    after: Amount('Of all that would have been allowed'),
  }),
  unknown: Type.Record(Type.String(), Type.Integer(), {
    description:
      'Decisions that could not be replayed, by reason: they are not in `total`. `before_history`, `not_found`: the configuration at that time is not known any more; `withheld`: something of it was withdrawn; `unknown_name`: what it names is not there; `balances_not_kept`, `proof_not_kept`: made by an earlier release; `decided_at_grant`: made when its approval was granted; `cost_missing`: a budget would have asked for a cost',
    examples: [{ before_history: 2 }],
  }),
  baseline_differs: Type.Integer({
    description:
      'Decisions that the configuration at that time does not make as they were recorded, with the same rules, limits and sources; above all where settings of the environment have changed since',
  }),
};
const ReplayOutcome = TitledObject('ReplayOutcome', 'A decision and the rule that makes it', {
  decision: AutomationDecision,
  rule: DecisionRule,
});
const source = Type.Enum(['decide', 'automation'], {
  description: 'A recorded answer of `decide`, or an automation that was asked for',
});
export const Replay = TitledObject(
  'Replay',
  'What decisions of the past would be under a proposal',
  {
    ...totals,
    items: Type.Array(
      TitledObject('ReplayedDecision', 'A decision that changes', {
        id: described(Uuid, 'Of the decision or automation'),
        source,
        decided_at: record.decided_at,
        intent: Intent,
        before: ReplayOutcome,
        after: ReplayOutcome,
      }),
      { description: 'Those of this answer that change, the oldest first, up to `limit`' },
    ),
    items_left_out: Type.Integer({
      description: 'Decisions of this answer that change and are counted, and not among `items`',
    }),
    not_replayed: Type.Array(
      Type.Enum(['slots', 'approvals', 'environment', 'budgets_before_from']),
      {
        description:
          '`slots`: none is ever taken; `approvals`: what newly needs one never starts; `environment`: its layer is that of now; `budgets_before_from`: a budget of the proposal begins empty',
      },
    ),
    complete: Type.Boolean({
      description: 'False: counted up to here only; continue with `cursor`',
    }),
    cursor: Nullable(
      Type.String({ description: 'Continues, with what was counted; null if it is complete' }),
    ),
  },
);
export type Replay = Static<typeof Replay>;
export const ReplayTotals = StrictObject(totals);
export type ReplayTotals = Static<typeof ReplayTotals>;

const access: Access = { level: 'tenant', roles: deciderRoles, services: true };
const path = { tenant_id: TenantId };
const span = {
  from: Type.Optional(described(Timestamp, 'Only from this time on')),
  until: Type.Optional(described(Timestamp, 'Only from before this time')),
};

/** Decisions that one call records. */
export const mostRecorded = 1000;

export const decisionContracts = {
  'notifier.decisions.record': internal({
    summary: 'Record decisions',
    body: StrictObject({
      decisions: Type.Array(DecisionOfTenant, { maxItems: mostRecorded }),
      required: Type.Boolean({
        description: 'Refuse with 429 what a tenant may not record now, in place of counting it',
      }),
    }),
    result: StrictObject({
      refused: Type.Integer({ description: 'How many their tenants may not record now' }),
    }),
  }),
  'notifier.decisions.list': listing({
    summary: 'List recorded decisions, newest first',
    rest: 'GET /tenants/{tenant_id}/decisions',
    access,
    keyScope: 'automations:read',
    path,
    query: {
      ...span,
      rule: Type.Optional(described(DecisionRule, 'Only those that this rule decided')),
      decision: Type.Optional(described(AutomationDecision, 'Only those')),
      service_id: Type.Optional(described(ServiceId, 'Only those for this service instance')),
      format: Optional.Enum(['strata', 'opa'], {
        description: "`opa`: by the names of OPA's decision logs; `strata` by default",
      }),
    },
    items: Type.Union([RecordedDecision, OpaDecision]),
  }),
  'notifier.decisions.get': internalRead({
    summary: 'A recorded decision',
    path: { ...path, decision_id: record.decision_id },
    result: RecordedDecision,
  }),
  'notifier.decisions.replayable': internalRead({
    summary: 'Decisions and automations as they were asked for, the oldest first',
    path,
    query: {
      from: Timestamp,
      until: Timestamp,
      after: Optional.String({ maxLength: 100, description: 'Time and id' }),
      limit: Type.Integer({ minimum: 1, maximum: 5000 }),
    },
    result: Type.Array(Type.String(), {
      description: 'JSON arrays of them, one after the other, as the database wrote them',
    }),
  }),
  'tenant-config.proposed': internalRead({
    summary: 'The documents that deciding goes by, as a proposal would leave them',
    path,
    body: Type.Object(proposal, either),
    result: Type.Array(ProposedDocument),
  }),
  'config-resolver.decisions.replay': action({
    summary: 'Replay past decisions under a proposal; changes nothing',
    rest: 'POST /tenants/{tenant_id}/decide/replay',
    access,
    keyScope: 'automations:read',
    changesNothing: true,
    minTimeoutMs: 20_000,
    path,
    body: StrictObject({
      from: described(Timestamp, 'Only from this time on'),
      until: Type.Optional(described(Timestamp, 'Only from before this time; defaults to now')),
      proposed: Type.Object(
        {
          ...proposal,
          as_of: Type.Optional(
            described(Timestamp, 'The whole configuration, as it was at this moment'),
          ),
        },
        {
          ...either,
          title: 'ReplayProposal',
          description:
            'What holds instead: documents of the tenant as these writes would leave them now, at every moment, or the configuration of a moment',
          examples: [{ as_of: '2026-02-02T09:30:00Z' }],
        },
      ),
      limit: Optional.Integer({
        minimum: 1,
        maximum: 200,
        description: 'Of `items`; 50 by default',
      }),
      cursor: Optional.String({
        minLength: 1,
        maxLength: 500_000,
        description: '`cursor` of the previous answer, for the same request',
      }),
    }),
    result: Replay,
  }),
  'notifier.decisions.tenants': internalRead({
    summary: 'Tenants that have decisions since a moment',
    query: { from: Timestamp, limit: Type.Integer({ minimum: 1, maximum: 10_000 }) },
    result: Type.Array(TenantId),
  }),
  'config-resolver.decisions.impact': internalRead({
    summary: 'What decisions of the last days would be with other documents, briefly',
    body: StrictObject({
      tenant_id: Type.Optional(described(Uuid, 'Of this tenant alone')),
      documents: Type.Array(ProposedDocument),
    }),
    result: DecisionsImpact,
  }),
  'notifier.decisions.counts': action({
    summary: 'How often each rule decided, by hour or day',
    rest: 'GET /tenants/{tenant_id}/decisions/counts',
    access,
    keyScope: 'automations:read',
    path,
    query: {
      ...span,
      by: Optional.Enum(['hour', 'day'], { description: 'In UTC; by day by default' }),
    },
    result: TitledObject('DecisionCounts', 'Number of decisions by rule', {
      from: described(Timestamp, 'From when; 30 days ago by default, for hours 2 days'),
      until: described(Timestamp, 'Until before when; now by default'),
      items: Type.Array(Count, { description: 'By time, without those of none' }),
    }),
  }),
  'config-resolver.decisions.get': action({
    summary: 'A recorded decision, with the limits as they were for it',
    rest: 'GET /tenants/{tenant_id}/decisions/{decision_id}',
    access,
    keyScope: 'automations:read',
    path: { ...path, decision_id: record.decision_id },
    result: TitledObject(
      'ExplainedDecision',
      'A recorded decision, and the limits as they were for it',
      {
        ...record,
        explain: Nullable(
          Type.Record(Type.String(), Explanation, {
            description: 'What decides, by key: its value then, by which layer, and who set it',
          }),
        ),
        not_explained: Optional.String({
          description: 'Why `explain` is null: the history is not there any more',
        }),
      },
    ),
  }),
} as const;
