import { Misused, type Command } from './command.ts';
import type { CommandTable } from './command-table.ts';
import type { Session } from './session.ts';

/** A command as it is typed: `config rollback <tenant> <revision> [--dry-run] [--reason <…>]`. */
export function usageOf<S extends Session>(command: Command<S>, table: CommandTable<S>): string {
  const options = Object.entries(command.flags ?? {}).map(([flag, { type }]) =>
    type === 'string' ? `[--${flag} <…>]` : `[--${flag}]`,
  );
  return [command.name, ...table.parametersOf(command), ...options].join(' ');
}

/** The words that help is asked on, also by `--help` after them; undefined where it is not asked for. */
export function helpAsked<S extends Session>(
  words: readonly string[],
  table: CommandTable<S>,
): readonly string[] | undefined {
  if (words[0] !== 'help' && !words.includes('--help')) return undefined;
  const named = table.commandAt(words)?.name.split(' ');
  return named ?? words.filter((word) => word !== 'help' && !word.startsWith('-'));
}

/** All commands, a line each; or, where words name some, those with their flags. Throws Misused. */
export function helpOn<S extends Session>(
  words: readonly string[],
  table: CommandTable<S>,
): string {
  const asked = words.join(' ');
  if (asked === '') return overview(table);
  const named = table.commands.filter(({ name }) => name === asked || name.startsWith(`${asked} `));
  if (named.length === 0) throw new Misused(`there is no command ${asked}`);
  return named.map((command) => details(command, table)).join('\n\n');
}

function overview<S extends Session>(table: CommandTable<S>): string {
  const heads = table.commands.map((command) =>
    [command.name, ...table.parametersOf(command)].join(' '),
  );
  const width = Math.max(...heads.map((head) => head.length));
  const lines = table.commands.map(
    ({ summary }, index) => `${heads[index]!.padEnd(width)}  ${summary}`,
  );
  const leaving = table.tenantIsOption ? '' : '; exit leaves';
  return [
    ...lines,
    '',
    'With every command:',
    ...flagLines(table.options),
    '',
    `help <command> tells its flags${leaving}.`,
  ].join('\n');
}

const details = <S extends Session>(command: Command<S>, table: CommandTable<S>): string =>
  [usageOf(command, table), `  ${command.summary}`, ...flagLines(command.flags ?? {})].join('\n');

const flagLines = (flags: CommandTable<Session>['options']): string[] =>
  Object.entries(flags).map(([flag, { summary }]) => `  --${flag.padEnd(13)} ${summary}`);
