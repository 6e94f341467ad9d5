/** Tenant.notification_config, as the specification names its fields. */
import { Type } from 'typebox';

const strict = { additionalProperties: false } as const;
const Line = (maxLength: number, description: string) => Type.String({ minLength: 1, maxLength, pattern: '^[^\\r\\n]*$', description });
const Address = Type.String({ format: 'email', maxLength: 254 });
const Addresses = Type.Array(Address, { maxItems: 100 });
const Groups = Type.Array(Type.String({ pattern: '^[A-Za-z0-9._-]{1,64}$' }), { maxItems: 20, description: 'Approver groups, first asked first' });
const HeaderName = "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$";
const Secret = (description: string) => Type.String({ minLength: 1, maxLength: 4096, description });

const Auth = Type.Union([
  Type.Object({ type: Type.Literal('bearer'), token: Line(4096, 'Sent as Authorization: Bearer') }, strict),
  Type.Object({ type: Type.Literal('basic'), username: Line(256, 'User'), password: Secret('Password') }, strict),
  Type.Object({
    type: Type.Literal('api_key'), api_key: Line(4096, 'The key'),
    header_name: Type.Optional(Type.String({ pattern: HeaderName, description: 'X-API-Key unless told' })),
  }, strict),
]);

const endpoint = {
  url: Type.String({ minLength: 1, maxLength: 2048, pattern: '^https?://', description: 'Endpoint address' }),
  headers: Type.Optional(Type.Record(Type.String({ pattern: HeaderName }), Type.String({ maxLength: 4096, pattern: '^[\\t\\x20-\\x7e]*$' }), { ...strict, maxProperties: 50, description: 'Extra request headers' })),
  auth: Type.Optional(Auth),
  secret: Type.Optional(Secret('When present, requests are signed')),
  previous_secret: Type.Optional(Secret('Signs too while the secret is rotated')),
  timeout_seconds: Type.Optional(Type.Integer({ minimum: 1, maximum: 86_400, description: 'Up to the process cap' })),
  retry_attempts: Type.Optional(Type.Integer({ minimum: 0, maximum: 1000, description: 'Retries after the first send, up to the process cap' })),
  backoff: Type.Optional(Type.Object({
    initial_seconds: Type.Optional(Type.Number({ minimum: 0, maximum: 86_400 })),
    factor: Type.Optional(Type.Number({ minimum: 1, maximum: 1000 })),
    max_seconds: Type.Optional(Type.Number({ minimum: 0, maximum: 86_400 })),
  }, strict)),
};
export const WebhookEndpoint = Type.Object(endpoint, strict);

export const NotificationConfig = Type.Object({
  webhook: Type.Optional(Type.Union([
    WebhookEndpoint,
    Type.Object({ endpoints: Type.Array(WebhookEndpoint, { maxItems: 100 }) }, strict),
  ])),
  email: Type.Optional(Type.Object({
    approval_recipients: Type.Optional(Addresses),
    default_recipients: Type.Optional(Addresses),
    from_email: Type.Optional(Address),
    template_overrides: Type.Optional(Type.Record(Type.String({ pattern: '^[a-z][a-z0-9_]{0,63}$' }), Type.Object({
      subject: Type.Optional(Line(300, 'Subject line')),
      branding: Type.Optional(Type.Union([Line(300, 'Shown above the text'), Type.Record(Type.String(), Line(300, 'A part of the branding'))])),
    }, strict), strict)),
  }, strict)),
  chat: Type.Optional(Type.Object({
    google_chat: Type.Optional(Type.Object({
      webhook_url: Type.Optional(Secret('Incoming webhook of the space; it carries its own key')),
      spaces: Type.Optional(Type.Array(Line(300, 'Space'), { maxItems: 100 })),
      include_links: Type.Optional(Type.Boolean()),
    }, strict)),
  }, strict)),
  approver_groups: Type.Optional(Type.Object({
    risk_levels: Type.Optional(Type.Object({
      low: Type.Optional(Groups), medium: Type.Optional(Groups), high: Type.Optional(Groups), critical: Type.Optional(Groups),
    }, strict)),
    action_overrides: Type.Optional(Type.Record(Type.String({ pattern: '^[A-Za-z0-9._-]{1,100}$' }), Groups, strict)),
  }, strict)),
  escalation: Type.Optional(Type.Object({
    poll_interval_seconds: Type.Optional(Type.Integer({ minimum: 1, maximum: 3600, default: 60 })),
    escalation_window_minutes: Type.Optional(Type.Integer({ minimum: 1, maximum: 10_080, default: 60 })),
    max_hops: Type.Optional(Type.Integer({ minimum: 0, maximum: 20, default: 2 })),
  }, strict)),
}, strict);
