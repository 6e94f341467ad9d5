/** The only reader of the environment: one frozen, validated object per process. */
import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { parse } from 'dotenv';
import { settingsTable, type Row, type Values } from './settings-table.ts';

export type Settings = Values & { readonly base_url: string; readonly frontend_origin: string; readonly node_id: string };
export type Environment = Readonly<Record<string, string | undefined>>;
export interface SettingProblem { readonly variable: string; readonly message: string }

export class SettingsInvalid extends Error {
  readonly problems: SettingProblem[];
  constructor(problems: SettingProblem[]) {
    super(`The settings are not valid:\n${problems.map(({ variable, message }) => `  ${variable} ${message}`).join('\n')}`);
    this.name = 'SettingsInvalid';
    this.problems = problems;
  }
}

const rows = Object.entries(settingsTable) as [keyof Values, Row][];
export const variableOf = (field: string): string => field.toUpperCase();

/** What a piece cannot do without once it is a node of a cluster. */
const needs: Readonly<Record<string, readonly (keyof Values)[]>> = {
  'tenant-config': ['database_url'], 'global-config': ['database_url'], audit: ['database_url'],
  auth: ['database_url', 'redis_url'], notifier: ['database_url', 'redis_url'], gateway: ['redis_url'], 'config-resolver': [],
};
export const pieces = Object.keys(needs);

/** The process environment, overlaid by the file that ENV_FILE names. Throws SettingsInvalid where that can't be read. */
export function readEnvironment(environment: Environment = process.env): Environment {
  const file = environment.ENV_FILE;
  if (!file) return environment;
  try {
    return { ...environment, ...parse(readFileSync(file)) };
  } catch (error) {
    throw new SettingsInvalid([{ variable: 'ENV_FILE', message: `cannot be read: ${(error as NodeJS.ErrnoException).code}` }]);
  }
}

const booleans: Readonly<Record<string, boolean>> = { true: true, 1: true, yes: true, on: true, false: false, 0: false, no: false, off: false };

/** The value of one variable, or what is wrong with it. Never says the value: it may be a secret. */
function valueOf(row: Row, text: string | undefined): { value: unknown } | { problem: string } {
  if (text === undefined || text.trim() === '') return { value: row.default };
  const given = text.trim();
  switch (row.type) {
    case 'boolean': {
      const value = booleans[given.toLowerCase()];
      return value === undefined ? { problem: 'must be true or false' } : { value };
    }
    case 'integer':
    case 'number': {
      const kind = row.type === 'integer' ? 'a whole number' : 'a number';
      const value = Number(given);
      const formed = row.type === 'integer' ? /^-?[0-9]+$/.test(given) : /^-?[0-9]+(\.[0-9]+)?$/.test(given);
      if (!formed || !Number.isFinite(value)) return { problem: `must be ${kind}` };
      if (row.min !== undefined && value < row.min) return { problem: `must be at least ${row.min}` };
      if (row.max !== undefined && value > row.max) return { problem: `must be at most ${row.max}` };
      return { value };
    }
    case 'list': {
      const value = given.split(',').map((item) => item.trim()).filter((item) => item !== '');
      const { pattern } = row;
      return pattern && !value.every((item) => pattern.test(item)) ? { problem: 'has an entry of the wrong form' } : { value: Object.freeze(value) };
    }
    case 'string':
      if (row.choices && !row.choices.includes(given)) return { problem: `must be one of ${row.choices.join(', ')}` };
      return row.pattern && !row.pattern.test(given) ? { problem: 'has the wrong form' } : { value: given };
  }
}

/** Throws SettingsInvalid with every problem at once. `pieces` are those that this node hosts; all unless told. */
export function loadSettings(environment: Environment, { pieces: hosted = pieces }: { pieces?: readonly string[] } = {}): Settings {
  const problems: SettingProblem[] = [];
  const values: Record<string, unknown> = {};
  for (const [field, row] of rows) {
    const found = valueOf(row, environment[variableOf(field)]);
    if ('problem' in found) problems.push({ variable: variableOf(field), message: found.problem });
    values[field] = 'value' in found ? found.value : row.default;
  }
  const settings = derive(values as unknown as Values);
  problems.push(...crossChecks(settings, hosted, new Set(problems.map(({ variable }) => variable))));
  if (problems.length > 0) throw new SettingsInvalid(problems);
  return Object.freeze(settings);
}

function derive(values: Values): Settings {
  const { db_host: host, db_port: port, db_name: name, db_user: user, db_password: password } = values;
  const login = `${encodeURIComponent(user)}${password ? `:${encodeURIComponent(password)}` : ''}`;
  const base = values.base_url ?? `http://${values.host}:${values.port}`;
  const database = values.database_url ?? (host ? `postgres://${login}@${host}:${port}/${encodeURIComponent(name)}` : null);
  return {
    ...values,
    database_url: database,
    base_url: base,
    frontend_origin: values.frontend_origin ?? base,
    node_id: values.node_id ?? `${hostname().replaceAll(/[^A-Za-z0-9._-]/g, '-')}-${process.pid}`,
    platform_admin_emails: values.platform_admin_emails.length === 0 && database === null ? ['admin@example.com'] : values.platform_admin_emails,
  };
}

function crossChecks(settings: Settings, hosted: readonly string[], broken: ReadonlySet<string>): SettingProblem[] {
  const problems: SettingProblem[] = [];
  const report = (field: keyof Values, message: string): void => {
    if (!broken.has(variableOf(field))) problems.push({ variable: variableOf(field), message });
  };
  for (const field of ['secret_key', 'secret_key_previous'] as const) {
    const key = settings[field];
    if (key !== null && Buffer.byteLength(key) < 32) report(field, 'must have at least 32 bytes');
  }
  if (settings.secret_key === null && settings.database_url !== null) report('secret_key', 'is required with a database of your own: give at least 32 random bytes');
  if (settings.default_max_cost_impact_auto > settings.default_max_cost_impact_approval) {
    report('default_max_cost_impact_auto', 'must not be more than DEFAULT_MAX_COST_IMPACT_APPROVAL');
  }
  if (settings.nats_url !== null) {
    for (const need of new Set(hosted.flatMap((piece) => needs[piece] ?? []))) {
      if (settings[need] === null) report(need, `is required, with NATS_URL set, by ${hosted.filter((piece) => needs[piece]?.includes(need)).join(', ')}`);
    }
    if (settings.secret_key === null && hosted.some((piece) => piece !== 'config-resolver')) report('secret_key', 'is required with NATS_URL set, the same on every node');
  }
  return problems;
}

/** Names of the variables whose values differ, and those of them that only a restart applies. */
export function describeChanges(before: Settings, after: Settings): { changed: string[]; requires_restart: string[] } {
  const changed = rows.filter(([field]) => JSON.stringify(before[field]) !== JSON.stringify(after[field]));
  return {
    changed: changed.map(([field]) => variableOf(field)),
    requires_restart: changed.filter(([, row]) => row.restart).map(([field]) => variableOf(field)),
  };
}

/** Embedded mode's own key: made once and kept in DATA_DIR, readable by its owner only. */
export function ensureSecretKey(dataDir: string): { key: string; made: boolean } {
  const file = join(dataDir, 'secret.key');
  mkdirSync(dataDir, { recursive: true });
  try {
    writeFileSync(file, randomBytes(48).toString('base64url'), { mode: 0o600, flag: 'wx' });
    return { key: readFileSync(file, 'utf8'), made: true };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    return { key: readFileSync(file, 'utf8').trim(), made: false };
  }
}

/** `.env.example`: every variable with its meaning and default. */
export const renderEnvExample = (): string => [
  '# Every setting of Strata, with its default. Give them in the environment, or in a file that ENV_FILE names.',
  ...rows.flatMap(([field, row]) => {
    const shown = row.default === null ? '' : Array.isArray(row.default) ? row.default.join(',') : String(row.default);
    return ['', `# ${row.help}.${row.restart ? ' Needs a restart.' : ''}`, `${shown === '' ? '#' : ''}${variableOf(field)}=${shown}`];
  }),
  '',
].join('\n');
