/**
 * The only reader of the environment: it becomes one frozen, validated object per process, or a
 * list of all that is wrong.
 */
import { isUtf8 } from 'node:buffer';
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { resolve } from 'node:path';
import { parse } from 'dotenv';
import { CannotStart } from '../process/cannot-start.ts';
import { nearestName } from '../nearest.ts';
import { passwordProblem } from '../security/password-strength.ts';
import { redisAddresses } from './redis-addresses.ts';
import { settingsTable, type Field, type Row, type Values } from './settings-table.ts';

/** Every row of the table by its field, with what is derived where a variable is not set. */
export type Settings = Values & {
  readonly base_url: string;
  readonly frontend_origin: string;
  readonly node_id: string;
};

/** Variable → text, as the process gets it. */
export type Environment = Readonly<Record<string, string | undefined>>;

export interface SettingProblem {
  readonly variable: string;
  /**
   * Continues the name of the variable, such as "must be true or false". Never holds the value,
   * which may be a secret.
   */
  readonly message: string;
}

export class SettingsInvalid extends CannotStart {
  readonly problems: SettingProblem[];
  constructor(problems: SettingProblem[]) {
    const lines = problems.map(({ variable, message }) => `${variable} ${message}`);
    const before = lines.length === 1 ? ' ' : '\n  ';
    super(`The settings are not valid:${lines.map((line) => before + line).join('')}`);
    this.name = 'SettingsInvalid';
    this.problems = problems;
  }
}

/**
 * A setting that a role cannot do without once it is a node of a cluster. Embedded mode has a
 * stand-in for each.
 */
export type Need = 'database_url' | 'redis_url';

/**
 * A role that this node hosts, as far as settings are concerned. The table of all roles is
 * `services/node-roles.ts`.
 */
export interface HostedRole {
  readonly name: string;
  readonly needs: readonly Need[];
}

export interface NodeToSet {
  readonly roles?: readonly HostedRole[];
  /** There are other roles, which the node can only reach over NATS. */
  readonly isPart?: boolean;
  /** What the process runs with: what only a restart applies is taken from there. */
  readonly running?: Settings;
}

const rows = Object.entries(settingsTable) as [Field, Row][];
export const variableOf = (field: string): string => field.toUpperCase();

/**
 * The process environment, overlaid by the file that ENV_FILE names. Throws SettingsInvalid where
 * that can't be read.
 */
export const readEnvironment = (environment: Environment = process.env): Environment => ({
  ...environment,
  ...readFile(environment),
});

const readFile = (environment: Environment): Environment => parse(textOfFile(environment));

function textOfFile({ ENV_FILE: file }: Environment): string {
  if (!file) return '';
  const refused = (why: string): SettingsInvalid =>
    new SettingsInvalid([
      { variable: 'ENV_FILE', message: `names ${resolve(file)}, which ${why}` },
    ]);
  let bytes: Buffer;
  try {
    bytes = readFileSync(file);
  } catch (error) {
    throw refused(`cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
  // As some editors keep it, where no line of it would be a setting.
  if (!isUtf8(bytes) || bytes.includes(0)) throw refused('is not a text in UTF-8');
  return bytes.toString('utf8');
}

/** A name in the file of ENV_FILE that is no setting, so that it has no effect. */
export interface UnknownSetting {
  readonly name: string;
  /** The setting that may have been meant. */
  readonly nearest: string | undefined;
}

/**
 * Names in the file of ENV_FILE that are no settings: the file is Strata's, while the process
 * environment has variables of other programs, too. They are reported and do not stop a start: a
 * node of the last release may read a file that is made for the next.
 */
export function unknownSettings(environment: Environment = process.env): UnknownSetting[] {
  const known = rows.map(([field]) => variableOf(field));
  return Object.keys(readFile(environment))
    .filter((name) => !known.includes(name))
    .map((name) => ({ name, nearest: nearestName(known, name) }));
}

/**
 * Secrets in the file of ENV_FILE with a # that is in no quotes: what follows it is a comment, and
 * no part of them. They are reported alone, since what is left may be what a node runs with.
 */
export function cutSecrets(environment: Environment = process.env): string[] {
  const text = textOfFile(environment);
  return rows
    .filter(([, row]) => row.secret)
    .map(([field]) => variableOf(field))
    .filter((name) =>
      new RegExp(`^\\s*(export\\s+)?${name}\\s*[=:]\\s*[^\\s'"\`#][^#\\r\\n]*(?<=\\S)#`, 'm').test(
        text,
      ),
    );
}

const describeCut = (name: string): string =>
  `ENV_FILE: ${name} ends before its #, where a comment begins. Put it in quotes if the rest belongs to it.`;

function describeUnknown({ name, nearest }: UnknownSetting): string {
  const meant = nearest === undefined ? '' : ` Did you mean ${nearest}?`;
  return `ENV_FILE: ${name} is no setting and has no effect.${meant}`;
}

/** What is odd in the file of ENV_FILE and stops nothing, for the console and the log. */
export const fileWarnings = (environment: Environment = process.env): string[] => [
  ...unknownSettings(environment).map(describeUnknown),
  ...cutSecrets(environment).map(describeCut),
];

/**
 * Whether errors of a start are shown with their stacks; also where the settings cannot be read.
 */
export function wantsStacks(): boolean {
  try {
    return /^\s*(debug|trace)\s*$/.test(readEnvironment(process.env).LOG_LEVEL ?? '');
  } catch {
    return false;
  }
}

type Parsed = { readonly value: unknown } | { readonly problem: string };

/**
 * The value of one variable, or what is wrong with it. A variable that is unset or blank has the
 * default.
 */
function parseVariable(row: Row, text: string | undefined): Parsed {
  if (text === undefined || text.trim() === '') return { value: row.default };
  const given = row.secret ? text : text.trim();
  switch (row.type) {
    case 'boolean':
      return parseBoolean(given);
    case 'integer':
    case 'number':
      return parseNumber(row, given);
    case 'list':
      return parseList(row, given);
    case 'string':
      return parseString(row, given);
  }
}

function parseBoolean(given: string): Parsed {
  if (/^(true|1|yes|on)$/i.test(given)) return { value: true };
  if (/^(false|0|no|off)$/i.test(given)) return { value: false };
  return { problem: 'must be true or false' };
}

const wholeNumber = /^-?(0|[1-9]\d*)$/;
const decimalNumber = /^-?(0|[1-9]\d*)(\.\d+)?$/;

function parseNumber(row: Extract<Row, { type: 'integer' | 'number' }>, given: string): Parsed {
  const isWhole = row.type === 'integer';
  const pattern = isWhole ? wholeNumber : decimalNumber;
  const value = Number(given);
  if (!pattern.test(given) || !Number.isFinite(value))
    return { problem: isWhole ? 'must be a whole number' : 'must be a number' };
  if (value < row.min) return { problem: `must be at least ${row.min}` };
  // Beyond it a number is another whole number than its text.
  const max = row.max ?? (isWhole ? Number.MAX_SAFE_INTEGER : Infinity);
  if (value > max) return { problem: `must be at most ${max}` };
  return { value };
}

function parseList(row: Extract<Row, { type: 'list' }>, given: string): Parsed {
  const items = given.split(',').map((item) => item.trim());
  const value = items.filter((item) => item !== '');
  const problem = value.map(row.form).find((each) => each !== undefined);
  return problem === undefined ? { value } : { problem };
}

function parseString(row: Extract<Row, { type: 'string' }>, given: string): Parsed {
  if (row.choices && !row.choices.includes(given))
    return { problem: `must be one of ${row.choices.join(', ')}` };
  const problem = row.form?.(given);
  return problem === undefined ? { value: given } : { problem };
}

/**
 * The settings of a node that hosts `roles`; a process that hosts none, such as the operator's
 * console or a neighbour, gives none. Throws SettingsInvalid with every problem at once, in the
 * order of the table.
 */
export function loadSettings(
  environment: Environment,
  { roles = [], isPart = false, running }: NodeToSet = {},
): Settings {
  const problems: SettingProblem[] = [];
  const values: Record<string, unknown> = {};
  for (const [field, row] of rows) {
    const variable = variableOf(field);
    const parsed = parseVariable(row, environment[variable]);
    if ('problem' in parsed) {
      problems.push({ variable, message: parsed.problem });
      values[field] = row.default;
    } else {
      values[field] = parsed.value;
    }
  }
  // The loop has filled every field by the type of its row, which the compiler cannot follow.
  const found = values as unknown as Values;
  const settings = derive(found);
  const broken = new Set(problems.map(({ variable }) => variable));
  problems.push(...crossChecks(settings, { roles, isPart }, broken));
  if (problems.length > 0) throw new SettingsInvalid(problems);
  return frozen(running ? derive({ ...found, ...readAtStart(running) }) : settings);
}

const readAtStart = (running: Settings): Partial<Settings> =>
  Object.fromEntries(
    rows.filter(([, row]) => row.requires_restart).map(([field]) => [field, running[field]]),
  );

/** Lists too: what a caller could change would change for the whole process. */
export function frozen(settings: Settings): Settings {
  Object.values(settings).forEach(Object.freeze);
  return Object.freeze(settings);
}

/**
 * Embedded mode: neither a database of the operator's own nor a bus, so everything runs in this
 * process.
 */
export const isEmbedded = ({
  database_url,
  nats_url,
}: Pick<Settings, 'database_url' | 'nats_url'>): boolean =>
  database_url === null && nats_url === null;

/** A process that hosts nothing and acts by its own credential, not as a node of Strata's. */
const isNeighbour = (
  { secret_key, strata_api_key }: Pick<Settings, 'secret_key' | 'strata_api_key'>,
  roles: readonly HostedRole[],
): boolean => roles.length === 0 && secret_key === null && strata_api_key !== null;

const natsAddresses = ({ nats_url: url }: Pick<Settings, 'nats_url'>): URL[] =>
  (url?.split(',') ?? []).filter((each) => URL.canParse(each)).map((each) => new URL(each));

/** Whether the connections to NATS are encrypted. */
export const isNatsEncrypted = (
  settings: Pick<Settings, 'nats_url' | 'nats_tls_ca' | 'nats_tls_cert'>,
): boolean =>
  settings.nats_tls_ca !== null ||
  settings.nats_tls_cert !== null ||
  natsAddresses(settings).every(({ protocol }) => protocol === 'tls:' || protocol === 'wss:');

/** Whether NATS runs on this machine, so that nothing sent to it passes a network. */
const isNatsLocal = (settings: Pick<Settings, 'nats_url'>): boolean =>
  natsAddresses(settings).every(({ hostname: host }) =>
    /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/.test(host),
  );

/**
 * Whether what neighbours send and are sent, which nothing seals, passes no network unencrypted, or
 * the operator wants it so.
 */
export const takesClearCredentials = (settings: Settings): boolean =>
  settings.nats_allow_plain || isNatsEncrypted(settings) || isNatsLocal(settings);

/** Whether whoever reaches NATS over the network may use it, as far as this connection tells. */
function isNatsOpen(settings: Settings): boolean {
  const { nats_user: user, nats_token: token, nats_creds: creds, nats_nkey_seed: seed } = settings;
  const hasLogin =
    [user, token, creds, seed].some((each) => each !== null) ||
    natsAddresses(settings).every(({ username }) => username);
  return !hasLogin && !isNatsEncrypted(settings) && !isNatsLocal(settings);
}

/** Fills in what follows from other settings where it is not set itself. */
function derive(values: Values): Settings {
  const databaseUrl = values.database_url ?? databaseUrlOf(values);
  const embedded = isEmbedded({ database_url: databaseUrl, nats_url: values.nats_url });
  const baseUrl = values.base_url ?? `http://${reachable(values.host)}:${values.port}`;
  // A base_url that is no address is reported as that, and no further.
  const origin = URL.canParse(baseUrl) ? new URL(baseUrl).origin : baseUrl;
  const hostName = hostname().replaceAll(/[^A-Za-z0-9._-]/g, '-');
  const noAdmins = values.platform_admin_emails.length === 0;
  return {
    ...values,
    database_url: databaseUrl,
    base_url: baseUrl,
    frontend_origin: values.frontend_origin ?? origin,
    node_id: values.node_id ?? `${hostName}-${process.pid}`,
    platform_admin_emails:
      noAdmins && embedded ? ['admin@example.com'] : values.platform_admin_emails,
  };
}

/** Whether the address is one of PLATFORM_ADMIN_EMAILS, whose owner administers the platform. */
export function isPlatformAdminAddress(
  address: string,
  { platform_admin_emails: listed }: Pick<Settings, 'platform_admin_emails'>,
): boolean {
  const wanted = address.trim().toLowerCase();
  return listed.some((each) => each.trim().toLowerCase() === wanted);
}

/** An IPv6 address as it is in a URL. */
export const bracketed = (host: string): string => (host.includes(':') ? `[${host}]` : host);

/**
 * Of HOST, what a browser on this machine can open: every address at once is no address to open.
 */
const reachable = (host: string): string =>
  host === '0.0.0.0' || host === '::' ? 'localhost' : bracketed(host);

/** The address that the DB_* variables make up; null where DB_HOST is not set. */
function databaseUrlOf(values: Values): string | null {
  const { db_host: host, db_port: port, db_user: user, db_password: password } = values;
  if (host === null) return null;
  const secret = password === null ? '' : `:${encodeURIComponent(password)}`;
  const login = `${encodeURIComponent(user)}${secret}`;
  return `postgres://${login}@${bracketed(host)}:${port}/${encodeURIComponent(values.db_name)}`;
}

/**
 * What the row of one variable cannot say alone. Variables in `broken` have been reported already:
 * they count as set, and nothing more is said about them.
 */
function crossChecks(
  settings: Settings,
  { roles, isPart }: Required<Omit<NodeToSet, 'running'>>,
  broken: ReadonlySet<string>,
): SettingProblem[] {
  const problems: SettingProblem[] = [];
  const report = (field: Field, message: string): void => {
    problems.push({ variable: variableOf(field), message });
  };
  const isBroken = (field: Field): boolean => broken.has(variableOf(field));
  const isSet = (field: Field): boolean => settings[field] !== null || isBroken(field);
  const needing = (need: Need): string[] =>
    roles.filter(({ needs }) => needs.includes(need)).map(({ name }) => name);

  // Only where HOST makes it up: what is wrong with BASE_URL itself its row says.
  if (!URL.canParse(settings.base_url))
    report('host', 'must be a name or an IP address, of IPv6 without brackets, or BASE_URL be set');

  const clustered = isSet('nats_url');
  if (isPart && !clustered) {
    const names = roles.map(({ name }) => name).join(', ');
    report(
      'nats_url',
      `is required to run ${names} alone; npm start runs all roles in one process`,
    );
  }
  if (!isSet('secret_key')) {
    if (isSet('database_url'))
      report('secret_key', 'is required with your own database: at least 32 random bytes');
    else if (clustered && !isNeighbour(settings, roles))
      report('secret_key', 'is required with NATS_URL set, the same on every node');
  }
  if (clustered) {
    if (isNatsOpen(settings) && !settings.nats_allow_plain)
      report(
        'nats_url',
        'leads beyond this machine with neither NATS_USER, NATS_TOKEN, NATS_CREDS, NATS_NKEY_SEED nor TLS (tls://, NATS_TLS_CA); NATS_ALLOW_PLAIN=true allows it',
      );
    const databaseNeeding = needing('database_url').join(', ');
    if (databaseNeeding !== '' && !isSet('database_url'))
      report('database_url', `(or DB_HOST) is required, with NATS_URL set, by ${databaseNeeding}`);
    const redisNeeding = needing('redis_url').join(', ');
    if (redisNeeding !== '' && !isSet('redis_url'))
      report('redis_url', `is required, with NATS_URL set, by ${redisNeeding}`);
  }

  if ((settings.nats_tls_cert === null) !== (settings.nats_tls_key === null))
    report(
      settings.nats_tls_cert === null ? 'nats_tls_cert' : 'nats_tls_key',
      'is required with the other of NATS_TLS_CERT and NATS_TLS_KEY',
    );
  const { redis_url: redisUrl, redis_sentinel: sentinel, redis_cluster: isCluster } = settings;
  if (sentinel !== null && isCluster)
    report('redis_cluster', 'must not be set with REDIS_SENTINEL, which is for a single primary');
  if (redisUrl !== null && redisAddresses(redisUrl).length > 1 && sentinel === null && !isCluster)
    report(
      'redis_url',
      'has several hosts: set REDIS_SENTINEL where they are Sentinels, REDIS_CLUSTER=true where they are a cluster',
    );

  const { platform_admin_password: password, platform_admin_emails: admins } = settings;
  const passwordFault =
    password === null ? undefined : passwordProblem(password, { address: admins[0] ?? '' });
  if (passwordFault) report('platform_admin_password', passwordFault.message);

  const auto = 'default_max_cost_impact_auto';
  const approval = 'default_max_cost_impact_approval';
  if (settings[auto] > settings[approval] && !isBroken(auto) && !isBroken(approval))
    report(auto, `must not be more than ${variableOf(approval)}`);
  return problems;
}

export interface SettingChanges {
  /** Names of the variables whose values differ. */
  readonly changed: string[];
  /** Those of them that only a restart applies. */
  readonly requires_restart: string[];
}

export function describeChanges(before: Settings, after: Settings): SettingChanges {
  const changed = rows.filter(
    ([field]) => JSON.stringify(before[field]) !== JSON.stringify(after[field]),
  );
  const restarting = changed.filter(([, row]) => row.requires_restart);
  return {
    changed: changed.map(([field]) => variableOf(field)),
    requires_restart: restarting.map(([field]) => variableOf(field)),
  };
}
