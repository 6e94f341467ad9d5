/**
 * Plans: what several writes of the platform's configuration would do together to every tenant, and
 * the writing of exactly that. A plan's digest stands for the items and for all that their impact
 * depends on, so that what was looked at is what is applied.
 */
import { Type, type Static } from 'typebox';
import { action, internalRead, writing } from './contract.ts';
import { Change, OrProposed } from './envelopes.ts';
import { Nullable, Optional, StrictObject, TitledObject, Uuid } from './fields.ts';
import { Impact, impactCursor, LimitsImpact, planned } from './impact.ts';
import { PlatformLayers } from './layers.ts';
import { Bounds } from './bounds.ts';
import { Budgets, limitOwner } from './budgets.ts';
import { Freezes } from './freezes.ts';
import { platformAdmins } from './platform-document.ts';

export const PlanItem = TitledObject('PlanItem', 'One write that is planned', {
  action: Type.Enum(['put', 'patch', 'delete'], { description: 'The method of the write' }),
  path: Type.String({
    minLength: 1,
    maxLength: 500,
    description: "A document of the platform's, such as /config/global/{key}",
    examples: ['/config/global/http_client_timeout_seconds'],
  }),
  body: Optional.Unknown({
    description: 'As the write takes it; none for a delete',
    examples: [{ config_value: 20, is_public: true }],
  }),
  if_match: Optional.String({
    maxLength: 1000,
    description: 'As the header If-Match of the write',
  }),
});
export type PlanItem = Static<typeof PlanItem>;

export const PlannedChange = TitledObject('PlannedChange', 'What an item changes in its document', {
  resource: Type.String({ description: 'The path of the item' }),
  ...Change.properties,
});

const items = Type.Array(PlanItem, {
  minItems: 1,
  maxItems: 100,
  description: 'The writes, in order',
});
const reason = Optional.String({ maxLength: 500, description: 'Reason, kept in the history' });

export const planContracts = {
  'global-config.plan': action({
    summary: 'Plan writes of the platform: what they would change for every tenant; writes nothing',
    rest: 'POST /config/plan',
    access: platformAdmins,
    keyScope: 'platform:read',
    changesNothing: true,
    body: StrictObject({
      items,
      limit: Optional.Integer({ minimum: 1, maximum: 200, description: 'Of items of the impact' }),
      cursor: impactCursor(200_000),
    }),
    result: TitledObject('Plan', 'What several writes of the platform would change together', {
      ...planned,
      changes: Type.Array(PlannedChange, { description: 'What would change in the documents' }),
    }),
  }),
  'global-config.plan.apply': writing({
    summary: 'Apply a plan, all of it or nothing; 412 if anything changed since',
    rest: 'POST /config/plan/apply',
    access: platformAdmins,
    leadsTo: 'configuration',
    keyScope: 'platform:write',
    minTimeoutMs: 30_000,
    body: StrictObject({
      digest: Type.String({ minLength: 1, maxLength: 200, description: 'Of the plan' }),
      items,
      reason,
    }),
    result: OrProposed(
      TitledObject('AppliedPlan', 'What was written', {
        revision: Type.Integer({ description: "The platform's after the last item" }),
        items: Type.Array(
          StrictObject({
            action: PlanItem.properties.action,
            path: Type.String({ description: 'The path of the item' }),
            outcome: Type.Enum(['created', 'updated', 'deleted'], {
              description: 'What became of the document',
            }),
            revision: Type.Integer({ description: 'The revision that it made' }),
          }),
          { description: 'The writes, in order' },
        ),
      }),
    ),
  }),
  'config-resolver.impact': internalRead({
    summary: 'What other layers or bounds would change in effective configurations',
    body: StrictObject({
      keys: Type.Array(Type.String(), { description: 'What the layers or bounds say changes' }),
      platform: Type.Optional(StrictObject({ before: PlatformLayers, after: PlatformLayers })),
      tenant: Type.Optional(
        StrictObject({
          tenant_id: Uuid,
          before: Type.Union([Bounds, Type.Null()]),
          after: Type.Union([Bounds, Type.Null()]),
        }),
      ),
      base: Type.String({ description: 'What a cursor has to be of' }),
      since: Optional.String({ description: 'Name tenants that changed since' }),
      limit: Optional.Integer(),
      cursor: Optional.String(),
      only_digest: Optional.Boolean(),
    }),
    result: StrictObject({
      impact: Impact,
      complete: Type.Boolean(),
      digest: Type.Union([Type.String(), Type.Null()]),
      moved: Type.Array(Type.String(), { description: 'Names of tenants that changed `since`' }),
    }),
  }),
  'config-resolver.impact.over-time': internalRead({
    summary: 'What other budgets or freezes of one owner would mean in tenants',
    body: StrictObject({
      by: limitOwner,
      tenant_id: Type.Optional(Uuid),
      budgets: Type.Optional(StrictObject({ before: Nullable(Budgets), after: Nullable(Budgets) })),
      freezes: Type.Optional(StrictObject({ before: Nullable(Freezes), after: Nullable(Freezes) })),
    }),
    result: LimitsImpact,
  }),
} as const;
