/**
 * The door for OpenFeature: the Remote Evaluation Protocol (OFREP) 0.3, per tenant. A flag is a key
 * of an effective configuration, its variant the layer that decided. Providers are given
 * `BASE_URL/tenants/{tenant_id}`, and call what is below `/ofrep` there.
 */
import { Type } from 'typebox';
import { action, streamOfBoth, type Access } from './contract.ts';
import { address } from './effective-config.ts';
import { valueReaders } from './roles.ts';
import { described, DescribedObject, Optional, TenantId, TitledObject } from './fields.ts';

const Asked = Type.Object(
  {
    context: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), {
        description:
          '`service_id`, or else `targetingKey`, `agent_type` and `service_type`, also in camel case; nothing else is looked at',
        examples: [{ targetingKey: 'checkout-api', agent_type: 'scaler' }],
      }),
    ),
  },
  {
    // The protocol adds members.
    additionalProperties: true,
    title: 'FlagEvaluation',
    description: 'What flags are evaluated for (OFREP)',
  },
);

const Flag = TitledObject('Flag', 'An evaluated flag (OFREP)', {
  key: Type.String({ description: 'The key of the effective configuration' }),
  value: Optional.Unknown({
    description: 'What holds; absent if that is null: the default of the code',
  }),
  reason: Type.Enum(['STATIC', 'TARGETING_MATCH', 'DEFAULT', 'STALE'], {
    description:
      'STATIC without a context; TARGETING_MATCH where what it names decided; STALE from before an outage',
  }),
  variant: Type.String({ description: 'The layer that decided, or `bounds`' }),
  metadata: Type.Record(Type.String(), Type.Union([Type.String(), Type.Number(), Type.Boolean()]), {
    description: '`layer`, `source` and `revision` of the value, and whether a bound `enforced` it',
  }),
});

const EventStream = TitledObject('FlagEventStream', 'A stream of changes of flags (OFREP)', {
  type: Type.Literal('sse', { description: 'Server-Sent Events' }),
  url: Type.String({
    description:
      'To be kept secret: it opens the stream of this context, without a header, for an hour at most',
  }),
  inactivityDelaySec: Type.Integer({ description: 'Hang up when no one looks for so long' }),
});
const RefetchEvaluation = TitledObject(
  'RefetchEvaluation',
  'That flags of a context changed (OFREP)',
  { type: Type.Literal('refetchEvaluation', { description: 'Evaluate all flags again' }) },
);

const access: Access = { level: 'tenant', roles: valueReaders, services: true };
const path = { tenant_id: TenantId };
const base = '/tenants/{tenant_id}/ofrep/v1/evaluate/flags';
const evaluation = {
  access,
  keyScope: 'config:read',
  // The context says what it is about, in one of several ways.
  narrow: 'row',
  changesNothing: true,
  errors: 'ofrep',
} as const;

export const ofrepContracts = {
  'config-resolver.flags.evaluate': action({
    ...evaluation,
    summary: 'Evaluate a flag (OFREP)',
    rest: `POST ${base}/{key}`,
    path: {
      ...path,
      key: Type.String({
        minLength: 1,
        maxLength: 200,
        description: 'The key of the effective configuration',
        examples: ['max_cost_impact_auto'],
      }),
    },
    body: Type.Optional(Asked),
    result: Flag,
  }),
  'config-resolver.flags.evaluate-all': action({
    ...evaluation,
    summary: 'Evaluate all flags of a context (OFREP)',
    rest: `POST ${base}`,
    path,
    body: Type.Optional(Asked),
    result: TitledObject('Flags', 'All flags of a context (OFREP)', {
      flags: Type.Array(Flag, { description: 'Every key that has a value' }),
      metadata: Type.Record(Type.String(), Type.Union([Type.String(), Type.Number()]), {
        description: '`tenant_revision` and `platform_revision`',
      }),
      eventStreams: Optional.Array(EventStream, {
        description: 'What says when to evaluate them again',
      }),
      /** Null where nobody can say whether it still holds. */
      tag: described(Type.Union([Type.String(), Type.Null()]), 'In ETag alone'),
      context: DescribedObject('In the address of the stream', address),
    }),
    response: 'flags',
  }),
  'gateway.watch.flags': streamOfBoth({
    summary: 'Watch the flags of a context (OFREP)',
    rest: 'GET /tenants/{tenant_id}/ofrep/v1/events',
    access: { level: 'tenant', roles: valueReaders },
    keyScope: 'config:read',
    narrow: ['service_ids', 'agent_types'],
    errors: 'ofrep',
    path,
    query: {
      ...address,
      ticket: Optional.String({
        maxLength: 16_384,
        description: 'Of the address in `eventStreams`, in place of a header',
      }),
    },
    result: RefetchEvaluation,
  }),
} as const;
