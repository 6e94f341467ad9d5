/**
 * Automations that run under the tenant's limits. One that runs holds one of
 * `max_concurrent_automations` slots until it is finished or its time is up. It belongs to the
 * notifier, which keeps it beside the approval that it may wait for.
 */
import { Type } from 'typebox';
import { action, type Access } from './contract.ts';
import { listing } from './envelopes.ts';
import { decided, intent } from './decide.ts';
import {
  CreatedAt,
  described,
  DescribedObject,
  Line,
  Nullable,
  Optional,
  StrictObject,
  TenantId,
  Timestamp,
  TitledObject,
  Uuid,
} from './fields.ts';
import { CostImpact, deciderRoles, longestWait, Resource, timeToWait } from './notifier.ts';
import { operators } from './tenant-document.ts';

/**
 * `waiting_approval` until the approval is decided, `waiting_slot` while it is granted and all
 * slots are taken. Only `running` holds a slot. `expired` are those that were neither finished nor
 * observed in their time.
 */
export const automationStates = [
  'waiting_approval',
  'waiting_slot',
  'running',
  'denied',
  'finished',
  'expired',
] as const;
export type AutomationState = (typeof automationStates)[number];
const AutomationState = Type.Enum(automationStates, {
  title: 'AutomationState',
  description:
    'Only `running` holds a slot. `waiting_approval` until the approval is decided, `waiting_slot` while all slots are taken; `expired`: neither finished nor observed in its time',
});

const exactly = {
  resource: Type.Optional(described(Resource, 'What it is done to; people who approve see it')),
  parameters: Type.Optional(
    Type.Record(Type.String(), Type.Unknown(), {
      description:
        'How exactly it is done, shown whole to people who approve: at most 32 KiB of JSON, and no names that look like secrets',
      examples: [{ min_instances: 4 }],
    }),
  ),
};
const ActionDigest = Type.String({
  pattern: '^[0-9a-f]{64}$',
  description:
    'SHA-256 over "strata-action-v1", a line feed, and RFC 8785 of tenant, action, agent_type, service_id, service_type, resource, parameters, cost_impact, resource_scaling and is_rollback, each null if it was not said',
  examples: ['3c3d6b9a2f5f4a1f8f2f2f6d0f0c7a9b1e4d5c6b7a8990a1b2c3d4e5f6a7b8c9'],
});

const Grant = Type.String({
  maxLength: 10_000,
  description:
    'A JWS in compact form, of type `strata-grant+jws`, signed with EdDSA by a key of `/.well-known/jwks.json`. The executor of the action verifies it offline; it is good until its `exp`, which a heartbeat renews',
});

/** In seconds. */
export const automationTtl = { least: 5, most: 86_400, default: 300 } as const;
export const Automation = TitledObject('Automation', 'An automation that runs under the limits', {
  id: described(Uuid, "The automation's id"),
  tenant_id: TenantId,
  state: AutomationState,
  ...intent,
  ...decided,
  ...exactly,
  action_digest: Type.Optional(ActionDigest),
  grant: Type.Optional(
    described(
      Grant,
      'Of one that runs and was not redeemed, for callers who may write automations: what executes it verifies this, and redeems it or `action_digest`',
    ),
  ),
  redeemed_at: Type.Optional(described(Timestamp, 'When an executor redeemed it')),
  redeemed_by: Optional.String({ description: 'The executor that did' }),
  approval_id: Type.Optional(described(Uuid, 'The approval that it waits or waited for')),
  ttl_seconds: Type.Integer({ description: 'How long it runs without a heartbeat' }),
  requested_by: DescribedObject('Who started it', {
    type: Type.String({ description: 'A user, a service account or a service' }),
    id: Type.String({ description: 'Their id, or the name of the service' }),
  }),
  created_at: CreatedAt,
  started_at: described(Nullable(Timestamp), 'When it got its slot; null: not yet'),
  expires_at: Nullable(
    Type.String({
      format: 'date-time',
      description: 'Of one that runs or waits: when its slot, or its place, is released',
    }),
  ),
  ended_at: described(Nullable(Timestamp), 'When it ended; null: not yet'),
  outcome: Nullable(Type.String({ description: 'How it ended, in the words of who ended it' })),
  actual_cost: Type.Optional(described(CostImpact, 'What it cost, as who ended it says', 18.5)),
});

/** Whoever is asked to approve one looks at it. */
const readers: Access = { level: 'tenant', roles: deciderRoles, services: true };
const who: Access = { level: 'tenant', roles: operators, services: true };
const tenantPath = { tenant_id: TenantId };
const automationPath = { ...tenantPath, automation_id: described(Uuid, "The automation's id") };
/** What automation does with one that it has started. */
const step = {
  access: who,
  leadsTo: 'operations',
  keyScope: 'automations:write',
  narrow: 'row',
  path: automationPath,
  result: Automation,
} as const;

export const automationContracts = {
  'notifier.automations.start': action({
    summary: 'Start an automation within the limits, or ask for the approval that it needs',
    rest: 'POST /tenants/{tenant_id}/automations',
    access: who,
    leadsTo: 'operations',
    keyScope: 'automations:write',
    narrow: ['service_ids', 'agent_types'],
    path: tenantPath,
    body: TitledObject('AutomationRequest', 'What automation wants to do', {
      ...intent,
      ...exactly,
      title: Type.Optional(Line(300, 'One line for approvers')),
      description: Optional.String({
        maxLength: 10_000,
        description: 'Details that approvers need to decide',
      }),
      audience: Type.Optional(
        Line(200, 'Whom its grants are for, their `aud`; BASE_URL of Strata by default'),
      ),
      ttl_seconds: Optional.Integer({
        minimum: automationTtl.least,
        maximum: automationTtl.most,
        description: `How long it runs without a heartbeat; ${automationTtl.default} by default`,
      }),
      idempotency_key: Type.Optional(
        Line(200, 'The same key with the same request gives the same automation'),
      ),
    }),
    result: Automation,
    response: 'created',
  }),
  'notifier.automations.list': listing({
    summary: 'List automations, newest first',
    rest: 'GET /tenants/{tenant_id}/automations',
    access: readers,
    keyScope: 'automations:read',
    path: tenantPath,
    query: {
      state: Type.Optional(described(AutomationState, 'Only those in this state')),
      started_from: Type.Optional(
        described(Timestamp, 'Only those that started at this time or later'),
      ),
      started_until: Type.Optional(
        described(Timestamp, 'Only those that started before this time'),
      ),
    },
    items: Automation,
  }),
  'notifier.automations.get': action({
    summary: 'Read an automation, immediately or when its state changes',
    rest: 'GET /tenants/{tenant_id}/automations/{automation_id}',
    access: readers,
    keyScope: 'automations:read',
    narrow: 'row',
    path: automationPath,
    query: {
      state: Type.Optional(
        described(AutomationState, 'The state the caller knows: `wait` ends as soon as it differs'),
      ),
      wait: Optional.Integer({
        minimum: 0,
        maximum: longestWait,
        description:
          'Seconds to wait for a state other than `state`; without that, until it waits neither for approval nor for a slot',
      }),
    },
    result: Automation,
    minTimeoutMs: timeToWait,
  }),
  'notifier.automations.heartbeat': action({
    ...step,
    summary: 'Send a heartbeat of an automation that still runs: its time restarts',
    rest: 'POST /tenants/{tenant_id}/automations/{automation_id}/heartbeat',
  }),
  'notifier.automations.redeem': action({
    ...step,
    summary:
      'Redeem a grant right before acting: confirms, once, that exactly this action may be done now',
    rest: 'POST /tenants/{tenant_id}/automations/{automation_id}/redeem',
    body: StrictObject(
      {
        action_digest: Type.Optional(ActionDigest),
        grant: Type.Optional(
          described(Grant, 'In place of `action_digest`, which is the one that it says'),
        ),
        executor: Line(200, 'What executes it, for the audit'),
      },
      {
        // The executor, and either of what is redeemed.
        minProperties: 2,
        title: 'Redemption',
        description: 'What is about to be done, and by what',
      },
    ),
  }),
  'notifier.grants.keys': action({
    summary: 'The keys that grants are verified with, as a JWK Set',
    rest: 'GET /.well-known/jwks.json',
    access: { level: 'public' },
    result: TitledObject('GrantKeys', 'A JWK Set (RFC 7517)', {
      keys: Type.Array(
        TitledObject('GrantKey', 'A public key (RFC 7517)', {
          kty: Type.Literal('OKP', { description: 'Of RFC 8037' }),
          crv: Type.Literal('Ed25519', { description: 'The curve' }),
          x: Type.String({ description: 'The public key, in base64url' }),
          kid: described(Uuid, 'Which key: grants name it in their header'),
          use: Type.Literal('sig', { description: 'It verifies signatures' }),
          alg: Type.Literal('EdDSA', { description: 'Of these' }),
        }),
        { description: 'The newest first; it may sign only later' },
      ),
    }),
  }),
  'notifier.automations.finish': action({
    ...step,
    summary: 'End an automation, or withdraw one that waits',
    rest: 'POST /tenants/{tenant_id}/automations/{automation_id}/finish',
    body: StrictObject({
      outcome: Line(200, 'How it ended, such as succeeded'),
      actual_cost: Type.Optional(
        described(
          CostImpact,
          'Actual cost: below its `cost_impact` the rest is returned to budgets, above it the excess is charged as well; by default all that it held is spent',
        ),
      ),
    }),
  }),
} as const;
