/**
 * A tenant's notification_config: whom the notifier asks for approval, over which channels, and
 * what happens when nobody decides. One document per tenant, null until it is set. Secrets are
 * stored encrypted and shown masked, where `marks` says that a text is one.
 */
import { Type, type Static, type TSchema } from 'typebox';
import { internalRead, read } from './contract.ts';
import { documentContracts } from './document-contracts.ts';
import {
  DescribedObject,
  Email,
  Line,
  Nullable,
  Optional,
  strict,
  StrictObject,
  TitledObject,
} from './fields.ts';
import { marks, Secret } from './marks.ts';
import {
  configurationReaders,
  ofTenant,
  tenantPath,
  type TenantAddress,
} from './tenant-document.ts';

const optional = Type.Optional;
const headerNameCharacters = "[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}";
const VisibleSecret = (description: string) => Secret(description, { pattern: '^[\\x21-\\x7e]+$' });
const HeaderName = (description: string) =>
  Type.String({ pattern: `^${headerNameCharacters}$`, description });
const Address = (description: string) => Type.String({ ...Email, description });
const Addresses = (description: string) =>
  Type.Array(Address('Mail address'), { maxItems: 100, description });
const Groups = (description: string) =>
  Type.Array(Type.String({ pattern: '^[A-Za-z0-9._-]{1,64}$', description: 'Approver group' }), {
    maxItems: 20,
    description,
  });

// ---------------------------------------------------------------- webhooks

const Bearer = StrictObject({
  type: Type.Literal('bearer', { description: 'Authorization: Bearer' }),
  token: VisibleSecret('The token'),
});
const Basic = StrictObject({
  type: Type.Literal('basic', { description: 'Authorization: Basic (RFC 7617)' }),
  username: Type.String({
    minLength: 1,
    maxLength: 256,
    pattern: '^[^:\\x00-\\x1f\\x7f]*$',
    description: 'User name, without a colon',
  }),
  password: Type.With(Line(4096, 'Password'), { [marks.secret]: true }),
});
const ApiKey = StrictObject({
  type: Type.Literal('api_key', { description: 'Its own header' }),
  api_key: VisibleSecret('The key'),
  header_name: optional(HeaderName('Header that carries the key; X-API-Key by default')),
});

/**
 * The `discriminator` keyword makes the answer name the problems of the one shape that `type`
 * chooses.
 */
const Auth = Type.Unsafe<Static<typeof Bearer> | Static<typeof Basic> | Static<typeof ApiKey>>({
  type: 'object',
  discriminator: { propertyName: 'type' },
  oneOf: [Bearer, Basic, ApiKey],
  title: 'WebhookAuth',
  description: 'How requests are authenticated: exactly one of the three shapes',
});

const Headers = Type.Record(
  Type.String({ pattern: `^${headerNameCharacters}$` }),
  Type.String({ maxLength: 4096, pattern: '^[\\t\\x20-\\x7e]*$', description: 'Header value' }),
  {
    ...strict,
    maxProperties: 50,
    description: 'Extra request headers',
    [marks.secretNames]: 'auth|token|secret|key|cookie|password|credential',
  },
);

const Backoff = DescribedObject('Waits between retries', {
  initial_seconds: Optional.Number({
    minimum: 0,
    maximum: 86_400,
    description: 'Wait before the first retry, up to the process cap',
  }),
  factor: Optional.Number({ minimum: 1, maximum: 1000, description: 'Factor from wait to wait' }),
  max_seconds: Optional.Number({
    minimum: 0,
    maximum: 86_400,
    description: 'Longest wait, up to the process cap',
  }),
});

export const WebhookEndpoint = StrictObject(
  {
    url: Type.String({
      minLength: 1,
      maxLength: 2048,
      pattern: '^https?://[^\\s\\x00-\\x1f\\x7f]+$',
      description:
        'Endpoint address; with another one, path and query included, its secrets are given again',
      examples: ['https://hooks.acme.example/strata'],
      [marks.calledAddress]: true,
    }),
    headers: optional(Headers),
    auth: optional(Auth),
    secret: optional(Secret('When present, requests are signed')),
    previous_secret: optional(Secret('Signs too while the secret is rotated')),
    timeout_seconds: Optional.Integer({
      minimum: 1,
      maximum: 86_400,
      description: 'Time-out of one send, up to the process cap',
    }),
    retry_attempts: Optional.Integer({
      minimum: 0,
      maximum: 1000,
      description: 'Retries after the first send, up to the process cap',
    }),
    backoff: optional(Backoff),
  },
  {
    title: 'WebhookEndpoint',
    description: 'An endpoint that notices are posted to',
    [marks.secretsOf]: 'webhook',
  },
);
export type WebhookEndpoint = Static<typeof WebhookEndpoint>;

const WebhookEndpoints = StrictObject({
  endpoints: Type.Array(WebhookEndpoint, {
    maxItems: 100,
    description: 'Endpoints; each gets every hop',
  }),
});

const hasEndpoints = { properties: { endpoints: {} }, required: ['endpoints'] };
/** `endpoints` decides the form, so that problems are named of that form only. */
const Webhook = Type.Unsafe<WebhookEndpoint | Static<typeof WebhookEndpoints>>({
  allOf: [
    { if: hasEndpoints, else: WebhookEndpoint },
    { if: { not: hasEndpoints }, else: WebhookEndpoints },
  ],
  title: 'Webhook',
  description: "Notices by webhook: one endpoint's fields, or `endpoints`; never both",
} as TSchema);

// ---------------------------------------------------------------- mail and chat

const TemplateOverride = TitledObject('TemplateOverride', 'Changes to one template', {
  subject: optional(
    Line(300, 'Subject line; {title}, {action}, {risk_level} and the like stand for values'),
  ),
  branding: optional(
    Type.Union(
      [
        Line(300, 'Shown above the text'),
        Type.Record(Type.String(), Line(300, 'A part of the branding')),
      ],
      {
        description:
          'Line above the text; or parts: name (above it), color (#rrggbb), logo_url (https), all others below it',
      },
    ),
  ),
});
const approvalRecipients = Addresses('Asked when the current group has no members');
const defaultRecipients = Addresses('Asked when there are no approval_recipients either');
const emailFields = {
  approval_recipients: optional(approvalRecipients),
  default_recipients: optional(defaultRecipients),
  from_email: optional(Address('Sender, instead of the setting from_email')),
  template_overrides: optional(
    Type.Record(Type.String({ pattern: '^[a-z][a-z0-9_]{0,63}$' }), TemplateOverride, {
      ...strict,
      description: 'Template name, such as approval_request, to its changes',
    }),
  ),
};

const GoogleChat = StrictObject(
  {
    webhook_url: optional(
      Secret('Incoming webhook of the space; it carries its own key', {
        [marks.calledAddress]: true,
      }),
    ),
    spaces: Optional.Array(Line(300, 'Space'), { maxItems: 100, description: 'Spaces' }),
    include_links: Optional.Boolean({ description: 'Notices link to the decision' }),
  },
  { description: 'Google Chat', [marks.secretsOf]: 'google_chat' },
);
const Chat = TitledObject('ChatConfig', 'Notices in chat', { google_chat: optional(GoogleChat) });

const Teams = StrictObject(
  {
    webhook_url: Secret('Address of the workflow of the channel; it carries its own key', {
      [marks.calledAddress]: true,
    }),
  },
  {
    title: 'TeamsConfig',
    description: 'Notices in Microsoft Teams; each links to where it is decided',
    [marks.secretsOf]: 'teams',
  },
);

const Slack = StrictObject(
  {
    app_token: Secret('App-level token (xapp-) with the scope connections:write', {
      pattern: '^[\\x21-\\x7e]+$',
    }),
    bot_token: Secret('Bot token (xoxb-) with chat:write, users:read and users:read.email', {
      pattern: '^[\\x21-\\x7e]+$',
    }),
    channel: Type.String({
      pattern: '^[CG][A-Z0-9]{2,30}$',
      description: 'Id of the channel, which the app was invited to',
      examples: ['C0123456789'],
    }),
  },
  {
    title: 'SlackConfig',
    description: "Notices in Slack, with buttons that decide, by the tenant's own app",
    [marks.secretsOf]: 'slack',
  },
);

// ---------------------------------------------------------------- who is asked, and when

const RiskLevelGroups = TitledObject('RiskLevelGroups', 'Risk level to approver groups', {
  low: optional(Groups('Groups asked at low risk, in order')),
  medium: optional(Groups('Groups asked at medium risk, in order')),
  high: optional(Groups('Groups asked at high risk, in order')),
  critical: optional(Groups('Groups asked at critical risk, in order')),
});
const actionGroups = Groups('Groups asked for this action, in order');
const ApproverGroups = DescribedObject('Who is asked', {
  risk_levels: optional(RiskLevelGroups),
  action_overrides: optional(
    Type.Record(Type.String({ pattern: '^[A-Za-z0-9._-]{1,100}$' }), actionGroups, {
      ...strict,
      description: 'Action name to approver groups, instead of those of the risk level',
    }),
  ),
});

/**
 * What an escalation does where the tenant's configuration says nothing: shown by the schema, used
 * by the effective configuration.
 */
export const escalationDefaults = {
  poll_interval_seconds: 60,
  escalation_window_minutes: 60,
  max_hops: 2,
} as const;
const Escalation = DescribedObject('Escalation, if no one decides', {
  poll_interval_seconds: Optional.Integer({
    minimum: 1,
    maximum: 3600,
    default: escalationDefaults.poll_interval_seconds,
    description:
      'The most seconds that a hop may be late. Every notifier node looks each second, so any value is kept',
  }),
  escalation_window_minutes: Optional.Integer({
    minimum: 1,
    maximum: 10_080,
    default: escalationDefaults.escalation_window_minutes,
    description: 'Wait from hop to hop',
  }),
  max_hops: Optional.Integer({
    minimum: 0,
    maximum: 20,
    default: escalationDefaults.max_hops,
    description: 'Hops after the first notice',
  }),
});

/** The most that may be asked to approve one approval. */
const mostApprovers = 20;
const approvers = (level: string) =>
  Type.Integer({
    minimum: 1,
    maximum: mostApprovers,
    default: 1,
    description: `How many different people must approve at ${level} risk`,
  });
const requiredApprovers = {
  low: approvers('low'),
  medium: approvers('medium'),
  high: approvers('high'),
  critical: approvers('critical'),
};
const allowSelf = Type.Boolean({ default: false, description: 'The requester may decide, too' });
const machines = Type.Boolean({
  default: false,
  description: 'API keys with the scope approvals:decide, and so service accounts, may decide',
});
const ApprovalPolicy = DescribedObject('Who may approve, and how many approvals are required', {
  required: optional(
    DescribedObject('Risk level to how many must approve; a denial by one ends it', {
      low: optional(requiredApprovers.low),
      medium: optional(requiredApprovers.medium),
      high: optional(requiredApprovers.high),
      critical: optional(requiredApprovers.critical),
    }),
  ),
  allow_self: optional(allowSelf),
  machines: optional(machines),
});

/** What holds where the tenant's configuration says nothing. */
export const approvalPolicyDefaults = {
  required: { low: 1, medium: 1, high: 1, critical: 1 },
  allow_self: false,
  machines: false,
} as const;

// ---------------------------------------------------------------- the document

export const NotificationConfig = StrictObject(
  {
    webhook: optional(Webhook),
    email: optional(DescribedObject('Notices by mail', emailFields)),
    chat: optional(Chat),
    teams: optional(Teams),
    slack: optional(Slack),
    approver_groups: optional(ApproverGroups),
    escalation: optional(Escalation),
    approval_policy: optional(ApprovalPolicy),
  },
  {
    title: 'NotificationConfig',
    description:
      'Whom a tenant asks for approval, over which channels, and what happens when no one decides',
    examples: [
      {
        email: { approval_recipients: ['ada@example.com'] },
        escalation: { escalation_window_minutes: 30, max_hops: 1 },
      },
    ],
  },
);
export type NotificationConfig = Static<typeof NotificationConfig>;
export const NullableNotificationConfig = Nullable(NotificationConfig);

const EffectiveEndpoint = TitledObject(
  'EffectiveWebhookEndpoint',
  'An endpoint, with defaults and caps applied',
  {
    ...WebhookEndpoint.properties,
    headers: Type.Record(Type.String(), Type.String(), { description: 'Extra request headers' }),
    timeout_seconds: Type.Integer({ description: 'Time-out of one send' }),
    retry_attempts: Type.Integer({ description: 'Retries after the first send' }),
    backoff: DescribedObject('Waits between retries', {
      initial_seconds: Type.Number({ description: 'Wait before the first retry' }),
      factor: Type.Number({ description: 'Factor from wait to wait' }),
      max_seconds: Type.Number({ description: 'Longest wait' }),
    }),
  },
);
export type EffectiveEndpoint = Static<typeof EffectiveEndpoint>;

/**
 * As it is used: process defaults where a field is missing, process caps where it asks for more,
 * webhooks as a list.
 */
export const EffectiveNotifications = TitledObject(
  'EffectiveNotifications',
  'notification_config as it is used, with defaults and caps applied',
  {
    ...NotificationConfig.properties,
    webhook: DescribedObject('Notices by webhook', {
      endpoints: Type.Array(EffectiveEndpoint, { description: 'Each gets every hop' }),
    }),
    email: DescribedObject('Notices by mail', {
      ...emailFields,
      approval_recipients: approvalRecipients,
      default_recipients: defaultRecipients,
      from_email: Type.String({ description: 'Sender' }),
    }),
    approver_groups: DescribedObject('Who is asked', {
      risk_levels: optional(RiskLevelGroups),
      action_overrides: Type.Record(Type.String(), actionGroups, {
        description: 'Action name to approver groups, instead of those of the risk level',
      }),
    }),
    escalation: DescribedObject('Escalation, if no one decides', {
      poll_interval_seconds: Type.Integer({
        description: 'The most seconds that a hop may be late',
      }),
      escalation_window_minutes: Type.Integer({ description: 'Wait from hop to hop' }),
      max_hops: Type.Integer({ description: 'Hops after the first notice' }),
    }),
    approval_policy: DescribedObject('Who may approve, and how many approvals are required', {
      required: DescribedObject(
        'Risk level to how many must approve; a denial by one ends it',
        requiredApprovers,
      ),
      allow_self: allowSelf,
      machines,
    }),
  },
);
export type EffectiveNotifications = Static<typeof EffectiveNotifications>;

// ---------------------------------------------------------------- where things are in it

/** Both webhook forms as a list, each with its path in the document. */
export function endpointsOf(
  config: NotificationConfig | null,
): { path: readonly string[]; endpoint: WebhookEndpoint }[] {
  const webhook = config?.webhook;
  if (!webhook) return [];
  if (!('endpoints' in webhook)) return [{ path: ['webhook'], endpoint: webhook }];
  return webhook.endpoints.map((endpoint, index) => ({
    path: ['webhook', 'endpoints', String(index)],
    endpoint,
  }));
}

/** `__proto__` is a name that HTTP allows and no HTTP client of JavaScript sends. */
const reserved = new RegExp(
  '^(host|content-length|content-type|transfer-encoding|connection|keep-alive|upgrade|http2-settings|te|trailer|expect|proxy-.*' +
    '|authorization|x-service-signature|webhook-.*|__proto__)$',
  'i',
);
/**
 * Headers that Strata sets itself, that belong to the connection, or that cannot be sent: refused
 * when they are saved.
 */
export const isReservedHeader = (name: string): boolean => reserved.test(name);

// ---------------------------------------------------------------- contracts

const notificationKey = ({ tenant_id }: TenantAddress): string =>
  `notification_config_${tenant_id}`;

const notifications = documentContracts({
  ...ofTenant,
  leadsTo: 'approvers',
  writeScope: 'approvals:configure',
  title: "the tenant's notification_config",
  url: '/tenants/{tenant_id}/config/notifications',
  permanent: true,
  path: tenantPath,
  document: NullableNotificationConfig,
  body: NullableNotificationConfig,
  key: notificationKey,
});

/** What of a configuration says who decides. */
const DecidingRules = StrictObject({
  approver_groups: EffectiveNotifications.properties.approver_groups,
  approval_policy: EffectiveNotifications.properties.approval_policy,
});

export const notificationContracts = {
  'tenant-config.notifications.with-slack': internalRead({
    summary: 'The tenants with Slack, by the revisions of their configurations',
    result: Type.Array(StrictObject({ tenant_id: Type.String(), revision: Type.Integer() })),
  }),
  'tenant-config.notifications.get': notifications.get,
  'tenant-config.notifications.put': notifications.put,
  'tenant-config.notifications.patch': notifications.patch,
  'tenant-config.notifications.effective': read({
    summary: 'notification_config with the process defaults and caps applied',
    rest: 'GET /tenants/{tenant_id}/config/notifications/effective',
    access: { level: 'tenant', roles: configurationReaders },
    keyScope: 'config:read',
    path: tenantPath,
    result: EffectiveNotifications,
  }),
  'tenant-config.notifications.open': internalRead({
    summary: 'The effective notification_config with its secrets decrypted, for the notifier',
    path: {
      ...tenantPath,
      asked_by: Optional.Array(Type.String(), {
        description: 'Principals who ask for an approval',
      }),
    },
    result: StrictObject({
      config: EffectiveNotifications,
      revision: Type.Integer(),
      counted_recipients: Type.Array(Type.String(), {
        description: 'Mail addresses without those that the requester added in the last 24 hours',
      }),
      slack_counts: Type.Boolean({
        description: 'Whether the requester has not changed Slack in the last 24 hours',
      }),
      recent_changes: Type.Array(StrictObject({ before: DecidingRules, after: DecidingRules }), {
        description: 'By the requester, in the last 24 hours, newest first',
      }),
    }),
  }),
} as const;
