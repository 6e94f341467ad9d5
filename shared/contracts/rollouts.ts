/**
 * Rollouts: writes of the platform's layers that reach tenants in stages. Each stage is one write of
 * the rollout; the documents themselves are written when all tenants have them.
 */
import { Type, type Static } from 'typebox';
import { action, internal, proposable, takeOver } from './contract.ts';
import { listing, OrProposed } from './envelopes.ts';
import {
  ActorName,
  Author,
  CreatedAt,
  described,
  Line,
  Nullable,
  Optional,
  Revision,
  StrictObject,
  Timestamp,
  TitledObject,
  UpdatedAt,
  Uuid,
} from './fields.ts';
import { GateAnswer, RolloutGate } from './rollout-gates.ts';
import { PlanItem, PlannedChange } from './plan.ts';
import { platformAdmins } from './platform-document.ts';
import { LayerType } from './rollout-sides.ts';

export const rolloutStates = [
  'planned',
  'running',
  'held',
  'completed',
  'reverted',
  'superseded',
] as const;
export type RolloutState = (typeof rolloutStates)[number];
const State = Type.Enum(rolloutStates, {
  title: 'RolloutState',
  description:
    '`held`: it stays at its stage until somebody resumes, advances or reverts it; `superseded`: others wrote its documents before it began',
});

const Stage = TitledObject('RolloutStage', 'Which tenants have it, and for how long', {
  percent: Optional.Number({
    minimum: 0,
    maximum: 100,
    description: 'Of all tenants, by a hash of salt and id; no less than in the stage before',
    examples: [5],
  }),
  tenants: Optional.Array(Uuid, {
    minItems: 1,
    maxItems: 1000,
    uniqueItems: true,
    description: 'Tenants by their ids, beside those of earlier stages',
  }),
  bake_minutes: Type.Integer({
    minimum: 0,
    maximum: 43_200,
    description: 'So long it is watched before the next stage may begin',
    examples: [60],
  }),
  gate: Type.Array(RolloutGate, {
    maxItems: 10,
    description: 'All of them have to pass before the next stage begins; none: time alone',
  }),
});

const stageExamples = [
  { percent: 10, bake_minutes: 60, gate: [{ type: 'manual' }] },
  { percent: 100, bake_minutes: 0, gate: [] },
];
export const mostAnswers = 50;
const stages = Type.Array(Stage, {
  minItems: 1,
  maxItems: 20,
  description: 'In order; the last one has `percent` 100',
  examples: [stageExamples],
});
const title = Line(200, 'Summary, in one line');
const reason = Type.String({
  minLength: 1,
  maxLength: 500,
  description: 'Reason, kept in the history',
});
const salt = Type.String({
  minLength: 1,
  maxLength: 64,
  pattern: '^[A-Za-z0-9._-]+$',
  description: 'Makes other tenants the first ones than in other rollouts; random by default',
});
const onFail = Type.Enum(['revert', 'hold'], {
  description: 'What becomes of it where a gate fails, or waits for longer than max_hold_minutes',
});
const maxHold = Type.Integer({
  minimum: 1,
  maximum: 43_200,
  description: 'So long gates may wait once the stage has baked',
});
const items = Type.Array(PlanItem, {
  minItems: 1,
  maxItems: 100,
  description:
    'Writes of public global entries and of service types, each document once, as they were planned',
});

/** A layer's document by its name in the history, with what it was and is to be; null for none. */
const StoredItem = StrictObject({
  action: PlanItem.properties.action,
  path: Type.String(),
  config_type: LayerType,
  resource_id: Type.String(),
  base: Nullable(Type.Integer()),
  before: Type.Unknown(),
  after: Type.Unknown(),
  /** As a folder sent it, whose fields these then are. */
  body: Type.Optional(Type.Unknown()),
});
export type RolloutItem = Static<typeof StoredItem>;

/** As it is stored: a document of the platform's, which is written at each step. */
export const StoredRollout = StrictObject({
  id: Uuid,
  title,
  reason,
  state: State,
  /** The index of the stage whose tenants have it; null before the first. */
  stage: Nullable(Type.Integer()),
  stage_at: Nullable(Timestamp),
  stages,
  salt,
  on_fail: onFail,
  max_hold_minutes: maxHold,
  digest: Type.String(),
  items: Type.Array(StoredItem),
  changeset_id: Nullable(Uuid),
  /** The folder that proposed it. */
  managed_by: Type.Optional(Type.String()),
  approvals: Type.Integer(),
  approver_groups: Type.Array(Type.String()),
  /** What the items became, once it is completed. */
  revisions: Nullable(Type.Array(Type.Integer())),
  note: Nullable(Type.String()),
  /** Who let it go forward last. It continues by itself while they may write what it writes. */
  started_by: StrictObject({
    type: Type.Enum(['user', 'service_account', 'service', 'operator', 'system']),
    id: Author,
    /** The API key that they came with. */
    key: Type.Optional(Uuid),
  }),
  created_by: Author,
  created_at: Timestamp,
});
export type StoredRollout = Static<typeof StoredRollout>;

const Rollout = TitledObject('Rollout', 'Writes that reach tenants in stages', {
  id: described(Uuid, 'Its id'),
  state: State,
  title,
  reason,
  stage: Nullable(Type.Integer({ description: 'The stage it is at, from 0 on; null: none yet' })),
  phase: Nullable(
    Type.Enum(['baking', 'baked'], {
      description: 'Of a stage that runs: whether its bake_minutes are over; null otherwise',
    }),
  ),
  stage_at: described(Nullable(Timestamp), 'When the stage began'),
  stages,
  salt,
  on_fail: onFail,
  max_hold_minutes: maxHold,
  gates_until: described(
    Nullable(Timestamp),
    'When on_fail comes unless the gates of its stage have passed; null if it does not run',
  ),
  answers: Type.Array(GateAnswer, {
    maxItems: mostAnswers,
    description: 'What gates answered, newest first',
  }),
  digest: Type.String({ description: 'Of the plan, or the change set, that it was made of' }),
  items: Type.Array(
    StrictObject({
      action: PlanItem.properties.action,
      path: Type.String({ description: 'The path of the document' }),
      base: Nullable(Type.Integer({ description: 'The revision that it replaces; null for none' })),
    }),
    { description: 'The writes, in order' },
  ),
  changes: Type.Array(PlannedChange, { description: 'What it changes in the documents' }),
  changeset_id: Nullable(described(Uuid, 'The change set that it was made of')),
  note: Nullable(
    Type.String({ description: 'Why it is held, reverted or superseded; null otherwise' }),
  ),
  revision: Revision,
  created_by: Author,
  created_by_name: ActorName,
  created_at: CreatedAt,
  updated_by: Author,
  updated_by_name: ActorName,
  updated_at: UpdatedAt,
});
export type Rollout = Static<typeof Rollout>;

const url = '/config/rollouts';
const one = { rollout_id: described(Uuid, "The rollout's id") };
const writing = {
  access: platformAdmins,
  leadsTo: 'configuration',
  keyScope: 'platform:write',
  result: Rollout,
} as const;
const step = {
  ...writing,
  path: one,
  body: TitledObject('RolloutReason', 'Why it is done', { reason }),
};

export const rolloutContracts = {
  'global-config.rollouts.create': action({
    ...writing,
    summary: 'Plan a rollout of what was planned, or of a change set that was approved',
    rest: `POST ${url}`,
    minTimeoutMs: 30_000,
    body: StrictObject(
      {
        title,
        reason,
        changeset_id: Type.Optional(
          described(Uuid, 'An approved change set of the platform; it is applied by this'),
        ),
        items: Type.Optional(items),
        digest: Type.String({
          minLength: 1,
          maxLength: 200,
          description: 'Of the plan of the items, or of the change set',
        }),
        stages,
        on_fail: Type.Optional(described(onFail, 'What a failing gate does; `hold` by default')),
        max_hold_minutes: Type.Optional(
          described(maxHold, 'So long gates may wait once the stage has baked; a day by default'),
        ),
        salt: Type.Optional(salt),
        ...takeOver,
      },
      {
        title: 'NewRollout',
        description: 'A rollout, as it is planned',
        examples: [
          {
            title: 'Longer time-outs',
            reason: 'Slow networks',
            items: [
              {
                action: 'put',
                path: '/config/global/http_client_timeout_seconds',
                body: { config_value: 20, is_public: true },
              },
            ],
            digest: '9f86d081884c7d65',
            stages: stageExamples,
          },
        ],
      },
    ),
    query: proposable,
    result: OrProposed(Rollout),
    response: 'created_or_proposed',
  }),
  'global-config.rollouts.list': listing({
    summary: 'List rollouts, newest first',
    rest: `GET ${url}`,
    access: platformAdmins,
    keyScope: 'platform:read',
    query: { state: Type.Optional(State) },
    items: Rollout,
  }),
  'global-config.rollouts.get': action({
    summary: 'Read a rollout',
    rest: `GET ${url}/{rollout_id}`,
    access: platformAdmins,
    keyScope: 'platform:read',
    path: one,
    result: Rollout,
  }),
  'global-config.rollouts.advance': action({
    ...writing,
    summary:
      'Start the next stage, which a gate may wait for; after the last one the rollout is complete',
    rest: `POST ${url}/{rollout_id}/advance`,
    path: one,
    body: TitledObject('RolloutAdvance', 'From where it advances', {
      stage: Nullable(
        Type.Integer({ description: 'The stage it is at, as it was read; null: none yet' }),
      ),
      all_at_once: Optional.Boolean({ description: 'All tenants now, whatever stages are left' }),
      reason: Type.Optional(
        described(
          reason,
          'Why; needed for all at once, and before the stage has baked and its gates have passed',
        ),
      ),
    }),
  }),
  'global-config.rollouts.hold': action({
    ...step,
    summary: 'Hold a rollout at its stage',
    rest: `POST ${url}/{rollout_id}/hold`,
  }),
  'global-config.rollouts.resume': action({
    ...step,
    summary: 'Resume a held rollout; its stage bakes again',
    rest: `POST ${url}/{rollout_id}/resume`,
  }),
  'global-config.rollouts.revert': action({
    ...step,
    summary:
      'Revert a rollout for all tenants, also a completed one if its documents were not written since',
    rest: `POST ${url}/{rollout_id}/revert`,
  }),
  'global-config.rollouts.run': internal({
    summary: 'Ask the gates of a rollout whose turn it is, and do what follows',
    minTimeoutMs: 30_000,
    path: one,
    result: Rollout,
  }),
} as const;
