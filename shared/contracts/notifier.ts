/**
 * notifier: approvals, the notices that tell people of them, and the links in mails by which they
 * are decided.
 */
import { Type } from 'typebox';
import { action, internal, stream, type Access, type CheckedParams } from './contract.ts';
import { type TenantRole } from './roles.ts';
import { afterRevision, Changes, listing } from './envelopes.ts';
import {
  ActorName,
  AgentType,
  CreatedAt,
  described,
  DescribedObject,
  Line,
  MailedToken,
  Nullable,
  Optional,
  ServiceId,
  ServiceTypeName,
  StrictObject,
  TenantId,
  Timestamp,
  TitledObject,
  Uuid,
} from './fields.ts';
import { operators } from './tenant-document.ts';

const optional = Type.Optional;

export const riskLevels = ['low', 'medium', 'high', 'critical'] as const;
export type RiskLevel = (typeof riskLevels)[number];
export const RiskLevel = Type.Enum(riskLevels, {
  title: 'RiskLevel',
  description: 'How risky the action is, in the judgement of who asks',
});

/**
 * Of an approval. Only `pending` changes: `exhausted` when every group was asked and nobody
 * decided, `expired` when its time ran out before that, `withdrawn` when the automation that waited
 * for it was.
 */
export const approvalStates = [
  'pending',
  'approved',
  'denied',
  'expired',
  'exhausted',
  'withdrawn',
] as const;
export type ApprovalState = (typeof approvalStates)[number];
const ApprovalState = Type.Enum(approvalStates, {
  title: 'ApprovalState',
  description:
    'Only `pending` changes. `exhausted`: every group was asked and no one decided; `expired`: its time ran out; `withdrawn`: the automation that waited for it was',
});

export const decisions = ['approve', 'deny'] as const;
export type Decision = (typeof decisions)[number];
const Decision = Type.Enum(decisions, { title: 'Decision', description: 'What was decided' });

/** How a decision was made: by a signed-in caller, the link in a mail, or a button in Slack. */
const decisionVias = ['api', 'link', 'slack'] as const;
export type DecisionVia = (typeof decisionVias)[number];
const DecisionVia = Type.Enum(decisionVias, {
  title: 'DecisionVia',
  description: 'By a signed-in caller, the link in a mail, or a button in Slack',
});

/**
 * By which right somebody decides:
 *
 * - `group_member`: of a group that was asked so far;
 * - `groups_without_members`: a tenant_admin, because these groups have no member who could decide;
 * - `role`: an operator or tenant_admin, where the approval has no groups;
 * - `recipient`: an address without an account that the configuration names;
 * - `console`: the platform's operator.
 */
export const decisionRights = [
  'group_member',
  'groups_without_members',
  'role',
  'recipient',
  'console',
] as const;
export type DecisionRight = (typeof decisionRights)[number];
const DecisionRight = Type.Enum(decisionRights, {
  title: 'DecisionRight',
  description: 'By which right somebody decided',
});

/** Of a delivery: `cancelled` when its approval was settled before it could be sent. */
export const deliveryStates = ['pending', 'delivered', 'failed', 'cancelled'] as const;
export type DeliveryState = (typeof deliveryStates)[number];
const DeliveryState = Type.Enum(deliveryStates, {
  title: 'DeliveryState',
  description: '`cancelled`: its approval was settled before it could be sent',
});

/** Ways to tell people, each named as its section of notification_config. */
export const channels = ['webhook', 'email', 'chat', 'teams', 'slack'] as const;
export type Channel = (typeof channels)[number];
const Channel = Type.Enum(channels, { title: 'Channel', description: 'A notification channel' });

/**
 * What has happened to the approval of a notice. Audited under the same name, except that a
 * decision is approved or denied there.
 */
const noticeTypes = [
  'approval.requested',
  'approval.escalated',
  'approval.reminded',
  'approval.exhausted',
  'approval.expired',
  'approval.decided',
  'approval.withdrawn',
] as const;
export type NoticeType = (typeof noticeTypes)[number];
export const NoticeType = Type.Enum(noticeTypes, {
  title: 'NoticeType',
  description: 'What has happened to the approval',
});

/** Says that a budget has reached its `warn_at`; audited under the same name. */
export const budgetNoticeType = 'budget.warned';
/** Steps of a tenant's change set; audited under the same names. */
export const changeSetNoticeTypes = [
  'changeset.submitted',
  'changeset.approved',
  'changeset.rejected',
  'changeset.cancelled',
  'changeset.applied',
  'changeset.stale',
  'changeset.suspended',
  'changeset.failed',
  'changeset.broke_glass',
] as const;
export type ChangeSetNoticeType = (typeof changeSetNoticeTypes)[number];
const ofChangeSets: readonly string[] = changeSetNoticeTypes;
export const isOfChangeSet = (type: string): type is ChangeSetNoticeType =>
  ofChangeSets.includes(type);
/** Of everything that is delivered. */
export const deliveredTypes = [...noticeTypes, budgetNoticeType, ...changeSetNoticeTypes] as const;
export type DeliveredType = (typeof deliveredTypes)[number];
const DeliveredType = Type.Enum(deliveredTypes, {
  title: 'DeliveredType',
  description:
    'What has happened to the approval or change set, or that a budget has reached its `warn_at`',
});

export const ActionToApprove = Type.String({
  pattern: '^[A-Za-z0-9._-]{1,100}$',
  description: 'What the automation wants to do, such as scale_min_instances',
  examples: ['scale_min_instances'],
});

/** What every request for approval says. */
const requested = {
  action: ActionToApprove,
  risk_level: RiskLevel,
  title: described(
    Line(300, 'Summary of the request, in one line'),
    'Summary of the request, in one line',
    'Scale checkout-api to 8 instances',
  ),
};
const Description = Type.String({
  maxLength: 10_000,
  description: 'Details that a human needs to decide',
});
export const Resource = Type.Union(
  [Line(500, 'Name of the resource'), Type.Record(Type.String(), Type.Unknown())],
  { description: 'What would be changed; at most 32 KiB of JSON' },
);
export const CostImpact = Type.Number({
  minimum: 0,
  // As many digits as the amount of a budget has.
  maximum: 999_999_999_999,
  description: "Cost of the change, in the tenant's currency",
  examples: [20],
});
const Metadata = Type.Record(Type.String(), Type.Unknown(), {
  description: 'Passed to receivers unchanged; at most 32 KiB of JSON',
});

/**
 * What the approval is about, where it is something that has configuration of its own: its limits
 * are those that hold there.
 */
const context = {
  agent_type: optional(AgentType),
  service_id: optional(ServiceId),
  service_type: optional(ServiceTypeName),
};

const NamedKey = TitledObject('NamedKey', 'An API key', {
  id: Type.String({ description: "The key's id" }),
  name: Type.String({ description: 'What its owner calls it' }),
});
const ActorType = Type.String({
  description: 'A user, a service account or a service',
  examples: ['user'],
});
const Requester = TitledObject('Requester', 'Who asked, and with which API key, if with one', {
  type: ActorType,
  id: Type.String({ description: 'Of the person, the service account or the service' }),
  name: Nullable(Type.String({ description: 'Null for requests from before it was kept' })),
  api_key: described(Nullable(NamedKey), 'The API key that was used; null: none'),
});
const Comment = Nullable(Type.String({ description: 'What they said' }));
const Approver = TitledObject('Approver', 'Somebody who has approved', {
  type: ActorType,
  by: Type.String({ description: 'Id of the person or service account, or a mail address' }),
  name: Type.String({ description: 'What they are called' }),
  api_key: described(Nullable(NamedKey), 'The API key that was used; null: none'),
  at: described(Timestamp, 'When'),
  comment: Comment,
  via: DecisionVia,
  right: DecisionRight,
});
const Policy = TitledObject('FrozenPolicy', 'The approval_policy of when it was asked for', {
  required: Type.Integer({ description: 'How many must approve' }),
  allow_self: Type.Boolean({ description: 'The requester may decide, too' }),
  machines: Type.Boolean({ description: 'API keys may decide' }),
});

const WhatHappens = TitledObject('WhatHappens', 'In words, while it is pending', {
  approve: Type.String({ description: 'What follows from an approval' }),
  deny: Type.String({ description: 'What follows from a denial' }),
  silence: Type.String({ description: 'What follows where no one decides, and when' }),
});

/** What an automation that asks says beside the cost. */
const whyAsked = {
  cost_currency: Optional.String({
    description: 'Currency of the cost_impact, if a budget of the tenant names one',
  }),
  asked_because: Optional.Array(Type.String(), {
    description: 'Limits that require an approval, in words; absent if no automation asks',
    examples: [['It costs 30; without an approval it may cost 20 (max_cost_impact_auto, global).']],
  }),
} as const;

/** An approval as everybody sees it: its readers, and the receivers of its notices. */
export const Approval = TitledObject('Approval', "A request for a human's approval", {
  id: described(Uuid, "The approval's id"),
  tenant_id: TenantId,
  state: ApprovalState,
  ...requested,
  description: Nullable(Description),
  resource: Nullable(Resource),
  cost_impact: Nullable(CostImpact),
  ...whyAsked,
  metadata: Nullable(Metadata),
  ...context,
  hop: Type.Integer({ description: 'Escalations so far' }),
  max_hops: Type.Integer({ description: 'Escalations there can be' }),
  chain: Type.Array(Type.String(), {
    description: 'Approver groups, in the order in which they are asked',
  }),
  current_group: Nullable(Type.String({ description: 'The group that is asked now' })),
  requested_by: Requester,
  policy: Policy,
  revision: Nullable(
    Type.Integer({ description: "The tenant's approvals' revision at its last change" }),
  ),
  approved_by: Type.Array(Approver, {
    description: 'Who has approved so far, in order; `policy.required` of them grant it',
  }),
  created_at: CreatedAt,
  expires_at: described(Timestamp, 'Deadline of the decision'),
  escalates_at: described(Nullable(Timestamp), 'When the next group is asked; null if none is'),
  acknowledged: Nullable(
    TitledObject('Acknowledgement', 'Who is on it, which pauses escalation', {
      by: Type.String({ description: 'Id of the person' }),
      at: described(Timestamp, 'When they said so'),
    }),
  ),
  decision: Nullable(
    TitledObject('ApprovalDecision', 'How it was decided; null if it was not', {
      decision: Decision,
      by: Type.String({ description: 'Id of the person or service account, or a mail address' }),
      name: ActorName,
      at: described(Timestamp, 'When'),
      comment: Comment,
      via: DecisionVia,
    }),
  ),
  what_happens: optional(WhatHappens),
});

/** An approval for the person who looks at it. */
const ViewedApproval = TitledObject(
  'ViewedApproval',
  'An approval, and whether you may decide it',
  {
    ...Approval.properties,
    viewer: optional(
      TitledObject('ApprovalViewer', 'The caller, if a person who signed in, while it is pending', {
        may_decide: Type.Boolean({ description: 'Whether they could decide now' }),
        code: Nullable(
          Type.String({ description: 'Error code of a decision of theirs; null: none' }),
        ),
        why_not: Nullable(Type.String({ description: 'Why they may not; null: they may' })),
      }),
    ),
  },
);

const { id: _id, revision: _revision, ...shown } = Approval.properties;
/** Of every notice. */
export const noticed = {
  id: Type.String({
    description: 'Id of the notice, the same in every attempt',
    examples: ['ntf_3f9d1c527a414f0e9b6c0d5e8a1b2c3d'],
  }),
  timestamp: described(Timestamp, 'When it was made'),
};
/** What a webhook receives. */
export const Notice = TitledObject('Notice', 'What has happened to an approval', {
  type: NoticeType,
  ...noticed,
  data: DescribedObject('The approval as it was then', {
    approval_id: described(Uuid, "The approval's id"),
    ...shown,
  }),
});

/**
 * What a stream says of an approval: that it changed, and what it is by now. The approval itself is
 * read, with its access.
 */
const ApprovalChange = TitledObject('ApprovalChange', 'That an approval changed', {
  revision: Type.Integer({ description: "Of the tenant's approvals" }),
  approval_id: described(Uuid, "The approval's id"),
  state: ApprovalState,
});

/** In seconds. */
export const longestWait = 60;
/** A request that waits takes as long as it says. */
export const timeToWait = ({ wait }: CheckedParams): number | undefined =>
  typeof wait === 'number' ? wait * 1000 + 5000 : undefined;

const delivery = {
  id: described(Uuid, "The delivery's id"),
  approval_id: described(
    Nullable(Uuid),
    'The approval that it tells of; null: it tells of a budget or a change set',
  ),
  webhook_id: Type.String({ description: 'Id of the notice, the same in every attempt' }),
  type: DeliveredType,
  hop: Type.Integer({ description: 'Escalations before it' }),
  channel: Channel,
  target: Type.String({ description: 'Origin of the endpoint, or mail address' }),
  state: DeliveryState,
  attempts: Type.Integer({ description: 'Attempts so far' }),
  next_attempt_at: described(Nullable(Timestamp), 'When it is tried next; null: never'),
  created_at: CreatedAt,
  settled_at: described(Nullable(Timestamp), 'When it was delivered or failed; null: not yet'),
  reason: Nullable(Type.String({ description: 'Why it failed, or waits' })),
};
export const Delivery = TitledObject('Delivery', 'One notice to one receiver', delivery);
export const Attempt = TitledObject('DeliveryAttempt', 'One attempt to deliver a notice', {
  at: described(Timestamp, 'When it began'),
  duration_ms: Type.Integer({ description: 'Duration' }),
  status: Nullable(Type.Integer({ description: 'HTTP status of the answer; null: none came' })),
  answer: Nullable(Type.String({ description: 'The first 4 KiB of the answer' })),
  error: Nullable(Type.String({ description: 'What went wrong' })),
});
const DeliveryDetail = TitledObject(
  'DeliveryDetail',
  'One notice to one receiver, with every attempt',
  { ...delivery, log: Type.Array(Attempt, { description: 'Every attempt, in order' }) },
);

/** Of those who may decide an approval, signed in or by a mailed link. */
export const deciderRoles: readonly TenantRole[] = ['tenant_admin', 'operator', 'reviewer'];
const people: Access = { level: 'tenant', roles: deciderRoles };
const approvers: Access = { ...people, services: true };
const requesters: Access = { level: 'tenant', roles: operators, services: true };
const admins: Access = { level: 'tenant', roles: ['tenant_admin'] };
const tenantPath = { tenant_id: TenantId };
const approvalPath = { ...tenantPath, approval_id: described(Uuid, "The approval's id") };
const deliveryPath = { ...tenantPath, delivery_id: described(Uuid, "The delivery's id") };
/**
 * In characters. A mail address has at most 254, which JSON and base64url may make eight times as
 * long.
 */
export const longestLinkToken = 4000;
const link = {
  token: MailedToken(longestLinkToken),
};
export const LinkView = TitledObject('DecisionLink', 'What the link in a mail decides', {
  decision: Decision,
  tenant_name: Type.String({ description: "The tenant's name" }),
  title: Type.String({ description: 'Summary of the request, in one line' }),
  action: Type.String({ description: 'What the automation wants to do' }),
  risk_level: Type.String({ description: 'How risky it is' }),
  description: Nullable(Type.String({ description: 'Details that a human needs to decide' })),
  resource: Nullable(Resource),
  cost_impact: Nullable(CostImpact),
  ...whyAsked,
  ...context,
  requested_by: Requester,
  required: Type.Integer({ description: 'How many must approve' }),
  approved_by: Type.Array(
    StrictObject({
      name: Type.String({ description: 'What they are called' }),
      at: described(Timestamp, 'When'),
      comment: Comment,
    }),
    { description: 'Who has approved so far, in order' },
  ),
  has_approved: Type.Boolean({ description: 'The reader of the link is among them' }),
  metadata: optional(described(Nullable(Metadata), 'Parameters of the action')),
  what_happens: optional(WhatHappens),
  state: ApprovalState,
  expires_at: described(Timestamp, 'Deadline of the decision'),
});

export const notifierContracts = {
  'notifier.approvals.request': action({
    summary: "Request a human's approval",
    rest: 'POST /tenants/{tenant_id}/approvals',
    access: requesters,
    leadsTo: 'operations',
    keyScope: 'approvals:write',
    path: tenantPath,
    body: TitledObject('ApprovalRequest', 'What a human is asked for', {
      ...requested,
      description: optional(Description),
      resource: optional(Resource),
      cost_impact: optional(CostImpact),
      metadata: optional(Metadata),
      ...context,
      expires_at: optional(
        described(
          Timestamp,
          'Deadline of the decision; defaults to approval_timeout_minutes, or to as long as its escalation takes',
        ),
      ),
      idempotency_key: optional(
        Line(200, 'The same key with the same request gives the same approval'),
      ),
    }),
    result: Approval,
    response: 'accepted',
  }),
  'notifier.approvals.list': listing({
    summary: 'List approvals, newest first',
    rest: 'GET /tenants/{tenant_id}/approvals',
    access: approvers,
    keyScope: 'approvals:read',
    path: tenantPath,
    query: { state: optional(described(ApprovalState, 'Only those in this state')) },
    items: Approval,
  }),
  'notifier.approvals.get': action({
    summary: 'Read an approval, immediately or when it changes',
    rest: 'GET /tenants/{tenant_id}/approvals/{approval_id}',
    access: approvers,
    keyScope: 'approvals:read',
    path: approvalPath,
    query: {
      revision: Optional.Integer({
        minimum: 0,
        description: 'The state the caller knows: `wait` ends as soon as it differs',
      }),
      wait: Optional.Integer({
        minimum: 0,
        maximum: longestWait,
        description:
          'Seconds to wait while it is pending and does not change from `revision`; without that, from what it is now',
      }),
    },
    result: ViewedApproval,
    minTimeoutMs: timeToWait,
  }),
  'notifier.approvals.changes': action({
    summary: 'Approvals that changed after a revision, by the revision of their last change',
    access: approvers,
    keyScope: 'approvals:read',
    path: tenantPath,
    query: afterRevision,
    result: Changes(ApprovalChange),
    changesNothing: true,
  }),
  'gateway.watch.approvals': stream({
    summary: "Watch the tenant's approvals",
    rest: 'GET /tenants/{tenant_id}/approvals/watch',
    access: people,
    keyScope: 'approvals:read',
    path: tenantPath,
    result: ApprovalChange,
  }),
  'notifier.approvals.decide': action({
    summary: 'Approve or deny what somebody else asked for',
    rest: 'POST /tenants/{tenant_id}/approvals/{approval_id}/decision',
    access: people,
    leadsTo: 'operations',
    keyScope: 'approvals:decide',
    path: approvalPath,
    body: StrictObject({
      decision: Decision,
      comment: Optional.String({ maxLength: 2000, description: 'Reason, for the record' }),
    }),
    result: Approval,
  }),
  'notifier.approvals.ack': action({
    summary: 'Acknowledge an approval, which pauses its escalation',
    rest: 'POST /tenants/{tenant_id}/approvals/{approval_id}/ack',
    access: people,
    leadsTo: 'operations',
    keyScope: 'approvals:write',
    path: approvalPath,
    result: Approval,
  }),
  'notifier.links.show': action({
    summary: 'Preview what the link in a mail would decide',
    rest: 'GET /approvals/decision',
    access: { level: 'public' },
    query: link,
    result: LinkView,
    response: 'page',
  }),
  'notifier.slack.decide': internal({
    summary: 'Decide as the person of an address for whom the workspace of Slack vouches',
    path: { ...tenantPath, approval_id: Uuid, email: Type.String() },
    query: {
      decision: Decision,
      revision: Type.Integer({
        description: 'Of the notification_config by which the click was received',
      }),
    },
    result: StrictObject({
      left: Type.Integer({ description: 'How many more must approve; 0: it is decided' }),
    }),
  }),
  'notifier.links.decide': action({
    summary: 'Decide by the link in a mail, once',
    rest: 'POST /approvals/decision',
    access: { level: 'public' },
    leadsTo: 'operations',
    query: link,
    /** Optional: a link's own decision is in its token. */
    body: optional(
      TitledObject('LinkDecision', 'What is decided by the link', {
        decision: optional(
          described(
            Decision,
            'Of the link by default. A link that approves may deny; one that denies may not approve',
          ),
        ),
        comment: Optional.String({
          maxLength: 2000,
          description: 'Why, for readers of the decision',
        }),
      }),
    ),
    result: LinkView,
    response: 'page',
  }),
  'notifier.deliveries.list': listing({
    summary: 'List deliveries, newest first',
    rest: 'GET /tenants/{tenant_id}/notifications/deliveries',
    access: people,
    keyScope: 'approvals:read',
    path: tenantPath,
    query: {
      approval_id: optional(described(Uuid, 'Only of this approval')),
      state: optional(described(DeliveryState, 'Only those in this state')),
      channel: optional(described(Channel, 'Only by this channel')),
    },
    items: Delivery,
  }),
  'notifier.deliveries.get': action({
    summary: 'A delivery with every attempt',
    rest: 'GET /tenants/{tenant_id}/notifications/deliveries/{delivery_id}',
    access: people,
    keyScope: 'approvals:read',
    path: deliveryPath,
    result: DeliveryDetail,
  }),
  'notifier.deliveries.replay': action({
    summary: 'Resend a notice',
    rest: 'POST /tenants/{tenant_id}/notifications/deliveries/{delivery_id}/replay',
    access: admins,
    leadsTo: 'operations',
    keyScope: 'approvals:write',
    path: deliveryPath,
    result: Delivery,
    response: 'accepted',
  }),
  'notifier.test': action({
    summary: 'Send a test notice now and report the result',
    rest: 'POST /tenants/{tenant_id}/notifications/test',
    access: admins,
    leadsTo: 'operations',
    keyScope: 'approvals:write',
    path: tenantPath,
    body: StrictObject(
      {
        channel: Channel,
        endpoint: Optional.Integer({
          minimum: 0,
          maximum: 99,
          description: 'Which webhook endpoint, from 0; all by default',
        }),
      },
      {
        title: 'TestNotice',
        description: 'Which channel to try',
        examples: [{ channel: 'email' }],
      },
    ),
    result: TitledObject('TestResult', 'Result of a test notice', {
      channel: Channel,
      results: Type.Array(
        StrictObject({
          target: Type.String({ description: 'Origin of the endpoint, or mail address' }),
          delivered: Type.Boolean({ description: 'Whether it was delivered' }),
          ...Attempt.properties,
        }),
        { description: 'One for each receiver' },
      ),
    }),
  }),
} as const;
