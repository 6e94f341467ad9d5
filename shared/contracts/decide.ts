/** Whether automation may do what it wants to do: the tenant's risk settings as one decision. */
import { Type, type Static, type TProperties } from 'typebox';
import { action, internal, internalRead } from './contract.ts';
import { valueReaders } from './roles.ts';
import { balance } from './budget-usage.ts';
import { BudgetInForce } from './budgets.ts';
import { layerNames, Revisions, stale } from './effective-config.ts';
import {
  AgentType,
  described,
  Identifier,
  Nullable,
  Optional,
  ServiceId,
  ServiceTypeName,
  StrictObject,
  TenantId,
  Timestamp,
  TitledObject,
  Uuid,
} from './fields.ts';
import { ActionToApprove, CostImpact, RiskLevel } from './notifier.ts';
import { decidingLimits } from './risk.ts';

export const automationDecisions = ['allow', 'approval_required', 'deny'] as const;
export type AutomationDecision = (typeof automationDecisions)[number];
export const AutomationDecision = Type.Enum(automationDecisions, {
  title: 'AutomationDecision',
  description: 'Whether automation may act, has to ask a human, or may not',
});

/**
 * By their risk settings, in the order in which they decide; freezes, which do after
 * `automation_enabled`; budgets, and the slots of automations.
 */
export const decisionRules = [
  ...decidingLimits,
  'freeze',
  'budget_exceeded',
  'rate_exceeded',
  'too_many_automations',
] as const;

/** Either field; a rollback is proven by what it names, never by saying that it is one. */
const TakesBack = StrictObject(
  {
    automation_id: Type.Optional(
      described(Uuid, 'An automation of the tenant that ran, for the same service'),
    ),
    revision: Optional.Integer({
      minimum: 1,
      description:
        'A write of the document of the service; without one, of the agent; without either, of a document that the tenant has one of',
      examples: [12],
    }),
  },
  {
    minProperties: 1,
    maxProperties: 1,
    title: 'TakesBack',
    description: 'What a rollback takes back: an automation or a revision, not both',
    examples: [{ revision: 12 }],
  },
);
export type TakesBack = Static<typeof TakesBack>;

/** What automation says of its intent. */
export const intent = {
  action: ActionToApprove,
  risk_level: RiskLevel,
  agent_type: Type.Optional(AgentType),
  service_id: Type.Optional(ServiceId),
  service_type: Type.Optional(ServiceTypeName),
  cost_impact: Type.Optional(CostImpact),
  resource_scaling: Optional.Number({
    minimum: 0,
    description: 'Factor by which a resource would be scaled',
  }),
  is_rollback: Optional.Boolean({
    description: 'Whether it reverts an earlier change; counts only with `takes_back`',
  }),
  takes_back: Type.Optional(TakesBack),
} as const satisfies TProperties;
export const Intent = TitledObject('Intent', 'What automation says of what it wants to do', intent);
export type Intent = Static<typeof Intent>;

/** A risk setting as reasons show it. */
const setting = {
  limit: Type.Unknown({ description: 'What the setting is' }),
  layer: Type.Enum([...layerNames, 'bounds', 'freezes', 'budgets'], {
    description: 'Where the setting is from; `bounds`, `freezes` and `budgets` are no layers',
  }),
  source: Type.String({
    description:
      'The cache key of the document that decides the setting; `env` for the environment',
  }),
  revision: Nullable(Type.Integer({ description: 'Of that document' })),
} as const satisfies TProperties;

export const DecisionReason = TitledObject('DecisionReason', 'A rule that applies', {
  rule: Type.Enum(decisionRules, {
    description: 'Which rule, by its risk setting; they decide in this order',
  }),
  asked: Type.Unknown({ description: 'What meets it' }),
  name: Type.Optional(described(Identifier, 'Of the budget or freeze')),
  spent: Optional.String({ description: 'Of a budget: what its period has spent, as a decimal' }),
  held: Optional.String({
    description: 'Of a budget: what automations that run may spend, as a decimal',
  }),
  resets_at: Type.Optional(
    described(Timestamp, 'When the period of the budget, or the freeze, ends'),
  ),
  ...setting,
});
export type DecisionReason = Static<typeof DecisionReason>;

export const decided = {
  decision: AutomationDecision,
  reasons: Type.Array(DecisionReason, {
    description: 'Every rule that applies; the first one decides',
  }),
  warnings: Optional.Array(
    TitledObject('DecisionWarning', 'What did not count', {
      path: Type.String({ description: 'JSON Pointer (RFC 6901) into the request' }),
      message: Type.String({ description: 'Why it does not count, and what to name' }),
    }),
    { description: 'Absent if everything that was said counts' },
  ),
  retry_at: Type.Optional(
    described(
      Timestamp,
      'When business hours or maintenance windows open next, or the freeze ends',
    ),
  ),
  revision: described(Revisions, 'Of the configuration that decided'),
} as const satisfies TProperties;
export const Decided = TitledObject('Decided', 'Whether automation may act, and why', {
  // Of an answer of `decide`; not said by a node of an earlier release.
  decision_id: Type.Optional(
    described(Uuid, 'Of this answer; it is found by it where it was recorded'),
  ),
  ...decided,
  budgets: Optional.Array(
    TitledObject('BudgetBalance', 'What a budget has left', {
      ...balance,
      as_of: described(Timestamp, 'When this was read; others may have started since'),
    }),
    {
      description:
        'That it counts against, as this node knows them. Only a start charges them, and only what a start says binds',
    },
  ),
  stale: Type.Optional(stale),
});
export type Decided = Static<typeof Decided>;

export const decideContracts = {
  'config-resolver.decide': action({
    summary: 'Whether automation may act, by the effective risk settings',
    rest: 'POST /tenants/{tenant_id}/decide',
    access: { level: 'tenant', roles: valueReaders, services: true },
    keyScope: 'config:read',
    narrow: ['service_ids', 'agent_types'],
    changesNothing: true,
    path: { tenant_id: TenantId },
    body: StrictObject({
      ...intent,
      at: Type.Optional(described(Timestamp, 'When it would act; defaults to now')),
      record: Optional.Boolean({
        description:
          'Record the decision before it is answered, regardless of `record_decisions` in the risk limits',
      }),
    }),
    result: Decided,
  }),
  'config-resolver.admission': internal({
    summary: 'A decision, with the number of slots that automations have',
    path: { tenant_id: TenantId },
    query: {
      min_revision: Optional.Integer({
        minimum: 0,
        description: 'Of the tenant: by no older configuration',
      }),
      is_proven: Optional.Boolean({
        description: 'Whether what `takes_back` names was found before; looked up where absent',
      }),
    },
    body: StrictObject({ ...intent, at: Timestamp }),
    result: StrictObject({
      decided: Decided,
      slots: StrictObject(setting),
      is_proven: Type.Boolean({ description: 'Whether what `takes_back` names was found' }),
      // Not said by a node of an earlier release.
      budgets: Optional.Array(BudgetInForce, {
        description: "That it counts against, the platform's first",
      }),
    }),
  }),
  'config-resolver.approval-terms': internalRead({
    summary: 'What an approval may cost and how long it waits, by the effective risk settings',
    path: { tenant_id: TenantId },
    query: {
      agent_type: intent.agent_type,
      service_id: intent.service_id,
      service_type: intent.service_type,
    },
    result: StrictObject({
      max_cost_impact_approval: StrictObject(setting),
      approval_timeout_minutes: StrictObject(setting),
      notification_channels: Optional.Unknown({
        description: 'Where notices of it go, as its service instance says',
      }),
    }),
  }),
} as const;
