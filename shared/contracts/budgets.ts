/**
 * Budgets: how much automation may cost, or how often it may act, in an hour, a day, a week or a
 * month. One document each: `budgets_platform`, whose budgets hold in every tenant by itself, and
 * `budgets_{tenant_id}`, which adds to them. Both bind; neither loosens the other.
 */
import { Type, type Static } from 'typebox';
import { dryRun } from './contract.ts';
import { documentsOfBoth } from './documents-of-both.ts';
import {
  AgentType,
  described,
  Identifier,
  Optional,
  patterns,
  ProjectId,
  ServiceId,
  ServiceTypeName,
  SomeOf,
  strict,
  Text,
  TitledObject,
} from './fields.ts';
import { impactQuery } from './impact.ts';
import { ActionToApprove, riskLevels } from './notifier.ts';

const someNames = <Name extends typeof Identifier>(name: Name, description: string) =>
  Optional.Array(name, { minItems: 1, maxItems: 100, uniqueItems: true, description });

/** Which automations a budget or a freeze is about. */
export const LimitMatch = TitledObject(
  'LimitMatch',
  'Which automations it is about: those that fit every field. Without it, all',
  {
    actions: someNames(ActionToApprove, 'Only these actions'),
    agent_types: someNames(AgentType, 'Only of these agent types'),
    service_ids: someNames(ServiceId, 'Only on these service instances'),
    service_types: someNames(ServiceTypeName, 'Only on these service types'),
    project_ids: someNames(ProjectId, 'Only on instances of these projects'),
    environments: Optional.Array(Text('Such as production'), {
      minItems: 1,
      maxItems: 100,
      uniqueItems: true,
      description: 'Only on instances of projects of these environments',
    }),
    risk_levels: Type.Optional(
      SomeOf([...riskLevels], { minItems: 1, description: 'Only of these risk levels' }),
    ),
  },
);
export type LimitMatch = Static<typeof LimitMatch>;

/** Whose budget or freeze it is. */
export const limitOwner = Type.Enum(['platform', 'tenant'], { description: 'Whose it is' });

/** The same of a budget, which a project may have as well. */
export const budgetOwner = Type.Enum(['platform', 'tenant', 'project'], {
  description: 'Whose it is: that of a project is its `budget`, which `enforce_budget` enforces',
  examples: ['tenant'],
});

/** The name of a budget, of a freeze, or of an override of one. */
export const LimitName = Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$' });
export const limitMode = Optional.Enum(['enforce', 'warn'], {
  description: '`warn` refuses nothing, and says where it would have; `enforce` by default',
});
export const limitReason = Optional.String({ maxLength: 500, description: 'Reason, for people' });
export const timeZone = {
  minLength: 1,
  maxLength: 64,
  format: 'iana-time-zone',
  examples: ['Europe/Rome'],
} as const;

export const budgetPeriods = ['hour', 'day', 'week', 'month'] as const;
export type BudgetPeriod = (typeof budgetPeriods)[number];

/** An exact decimal: at most twelve digits, and six more after the point. */
export const DecimalText = Type.String({
  pattern: patterns.decimal,
  description:
    'A decimal, as text so that it is exact: at most twelve digits before the point and six after it',
  examples: ['500.00'],
});
export const Currency = Type.String({
  pattern: patterns.currency,
  description: 'Of costs, as ISO 4217 calls it; the same in every budget of a tenant',
  examples: ['EUR'],
});

export const Budget = TitledObject(
  'AutomationBudget',
  'How much automation may spend in a period',
  {
    amount: DecimalText,
    counts: Optional.Enum(['cost', 'actions'], {
      description:
        'What it is an amount of: the `cost_impact` of automations, or how many start; `cost` by default',
    }),
    currency: Type.Optional(Currency),
    per: Type.Enum(budgetPeriods, { description: 'How long a period lasts' }),
    window: Optional.Enum(['calendar', 'rolling'], {
      description:
        '`calendar`: periods of the calendar, weeks from Monday. `rolling`: the last hour, day, 7 days or 30 days, in steps of 5 minutes. `calendar` by default',
    }),
    timezone: Optional.String({
      ...timeZone,
      description: 'IANA name of the zone whose calendar it is; `UTC` by default',
    }),
    match: Type.Optional(LimitMatch),
    over: Optional.Enum(['deny', 'approval_required'], {
      description: 'Outcome of a start that would exceed it; `deny` by default',
    }),
    warn_at: Optional.Number({
      exclusiveMinimum: 0,
      maximum: 1,
      description: 'Share of the amount from which on people are notified, once per period',
      examples: [0.8],
    }),
    mode: limitMode,
    rollbacks: Optional.Enum(['free', 'count'], {
      description: 'Whether rollbacks that are proven count; `count` by default',
    }),
    reason: limitReason,
  },
);
export type Budget = Static<typeof Budget>;

export const Budgets = Type.Record(LimitName, Budget, {
  ...strict,
  maxProperties: 100,
  title: 'AutomationBudgets',
  description: 'By name, what automation may spend in a period',
  examples: [{ daily: { amount: '500.00', currency: 'EUR', per: 'day', timezone: 'Europe/Rome' } }],
});
export type Budgets = Static<typeof Budgets>;

/** One budget, and whose it is. */
export const BudgetInForce = TitledObject('BudgetInForce', 'A budget that holds here', {
  by: budgetOwner,
  name: described(
    Identifier,
    'Its name in the document; the project, of one of a project',
    'daily',
  ),
  rule: Budget,
  revision: Type.Integer({ description: 'Of the document' }),
});
export type BudgetInForce = Static<typeof BudgetInForce>;

const budgets = documentsOfBoth(
  'budgets',
  { document: Budgets, trial: { ...dryRun, ...impactQuery } },
  { document: Budgets, trial: { ...dryRun, impact: impactQuery.impact } },
);
export const { platformKey: platformBudgetsKey, tenantKey: tenantBudgetsKey } = budgets;

export const budgetContracts = {
  ...budgets.ofPlatform,
  ...budgets.ofTenant,
} as const;
