/** Files and lines that `npm run settings` writes from the settings and the contracts. */
import { roles } from '../../services/node-roles.ts';
import { knownTypes } from '../../shared/bounds/known-keys.ts';
import { automationStates } from '../../shared/contracts/automations.ts';
import { changeSetStates } from '../../shared/contracts/change-sets.ts';
import { automationDecisions } from '../../shared/contracts/decide.ts';
import { layerNames } from '../../shared/contracts/effective-config.ts';
import {
  approvalStates,
  channels,
  deliveryStates,
  riskLevels,
} from '../../shared/contracts/notifier.ts';
import { decidingLimits, limitNames } from '../../shared/contracts/risk.ts';
import { rolloutStates } from '../../shared/contracts/rollouts.ts';
import { settingsGroups, settingsTable, type Row } from '../../shared/settings/settings-table.ts';
import { variableOf } from '../../shared/settings/settings.ts';

/** `.env.example`: every variable with its meaning, bounds and default, under the headings of the table. */
export function renderEnvExample(): string {
  const lines = [
    '# Every setting of Strata, with its default. Give them in the environment, or in a file that ENV_FILE names.',
  ];
  for (const [heading, group] of Object.entries(settingsGroups)) {
    lines.push('', `# ==== ${heading} ====`);
    for (const [field, row] of Object.entries(group)) lines.push(...linesOf(field, row));
  }
  return [...lines, ''].join('\n');
}

/**
 * A variable without a default stands commented out, so that the file changes nothing when it is
 * taken as it is.
 */
function linesOf(field: string, row: Row): string[] {
  const secret = row.secret ? ' Secret.' : '';
  const restart = row.requires_restart ? ' Needs a restart.' : '';
  const text = Array.isArray(row.default) ? row.default.join(',') : String(row.default ?? '');
  const assignment = `${variableOf(field)}=${text}`;
  return [
    '',
    `# ${row.description}.${boundsOf(row)}${secret}${restart}`,
    text === '' ? `#${assignment}` : assignment,
  ];
}

function boundsOf(row: Row): string {
  if (row.type === 'list') return ' Comma separated.';
  if (row.type === 'string') return row.choices ? ` One of ${row.choices.join(', ')}.` : '';
  if (row.type === 'boolean') return '';
  return row.max === undefined ? ` ${row.min} or more.` : ` ${row.min} to ${row.max}.`;
}

/** What docker-compose.yml does not pass on, each with the reason. */
export const notOfCompose: Readonly<Record<string, string>> = {
  ENV_FILE: 'a file, which the container would have to have',
  HOST: 'the image listens on every address of its container',
  DATA_DIR: 'of embedded mode',
  NODE_ID: 'each container has its own, of its host name',
  STRATA_OPERATOR: 'of the console',
  STRATA_API_KEY: 'of neighbours',
  NATS_TOKEN: 'NATS is of compose, with a user and a password',
  NATS_CREDS: 'the same',
  NATS_NKEY_SEED: 'the same',
  NATS_TLS_CA: 'the same',
  NATS_TLS_CERT: 'the same',
  NATS_TLS_KEY: 'the same',
  DATABASE_URL: 'PostgreSQL is of compose, and DB_* take any password',
  DB_PORT: 'that of the image',
  DB_NAME: 'the default, which the image is told',
  DB_USER: 'the same',
  DB_SSL: 'PostgreSQL is of compose',
  DB_POOLER: 'the same',
  REDIS_SENTINEL: 'Redis is of compose, and one',
  REDIS_SENTINEL_PASSWORD: 'the same',
  REDIS_CLUSTER: 'the same',
};

/**
 * docker-compose.yml with a line for each setting that it does not pass on yet, after that of the
 * setting before. Which containers get a secret is written by hand.
 */
export function withEverySetting(compose: string): string {
  const lines = compose.split('\n');
  let at = -1;
  for (const [field, { secret }] of Object.entries<Row>(settingsTable)) {
    const name = variableOf(field);
    const found = lines.findIndex((line) => line.startsWith(`  ${name}: `));
    if (found >= 0) at = found;
    else if (!secret && !(name in notOfCompose)) {
      at += 1;
      lines.splice(at, 0, `  ${name}: \${${name}:-}`);
    }
  }
  return lines.join('\n');
}

/** Keys of an instance whose values decide what automation may do, as the limits do. */
const instanceKeys = ['min_instances', 'max_instances', 'monitoring_enabled'] as const;

/** `client/source/known-values.ts`: the package stands alone, so it cannot import contracts. */
export function renderKnownValues(): string {
  const values = [...limitNames, ...instanceKeys].map((key) => {
    const known = knownTypes.get(key);
    const type = known === 'integer' ? 'number' : known;
    return `  ${key}: ${type};`;
  });
  const services = [...roles.map(({ name }) => name), 'cluster'].filter(
    (name) => name !== 'gateway',
  );
  const union = (names: readonly string[]): string => names.map((name) => `'${name}'`).join(' | ');
  return [
    '/** What contracts name, for the types of the client. Written by `npm run settings`. */',
    '',
    '/** The keys whose type Strata itself holds. */',
    'export interface KnownValues {',
    ...values,
    '}',
    `export type AutomationDecision = ${union(automationDecisions)};`,
    `export type AutomationState =\n  ${union(automationStates)};`,
    "/** Strata's services. A call of another gets no credential. */",
    'export const services: readonly string[] = [',
    ...services.map((name) => `  '${name}',`),
    '];',
    '',
  ].join('\n');
}

/** Offered by the console, which loads no schemas. */
const enumerated = {
  approvalStates,
  automationDecisions,
  automationStates,
  changeSetStates,
  channels,
  deliveryStates,
  layers: layerNames,
  /** Those that decide first, in the order in which they do. */
  limits: [...new Set([...decidingLimits, ...limitNames])],
  riskLevels,
  rolloutStates,
};

/** `console/known-values.ts`. */
export function renderEnumerated(): string {
  const lines = Object.entries(enumerated).map(([name, values]) => {
    const quoted = values.map((value) => `'${value}'`);
    const line = `export const ${name} = [${quoted.join(', ')}] as const;`;
    if (line.length <= 100) return line;
    return [`export const ${name} = [`, ...quoted.map((each) => `  ${each},`), '] as const;'].join(
      '\n',
    );
  });
  return [
    '/** What contracts enumerate, for the console to offer. Written by `npm run settings`. */',
    ...lines,
    '',
  ].join('\n');
}
