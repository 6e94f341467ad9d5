/**
 * Every setting, in reading order. The environment variable is the field in capitals.
 *
 * A row is all there is to a setting: its type in `Settings`, the check at the start, what a reload
 * reports, and its lines in `.env.example`, which `npm run settings` writes.
 */
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { signInPolicies } from '../contracts/sign-in-policy.ts';
import { limitDefaults, limitNames, limitSchemas, type Limits } from '../contracts/risk.ts';
import { BusinessHours } from '../contracts/weekly-hours.ts';
import { isMailAddress } from '../mail/mail-address.ts';
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
/** Also underscores, which networks of containers have in names. */
const isHost = (text: string): boolean => isIP(text) !== 0 || /^[\p{L}\p{N}._-]+$/u.test(text);
/** `URL` takes quotes, commas and stars for parts of a name. */
const hasHost = (text: string): boolean =>
  URL.canParse(text) && isHost(new URL(text).hostname.replace(/^\[(.*)\]$/, '$1'));
const isOrigin = (text: string): boolean =>
  /^https?:/.test(text) && hasHost(text) && new URL(text).origin === text;

/** Whether it is an address whose user and password can be decoded. */
function isAddress(text: string): boolean {
  try {
    const { username, password } = new URL(text);
    decodeURIComponent(username + password);
    return true;
  } catch {
    return false;
  }
}
/** The client takes any text for the number of a database, and ends the process over it. */
const namesDatabase = (text: string): boolean => /^\/?(\d+\/?)?$/.test(new URL(text).pathname);
const redis = form(
  (text) =>
    /^rediss?:\/\/\S+$/.test(text) &&
    redisAddresses(text).every((each) => isAddress(each) && namesDatabase(each)),
  'must be a redis:// or rediss:// address, of several hosts with commas between them, in user and password %25 for %, and of a database its number',
);
const nats = form(
  (text) =>
    /^(nats|tls|wss?):\/\/[^\s,]+(,(nats|tls|wss?):\/\/[^\s,]+)*$/.test(text) &&
    text.split(',').every(isAddress),
  'must be nats:// addresses, comma separated, and in user and password %25 for %',
);
const email = form(isMailAddress, 'must be a mail address, without a name');
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
  (text) => /^https?:\/\/[^\s?#@\\]*[^\s?#@\\/]$/.test(text) && hasHost(text),
  'must be an http:// or https:// address without credentials, query or final slash',
);
const host = form(isHost, 'must be a host name or an IP address, without a port');
const hosts = form(
  (text) => text.split(',').every(isHost),
  'must be a host name or an IP address, without a port, or several with commas between them',
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
      'File with more variables, which override the environment; a reload reads it again, so replace it atomically (mv)',
      { requires_restart: true },
    ),
    host: {
      type: 'string',
      default: '127.0.0.1',
      requires_restart: true,
      description: 'Address the gateway listens on',
    },
    port: integer(
      { default: 8080, min: 0, max: 65_535, requires_restart: true },
      'Port the gateway listens on; 0 picks a free one',
    ),
    metrics_port: integer(
      { default: 0, min: 0, max: 65_535, requires_restart: true },
      'Port on HOST for /healthz, /readyz and /metrics on nodes without a gateway, which serves them itself; 0 turns it off',
    ),
    base_url: text(
      'Public URL of the gateways, the same on every node; defaults to http://HOST:PORT, or http://localhost:PORT if HOST is a wildcard address',
      { form: address, requires_restart: true },
    ),
    frontend_origin: text(
      'Origin of the user interface, for passkeys and sign-in; defaults to that of BASE_URL',
      { form: origin },
    ),
    trusted_proxies: list(
      networks,
      'Networks of trusted proxies in front of the gateway, whose X-Forwarded-For names the client',
      { requires_restart: true },
    ),
    cors_origins: list(origins, 'Origins allowed to call the gateway from a browser'),
    data_dir: {
      type: 'string',
      default: './data',
      requires_restart: true,
      description: 'Folder of embedded mode for its database, key and mail',
    },
    node_id: text(
      'Name of this node, unique in the cluster; defaults to host name and process id',
      {
        form: nodeName,
        requires_restart: true,
      },
    ),
    strata_operator: text(
      'Name recorded in the audit for REPL commands; defaults to the system user',
      { form: personName, requires_restart: true },
    ),
    log_level: {
      type: 'string',
      default: 'info',
      choices: ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'],
      description: 'Minimum log level',
    },
  },
  'Bus, database and shared state': readAtStart({
    nats_url: secret('NATS servers, comma separated; without it everything runs in one process', {
      form: nats,
    }),
    nats_user: text('NATS user'),
    nats_password: secret('NATS password'),
    nats_token: secret('NATS token, instead of user and password'),
    nats_creds: text('Credentials file (.creds) of a NATS account, instead of user and password'),
    nats_nkey_seed: secret('NKey seed of the NATS user, instead of user and password', {
      form: matches(/^SU[A-Z2-7]{56}$/, "must be a user's seed of nkeys, which begins with SU"),
    }),
    nats_tls_ca: text('CA file for the certificate of the NATS server; turns TLS on'),
    nats_tls_cert: text('Client certificate file of this node, with NATS_TLS_KEY; turns TLS on'),
    nats_tls_key: text('Private key file of NATS_TLS_CERT'),
    nats_allow_plain: boolean(
      false,
      'Allows NATS on other hosts without authentication and TLS, and neighbours to send credentials unencrypted',
    ),
    nats_namespace: {
      type: 'string',
      default: 'strata',
      form: namespace,
      description:
        'Prefix of all NATS subjects; must differ between installations that share NATS servers',
    },
    strata_api_key: secret(
      'API key for a neighbour that loads moleculer.config.ts without SECRET_KEY',
    ),
    database_url: secret(
      'PostgreSQL 14 or newer; of several comma-separated hosts, the writable one is used; without it and DB_HOST an embedded server runs',
      { form: problemOfDatabaseUrl },
    ),
    db_host: text(
      'PostgreSQL host; used with the other DB_* variables if DATABASE_URL is not set',
      { form: hosts },
    ),
    db_port: integer({ default: 5432, min: 1, max: 65_535 }, 'PostgreSQL port'),
    db_name: { type: 'string', default: 'strata', description: 'PostgreSQL database' },
    db_user: { type: 'string', default: 'strata', description: 'PostgreSQL user' },
    db_password: secret('PostgreSQL password'),
    db_ssl: boolean(false, 'TLS to PostgreSQL'),
    db_pooler: boolean(
      false,
      'Set if PostgreSQL is behind a pooler in transaction mode, such as PgBouncer: time-outs come from the role, and prepared statements are not used',
    ),
    db_pool_size: integer(
      { default: 60, min: 4, max: 200 },
      'Maximum PostgreSQL connections of a node: up to 3 for the change feed, the rest split equally between its services, 1 to 10 each',
    ),
    redis_url: secret(
      'Redis for short-lived shared state, kept in memory without it; several comma-separated hosts are Sentinels or cluster nodes',
      { form: redis },
    ),
    redis_sentinel: text(
      'Name of the primary in Redis Sentinel; the hosts of REDIS_URL are then the Sentinels',
    ),
    redis_sentinel_password: secret(
      'Password of the Sentinels, if they have one; they are never sent that of Redis',
    ),
    redis_cluster: boolean(
      false,
      'Set if Redis is a cluster; REDIS_URL names some or all of its nodes',
    ),
    redis_password: secret(
      'Redis password if REDIS_URL has none; taken literally, without percent-encoding',
    ),
  }),
  'Keys and sign-in': {
    secret_key: secret(
      'Key that signs tokens and encrypts stored secrets, at least 32 bytes; embedded mode generates one in DATA_DIR',
      { form: secretKeyForm, requires_restart: true },
    ),
    secret_key_previous: secret(
      'Previous SECRET_KEY; still needed for API keys and stored secrets that were created under it',
      {
        form: secretKeyForm,
        requires_restart: true,
      },
    ),
    webhook_secret: secret(
      'Signs, together with SECRET_KEY, one-time approve and deny links in mails; defaults to SECRET_KEY alone',
      { requires_restart: true },
    ),
    access_token_ttl_seconds: integer(
      { default: 900, min: 30, max: 86_400 },
      'Lifetime of an access token',
    ),
    platform_admin_emails: list(
      email,
      'Verified addresses of accounts with the role platform_admin; defaults to admin@example.com in embedded mode',
    ),
    platform_sign_in_policy: {
      type: 'string',
      default: 'any',
      choices: signInPolicies,
      description:
        'How platform admins must sign in; under passkey_or_sso a sign-in with a password may only register a passkey',
    },
    platform_admin_password: secret(
      'Password of the first platform admin, at least 12 characters; defaults to a random one, printed once',
    ),
  },
  'Lifetimes and limits': {
    cache_default_ttl: integer(
      { default: 5, min: 1, max: 1440 },
      'Lifetime of cached configuration, in minutes',
    ),
    coherence_fence_ms: integer(
      { default: 2000, min: 500, max: 30_000, requires_restart: true },
      'Maximum time a write waits for an unreachable node, and a node serves from its cache without contact',
    ),
    request_timeout_ms: integer(
      { default: 10_000, min: 500, max: 120_000, requires_restart: true },
      'Maximum duration of a request',
    ),
    fast_path: boolean(
      true,
      'Answers repeated reads before they reach the HTTP framework; false gives the same answers, slower',
    ),
    rate_limit_per_minute: integer(
      { default: 0, min: 0, max: 10_000_000 },
      'Requests per client address and minute; 0 turns the limit off',
    ),
    network_rate_limit_per_minute: integer(
      { default: 20, min: 1, max: 1_000_000 },
      'Requests per network (/24 of IPv4, /56 of IPv6) and minute, for each route that begins a sign-in, sends a link by mail, or redeems one',
    ),
    documents_per_tenant: integer(
      { default: 10_000, min: 1, max: 1_000_000 },
      'Maximum agent configurations, service instances and projects of a tenant, in total',
    ),
    members_per_tenant: integer(
      { default: 100_000, min: 1, max: 10_000_000 },
      'Maximum members of a tenant, including invited ones',
    ),
    service_accounts_per_tenant: integer(
      { default: 200, min: 1, max: 1_000_000 },
      'Maximum service accounts of a tenant',
    ),
    api_keys_per_tenant: integer(
      { default: 10_000, min: 1, max: 10_000_000 },
      'Maximum API keys of a tenant, of service accounts and people',
    ),
    automations_live_per_tenant: integer(
      { default: 10_000, min: 1, max: 1_000_000 },
      'Maximum automations of a tenant that run, or wait for approval or a slot; another one is refused with 429',
    ),
    history_entries_per_hour_per_tenant: integer(
      { default: 36_000, min: 1, max: 10_000_000 },
      'Changes of a tenant’s configuration per hour, each an entry of its history; another one is refused with 429',
    ),
    watch_max_streams: integer(
      { default: 10_000, min: 0, max: 100_000 },
      'Maximum watch streams open on a gateway',
    ),
    watch_max_streams_per_tenant: integer(
      { default: 2500, min: 1, max: 100_000 },
      'Maximum watch streams of one tenant on a gateway; at most half of WATCH_MAX_STREAMS',
    ),
    watch_max_streams_per_caller: integer(
      { default: 20, min: 1, max: 100_000 },
      'Maximum watch streams of one person, or of one X-Client-Id of an API key, on a gateway',
    ),
    invitations_per_minute_per_caller: integer(
      { default: 30, min: 1, max: 1_000_000 },
      'Invitations per minute by one person or service account',
    ),
    invitations_per_hour_per_tenant: integer(
      { default: 200, min: 1, max: 1_000_000 },
      'Invitations per hour by one tenant',
    ),
    invited_members_per_tenant: integer(
      { default: 500, min: 1, max: 1_000_000 },
      'Maximum pending invitations of a tenant',
    ),
    test_notices_per_minute_per_caller: integer(
      { default: 30, min: 1, max: 1_000_000 },
      'Test notifications per minute by one person or service account; each mail and webhook counts',
    ),
    test_notices_per_minute_per_tenant: integer(
      { default: 60, min: 1, max: 1_000_000 },
      'Test notifications per minute by one tenant',
    ),
    approval_mails_per_hour_per_tenant: integer(
      { default: 5000, min: 1, max: 10_000_000 },
      'Approval mails per hour of one tenant to addresses from its configuration, including those that are sent again',
    ),
    tenant_switches_per_minute: integer(
      { default: 60, min: 1, max: 1_000_000 },
      'Tenant switches per minute by one person',
    ),
    sessions_per_person: integer(
      { default: 100, min: 1, max: 10_000 },
      "Maximum sessions of one person, and as many by each tenant's own provider; another sign-in ends the least recently used one",
    ),
    api_keys_per_person: integer(
      { default: 100, min: 1, max: 10_000 },
      'Maximum API keys of one person in a tenant; expired ones are removed to make room',
    ),
    api_keys_per_minute: integer(
      { default: 60, min: 1, max: 1_000_000 },
      'API keys that one person creates or rotates per minute; each is confirmed by mail',
    ),
    passkeys_per_person: integer(
      { default: 20, min: 1, max: 1000 },
      'Maximum passkeys of one person',
    ),
    provider_links_per_person: integer(
      { default: 20, min: 1, max: 1000 },
      'Maximum linked identities at sign-in providers of one account',
    ),
    held_requests: integer(
      { default: 10_000, min: 1, max: 100_000 },
      'Maximum waiting requests (`wait`) on a notifier or gateway; another one is refused with 429',
    ),
    held_requests_per_tenant: integer(
      { default: 2500, min: 1, max: 100_000 },
      'Maximum waiting requests of one tenant; at most half of HELD_REQUESTS',
    ),
    held_requests_per_caller: integer(
      { default: 1000, min: 1, max: 100_000 },
      'Maximum waiting requests of one person or API key',
    ),
    audit_verifications_waiting: integer(
      { default: 4, min: 1, max: 1000 },
      'Maximum verifications of one audit chain that are queued on a node; requests for the same part share one',
    ),
    tenant_erase_after_days: integer(
      { default: 30, min: 0, max: 36_500 },
      'Days between a request to delete a tenant and its erasure; until then enabling the tenant cancels it',
    ),
    session_retention_days: integer(
      { default: 30, min: 1, max: 36_500 },
      'Days after which ended sessions, their refresh tokens and expired invitations are removed',
    ),
    approval_retention_days: integer(
      { default: 400, min: 1, max: 36_500 },
      'Days after which settled approvals are removed; the audit keeps who asked and who decided',
    ),
    delivery_retention_days: integer(
      { default: 90, min: 1, max: 36_500 },
      'Days after which settled deliveries and their attempts are removed, no later than their approval',
    ),
    decision_retention_days: integer(
      { default: 90, min: 1, max: 36_500 },
      'Days after which recorded decisions are removed',
    ),
    decisions_recorded_per_hour_per_tenant: integer(
      { default: 50_000, min: 1, max: 10_000_000 },
      'Decisions recorded per hour and tenant; beyond that, a decision with `record` is refused with 429, others are counted as not recorded',
    ),
    http_client_timeout_seconds: integer(
      { default: 30, min: 1, max: 300 },
      'Time-out of outgoing HTTP requests',
    ),
    http_client_connect_timeout_seconds: integer(
      { default: 5, min: 1, max: 60 },
      'Time-out of connecting, for outgoing HTTP requests',
    ),
  },
  'Approval webhooks: defaults, and caps on what a tenant may ask for': {
    approval_webhook_timeout_seconds: integer(
      { default: 30, min: 1, max: 3600 },
      'Default time-out',
    ),
    approval_webhook_retry_attempts: integer(
      { default: 3, min: 0, max: 100 },
      'Default number of retries after the first attempt',
    ),
    approval_webhook_backoff_initial_seconds: integer(
      { default: 1, min: 0, max: 3600 },
      'Default delay before the first retry',
    ),
    approval_webhook_backoff_factor: integer(
      { default: 2, min: 1, max: 100 },
      'Default factor between delays',
    ),
    approval_webhook_backoff_max_seconds: integer(
      { default: 8, min: 0, max: 3600 },
      'Default maximum delay between retries',
    ),
    approval_webhook_timeout_cap_seconds: integer(
      { default: 120, min: 1, max: 3600 },
      'Maximum time-out of an endpoint; a longer one is capped',
    ),
    approval_webhook_retry_cap: integer(
      { default: 10, min: 0, max: 100 },
      'Maximum retries of an endpoint; more are capped',
    ),
    approval_webhook_backoff_cap_seconds: integer(
      { default: 300, min: 0, max: 3600 },
      'Maximum delay of an endpoint; a longer one is capped',
    ),
    approval_webhook_endpoints_cap: integer(
      { default: 20, min: 1, max: 100 },
      'Maximum webhook endpoints of a tenant',
    ),
    approvals_max_pending: integer(
      { default: 10_000, min: 1, max: 1_000_000_000 },
      'Maximum pending approvals of a tenant; another one is refused with 429',
    ),
    webhook_allowed_networks: list(
      networks,
      'Private networks in which webhooks and identity providers are allowed',
    ),
    webhook_allow_http: boolean(false, 'Allows http for webhooks and identity providers'),
    slack_api_url: {
      type: 'string',
      default: 'https://slack.com/api',
      form: address,
      description: "URL of Slack's Web API, for a proxy in between",
    },
    prometheus_url: text('Prometheus that rollout gates query, such as http://prometheus:9090', {
      form: address,
    }),
  },
  Mail: {
    smtp_server: text('Mail server; without it mail is written to DATA_DIR/mail', {
      form: host,
    }),
    smtp_port: integer({ default: 587, min: 1, max: 65_535 }, 'Port of the mail server'),
    smtp_username: text('User name for the mail server'),
    smtp_password: secret('Password for the mail server'),
    smtp_use_tls: boolean(
      true,
      'Requires STARTTLS; otherwise it is used if the mail server offers it. Port 465 always uses TLS',
    ),
    smtp_tls_ca: text(
      'CA file for the certificate of the mail server, if it is not signed by a public CA',
    ),
    from_email: {
      type: 'string',
      default: 'strata@localhost',
      form: email,
      description: 'Sender address of mail',
    },
    mail_allowed_domains: list(
      domains,
      'Domains that any tenant may use in from_email, in addition to those its own sign-in providers verified; that of FROM_EMAIL only if listed',
    ),
  },
  'Risk configuration that new tenants start with': {
    ...limitRows,
    default_business_hours: {
      type: 'string',
      default:
        '{"days":["mon","tue","wed","thu","fri"],"start":"09:00","end":"17:00","timezone":"UTC"}',
      form: weeklyHours,
      description: 'Business hours as JSON, if no layer above the environment sets business_hours',
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
