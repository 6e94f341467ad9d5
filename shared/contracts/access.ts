/**
 * The door for gateways that are not ours: the OpenID AuthZEN Authorization API 1.0, and draft 1 of
 * the working group's Access Request and Approval Profile. The notifier answers both, because it has
 * the approvals. What a question has beside is left out of account, as both want it.
 */
import { Type, type Static, type TSchema } from 'typebox';
import { action, submission, type Access } from './contract.ts';
import { valueReaders } from './roles.ts';
import {
  described,
  DescribedObject,
  FreeForm,
  Line,
  Optional,
  TenantId,
  Timestamp,
  TitledObject,
  Uuid,
} from './fields.ts';
import { operators } from './tenant-document.ts';

/** Newer versions of the protocol add members. */
const open = { additionalProperties: true } as const;

/** Whom a gateway acts for: others than the caller need the key scope `decide:on_behalf`. */
const Subject = Type.Object(
  {
    type: Line(100, 'What it is: `user` for a person, `service` for a service account'),
    id: Line(254, 'Its id; the id of the caller without the key scope `decide:on_behalf`'),
    properties: Type.Optional(
      described(FreeForm, 'What else is known of it; bound, and nothing is decided by it', {}),
    ),
  },
  { ...open, title: 'AccessSubject', description: 'Who wants to act' },
);
const Action = Type.Object(
  {
    name: Line(100, 'The `action` of a decision, such as scale_min_instances'),
    properties: Type.Optional(
      described(
        FreeForm,
        '`risk_level` (required), `cost_impact`, `resource_scaling` and `is_rollback` of a decision',
        { risk_level: 'low' },
      ),
    ),
  },
  { ...open, title: 'AccessAction', description: 'What it wants to do' },
);
const AccessResource = Type.Object(
  {
    type: Line(100, 'The `service_type` of a decision'),
    id: Line(200, 'The `service_id` of a decision'),
    properties: Type.Optional(
      described(FreeForm, 'The parameters of the action; people who approve see them', {}),
    ),
  },
  { ...open, title: 'AccessResource', description: 'What it wants to do it to' },
);
const Context = Type.Record(Type.String(), Type.Unknown(), {
  description:
    '`agent_type` of a decision is bound; `approval` is what a completed request answered, unchanged. Nothing else is looked at',
  examples: [{ agent_type: 'scaler' }],
});

const question = {
  subject: Subject,
  resource: AccessResource,
  action: Action,
  context: Type.Optional(Context),
};
const example = {
  subject: { type: 'agent', id: 'scaler-7' },
  action: { name: 'scale_min_instances', properties: { risk_level: 'high', cost_impact: 1 } },
  resource: { type: 'cloud_run', id: 'checkout-api', properties: { min_instances: 4 } },
};
const Question = Type.Object(question, {
  ...open,
  examples: [example],
  title: 'AccessQuestion',
  description: 'Whether a subject may do an action to a resource',
});
export type Question = Static<typeof Question>;

const Answer = TitledObject('AccessAnswer', 'An answer of AuthZEN', {
  decision: Type.Boolean({ description: 'Whether it may' }),
  context: Type.Optional(
    Type.Record(Type.String(), Type.Unknown(), {
      description:
        'Why not (`reason`, `reasons`, `error`), by which `revision`, and with `access_request` how to ask for approval',
    }),
  ),
});
export type Answer = Static<typeof Answer>;

/** Of one batch. */
const mostEvaluations = 100;
const evaluationSemantics = [
  'execute_all',
  'deny_on_first_deny',
  'permit_on_first_permit',
] as const;

const optional = <T extends TSchema>(schema: T) => Type.Optional(schema);
const defaults = {
  subject: optional(Subject),
  resource: optional(AccessResource),
  action: optional(Action),
  context: optional(Context),
};

const Task = TitledObject('AccessTask', 'A request for approval', {
  id: described(Uuid, "The approval's id"),
  status: Type.Enum(['pending', 'approved', 'denied', 'expired', 'cancelled', 'failed'], {
    description: 'Only `pending` changes; `expired` also where every group was asked',
  }),
  status_endpoint: Type.String({ description: 'Where to ask for it again' }),
  expires_at: described(Timestamp, 'Deadline of the decision'),
  links: DescribedObject('What else can be done with it', {
    cancel: Type.String({ description: 'Where to withdraw it' }),
  }),
});
const TaskAnswer = TitledObject('AccessTaskAnswer', 'A request, and what came of it', {
  task: Task,
  result: optional(
    DescribedObject('Of one that was approved', {
      mode: Type.Literal('reevaluate', { description: 'Ask again, with `context.approval`' }),
      approval: DescribedObject('For `context.approval`, unchanged', {
        id: described(Uuid, "The approval's id"),
        approved_at: described(Timestamp, 'When it was approved'),
        approved_until: described(Timestamp, 'Until when it counts'),
        state: Type.String({ description: 'A JWS, opaque to the gateway' }),
      }),
    }),
  ),
});
export type TaskAnswer = Static<typeof TaskAnswer>;

const evaluates: Access = { level: 'tenant', roles: valueReaders, services: true };
const requests: Access = { level: 'tenant', roles: operators, services: true };
const tenantPath = { tenant_id: TenantId };
const base = '/tenants/{tenant_id}/access/v1';
/** Types of problems that the profile defines. */
const problems = 'urn:openid:authzen:access-request:error';
const taskPath = { ...tenantPath, task_id: described(Uuid, "The task's id") };

export const accessContracts = {
  'gateway.access.configuration': action({
    summary: 'Where the Authorization API (AuthZEN) of a tenant is',
    rest: 'GET /.well-known/authzen-configuration/tenants/{tenant_id}',
    access: { level: 'public' },
    path: tenantPath,
    result: TitledObject('AccessConfiguration', 'Metadata of AuthZEN', {
      policy_decision_point: Type.String({ description: 'Which it is' }),
      access_evaluation_endpoint: Type.String({ description: 'For one question' }),
      access_evaluations_endpoint: Type.String({ description: 'For several' }),
      access_request_endpoint: Type.String({ description: 'For requests for approval' }),
      jwks_uri: Type.String({ description: 'What signs denials and approvals' }),
      capabilities: Type.Array(Type.String({ description: 'A URN' }), {
        description: 'What it can beside: access requests, by draft 1 of their profile',
      }),
    }),
  }),
  'notifier.access.evaluate': action({
    summary: 'Whether a subject may do an action to a resource (AuthZEN)',
    rest: `POST ${base}/evaluation`,
    access: evaluates,
    keyScope: 'config:read',
    changesNothing: true,
    problems: {},
    path: tenantPath,
    body: Question,
    result: Answer,
  }),
  'notifier.access.evaluate-several': action({
    summary: 'Several evaluations as of one moment (AuthZEN)',
    rest: `POST ${base}/evaluations`,
    access: evaluates,
    keyScope: 'config:read',
    changesNothing: true,
    problems: {},
    path: tenantPath,
    body: Type.Object(
      {
        ...defaults,
        evaluations: Optional.Array(
          Type.Object(defaults, {
            ...open,
            title: 'AccessEvaluation',
            description: 'What it leaves out is that of the request',
          }),
          { maxItems: mostEvaluations, description: 'None: the request is one question' },
        ),
        options: optional(
          Type.Object(
            {
              evaluations_semantic: Optional.Enum([...evaluationSemantics], {
                description: 'After which answer the rest is left out; after none by default',
              }),
            },
            { ...open, description: 'How they are answered' },
          ),
        ),
      },
      {
        ...open,
        examples: [{ ...example, evaluations: [{}] }],
        title: 'AccessQuestions',
        description: 'Several questions',
      },
    ),
    result: Type.Union([
      Answer,
      TitledObject('AccessAnswers', 'Several answers', {
        evaluations: Type.Array(Answer, { description: 'In the order of the questions' }),
      }),
    ]),
  }),
  'notifier.access.request': submission({
    summary:
      'Request approval for what an evaluation denied and said can be requested (AuthZEN, draft)',
    rest: `POST ${base}/requests`,
    access: requests,
    leadsTo: 'operations',
    keyScope: 'approvals:write',
    problems: {
      denial_invalid: `${problems}:invalid_denial_binding`,
      denial_expired: `${problems}:expired_denial`,
      conflict: `${problems}:duplicate_request`,
    },
    path: tenantPath,
    body: TitledObject('AccessRequest', 'A denied question, for people', {
      ...question,
      denial: DescribedObject('What was denied', {
        binding_token: Type.String({
          maxLength: 10_000,
          description: 'Of `context.access_request`, unchanged',
        }),
        expires_at: described(Timestamp, 'Of `context.access_request`, unchanged'),
        evaluation_id: optional(described(Uuid, 'Of the context')),
        evaluated_at: optional(described(Timestamp, 'Of the context')),
        reason: optional(Line(100, 'Of the context')),
      }),
      client: optional(described(FreeForm, 'Which program asks; nothing relies on it', {})),
      requested_access: optional(
        described(FreeForm, 'Shown to no one: what is asked for is exactly what was denied', {}),
      ),
    }),
    result: TaskAnswer,
    response: 'accepted',
  }),
  'notifier.access.task': action({
    summary: 'Status of a request for approval (AuthZEN, draft)',
    rest: `GET ${base}/requests/{task_id}`,
    access: requests,
    keyScope: 'approvals:read',
    problems: { not_found: `${problems}:unknown_task` },
    path: taskPath,
    result: TaskAnswer,
  }),
  'notifier.access.cancel': action({
    summary: 'Withdraw a request for approval (AuthZEN, draft)',
    rest: `POST ${base}/requests/{task_id}/cancel`,
    access: requests,
    leadsTo: 'operations',
    keyScope: 'approvals:write',
    problems: {
      not_found: `${problems}:unknown_task`,
      conflict: `${problems}:invalid_task_state`,
    },
    path: taskPath,
    result: TaskAnswer,
  }),
} as const;
