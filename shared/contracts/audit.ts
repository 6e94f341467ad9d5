/** The audit: who did what, in chains that show whether anybody changed the record. */
import { Type } from 'typebox';
import { action, internal } from './contract.ts';
import { listing } from './envelopes.ts';
import {
  ActorName,
  described,
  DescribedObject,
  Nullable,
  Optional,
  StrictObject,
  TenantId,
  Timestamp,
  TitledObject,
  Uuid,
} from './fields.ts';

const facts = {
  id: described(Uuid, 'Id of the event'),
  action: Type.String({
    minLength: 1,
    maxLength: 100,
    description: 'What was done, such as config.risk.updated',
    examples: ['config.risk.updated'],
  }),
  actor: DescribedObject('Who did it', {
    type: Type.Enum(['user', 'service', 'operator', 'system'], {
      description: 'A person, a service or service account, an operator, or Strata itself',
    }),
    id: Type.String({ description: 'Their id, or the name of a service' }),
  }),
  tenant_id: described(Nullable(Uuid), "The tenant; null for what is the platform's"),
  target: Nullable(
    Type.String({
      description: 'What it was done to: an id, such as of a person, or the name of a document',
    }),
  ),
  payload: Type.Unknown({ description: 'Details, secrets removed' }),
  request_id: Nullable(Type.String({ description: 'Of the request that did it' })),
  occurred_at: described(Timestamp, 'When it happened'),
};
/** What a service hands over; the audit service gives it its place in the chain. */
export const AuditFacts = StrictObject(facts);
/**
 * As it is read. Neither the name nor `hash` is part of what the hash is over, which is the facts
 * and `seq`.
 */
export const AuditEvent = TitledObject('AuditEvent', 'What was done, and its place in the chain', {
  ...facts,
  actor: TitledObject('AuditActor', 'Who did it', { ...facts.actor.properties, name: ActorName }),
  seq: Type.Integer({ description: 'Its place in the chain, from 1' }),
  hash: Type.String({ description: 'Over the facts, `seq` and the hash of the event before' }),
});

/** As it is exported: beside its hash the previous one, so that an export stands alone. */
const ExportedEvent = TitledObject('ExportedAuditEvent', 'An event, and how it joins the chain', {
  ...AuditEvent.properties,
  previous: Type.String({ description: 'The hash of the event before, which `hash` is over' }),
});

/** In place of events that an export leaves out, so that what it has still joins. */
const SkippedEvents = TitledObject('SkippedAuditEvents', 'Events that are left out', {
  skipped: Type.Enum(['filtered', 'cut'], {
    description: 'Other actions than were asked for, or what was cut off the chain',
  }),
  from: Type.Integer({ description: 'The number of the first event that is left out' }),
  seq: Type.Integer({ description: 'The number of the last one' }),
  hash: Type.String({ description: 'The hash of the last one, which the next line follows' }),
  previous: Nullable(
    Type.String({
      description: 'The hash of the event before the first; null if that was cut off, too',
    }),
  ),
});

/** What its owner sees of an event about their account: all but its place in the chain. */
const { target: _target, ...shown } = facts;
const Activity = TitledObject(
  'Activity',
  'What happened to an account, as its owner sees it',
  shown,
);

const cut = {
  seq: Type.Integer({ description: 'Number of the last event that was cut off' }),
  hash: Type.String({ description: 'Its hash, which the next event follows' }),
  cut_at: described(Timestamp, 'When it was cut'),
  cut_by: Type.String({ description: 'Who cut it: an id, or the name of an operator' }),
  public_key: Type.String({ description: 'Ed25519 (RFC 8032), in base64url' }),
  signature: Type.String({
    description:
      'Over the canonical JSON (RFC 8785) of chain, which is the tenant id or `platform`, seq, hash, cut_at and cut_by',
  }),
};

const refusal = {
  event_id: described(Uuid, 'The event that the audit does not accept'),
  since: described(Timestamp, 'When it was first refused'),
};
const WaitingChain = TitledObject('WaitingChain', 'A chain whose next event is refused', {
  tenant_id: described(Nullable(Uuid), "Whose chain; null for the platform's"),
  ...refusal,
  action: Nullable(Type.String({ description: 'What the event tells; null if it is gone' })),
  error: Type.String({ description: 'Why it was refused last: a code and a message' }),
  tries: Type.Integer({ description: 'How often it was refused' }),
  retry_at: described(Timestamp, 'When it is tried again'),
});

const Checkpoint = TitledObject('AuditCheckpoint', 'How far a chain reached, signed', {
  tenant_id: described(Nullable(Uuid), "Whose chain; null for the platform's"),
  seq: Type.Integer({ description: 'Number of the newest event then' }),
  hash: Type.String({ description: 'Its hash' }),
  made_at: described(Timestamp, 'When it was signed'),
  note: Type.String({
    description:
      'A signed note (c2sp.org/signed-note): a line that names its kind, chain, seq, hash and made_at on their own lines, and the signatures',
  }),
  verifier_key: Type.String({
    description:
      'Verifies the notes that are made now. Pin it elsewhere: a server that is not trusted can say any key',
  }),
});

const reader = { level: 'tenant_or_platform', roles: ['tenant_admin'] } as const;

const ofWhichTenant =
  "Only this tenant; without it the caller's own, and for the platform's administrators all";

export const auditContracts = {
  'audit.append': internal({
    summary: 'Record events; an event already recorded counts as recorded',
    body: Type.Array(AuditFacts, { maxItems: 500 }),
    result: StrictObject({ recorded: Type.Integer() }),
  }),
  'audit.events.list': listing({
    summary:
      'Audit events, oldest first by default; with a filter, an empty page may have a next_cursor',
    rest: 'GET /audit/events',
    access: reader,
    keyScope: 'audit:read',
    query: {
      tenant_id: Type.Optional(described(Uuid, ofWhichTenant)),
      actor: Optional.String({
        maxLength: 254,
        description: 'An id, or the e-mail address of a person who has signed in to the tenant',
      }),
      action: Optional.String({
        maxLength: 300,
        description:
          'A name or its beginning, with an asterisk or without: tenant.member; several with commas between them',
      }),
      target: Optional.String({
        maxLength: 300,
        description: 'What it was done to: an id, such as of a person, or the name of a document',
      }),
      since: Type.Optional(described(Timestamp, 'From this time on')),
      until: Type.Optional(described(Timestamp, 'Before this time')),
      order: Optional.Enum(['asc', 'desc'], {
        description: 'By time; `desc` lists the newest first',
      }),
    },
    items: AuditEvent,
  }),
  'audit.activity': listing({
    summary: 'What happened to my account, newest first',
    rest: 'GET /auth/activity',
    access: { level: 'authenticated' },
    keyScope: null,
    items: Activity,
  }),
  'audit.export': listing({
    summary:
      'Export a chain in order, for storage elsewhere: each line proves that none is missing',
    rest: 'GET /audit/export',
    access: reader,
    keyScope: 'audit:read',
    query: {
      tenant_id: Optional.String({
        ...Uuid,
        description: "For platform administrators; the platform's chain where absent",
      }),
      before: Optional.String({
        format: 'date-time',
        maxLength: 40,
        description: 'Ends before the first event that is not from before this moment',
      }),
      after: Optional.Integer({
        minimum: 0,
        maximum: Number.MAX_SAFE_INTEGER,
        description: 'Begins after this number: to resume, or to fetch what was lost again',
      }),
      action: Optional.String({
        maxLength: 300,
        description:
          'Only these actions, as in the list of events; events in between become their own line',
      }),
    },
    items: Type.Union([ExportedEvent, SkippedEvents]),
  }),
  'audit.cut': action({
    summary: 'Truncate the beginning of an exported chain; a signed statement takes its place',
    rest: 'POST /audit/cut',
    access: { level: 'platform_admin' },
    leadsTo: 'proof',
    keyScope: null,
    body: TitledObject('AuditCutRequest', 'What is cut off a chain', {
      tenant_id: Type.Optional(
        described(Nullable(Uuid), "The tenant whose chain it is; without it the platform's"),
      ),
      seq: Type.Integer({ minimum: 1, description: 'Number of the last event that goes' }),
      hash: Type.String({
        pattern: '^[0-9a-f]{64}$',
        description: 'Its hash, as in an export of the chain',
        examples: ['9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08'],
      }),
    }),
    result: TitledObject('AuditCut', 'The statement in place of what was cut off', {
      tenant_id: described(Nullable(Uuid), "The tenant; null for the platform's chain"),
      ...cut,
    }),
  }),
  'audit.waiting.list': listing({
    summary: 'Chains that are blocked because the audit refuses their next event',
    rest: 'GET /audit/waiting',
    access: { level: 'platform_admin' },
    keyScope: 'platform:read',
    items: WaitingChain,
  }),
  'audit.waiting.retry': action({
    summary: 'Retry blocked chains now: one, or all of them',
    rest: 'POST /audit/waiting/retry',
    access: { level: 'platform_admin' },
    leadsTo: 'operations',
    keyScope: 'platform:write',
    body: TitledObject('AuditRetryRequest', 'Which chains are tried again', {
      tenant_id: Type.Optional(
        described(Nullable(Uuid), "Whose chain; null for the platform's, without it all"),
      ),
    }),
    result: TitledObject('AuditRetry', 'How many chains are tried again', {
      chains: Type.Integer({ description: 'How many chains are tried again' }),
    }),
  }),
  'audit.checkpoints.list': listing({
    summary:
      'The latest checkpoint of each chain: its head, signed each hour, for storage elsewhere',
    rest: 'GET /audit/checkpoints',
    access: reader,
    keyScope: 'audit:read',
    query: { tenant_id: Type.Optional(described(Uuid, ofWhichTenant)) },
    items: Checkpoint,
  }),
  'audit.verify': action({
    summary: 'Verify the chain, or name its first broken link; a long one in parts',
    rest: 'GET /audit/verify',
    access: reader,
    keyScope: 'audit:read',
    query: {
      tenant_id: Type.Optional(described(Uuid, ofWhichTenant)),
      cursor: Optional.String({
        maxLength: 2000,
        description: '`next_cursor` of the previous part',
      }),
    },
    result: StrictObject({
      valid: Nullable(
        Type.Boolean({
          description:
            'True once everything is verified, false from the first broken link on; null while parts are left and nothing is broken',
        }),
      ),
      chains: Type.Array(
        StrictObject({
          tenant_id: described(Nullable(TenantId), "Whose chain; null for the platform's"),
          events: Type.Integer({ description: 'Number of verified events, from the first on' }),
          head: Nullable(
            Type.String({
              description:
                'Hash of the last event; null if there is none, the chain is broken, or continues in the next chunk',
            }),
          ),
          cut: Type.Optional(
            TitledObject('CutOfChain', 'The chain was cut here, and is proved from here on', cut),
          ),
          waits_at: Type.Optional(
            DescribedObject(
              'The event that comes next is refused, and those after it wait',
              refusal,
            ),
          ),
          erased_at: Optional.String({
            format: 'date-time',
            description: 'The tenant was erased: hashes of its events are left, and they hold',
          }),
          broken_at: Type.Optional(
            DescribedObject('The first broken link; absent if there is none', {
              seq: Type.Integer({ description: 'The place in the chain' }),
              id: Nullable(Type.String({ description: 'Of the event, where there is one' })),
              problem: Type.String({ description: 'What is wrong there' }),
            }),
          ),
        }),
        { description: 'The chains of this part' },
      ),
      next_cursor: Nullable(
        Type.String({ description: 'For the next part; null once all is verified' }),
      ),
    }),
  }),
} as const;
