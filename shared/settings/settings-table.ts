/**
 * Every setting, in reading order. The environment variable is the field in capitals.
 *
 * A row is all there is to a setting: its type in `Settings`, the check at the start, what a reload
 * reports, and its lines in `.env.example`, which `npm run settings` writes.
 */
import ipaddr from 'ipaddr.js';
import { signInPolicies } from '../contracts/sign-in-policy.ts';
import { limitDefaults, limitNames, limitSchemas, type Limits } from '../contracts/risk.ts';
import { BusinessHours } from '../contracts/weekly-hours.ts';
import { problemsOf } from '../schema/validate.ts';
import { problemOfDatabaseUrl } from './database-address.ts';
import { redisAddresses } from './redis-addresses.ts';

/** What is wrong with the text of a variable, to follow its name; undefined where nothing is. */
export type Form = (text: string) => string | undefined;

interface Base {
  /** Kept to the byte, where other texts are trimmed, and never shown. */
  readonly secret?: true;
  /** Read once at the start: a reload names the variable instead of applying it. */
  readonly requires_restart?: true;
  /** One sentence for operators, without a full stop. */
  readonly description: string;
}

export type Row =
  | (Base & {
      readonly type: 'string';
      readonly default: string | null;
      readonly form?: Form;
      readonly choices?: readonly string[];
    })
  | (Base & {
      readonly type: 'integer' | 'number';
      readonly default: number;
      readonly min: number;
      readonly max?: number;
    })
  | (Base & { readonly type: 'boolean'; readonly default: boolean })
  | (Base & { readonly type: 'list'; readonly default: readonly string[]; readonly form: Form });

const form =
  (fits: (text: string) => boolean, says: string): Form =>
  (text) =>
    fits(text) ? undefined : says;
const matches = (pattern: RegExp, says: string): Form => form((text) => pattern.test(text), says);
const isOrigin = (text: string): boolean =>
  /^https?:/.test(text) && URL.canParse(text) && new URL(text).origin === text;

const redis = form(
  (text) =>
    /^rediss?:\/\/\S+$/.test(text) && redisAddresses(text).every((each) => URL.canParse(each)),
  'must be a redis:// or rediss:// address, of several hosts with commas between them',
);
const nats = matches(
  /^(nats|tls|wss?):\/\/[^\s,]+(,(nats|tls|wss?):\/\/[^\s,]+)*$/,
  'must be nats:// addresses, comma separated',
);
const email = matches(/^[^\s@]+@[^\s@]+$/, 'must be a mail address');
const domains = matches(
  /^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z]([a-z0-9-]{0,61}[a-z0-9])?$/,
  'must be domains in lower case, in ASCII, such as example.com',
);
const nodeName = matches(
  /^[A-Za-z0-9._-]{1,100}$/,
  'must be 1 to 100 letters, digits, dots, dashes or underscores',
);
// A subject of NATS has it as one of its tokens.
const namespace = matches(
  /^(?!.*-nodes$)[A-Za-z0-9_-]{1,50}$/,
  'must be 1 to 50 letters, digits, dashes or underscores, and not end in -nodes',
);
const personName = matches(/^[^\p{C}]{1,100}$/u, 'must be 1 to 100 printable characters');
export const secretKeyForm = form(
  (text) => Buffer.byteLength(text) >= 32,
  'must have at least 32 bytes',
);
const origin = form(
  isOrigin,
  'must be an origin as browsers send it, such as https://app.example.com',
);
const origins = form(
  (text) => text === '*' || isOrigin(text),
  'must be origins as browsers send them, such as https://app.example.com, or *',
);
const address = form(
  (text) => /^https?:\/\/[^\s?#@]*[^\s?#@/]$/.test(text) && URL.canParse(text),
  'must be an http:// or https:// address without credentials, query or final slash',
);
const networks = form(
  (text) => ipaddr.IPv4.isValidCIDRFourPartDecimal(text) || ipaddr.IPv6.isValidCIDR(text),
  'must be networks such as 10.0.0.0/8 or fd00::/8',
);

const weeklyHours = form((text) => {
  try {
    return problemsOf(BusinessHours, JSON.parse(text)).length === 0;
  } catch {
    return false;
  }
}, 'must be JSON such as {"days":["mon","tue"],"start":"09:00","end":"17:00","timezone":"Europe/Rome"}');

type LimitRows = {
  readonly [Name in keyof Limits as `default_${Name}`]: Extract<
    Row,
    { readonly default: Limits[Name] }
  >;
};

interface LimitSchema {
  readonly type: string;
  readonly description?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly enum?: readonly string[];
}

/** What the contract says of each risk limit. */
const limitRows = Object.fromEntries(
  limitNames.map((name) => {
    // Also of an enumeration, which says its type beside its values.
    const schema = limitSchemas[name] as unknown as LimitSchema;
    const { type, minimum: min, maximum: max, enum: choices, description } = schema;
    const bounds = {
      ...(min !== undefined && { min }),
      ...(max !== undefined && { max }),
      ...(choices !== undefined && { choices }),
    };
    return [`default_${name}`, { type, default: limitDefaults[name], ...bounds, description }];
  }),
) as unknown as LimitRows;

/** Rows none of which a reload applies. */
const readAtStart = <const Rows extends Readonly<Record<string, Row>>>(rows: Rows): Rows =>
  Object.fromEntries(
    Object.entries(rows).map(([field, row]) => [field, { ...row, requires_restart: true }]),
  ) as Readonly<Record<string, Row>> as Rows;

type RowOfType<Type extends Row['type']> = Extract<Row, { readonly type: Type }>;
type TextOptions = Pick<RowOfType<'string'>, 'form' | 'requires_restart'>;

/** None by default. */
const text = (description: string, options: TextOptions = {}) =>
  ({ type: 'string', default: null, description, ...options }) as const;
const secret = (description: string, options?: TextOptions) =>
  ({ ...text(description, options), secret: true }) as const;
const integer = (
  limits: Omit<RowOfType<'integer' | 'number'>, 'type' | 'description'>,
  description: string,
) => ({ type: 'integer', ...limits, description }) as const;
const boolean = (byDefault: boolean, description: string) =>
  ({ type: 'boolean', default: byDefault, description }) as const;
/** Empty by default. */
const list = (form: Form, description: string, options: Pick<Base, 'requires_restart'> = {}) =>
  ({ type: 'list', default: [], form, description, ...options }) as const;

/** Heading → field → row. */
export const settingsGroups = {
  'The node and its gateway': {
    env_file: text(
      'File of further variables, which win over the process environment; a reload reads it again, so replace it as a whole (mv)',
      { requires_restart: true },
    ),
    host: {
      type: 'string',
      default: '127.0.0.1',
      requires_restart: true,
      description: 'Address that the gateway listens on',
    },
    port: integer(
      { default: 8080, min: 0, max: 65_535, requires_restart: true },
      'Port of the gateway; 0 takes a free one',
    ),
    metrics_port: integer(
      { default: 0, min: 0, max: 65_535, requires_restart: true },
      'Port on HOST where any node serves /healthz, /readyz and /metrics, beside the gateway that has them anyway; 0 is none',
    ),
    base_url: text(
      'Address by which clients reach the gateways, the same on every node; http://HOST:PORT by default, http://localhost:PORT where HOST is every address',
      { form: address, requires_restart: true },
    ),
    frontend_origin: text(
      'Origin of the user interface, for passkeys and sign-in; that of BASE_URL by default',
      { form: origin },
    ),
    trusted_proxies: list(
      networks,
      'Networks of the proxies in front of the gateway: from there X-Forwarded-For says who the client is',
      { requires_restart: true },
    ),
    cors_origins: list(origins, 'Origins whose pages may call the gateway'),
    data_dir: {
      type: 'string',
      default: './data',
      requires_restart: true,
      description: 'Where embedded mode keeps its database, key and mail',
    },
    node_id: text('Name of this node, unique in the cluster; host name and process id by default', {
      form: nodeName,
      requires_restart: true,
    }),
    strata_operator: text(
      'Name under which commands of the REPL are audited; that of the system user by default',
      { form: personName, requires_restart: true },
    ),
    log_level: {
      type: 'string',
      default: 'info',
      choices: ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'],
      description: 'Least severe level that is logged',
    },
  },
  'Bus, database and shared state': readAtStart({
    nats_url: secret('NATS servers, comma separated; none runs everything in one process', {
      form: nats,
    }),
    nats_user: text('NATS user'),
    nats_password: secret('NATS password'),
    nats_token: secret('NATS token, instead of user and password'),
    nats_creds: text(
      'File of credentials (.creds) of a NATS account, instead of user and password',
    ),
    nats_nkey_seed: secret('Seed of the NATS user, instead of user and password', {
      form: matches(/^SU[A-Z2-7]{56}$/, "must be a user's seed of nkeys, which begins with SU"),
    }),
    nats_tls_ca: text(
      'File with the authority that signed the NATS server certificate; turns TLS on',
    ),
    nats_tls_cert: text(
      'File with the certificate by which NATS knows this node, with NATS_TLS_KEY; turns TLS on',
    ),
    nats_tls_key: text('File with the key of NATS_TLS_CERT'),
    nats_allow_plain: boolean(
      false,
      'Allows NATS beyond this machine without user, token and TLS, and credentials of neighbours in clear',
    ),
    nats_namespace: {
      type: 'string',
      default: 'strata',
      form: namespace,
      description:
        'Part of all subjects on NATS; another one for each installation that shares the NATS servers',
    },
    strata_api_key: secret(
      'API key of a neighbour that loads moleculer.config.ts without SECRET_KEY',
    ),
    database_url: secret(
      'PostgreSQL 14 or newer; of several hosts, comma separated, the one that can be written to; without it and DB_HOST an embedded one runs',
      { form: problemOfDatabaseUrl },
    ),
    db_host: text(
      'PostgreSQL host; with the other DB_* variables it makes up an absent DATABASE_URL',
    ),
    db_port: integer({ default: 5432, min: 1, max: 65_535 }, 'PostgreSQL port'),
    db_name: { type: 'string', default: 'strata', description: 'PostgreSQL database' },
    db_user: { type: 'string', default: 'strata', description: 'PostgreSQL user' },
    db_password: secret('PostgreSQL password'),
    db_ssl: boolean(false, 'TLS to PostgreSQL'),
    db_pooler: boolean(
      false,
      'A pooler in transaction mode, such as PgBouncer, is in front of PostgreSQL: time-outs are those of the role, and statements have no names',
    ),
    db_pool_size: integer(
      { default: 60, min: 4, max: 200 },
      'Connections of a node to PostgreSQL, at most: up to 3 for the change feed, the others in equal parts for its services, up to 10 and at least one each',
    ),
    redis_url: secret(
      'Redis for short-lived shared state; none keeps it in memory. Several hosts, comma separated, are Sentinels or nodes of a cluster',
      { form: redis },
    ),
    redis_sentinel: text(
      'Name of the primary as Redis Sentinels know it; the hosts of REDIS_URL are these Sentinels then',
    ),
    redis_sentinel_password: secret(
      'Password of the Sentinels, where they have one; that of Redis is not sent to them',
    ),
    redis_cluster: boolean(false, 'Redis is a cluster, of which REDIS_URL names some nodes or all'),
    redis_password: secret(
      'Redis password, where REDIS_URL has none; unlike there nothing in it is escaped',
    ),
  }),
  'Keys and sign-in': {
    secret_key: secret(
      'Signs tokens and encrypts stored secrets, at least 32 bytes; embedded mode makes one in DATA_DIR',
      { form: secretKeyForm, requires_restart: true },
    ),
    secret_key_previous: secret(
      'The key before, without which API keys and secrets made under it are lost',
      {
        form: secretKeyForm,
        requires_restart: true,
      },
    ),
    webhook_secret: secret(
      'Signs one-time approve and deny links in e-mails; derived from SECRET_KEY by default',
      { requires_restart: true },
    ),
    access_token_ttl_seconds: integer(
      { default: 900, min: 30, max: 86_400 },
      'Lifetime of an access token',
    ),
    platform_admin_emails: list(
      email,
      'Accounts with one of these verified addresses are platform_admin; admin@example.com in embedded mode',
    ),
    platform_sign_in_policy: {
      type: 'string',
      default: 'any',
      choices: signInPolicies,
      description:
        'any, or passkey_or_sso: platform admins who signed in with a password may then only register a passkey',
    },
    platform_admin_password: secret(
      'Password of the first platform admin, 12 characters or more; random and printed once by default',
    ),
  },
  'Lifetimes and limits': {
    cache_default_ttl: integer(
      { default: 5, min: 1, max: 1440 },
      'Lifetime of the configuration service cache, in minutes',
    ),
    coherence_fence_ms: integer(
      { default: 2000, min: 500, max: 30_000, requires_restart: true },
      'The longest that a write waits for an unreachable node, and that a node trusts its cache without contact',
    ),
    request_timeout_ms: integer(
      { default: 10_000, min: 500, max: 120_000, requires_restart: true },
      'The longest that a request may take',
    ),
    fast_path: boolean(
      true,
      'Repeated reads are answered ahead of the HTTP framework; false has it answer them too, alike and slower',
    ),
    rate_limit_per_minute: integer(
      { default: 0, min: 0, max: 10_000_000 },
      'Requests of one client address per minute; 0 turns it off',
    ),
    network_rate_limit_per_minute: integer(
      { default: 20, min: 1, max: 1_000_000 },
      'Requests of one network (/24 of IPv4, /56 of IPv6) per minute, for each route that begins a sign-in or sends or takes a mailed link',
    ),
    documents_per_tenant: integer(
      { default: 10_000, min: 1, max: 1_000_000 },
      'Agent configurations, service instances and projects of a tenant together',
    ),
    members_per_tenant: integer(
      { default: 100_000, min: 1, max: 10_000_000 },
      'Members of a tenant, those who are invited included',
    ),
    service_accounts_per_tenant: integer(
      { default: 200, min: 1, max: 1_000_000 },
      'Service accounts of a tenant',
    ),
    api_keys_per_tenant: integer(
      { default: 10_000, min: 1, max: 10_000_000 },
      'API keys for a tenant, of its service accounts and of people',
    ),
    automations_live_per_tenant: integer(
      { default: 10_000, min: 1, max: 1_000_000 },
      'Automations of a tenant that run, or wait for approval or a slot; a further one is 429',
    ),
    history_entries_per_hour_per_tenant: integer(
      { default: 36_000, min: 1, max: 10_000_000 },
      'Changes of a tenant’s configuration in an hour, each an entry of its history; a further one is 429',
    ),
    watch_max_streams: integer(
      { default: 10_000, min: 0, max: 100_000 },
      'Watch streams open at the same time on a gateway',
    ),
    watch_max_streams_per_tenant: integer(
      { default: 2500, min: 1, max: 100_000 },
      'Of these, by one tenant; never more than half of them',
    ),
    watch_max_streams_per_caller: integer(
      { default: 20, min: 1, max: 100_000 },
      'Of these, by one person, or by one client of an API key that names itself by X-Client-Id',
    ),
    invitations_per_minute_per_caller: integer(
      { default: 30, min: 1, max: 1_000_000 },
      'Invitations that one person or service account sends a minute',
    ),
    invitations_per_hour_per_tenant: integer(
      { default: 200, min: 1, max: 1_000_000 },
      'Invitations that one tenant sends an hour',
    ),
    invited_members_per_tenant: integer(
      { default: 500, min: 1, max: 1_000_000 },
      'Members of a tenant who have not accepted their invitation yet',
    ),
    test_notices_per_minute_per_caller: integer(
      { default: 30, min: 1, max: 1_000_000 },
      'Test notices that one person or service account sends a minute, each mail and webhook by itself',
    ),
    test_notices_per_minute_per_tenant: integer(
      { default: 60, min: 1, max: 1_000_000 },
      'Test notices that one tenant sends a minute',
    ),
    approval_mails_per_hour_per_tenant: integer(
      { default: 5000, min: 1, max: 10_000_000 },
      'Mails to addresses that its configuration names which one tenant has approvals send an hour, and mails sent again',
    ),
    tenant_switches_per_minute: integer(
      { default: 60, min: 1, max: 1_000_000 },
      'How often one person changes the tenant of a session in a minute',
    ),
    sessions_per_person: integer(
      { default: 100, min: 1, max: 10_000 },
      'Open sessions of one person; a further sign-in ends the one used longest ago',
    ),
    api_keys_per_person: integer(
      { default: 100, min: 1, max: 10_000 },
      'API keys of one person in a tenant; those that have expired give way',
    ),
    api_keys_per_minute: integer(
      { default: 60, min: 1, max: 1_000_000 },
      'API keys that one person makes or rotates a minute, each told them by mail',
    ),
    passkeys_per_person: integer({ default: 20, min: 1, max: 1000 }, 'Passkeys of one person'),
    provider_links_per_person: integer(
      { default: 20, min: 1, max: 1000 },
      'Identities at providers that one account is linked with',
    ),
    held_requests: integer(
      { default: 10_000, min: 1, max: 100_000 },
      'Requests with wait that a notifier, or a gateway, holds at the same time; a further one is 429',
    ),
    held_requests_per_tenant: integer(
      { default: 2500, min: 1, max: 100_000 },
      'Of these, by one tenant; never more than half of them',
    ),
    held_requests_per_caller: integer(
      { default: 1000, min: 1, max: 100_000 },
      'Of these, by one person, or by one API key',
    ),
    audit_verifications_waiting: integer(
      { default: 4, min: 1, max: 1000 },
      'Pieces of one audit chain that wait on a node to be verified; who waits for the same piece shares it',
    ),
    tenant_erase_after_days: integer(
      { default: 30, min: 0, max: 36_500 },
      'Days after its deletion was asked for that a disabled tenant is erased; until then enabling it takes that back',
    ),
    session_retention_days: integer(
      { default: 30, min: 1, max: 36_500 },
      'Days after which sessions that have ended, their refresh tokens and expired invitations are removed',
    ),
    approval_retention_days: integer(
      { default: 400, min: 1, max: 36_500 },
      'Days after which approvals that have ended are removed; the audit keeps who asked and who decided',
    ),
    delivery_retention_days: integer(
      { default: 90, min: 1, max: 36_500 },
      'Days after which settled deliveries and their attempts are removed, at the latest with their approval',
    ),
    decision_retention_days: integer(
      { default: 90, min: 1, max: 36_500 },
      'Days after which recorded decisions are removed',
    ),
    decisions_recorded_per_hour_per_tenant: integer(
      { default: 50_000, min: 1, max: 10_000_000 },
      'Decisions of a tenant that are recorded in an hour; a further one with `record` is 429, others are counted as not recorded',
    ),
    http_client_timeout_seconds: integer(
      { default: 30, min: 1, max: 300 },
      'Time-out of outgoing HTTP requests',
    ),
    http_client_connect_timeout_seconds: integer(
      { default: 5, min: 1, max: 60 },
      'Time-out of connecting for outgoing HTTP requests',
    ),
  },
  'Approval webhooks: defaults, and caps on what a tenant may ask for': {
    approval_webhook_timeout_seconds: integer(
      { default: 30, min: 1, max: 3600 },
      'Time-out, unless the endpoint has its own',
    ),
    approval_webhook_retry_attempts: integer(
      { default: 3, min: 0, max: 100 },
      'Retries after the first send, unless the endpoint has its own',
    ),
    approval_webhook_backoff_initial_seconds: integer(
      { default: 1, min: 0, max: 3600 },
      'Wait before the first retry, unless the endpoint has its own',
    ),
    approval_webhook_backoff_factor: integer(
      { default: 2, min: 1, max: 100 },
      'Factor from wait to wait, unless the endpoint has its own',
    ),
    approval_webhook_backoff_max_seconds: integer(
      { default: 8, min: 0, max: 3600 },
      'Longest wait between retries, unless the endpoint has its own',
    ),
    approval_webhook_timeout_cap_seconds: integer(
      { default: 120, min: 1, max: 3600 },
      'The longest time-out in use',
    ),
    approval_webhook_retry_cap: integer(
      { default: 10, min: 0, max: 100 },
      'The most retries in use',
    ),
    approval_webhook_backoff_cap_seconds: integer(
      { default: 300, min: 0, max: 3600 },
      'The longest wait in use',
    ),
    approval_webhook_endpoints_cap: integer(
      { default: 20, min: 1, max: 100 },
      'The most webhook endpoints of a tenant',
    ),
    approvals_max_pending: integer(
      { default: 10_000, min: 1 },
      'The most approvals of a tenant that may be pending; a further one is 429',
    ),
    webhook_allowed_networks: list(
      networks,
      'Private networks that webhooks and identity providers may be in all the same',
    ),
    webhook_allow_http: boolean(false, 'Webhooks and identity providers may use http'),
    slack_api_url: {
      type: 'string',
      default: 'https://slack.com/api',
      form: address,
      description: "Slack's Web API; another one where a proxy is in between",
    },
    prometheus_url: text(
      'Prometheus that gates of rollouts query, such as http://prometheus:9090',
      { form: address },
    ),
  },
  Mail: {
    smtp_server: text('Mail server; none writes mail to DATA_DIR/mail'),
    smtp_port: integer({ default: 587, min: 1, max: 65_535 }, 'Port of the mail server'),
    smtp_username: text('User at the mail server'),
    smtp_password: secret('Password at the mail server'),
    smtp_use_tls: boolean(
      true,
      'Require STARTTLS; otherwise it is used where the mail server offers it. Port 465 is TLS from the start',
    ),
    smtp_tls_ca: text(
      'File with the authority that signed the certificate of the mail server, if it is not a public one',
    ),
    from_email: {
      type: 'string',
      default: 'strata@localhost',
      form: email,
      description: 'Sender of mail',
    },
    mail_allowed_domains: list(
      domains,
      'Domains that any tenant may send from (from_email), beside those that its own sign-in providers have verified; that of FROM_EMAIL only if it is listed',
    ),
  },
  'Risk configuration that new tenants start with': {
    ...limitRows,
    default_business_hours: {
      type: 'string',
      default:
        '{"days":["mon","tue","wed","thu","fri"],"start":"09:00","end":"17:00","timezone":"UTC"}',
      form: weeklyHours,
      description:
        'Business hours where no layer above the environment sets business_hours; as JSON',
    },
  },
} as const satisfies Record<string, Record<string, Row>>;

type Groups = typeof settingsGroups;
export type Field = { [G in keyof Groups]: keyof Groups[G] }[keyof Groups];
type RowOf<F extends Field> = Extract<Groups[keyof Groups], Record<F, Row>>[F];
type ValueOf<R> = R extends { type: 'integer' | 'number' }
  ? number
  : R extends { type: 'boolean' }
    ? boolean
    : R extends { type: 'list' }
      ? readonly string[]
      : R extends { default: null }
        ? string | null
        : string;
export type Values = { readonly [F in Field]: ValueOf<RowOf<F>> };

export const settingsTable = Object.assign({}, ...Object.values(settingsGroups)) as Readonly<
  Record<Field, Row>
>;
