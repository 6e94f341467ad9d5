/**
 * Event destinations: endpoints to which a tenant's audit events are pushed, each with its place in
 * the chain, so that the receiver can prove that none is missing. One document per tenant; how far
 * each destination has come is the audit's to say.
 */
import { Type, type Static } from 'typebox';
import { action } from './contract.ts';
import { documentContracts } from './document-contracts.ts';
import { described, Nullable, strict, Timestamp } from './fields.ts';
import { marks } from './marks.ts';
import { WebhookEndpoint } from './notification-config.ts';
import { ofTenant, tenantAdmins, tenantPath, type TenantAddress } from './tenant-document.ts';

const optional = Type.Optional;
const { url, headers, auth, secret, previous_secret } = WebhookEndpoint.properties;

export const destinationDefaults = { max_events: 100, max_seconds: 1 } as const;
export const mostDestinations = 5;

const Seq = (description: string) =>
  Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER, description, examples: [1] });

const DestinationName = Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$' });

const Batch = Type.Object(
  {
    max_events: optional(
      Type.Integer({
        minimum: 1,
        maximum: 500,
        default: destinationDefaults.max_events,
        description: 'The most events of one request; of large ones fewer are sent',
      }),
    ),
    max_seconds: optional(
      Type.Integer({
        minimum: 0,
        maximum: 60,
        default: destinationDefaults.max_seconds,
        description: 'How long an event may wait for others to be sent with it',
      }),
    ),
  },
  { ...strict, title: 'EventBatch', description: 'How events are sent together' },
);

export const EventDestination = Type.Object(
  {
    url,
    headers,
    auth,
    secret,
    previous_secret,
    types: optional(
      Type.Array(
        Type.String({
          maxLength: 100,
          pattern: '^[a-z][a-z0-9_.-]*\\*?$',
          description: 'An action or its beginning, with an asterisk or without: config.*',
        }),
        {
          minItems: 1,
          maxItems: 50,
          uniqueItems: true,
          description:
            'Only these actions; a line of its own stands for events in between. All of them where absent',
        },
      ),
    ),
    format: optional(
      Type.Enum(['standard', 'ndjson', 'cloudevents'], {
        default: 'standard',
        description:
          'How a batch is written: `standard` is one JSON object with its lines, `ndjson` the lines alone, `cloudevents` a batch of CloudEvents 1.0 with a line as the data of each',
      }),
    ),
    batch: optional(Batch),
    from_seq: optional(
      Seq(
        'Where a new destination begins: the number of its first event in the chain. With the event that made it where absent',
      ),
    ),
    paused: optional(
      Type.Boolean({ description: 'Nothing is sent; what happens meanwhile is sent afterwards' }),
    ),
  },
  {
    ...strict,
    title: 'EventDestination',
    description: 'An endpoint that audit events are pushed to',
    [marks.secretsOf]: 'event_destination',
  },
);
export type EventDestination = Static<typeof EventDestination>;

export const EventDestinations = Type.Record(DestinationName, EventDestination, {
  ...strict,
  maxProperties: mostDestinations,
  title: 'EventDestinations',
  description: 'By name, where audit events are pushed to',
  examples: [
    { siem: { url: 'https://siem.acme.example/strata', types: ['config.*'], secret: 's3cr3t' } },
  ],
});
export type EventDestinations = Static<typeof EventDestinations>;

/** The beginning of the audit events of the document: by them the audit learns of its changes. */
export const destinationsAuditName = 'event_destinations';

export const eventDestinationsKey = ({ tenant_id }: TenantAddress): string =>
  `event_destinations_${tenant_id}`;

/** It says who gets the proof of what was done, so that no API key writes it. */
const document = documentContracts({
  ...ofTenant,
  leadsTo: 'proof',
  writeScope: null,
  title: "the tenant's event_destinations",
  url: '/tenants/{tenant_id}/config/event-destinations',
  path: tenantPath,
  document: EventDestinations,
  body: EventDestinations,
  key: eventDestinationsKey,
});

const destinationPath = {
  ...tenantPath,
  name: described(DestinationName, 'Of the destination, as the document has it', 'siem'),
};

const DestinationState = Type.Object(
  {
    name: described(DestinationName, 'As the document has it'),
    target: Type.String({ description: 'Origin of its address' }),
    state: Type.Enum(['current', 'behind', 'failing', 'paused', 'gone'], {
      description:
        '`current`: has everything; `behind`: more is to be sent; `failing`: the newest attempt failed and is repeated; `paused`: by the document; `gone`: it answered 410, and is paused until the document is written',
    }),
    seq: Type.Integer({ description: 'Number of the last event that it has accepted' }),
    head: Type.Integer({ description: 'Number of the newest event of the chain' }),
    lag_seconds: Type.Number({
      description: 'How old the oldest event is that it has not got; 0 where it has all',
    }),
    failures: Type.Integer({ description: 'Attempts that failed since the last one that did not' }),
    retry_at: described(
      Nullable(Timestamp),
      'When it is tried again; null where it is not failing',
    ),
    delivered_at: described(Nullable(Timestamp), 'When it last accepted a batch'),
    status: Nullable(
      Type.Integer({ description: 'Of the newest answer; null where there was none' }),
    ),
    error: Nullable(Type.String({ description: 'Why the newest attempt failed' })),
  },
  { ...strict, title: 'EventDestinationState', description: 'How far a destination has come' },
);

export const eventDestinationContracts = {
  'tenant-config.event-destinations.get': document.get,
  'tenant-config.event-destinations.put': document.put,
  'tenant-config.event-destinations.patch': document.patch,
  'tenant-config.event-destinations.delete': document.delete,
  'tenant-config.event-destinations.open': action({
    summary: 'The event_destinations with their secrets decrypted, for the audit',
    access: { level: 'internal' },
    changesNothing: true,
    path: tenantPath,
    result: Type.Object({ destinations: EventDestinations, revision: Type.Integer() }, strict),
  }),
  'audit.destinations.list': action({
    summary: 'How far each event destination has come',
    rest: 'GET /tenants/{tenant_id}/event-destinations',
    access: tenantAdmins,
    keyScope: 'audit:read',
    path: tenantPath,
    result: Type.Object(
      { items: Type.Array(DestinationState, { description: 'By name' }) },
      { ...strict, title: 'EventDestinationStates', description: 'Where destinations are' },
    ),
  }),
  'audit.destinations.replay': action({
    summary: 'Send a destination its events again, from a number on',
    rest: 'POST /tenants/{tenant_id}/event-destinations/{name}/replay',
    access: tenantAdmins,
    leadsTo: 'operations',
    keyScope: null,
    path: destinationPath,
    body: Type.Object(
      { from_seq: Seq('The number of the first event that is sent again') },
      { ...strict, title: 'EventReplay', description: 'From where on events are sent again' },
    ),
    result: DestinationState,
  }),
  'audit.destinations.test': action({
    summary: 'Send a destination a test now and say what happened',
    rest: 'POST /tenants/{tenant_id}/event-destinations/{name}/test',
    access: tenantAdmins,
    leadsTo: 'operations',
    keyScope: null,
    path: destinationPath,
    result: Type.Object(
      {
        target: Type.String({ description: 'Origin of its address' }),
        delivered: Type.Boolean({ description: 'Whether it arrived' }),
        duration_ms: Type.Integer({ description: 'How long it took' }),
        status: Nullable(Type.Integer({ description: 'Of the answer; null where there was none' })),
        answer: Nullable(Type.String({ description: 'What the receiver said, secrets masked' })),
        error: Nullable(Type.String({ description: 'Why it did not arrive' })),
      },
      { ...strict, title: 'EventDestinationTest', description: 'What became of a test' },
    ),
  }),
} as const;
