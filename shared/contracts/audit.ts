/** The audit: who did what, in chains that show whether anybody changed the record. */
import { Type } from 'typebox';
import { action, Page, page } from './contract.ts';
import { ActorName, Nullable, strict, Timestamp, Uuid } from './fields.ts';

const NullableString = Nullable(Type.String());

const facts = {
  id: Uuid,
  action: Type.String({ minLength: 1, maxLength: 100, description: 'Such as config.risk.updated' }),
  actor: Type.Object(
    {
      type: Type.Enum(['user', 'service', 'operator', 'system']),
      id: Type.String(),
    },
    strict,
  ),
  tenant_id: Nullable(Uuid),
  target: NullableString,
  payload: Type.Unknown({ description: 'Details, secrets removed' }),
  request_id: NullableString,
  occurred_at: Timestamp,
};
/** What a service hands over; the audit service gives it its place in the chain. */
export const AuditFacts = Type.Object(facts, strict);
/** As it is read. Neither the name nor `hash` is part of what the hash is over, which is the facts and `seq`. */
export const AuditEvent = Type.Object(
  {
    ...facts,
    actor: Type.Object({ ...facts.actor.properties, name: ActorName }, strict),
    seq: Type.Integer(),
    hash: Type.String(),
  },
  strict,
);

/** What its owner sees of an event about their account: all but its place in the chain. */
const { target: _target, ...told } = facts;
const Activity = Type.Object(told, strict);

const reader = { level: 'tenant_or_platform', roles: ['tenant_admin'] } as const;

export const auditContracts = {
  'audit.append': action({
    summary: 'Record events; an event already recorded counts as recorded',
    access: { level: 'internal' },
    body: Type.Array(AuditFacts, { maxItems: 500 }),
    result: Type.Object({ recorded: Type.Integer() }, strict),
  }),
  'audit.events.list': action({
    summary: 'Audit events, oldest first unless told',
    rest: 'GET /audit/events',
    access: reader,
    keyScope: 'audit:read',
    query: {
      tenant_id: Type.Optional(Uuid),
      actor: Type.Optional(
        Type.String({
          maxLength: 254,
          description: 'An id, or the e-mail address of a person who has signed in to the tenant',
        }),
      ),
      action: Type.Optional(
        Type.String({
          maxLength: 100,
          description: 'A name, or its beginning and an asterisk: config.*',
        }),
      ),
      target: Type.Optional(
        Type.String({
          maxLength: 300,
          description: 'What it was done to: an id, such as of a person, or the name of a document',
        }),
      ),
      since: Type.Optional(Timestamp),
      until: Type.Optional(Timestamp),
      order: Type.Optional(
        Type.Enum(['asc', 'desc'], { description: 'By time; desc begins with the newest' }),
      ),
      ...page,
    },
    result: Page(AuditEvent),
    response: 'list',
  }),
  'audit.activity': action({
    summary: 'What happened to my account, newest first',
    rest: 'GET /auth/activity',
    access: { level: 'authenticated' },
    keyScope: null,
    query: page,
    result: Page(Activity),
    response: 'list',
  }),
  'audit.verify': action({
    summary: 'Prove the chain, or name its first broken link; a long one in pieces',
    rest: 'GET /audit/verify',
    access: reader,
    keyScope: 'audit:read',
    query: {
      tenant_id: Type.Optional(Uuid),
      cursor: Type.Optional(
        Type.String({ maxLength: 2000, description: 'next_cursor of the piece before' }),
      ),
    },
    result: Type.Object(
      {
        valid: Nullable(
          Type.Boolean({
            description:
              'True once everything is proved, false from the first broken link on; null while there are more pieces and nothing is broken',
          }),
        ),
        chains: Type.Array(
          Type.Object(
            {
              tenant_id: Nullable(Uuid),
              events: Type.Integer({ description: 'How many hold, from the first on' }),
              head: Nullable(
                Type.String({
                  description:
                    'Hash of the last event; null where there is none, the chain is broken, or goes on in the next piece',
                }),
              ),
              broken_at: Type.Optional(
                Type.Object(
                  { seq: Type.Integer(), id: NullableString, problem: Type.String() },
                  strict,
                ),
              ),
            },
            strict,
          ),
        ),
        next_cursor: Nullable(
          Type.String({ description: 'For the next piece; null where all is verified' }),
        ),
      },
      strict,
    ),
  }),
} as const;
