/** What budgets have spent. The notifier keeps it, beside the automations that spend. */
import { Type, type Static } from 'typebox';
import { BudgetInForce, budgetOwner, Currency } from './budgets.ts';
import { action, internalRead, type Access } from './contract.ts';
import {
  described,
  DescribedObject,
  Optional,
  StrictObject,
  TenantId,
  Timestamp,
  TitledObject,
  Uuid,
} from './fields.ts';
import { budgetNoticeType, deciderRoles, noticed } from './notifier.ts';

const decimal = (description: string, example: string) =>
  Type.String({ description, examples: [example] });

/** What a budget's period has spent, holds, and has left. */
export const balance = {
  by: budgetOwner,
  name: BudgetInForce.properties.name,
  spent: decimal('What was spent, as a decimal', '120.5'),
  held: decimal('What automations that run may spend, as a decimal', '20'),
  remaining: decimal('What is left; negative where more was spent than the amount', '359.5'),
  resets_at: described(
    Timestamp,
    'When the period ends; of a rolling one, when what is spent now stops counting',
  ),
};

export const BudgetUsage = TitledObject('BudgetUsage', 'What a budget has spent in a period', {
  ...balance,
  amount: decimal('Its amount', '500.00'),
  rule: BudgetInForce.properties.rule,
  from: described(Timestamp, 'When the period began'),
});
export type BudgetUsage = Static<typeof BudgetUsage>;

/** What a webhook receives of a budget. */
export const BudgetNotice = TitledObject('BudgetNotice', 'A budget has reached its `warn_at`', {
  type: Type.Literal(budgetNoticeType, { description: 'What has happened' }),
  ...noticed,
  data: DescribedObject('The budget as it was then', {
    tenant_id: TenantId,
    by: balance.by,
    name: balance.name,
    amount: decimal('Its amount', '500.00'),
    currency: Type.Optional(Currency),
    warn_at: Type.Number({ description: 'The share of the amount that was reached' }),
    spent: balance.spent,
    held: balance.held,
    asked: decimal(
      'What started in addition, and brought it there; 0 where what others cost did',
      '20',
    ),
    resets_at: balance.resets_at,
  }),
});
export type BudgetNotice = Static<typeof BudgetNotice>;

/** Automations of a tenant that run, or wait for an approval or a slot, and ask for the same. */
const LiveAutomations = StrictObject({
  tenant_id: Uuid,
  agent_type: Optional.String(),
  service_id: Optional.String(),
  service_type: Optional.String(),
  action: Type.String(),
  risk_level: Type.String(),
  is_rollback: Type.Boolean({ description: 'Whether they say so' }),
  cost_impact: Optional.Number(),
  running: Type.Integer(),
  waiting: Type.Integer(),
});
export type LiveAutomations = Static<typeof LiveAutomations>;

/** The ledger keeps at least so many (`removeOldLedger`). */
const mostDays = 62;
const access: Access = { level: 'tenant', roles: deciderRoles, services: true };

export const budgetUsageContracts = {
  'notifier.budgets.usage': action({
    summary: "Spending of the tenant's budgets, and of the platform's in this tenant",
    rest: 'GET /tenants/{tenant_id}/budgets/usage',
    access,
    keyScope: 'automations:read',
    path: { tenant_id: TenantId },
    query: {
      at: Type.Optional(
        described(Timestamp, 'In the periods that contain this moment; defaults to now'),
      ),
    },
    result: TitledObject('BudgetsUsage', 'What budgets have spent', {
      at: described(Timestamp, 'The moment'),
      items: Type.Array(BudgetUsage, { description: "The platform's budgets first" }),
    }),
  }),
  'notifier.budgets.days': action({
    summary: 'Spending of a budget on each of the last days',
    rest: 'GET /tenants/{tenant_id}/budgets/days',
    access,
    keyScope: 'automations:read',
    path: { tenant_id: TenantId },
    query: {
      by: budgetOwner,
      name: BudgetInForce.properties.name,
      days: Optional.Integer({
        minimum: 1,
        maximum: mostDays,
        description: 'How many, today included; 31 by default',
      }),
    },
    result: TitledObject('BudgetDays', 'What a budget has spent by day', {
      items: Type.Array(
        DescribedObject('A day', {
          date: Type.String({
            format: 'date',
            description: "By the clocks of the budget's zone",
            examples: ['2026-11-25'],
          }),
          from: described(Timestamp, 'When the day began'),
          until: described(Timestamp, 'When it expires'),
          spent: balance.spent,
          held: balance.held,
        }),
        { description: 'Every day, the oldest first' },
      ),
    }),
  }),
  'notifier.budgets.standing': internalRead({
    summary: 'What tenants have spent of some budgets, and which of their automations are live',
    body: StrictObject({
      tenant_id: Type.Optional(Uuid),
      budgets: Type.Array(
        StrictObject({
          budget: BudgetInForce,
          least: Type.String({
            description: 'Tenants that have spent less, and have nothing that waits, are left out',
          }),
        }),
      ),
    }),
    result: StrictObject({
      at: Timestamp,
      spending: Type.Array(
        StrictObject({
          tenant_id: Uuid,
          index: Type.Integer({ description: 'Of the budget among those asked for' }),
          spent: Type.String(),
          held: Type.String(),
        }),
      ),
      live: Type.Array(LiveAutomations),
      complete: Type.Boolean({ description: 'False: there are more than are answered' }),
    }),
  }),
} as const;
