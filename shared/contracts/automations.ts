/**
 * Automations that run under the tenant's limits. One that runs holds one of
 * `max_concurrent_automations` slots until it is finished or its time is up. It belongs to the
 * notifier, which keeps it beside the approval that it may wait for.
 */
import { Type } from 'typebox';
import { action, type Access } from './contract.ts';
import { Page, page } from './envelopes.ts';
import { decided, intent } from './decide.ts';
import {
  CreatedAt,
  described,
  Line,
  Nullable,
  strict,
  TenantId,
  Timestamp,
  Uuid,
} from './fields.ts';
import { deciderRoles, longestWait, timeToWait } from './notifier.ts';

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

/** In seconds. */
export const automationTtl = { least: 5, most: 86_400, default: 300 } as const;
const Automation = Type.Object(
  {
    id: described(Uuid, "The automation's id"),
    tenant_id: TenantId,
    state: AutomationState,
    ...intent,
    ...decided,
    approval_id: Type.Optional(described(Uuid, 'The approval that it waits or waited for')),
    ttl_seconds: Type.Integer({ description: 'How long it runs without a heartbeat' }),
    requested_by: Type.Object(
      {
        type: Type.String({ description: 'A user, a service account or a service' }),
        id: Type.String({ description: 'Their id, or the name of the service' }),
      },
      { ...strict, description: 'Who started it' },
    ),
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
  },
  { ...strict, title: 'Automation', description: 'An automation that runs under the limits' },
);

const who: Access = { level: 'tenant', roles: deciderRoles, services: true };
const tenantPath = { tenant_id: TenantId };
const automationPath = { ...tenantPath, automation_id: described(Uuid, "The automation's id") };

export const automationContracts = {
  'notifier.automations.start': action({
    summary: 'Start an automation within the limits, or ask for the approval that it needs',
    rest: 'POST /tenants/{tenant_id}/automations',
    access: who,
    leadsTo: 'operations',
    keyScope: 'automations:write',
    path: tenantPath,
    body: Type.Object(
      {
        ...intent,
        title: Type.Optional(Line(300, 'One line for approvers')),
        description: Type.Optional(
          Type.String({ maxLength: 10_000, description: 'What approvers need to decide' }),
        ),
        ttl_seconds: Type.Optional(
          Type.Integer({
            minimum: automationTtl.least,
            maximum: automationTtl.most,
            description: `How long it runs without a heartbeat; ${automationTtl.default} by default`,
          }),
        ),
        idempotency_key: Type.Optional(
          Line(200, 'The same key with the same request gives the same automation'),
        ),
      },
      { ...strict, title: 'AutomationRequest', description: 'What automation wants to do' },
    ),
    result: Automation,
    response: 'created',
  }),
  'notifier.automations.list': action({
    summary: 'List automations, newest first',
    rest: 'GET /tenants/{tenant_id}/automations',
    access: who,
    keyScope: 'automations:read',
    path: tenantPath,
    query: {
      state: Type.Optional(described(AutomationState, 'Only those in this state')),
      ...page,
    },
    result: Page(Automation),
    response: 'list',
  }),
  'notifier.automations.get': action({
    summary: 'An automation, at once or when its state changes',
    rest: 'GET /tenants/{tenant_id}/automations/{automation_id}',
    access: who,
    keyScope: 'automations:read',
    path: automationPath,
    query: {
      state: Type.Optional(
        described(AutomationState, 'What the caller knows: `wait` ends as soon as it is another'),
      ),
      wait: Type.Optional(
        Type.Integer({
          minimum: 0,
          maximum: longestWait,
          description:
            'Seconds to wait for another state than `state`; without that, until it neither waits for approval nor for a slot',
        }),
      ),
    },
    result: Automation,
    minTimeoutMs: timeToWait,
  }),
  'notifier.automations.heartbeat': action({
    summary: 'Say that an automation still runs: its time begins again',
    rest: 'POST /tenants/{tenant_id}/automations/{automation_id}/heartbeat',
    access: who,
    leadsTo: 'operations',
    keyScope: 'automations:write',
    path: automationPath,
    result: Automation,
  }),
  'notifier.automations.finish': action({
    summary: 'End an automation, or withdraw one that waits',
    rest: 'POST /tenants/{tenant_id}/automations/{automation_id}/finish',
    access: who,
    leadsTo: 'operations',
    keyScope: 'automations:write',
    path: automationPath,
    body: Type.Object({ outcome: Line(200, 'How it ended, such as succeeded') }, strict),
    result: Automation,
  }),
} as const;
