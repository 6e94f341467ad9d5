/** Every setting: its field, variable, type, default, bounds, and whether a reload suffices. `.env.example` is made from this. */

type Base = { readonly secret?: true; readonly restart?: true; readonly help: string };
export type Row =
  | Base & { readonly type: 'string'; readonly default: string | null; readonly pattern?: RegExp; readonly choices?: readonly string[] }
  | Base & { readonly type: 'integer' | 'number'; readonly default: number; readonly min?: number; readonly max?: number }
  | Base & { readonly type: 'boolean'; readonly default: boolean }
  | Base & { readonly type: 'list'; readonly default: readonly string[]; readonly pattern?: RegExp };

const url = /^[a-z][a-z0-9+.-]*:\/\/\S+$/i;

/** Field → row. The variable is the field in capitals. */
export const settingsTable = {
  port: { type: 'integer', default: 8080, min: 0, max: 65535, restart: true, help: 'Port of the gateway; 0 takes a free one' },
  host: { type: 'string', default: '127.0.0.1', restart: true, help: 'Address that the gateway listens on' },
  base_url: { type: 'string', default: null, pattern: /^https?:\/\/[^\s/]+$/, restart: true, help: 'Address by which clients reach the gateway; http://HOST:PORT unless told' },
  frontend_origin: { type: 'string', default: null, pattern: /^https?:\/\/[^\s/]+$/, help: 'Origin of the user interface, for passkeys and sign-in; BASE_URL unless told' },
  cors_origins: { type: 'list', default: [], pattern: /^(\*|https?:\/\/[^\s/]+)$/, restart: true, help: 'Origins whose pages may call the gateway' },
  data_dir: { type: 'string', default: './data', restart: true, help: 'Where embedded mode keeps its database, keys and mail' },
  node_id: { type: 'string', default: null, pattern: /^[A-Za-z0-9._-]{1,100}$/, restart: true, help: 'Name of this node, unique in the cluster; host name and process id unless told' },
  nats_url: { type: 'string', default: null, pattern: url, restart: true, help: 'NATS servers, comma separated; none runs everything in one process' },
  nats_user: { type: 'string', default: null, restart: true, help: 'NATS user' },
  nats_password: { type: 'string', default: null, secret: true, restart: true, help: 'NATS password' },
  nats_token: { type: 'string', default: null, secret: true, restart: true, help: 'NATS token, instead of user and password' },
  nats_tls_ca: { type: 'string', default: null, restart: true, help: 'File with the authority that signed the NATS server certificate; turns TLS on' },
  database_url: { type: 'string', default: null, secret: true, pattern: /^postgres(ql)?:\/\/\S+$/, restart: true, help: 'PostgreSQL 14 or newer; none runs an embedded one' },
  db_host: { type: 'string', default: null, restart: true, help: 'PostgreSQL host, instead of DATABASE_URL' },
  db_port: { type: 'integer', default: 5432, min: 1, max: 65535, restart: true, help: 'PostgreSQL port' },
  db_name: { type: 'string', default: 'strata', restart: true, help: 'PostgreSQL database' },
  db_user: { type: 'string', default: 'strata', restart: true, help: 'PostgreSQL user' },
  db_password: { type: 'string', default: null, secret: true, restart: true, help: 'PostgreSQL password' },
  db_ssl: { type: 'boolean', default: false, restart: true, help: 'TLS to PostgreSQL' },
  db_pool_size: { type: 'integer', default: 10, min: 2, max: 200, restart: true, help: 'Connections of each service on a node' },
  redis_url: { type: 'string', default: null, secret: true, pattern: /^rediss?:\/\/\S+$/, restart: true, help: 'Redis for short-lived shared state; none keeps it in memory' },
  log_level: { type: 'string', default: 'info', choices: ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'], restart: true, help: 'Least severe level that is logged' },

  secret_key: { type: 'string', default: null, secret: true, restart: true, help: 'At least 32 bytes; signs tokens and encrypts stored secrets. Embedded mode makes one' },
  secret_key_previous: { type: 'string', default: null, secret: true, restart: true, help: 'The key before, still read while keys are rotated' },
  webhook_secret: { type: 'string', default: null, secret: true, restart: true, help: 'Signs one-time approve and deny links in e-mails; derived from SECRET_KEY unless told' },
  access_token_ttl_seconds: { type: 'integer', default: 900, min: 30, max: 86_400, help: 'Lifetime of an access token' },
  platform_admin_emails: { type: 'list', default: [], pattern: /^[^\s@]+@[^\s@]+$/, help: 'Whoever signs in with one of these verified addresses is platform_admin; admin@example.com in embedded mode' },
  platform_admin_password: { type: 'string', default: null, secret: true, help: 'Password of the first platform admin; random and printed once unless told' },

  cache_default_ttl: { type: 'integer', default: 5, min: 1, max: 1440, help: 'Lifetime of the configuration service cache, in minutes' },
  coherence_fence_ms: { type: 'integer', default: 2000, min: 500, max: 30_000, restart: true, help: 'The longest that a write waits for an unreachable node, and that a node trusts its cache without contact' },
  request_timeout_ms: { type: 'integer', default: 10_000, min: 500, max: 120_000, restart: true, help: 'The longest that a request may take' },
  rate_limit_per_minute: { type: 'integer', default: 0, min: 0, help: 'Requests of one client address per minute; 0 turns it off' },
  http_client_timeout_seconds: { type: 'integer', default: 30, min: 1, max: 300, help: 'Time-out of outgoing HTTP requests' },
  http_client_connect_timeout_seconds: { type: 'integer', default: 5, min: 1, max: 60, help: 'Time-out of connecting for outgoing HTTP requests' },

  approval_webhook_timeout_seconds: { type: 'integer', default: 30, min: 1, max: 3600, help: 'Default time-out of an approval webhook' },
  approval_webhook_retry_attempts: { type: 'integer', default: 3, min: 0, max: 100, help: 'Default number of retries of an approval webhook' },
  approval_webhook_backoff_initial_seconds: { type: 'integer', default: 1, min: 0, max: 3600, help: 'Default wait before the first retry' },
  approval_webhook_backoff_factor: { type: 'integer', default: 2, min: 1, max: 100, help: 'Default factor between waits' },
  approval_webhook_backoff_max_seconds: { type: 'integer', default: 8, min: 0, max: 3600, help: 'Default longest wait between retries' },
  approval_webhook_timeout_cap_seconds: { type: 'integer', default: 120, min: 1, max: 3600, help: 'The longest time-out that a tenant may ask for' },
  approval_webhook_retry_cap: { type: 'integer', default: 10, min: 0, max: 100, help: 'The most retries that a tenant may ask for' },
  approval_webhook_backoff_cap_seconds: { type: 'integer', default: 300, min: 0, max: 3600, help: 'The longest wait that a tenant may ask for' },
  approval_webhook_endpoints_cap: { type: 'integer', default: 20, min: 1, max: 100, help: 'The most webhook endpoints of a tenant' },
  webhook_allowed_networks: { type: 'list', default: [], pattern: /^[0-9a-fA-F.:]+\/[0-9]{1,3}$/, help: 'Private networks (CIDR) that webhooks may reach all the same' },
  webhook_allow_http: { type: 'boolean', default: false, help: 'Webhooks may use http' },

  smtp_server: { type: 'string', default: null, help: 'Mail server; none writes mail to DATA_DIR/mail' },
  smtp_port: { type: 'integer', default: 587, min: 1, max: 65535, help: 'Port of the mail server' },
  smtp_username: { type: 'string', default: null, help: 'User at the mail server' },
  smtp_password: { type: 'string', default: null, secret: true, help: 'Password at the mail server' },
  smtp_use_tls: { type: 'boolean', default: true, help: 'Require STARTTLS' },
  from_email: { type: 'string', default: 'strata@localhost', pattern: /^[^\s@]+@[^\s@]+$/, help: 'Sender of mail' },

  default_max_cost_impact_auto: { type: 'number', default: 15, min: 0, help: 'max_cost_impact_auto of a new tenant' },
  default_max_cost_impact_approval: { type: 'number', default: 50, min: 0, help: 'max_cost_impact_approval of a new tenant' },
  default_max_resource_scaling: { type: 'number', default: 3, min: 1, help: 'max_resource_scaling of a new tenant' },
  default_approval_timeout_minutes: { type: 'integer', default: 30, min: 1, max: 10_080, help: 'approval_timeout_minutes of a new tenant' },
  default_require_approval_for_high_risk: { type: 'boolean', default: true, help: 'require_approval_for_high_risk of a new tenant' },
  default_auto_approve_rollbacks: { type: 'boolean', default: true, help: 'auto_approve_rollbacks of a new tenant' },
  default_automation_enabled: { type: 'boolean', default: true, help: 'automation_enabled of a new tenant' },
  default_business_hours_only: { type: 'boolean', default: false, help: 'business_hours_only of a new tenant' },
  default_max_concurrent_automations: { type: 'integer', default: 5, min: 0, max: 1000, help: 'max_concurrent_automations of a new tenant' },
} as const satisfies Record<string, Row>;

type ValueOf<R> = R extends { type: 'integer' | 'number' } ? number
  : R extends { type: 'boolean' } ? boolean
  : R extends { type: 'list' } ? readonly string[]
  : R extends { default: null } ? string | null
  : string;
export type Table = typeof settingsTable;
export type Values = { readonly [F in keyof Table]: ValueOf<Table[F]> };
