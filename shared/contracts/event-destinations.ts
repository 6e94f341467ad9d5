/**
 * Event destinations: endpoints to which the audit events of a tenant, or of the platform, are
 * pushed, each with its place in the chain, so that the receiver can prove that none is missing. One
 * document each; how far each destination has come is the audit's to say.
 */
import { Type, type Static } from 'typebox';
import { action, dryRun, internalRead } from './contract.ts';
import { documentsOfBoth } from './documents-of-both.ts';
import {
  described,
  Nullable,
  Optional,
  strict,
  StrictObject,
  Timestamp,
  TitledObject,
} from './fields.ts';
import { marks } from './marks.ts';
import { WebhookEndpoint } from './notification-config.ts';
import { platformAdmins } from './platform-document.ts';
import { tenantAdmins, tenantPath } from './tenant-document.ts';

const optional = Type.Optional;
const { url, headers, auth, secret, previous_secret } = WebhookEndpoint.properties;

export const destinationDefaults = { max_events: 100, max_seconds: 1 } as const;
export const mostDestinations = 5;

const Seq = (description: string) =>
  Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER, description, examples: [1] });

const DestinationName = Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$' });

const Batch = TitledObject('EventBatch', 'Batching of events', {
  max_events: Optional.Integer({
    minimum: 1,
    maximum: 500,
    default: destinationDefaults.max_events,
    description: 'Maximum events of one request; of large events fewer are sent',
  }),
  max_seconds: Optional.Integer({
    minimum: 0,
    maximum: 60,
    default: destinationDefaults.max_seconds,
    description: 'Maximum time an event waits to be batched with others',
  }),
});

export const EventDestination = StrictObject(
  {
    url,
    headers,
    auth,
    secret,
    previous_secret,
    types: Optional.Array(
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
          'Only these actions; one line stands for events in between. All of them where absent',
      },
    ),
    format: Optional.Enum(['standard', 'ndjson', 'cloudevents', 'ocsf'], {
      default: 'standard',
      description:
        'How a batch is written: `standard` is one JSON object with its lines, `ndjson` the lines alone, `cloudevents` a batch of CloudEvents 1.0 with a line as the data of each, `ocsf` an array of API Activity of OCSF 1.5 with a line as the unmapped of each',
    }),
    batch: optional(Batch),
    from_seq: optional(
      Seq(
        'Where a new destination begins: the number of its first event in the chain. With the event that made it where absent',
      ),
    ),
    checkpoints: Optional.Boolean({
      description:
        'Whether it also gets the signed checkpoints of each hour, from the next one on: of its chain; of the platform, of every chain',
    }),
    paused: Optional.Boolean({
      description: 'Nothing is sent; events of the pause are sent afterwards',
    }),
  },
  {
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

const destinations = documentsOfBoth(
  'event-destinations',
  { document: EventDestinations, trial: dryRun },
  { document: EventDestinations, trial: dryRun },
  // It says who gets the proof of what was done, so that no API key writes it.
  { leadsTo: 'proof', writeScope: null },
);
export const { platformKey: platformEventDestinationsKey, tenantKey: eventDestinationsKey } =
  destinations;

const destinationName = {
  name: described(DestinationName, 'Of the destination, as the document has it', 'siem'),
};
const destinationPath = { ...tenantPath, ...destinationName };

export const DestinationState = TitledObject('EventDestinationState', 'Status of a destination', {
  name: described(DestinationName, 'As the document has it'),
  target: Type.String({ description: 'Origin of its address' }),
  state: Type.Enum(['current', 'behind', 'failing', 'paused', 'gone'], {
    description:
      '`current`: has everything; `behind`: more is to be sent; `failing`: the newest attempt failed and is repeated; `paused`: by the document; `gone`: it answered 410, and is paused until the document is changed',
  }),
  seq: Type.Integer({ description: 'Number of the last event that it has accepted' }),
  head: Type.Integer({ description: 'Number of the newest event of the chain' }),
  lag_seconds: Type.Number({
    description: 'Age of the oldest event not yet delivered; 0 if none is pending',
  }),
  failures: Type.Integer({ description: 'Consecutive failed attempts' }),
  retry_at: described(Nullable(Timestamp), 'When it is tried again; null if it is not failing'),
  delivered_at: described(Nullable(Timestamp), 'When it last accepted a batch'),
  status: Nullable(Type.Integer({ description: 'Of the newest answer; null if there was none' })),
  error: Nullable(Type.String({ description: 'Why the newest attempt failed' })),
});

const Opened = StrictObject({ destinations: EventDestinations, revision: Type.Integer() });
const states = {
  summary: 'Status of each event destination',
  result: TitledObject('EventDestinationStates', 'Where destinations are', {
    items: Type.Array(DestinationState, { description: 'By name' }),
  }),
} as const;
const replay = {
  summary: 'Resend events to a destination, from a sequence number on',
  leadsTo: 'operations',
  keyScope: null,
  body: TitledObject('EventReplay', 'From where on events are sent again', {
    from_seq: Seq('The number of the first event that is sent again'),
  }),
  result: DestinationState,
} as const;
const test = {
  summary: 'Send a test to a destination now and report the result',
  leadsTo: 'operations',
  keyScope: null,
  result: TitledObject('EventDestinationTest', 'Result of a test', {
    target: Type.String({ description: 'Origin of its address' }),
    delivered: Type.Boolean({ description: 'Whether it was delivered' }),
    duration_ms: Type.Integer({ description: 'Duration' }),
    status: Nullable(Type.Integer({ description: 'Of the answer; null if there was none' })),
    answer: Nullable(Type.String({ description: 'What the receiver said, secrets masked' })),
    error: Nullable(Type.String({ description: 'Why it was not delivered' })),
  }),
} as const;

export const eventDestinationContracts = {
  ...destinations.ofTenant,
  'tenant-config.event-destinations.open': internalRead({
    summary: 'The event_destinations with their secrets decrypted, for the audit',
    path: tenantPath,
    result: Opened,
  }),
  ...destinations.ofPlatform,
  'global-config.event-destinations.open': internalRead({
    summary: "The platform's event_destinations with their secrets decrypted, for the audit",
    result: Opened,
  }),
  'audit.destinations.list': action({
    ...states,
    rest: 'GET /tenants/{tenant_id}/event-destinations',
    access: tenantAdmins,
    keyScope: 'audit:read',
    path: tenantPath,
  }),
  'audit.destinations.replay': action({
    ...replay,
    rest: 'POST /tenants/{tenant_id}/event-destinations/{name}/replay',
    access: tenantAdmins,
    path: destinationPath,
  }),
  'audit.destinations.test': action({
    ...test,
    rest: 'POST /tenants/{tenant_id}/event-destinations/{name}/test',
    access: tenantAdmins,
    path: destinationPath,
  }),
  'audit.platform-destinations.list': action({
    ...states,
    summary: 'Status of each event destination of the platform',
    rest: 'GET /event-destinations',
    access: platformAdmins,
    keyScope: 'platform:read',
  }),
  'audit.platform-destinations.replay': action({
    ...replay,
    summary: 'Resend events to a destination of the platform, from a sequence number on',
    rest: 'POST /event-destinations/{name}/replay',
    access: platformAdmins,
    path: destinationName,
  }),
  'audit.platform-destinations.test': action({
    ...test,
    summary: 'Send a test to a destination of the platform now and report the result',
    rest: 'POST /event-destinations/{name}/test',
    access: platformAdmins,
    path: destinationName,
  }),
} as const;
