/** `.env.example` as text, made from the table of settings. */
import { settingsGroups, type Row } from '../../shared/settings/settings-table.ts';
import { variableOf } from '../../shared/settings/settings.ts';

/** Every variable with its meaning, bounds and default, under the headings of the table. */
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
