/** The only reader of the environment: one frozen, validated object per process. */
import { randomBytes } from 'node:crypto';
import { existsSync, linkSync, mkdirSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { parse } from 'dotenv';
import {
  settingsGroups,
  settingsTable,
  type Field,
  type Row,
  type Values,
} from './settings-table.ts';

export type Settings = Values & {
  readonly base_url: string;
  readonly frontend_origin: string;
  readonly node_id: string;
};
export type Environment = Readonly<Record<string, string | undefined>>;
export interface SettingProblem {
  readonly variable: string;
  readonly message: string;
}

export class SettingsInvalid extends Error {
  readonly problems: SettingProblem[];
  constructor(problems: SettingProblem[]) {
    super(
      `The settings are not valid:\n${problems.map(({ variable, message }) => `  ${variable} ${message}`).join('\n')}`,
    );
    this.name = 'SettingsInvalid';
    this.problems = problems;
  }
}

const rows = Object.entries(settingsTable) as [Field, Row][];
export const variableOf = (field: string): string => field.toUpperCase();

/** What a piece cannot do without once it is a node of a cluster. */
const needs: Readonly<Record<string, readonly ('database_url' | 'redis_url')[]>> = {
  'tenant-config': ['database_url'],
  'global-config': ['database_url'],
  audit: ['database_url'],
  auth: ['database_url', 'redis_url'],
  notifier: ['database_url', 'redis_url'],
  gateway: ['redis_url'],
  'config-resolver': [],
};
export const pieces = Object.keys(needs);
export const needsRedis = (hosted: readonly string[]): boolean =>
  hosted.some((piece) => needs[piece]?.includes('redis_url'));

/** The process environment, overlaid by the file that ENV_FILE names. Throws SettingsInvalid where that can't be read. */
export function readEnvironment(environment: Environment = process.env): Environment {
  const file = environment.ENV_FILE;
  if (!file) return environment;
  try {
    return { ...environment, ...parse(readFileSync(file)) };
  } catch (error) {
    throw new SettingsInvalid([
      { variable: 'ENV_FILE', message: `cannot be read: ${(error as NodeJS.ErrnoException).code}` },
    ]);
  }
}

const booleans: ReadonlyMap<string, boolean> = new Map([
  ...['true', '1', 'yes', 'on'].map((word) => [word, true] as const),
  ...['false', '0', 'no', 'off'].map((word) => [word, false] as const),
]);

/** The value of one variable, or what is wrong with it. Never says the value: it may be a secret. */
function valueOf(row: Row, text: string | undefined): { value: unknown } | { problem: string } {
  if (text === undefined || text.trim() === '') return { value: row.default };
  const given = row.secret ? text : text.trim();
  switch (row.type) {
    case 'boolean': {
      const value = booleans.get(given.toLowerCase());
      return value === undefined ? { problem: 'must be true or false' } : { value };
    }
    case 'integer':
    case 'number': {
      const value = Number(given);
      const formed = row.type === 'integer' ? /^-?(0|[1-9]\d*)$/ : /^-?(0|[1-9]\d*)(\.\d+)?$/;
      if (!formed.test(given) || !Number.isFinite(value))
        return { problem: `must be ${row.type === 'integer' ? 'a whole number' : 'a number'}` };
      if (value < row.min) return { problem: `must be at least ${row.min}` };
      return row.max !== undefined && value > row.max
        ? { problem: `must be at most ${row.max}` }
        : { value };
    }
    case 'list': {
      const value = given
        .split(',')
        .map((item) => item.trim())
        .filter((item) => item !== '');
      return value.every(row.form.fits) ? { value } : { problem: row.form.says };
    }
    case 'string':
      if (row.choices && !row.choices.includes(given))
        return { problem: `must be one of ${row.choices.join(', ')}` };
      return row.form && !row.form.fits(given) ? { problem: row.form.says } : { value: given };
  }
}

/** Throws SettingsInvalid with every problem at once. `pieces` are those that this node hosts; all unless told. */
export function loadSettings(
  environment: Environment,
  { pieces: hosted = pieces }: { pieces?: readonly string[] } = {},
): Settings {
  const problems: SettingProblem[] = [];
  const values: Record<string, unknown> = {};
  for (const [field, row] of rows) {
    const found = valueOf(row, environment[variableOf(field)]);
    if ('problem' in found) problems.push({ variable: variableOf(field), message: found.problem });
    values[field] = 'value' in found ? found.value : row.default;
  }
  const settings = derive(values as unknown as Values);
  problems.push(
    ...crossChecks(settings, hosted, new Set(problems.map(({ variable }) => variable))),
  );
  if (problems.length > 0) throw new SettingsInvalid(problems);
  Object.values(settings).forEach(Object.freeze);
  return Object.freeze(settings);
}

function derive(values: Values): Settings {
  const {
    db_host: host,
    db_port: port,
    db_name: name,
    db_user: user,
    db_password: password,
  } = values;
  const bracketed = (name: string): string => (name.includes(':') ? `[${name}]` : name);
  const login = `${encodeURIComponent(user)}${password ? `:${encodeURIComponent(password)}` : ''}`;
  const base = values.base_url ?? `http://${bracketed(values.host)}:${values.port}`;
  const database =
    values.database_url ??
    (host ? `postgres://${login}@${bracketed(host)}:${port}/${encodeURIComponent(name)}` : null);
  const embedded = database === null && values.nats_url === null;
  return {
    ...values,
    database_url: database,
    base_url: base,
    frontend_origin: values.frontend_origin ?? (URL.canParse(base) ? new URL(base).origin : base),
    node_id: values.node_id ?? `${hostname().replaceAll(/[^A-Za-z0-9._-]/g, '-')}-${process.pid}`,
    platform_admin_emails:
      values.platform_admin_emails.length === 0 && embedded
        ? ['admin@example.com']
        : values.platform_admin_emails,
  };
}

/** What rows cannot say alone. A variable that is broken already counts as given, and is not judged again. */
function crossChecks(
  settings: Settings,
  hosted: readonly string[],
  broken: ReadonlySet<string>,
): SettingProblem[] {
  const problems: SettingProblem[] = [];
  const given = (field: Field): boolean =>
    settings[field] !== null || broken.has(variableOf(field));
  const report = (field: Field, message: string): void => {
    problems.push({ variable: variableOf(field), message });
  };

  const clustered = given('nats_url');
  if (!given('secret_key')) {
    if (given('database_url'))
      report('secret_key', 'is required with a database of your own: at least 32 random bytes');
    else if (clustered && hosted.some((piece) => piece !== 'config-resolver'))
      report('secret_key', 'is required with NATS_URL set, the same on every node');
  }
  for (const need of clustered ? (['database_url', 'redis_url'] as const) : []) {
    const needing = hosted.filter((piece) => needs[piece]?.includes(need));
    if (needing.length === 0 || given(need)) continue;
    report(
      need,
      `${need === 'database_url' ? '(or DB_HOST) ' : ''}is required, with NATS_URL set, by ${needing.join(', ')}`,
    );
  }
  const [auto, approval] = [
    'default_max_cost_impact_auto',
    'default_max_cost_impact_approval',
  ] as const;
  if (
    settings[auto] > settings[approval] &&
    !broken.has(variableOf(auto)) &&
    !broken.has(variableOf(approval))
  ) {
    report(auto, `must not be more than ${variableOf(approval)}`);
  }
  return problems;
}

/** Names of the variables whose values differ, and those of them that only a restart applies. */
export function describeChanges(
  before: Settings,
  after: Settings,
): { changed: string[]; requires_restart: string[] } {
  const changed = rows.filter(
    ([field]) => JSON.stringify(before[field]) !== JSON.stringify(after[field]),
  );
  return {
    changed: changed.map(([field]) => variableOf(field)),
    requires_restart: changed
      .filter(([, row]) => row.requires_restart)
      .map(([field]) => variableOf(field)),
  };
}

/** Embedded mode's own key: made once and kept in DATA_DIR, readable by its owner only. */
export function ensureSecretKey(dataDir: string): { key: string; made: boolean } {
  const file = join(dataDir, 'secret.key');
  const draft = `${file}.${process.pid}`;
  mkdirSync(dataDir, { recursive: true });
  let made = false;
  if (!existsSync(file)) {
    // A link appears with its content or not at all: a crash leaves no half key, and of two starters one wins.
    writeFileSync(draft, randomBytes(48).toString('base64url'), { mode: 0o600, flush: true });
    try {
      linkSync(draft, file);
      made = true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    } finally {
      unlinkSync(draft);
    }
  }
  const key = readFileSync(file, 'utf8').trim();
  // An empty key would count as unset, and a new one could not read what the old one sealed.
  if (key === '')
    throw new SettingsInvalid([
      {
        variable: 'SECRET_KEY',
        message: `cannot be read: ${file} is empty; restore it, or set SECRET_KEY`,
      },
    ]);
  return { key, made };
}

/** `.env.example`: every variable with its meaning, bounds and default. */
export const renderEnvExample = (): string =>
  [
    '# Every setting of Strata, with its default. Give them in the environment, or in a file that ENV_FILE names.',
    ...Object.entries(settingsGroups).flatMap(([heading, group]) => [
      '',
      `# ==== ${heading} ====`,
      ...Object.entries(group).flatMap(exampleOf),
    ]),
    '',
  ].join('\n');

function exampleOf([field, row]: [string, Row]): string[] {
  const shown = Array.isArray(row.default) ? row.default.join(',') : String(row.default ?? '');
  const allowed =
    row.type === 'integer' || row.type === 'number'
      ? ` ${row.min} ${row.max === undefined ? 'or more' : `to ${row.max}`}.`
      : row.type === 'list'
        ? ' Comma separated.'
        : row.type === 'string' && row.choices
          ? ` One of ${row.choices.join(', ')}.`
          : '';
  const notes = `${row.secret ? ' Secret.' : ''}${row.requires_restart ? ' Needs a restart.' : ''}`;
  return [
    '',
    `# ${row.description}.${allowed}${notes}`,
    `${shown === '' ? '#' : ''}${variableOf(field)}=${shown}`,
  ];
}
