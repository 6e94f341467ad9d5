/**
 * What a change would do to effective configurations: the answer of a plan, and of a dry run that
 * is asked for it.
 */
import { Type, type Static, type TProperties } from 'typebox';
import {
  described,
  DescribedObject,
  Nullable,
  Optional,
  TenantId,
  Timestamp,
  TitledObject,
} from './fields.ts';

const Count = Type.Integer({ minimum: 0, description: 'Number of tenants' });

/**
 * Which effective configuration: the parameters of GET effective. None for what holds for no agent
 * and no service.
 */
export const ImpactContext = TitledObject(
  'ImpactContext',
  'What an effective configuration is for; nothing: no agent and no service',
  {
    agent_type: Optional.String({ description: 'Type of agent' }),
    service_id: Optional.String({ description: 'Service instance' }),
    service_type: Optional.String({ description: 'Type of cloud service' }),
  },
);
export type ImpactContext = Static<typeof ImpactContext>;

const ImpactItem = TitledObject('ImpactItem', 'One effective value that changes', {
  tenant_id: TenantId,
  tenant_name: Type.String({ description: "The tenant's name" }),
  context: ImpactContext,
  key: Type.String({ description: 'The key of effective configurations' }),
  before: Optional.Unknown({ description: 'Absent if there is no value' }),
  after: Optional.Unknown({ description: 'Absent if there is no value' }),
  decided_by: Nullable(
    Type.String({
      description:
        'The layer of the value after, `bounds` for that of a bound; null: there is none',
    }),
  ),
  problem: Optional.String({ description: 'Why a stored document would newly be refused' }),
});
export type ImpactItem = Static<typeof ImpactItem>;

/** What decisions of the past would have been. */
export const DecisionsImpact = TitledObject(
  'DecisionsImpact',
  'What recorded decisions and automations of the last days would have been',
  {
    from: described(Timestamp, 'Of decisions that were made since'),
    tenants: Type.Integer({ description: 'Tenants whose decisions were replayed' }),
    total: Type.Integer({ description: 'Decisions that were replayed' }),
    changed: Type.Record(Type.String(), Type.Integer(), {
      description: 'How many would be others, such as `allow→deny`',
      examples: [{ 'allow→deny': 3 }],
    }),
    unknown: Type.Integer({ description: 'Decisions that could not be replayed' }),
    complete: Type.Boolean({ description: 'False: there was no time for all of them' }),
  },
);
export type DecisionsImpact = Static<typeof DecisionsImpact>;

export const Impact = TitledObject(
  'Impact',
  'What a change would do to the effective configurations of tenants',
  {
    decisions: Type.Optional(
      described(
        DecisionsImpact,
        'On the first page; absent if none is kept, and while the notifier is away',
      ),
    ),
    tenants: DescribedObject('Numbers of tenants', {
      total: described(Count, 'All that were looked at'),
      changed: Type.Integer({ description: 'Some effective value changes' }),
      shielded: Type.Integer({
        description: "The platform's layer changes, and no effective value does",
      }),
      invalid: Type.Integer({
        description: 'Stored documents, of all of them, that would newly be refused',
      }),
      clamped: Type.Integer({ description: 'A bound decides a value that changes' }),
    }),
    by_key: Type.Record(
      Type.String(),
      DescribedObject('Numbers of tenants', {
        changed: described(Count, 'Tenants in which it changes'),
        shielded_by: Type.Record(Type.String(), Count, {
          description: 'By the layer that decides instead',
        }),
      }),
      { description: 'By key of effective configurations' },
    ),
    items: Type.Array(ImpactItem, { description: 'The values that change, a page of them' }),
    next_cursor: Nullable(
      Type.String({ description: '`cursor` of the next page; null on the last one' }),
    ),
  },
);
export type Impact = Static<typeof Impact>;
export type ImpactCounts = Pick<Impact, 'tenants' | 'by_key'>;

/** What a budget or freeze does to a tenant that it did not do before, the gravest first. */
export const limitEffects = ['exhausted', 'frozen', 'refuses', 'warned', 'released'] as const;
export type LimitEffect = (typeof limitEffects)[number];

const ofBudget = (what: string, example: string) =>
  Optional.String({ description: `Of a budget: ${what}`, examples: [example] });

const LimitsImpactItem = TitledObject(
  'LimitsImpactItem',
  'What a limit over time does in a tenant',
  {
    tenant_id: TenantId,
    tenant_name: Type.String({ description: "The tenant's name" }),
    limit: Type.Enum(['budget', 'freeze'], { description: 'What it is that changes' }),
    name: Type.String({ description: 'Of the budget or freeze', examples: ['daily'] }),
    effect: Type.Enum(limitEffects, {
      description:
        '`exhausted`: the period has spent and holds the whole amount. `frozen`: the freeze would hold for automations that run or wait. `refuses`: some that wait would exceed the budget. `warned`: the budget would be at its `warn_at`. `released`: what held before would no longer',
    }),
    spent: ofBudget('what the period has spent, as a decimal', '120.5'),
    held: ofBudget('what automations that run may spend, as a decimal', '20'),
    remaining: ofBudget('what would be left, as a decimal', '-40.5'),
    resets_at: Type.Optional(described(Timestamp, 'Of a budget: when the period ends')),
    from: Type.Optional(
      described(Timestamp, 'Of a freeze: from when on it holds; now, or its next occurrence'),
    ),
    until: Type.Optional(
      Nullable(described(Timestamp, 'Of a freeze: until when; null where nothing ends it')),
    ),
    running: Type.Integer({
      minimum: 0,
      description: 'Automations that run and that it is about: they continue',
    }),
    waiting: Type.Integer({
      minimum: 0,
      description:
        'Automations that wait for an approval or a slot, and whose start it would refuse, or no longer would',
    }),
  },
);
export type LimitsImpactItem = Static<typeof LimitsImpactItem>;

export const LimitsImpact = TitledObject(
  'LimitsImpact',
  'What changed budgets and freezes mean for what tenants have spent, and for their automations that run or wait',
  {
    at: described(Timestamp, 'When it was looked at'),
    tenants: DescribedObject(
      'Numbers of tenants by what changes for them',
      Object.fromEntries(limitEffects.map((effect) => [effect, Count])) as Record<
        LimitEffect,
        typeof Count
      >,
    ),
    items: Type.Array(LimitsImpactItem, { description: 'By tenant; at most 200' }),
    complete: Type.Boolean({
      description: 'False: there are more tenants or items than were looked at',
    }),
  },
);
export type LimitsImpact = Static<typeof LimitsImpact>;

const overTime = Type.Optional(LimitsImpact);

/** What was planned on, and how far the look at the tenants came. */
export const planned = {
  base: TitledObject('PlanBase', 'The revisions that the change would follow', {
    platform: Type.Integer({ description: "The platform's" }),
    tenant: Optional.Integer({ description: "The tenant's, where it is its document" }),
    at: described(Timestamp, 'When it was looked at'),
  }),
  digest: Nullable(
    Type.String({
      maxLength: 200,
      description: 'Of the items and all that their impact depends on; null until complete',
    }),
  ),
  impact: Impact,
  complete: Type.Boolean({
    description: 'False: only so many tenants were looked at yet; continue with next_cursor',
  }),
  over_time: overTime,
} as const satisfies TProperties;

/** Of a dry run, where its impact is asked for. */
export const plannedToo = {
  base: Type.Optional(planned.base),
  digest: Type.Optional(planned.digest),
  impact: Type.Optional(planned.impact),
  complete: Type.Optional(planned.complete),
  over_time: overTime,
};

/** Holds what was counted up to there, so it is longer the more keys change. */
export const impactCursor = (maxLength: number) =>
  Optional.String({
    minLength: 1,
    maxLength,
    description: '`next_cursor` of the previous page of the same change',
  });

/** Of a write that can be tried with its impact. */
export const impactQuery = {
  impact: Optional.Boolean({
    description: 'With dry_run: also what would change in effective configurations',
  }),
  cursor: impactCursor(8000),
};
