import { Misused, type Command } from './command.ts';
import { commands } from './commands.ts';

/** A command as it is typed: `config rollback <tenant> <revision> [--dry-run] [--reason <…>]`. */
export function usageOf({ name, parameters, flags = {} }: Command): string {
  const options = Object.entries(flags).map(([flag, { type }]) =>
    type === 'string' ? `[--${flag} <…>]` : `[--${flag}]`,
  );
  return [name, parameters, ...options].filter((part) => part !== '').join(' ');
}

/** All commands, a line each; or, where words name some, those with their flags. Throws Misused. */
export function helpOn(words: readonly string[]): string {
  const asked = words.join(' ');
  if (asked === '') return overview();
  const named = commands.filter(({ name }) => name === asked || name.startsWith(`${asked} `));
  if (named.length === 0) throw new Misused(`there is no command ${asked}`);
  return named.map(details).join('\n\n');
}

function overview(): string {
  const heads = commands.map(({ name, parameters }) => `${name} ${parameters}`);
  const width = Math.max(...heads.map((head) => head.length));
  const lines = commands.map(({ summary }, index) => `${heads[index]!.padEnd(width)}  ${summary}`);
  return [...lines, '', 'help <command> tells its flags; exit leaves.'].join('\n');
}

function details(command: Command): string {
  const flags = Object.entries(command.flags ?? {}).map(
    ([flag, { summary }]) => `  --${flag.padEnd(10)} ${summary}`,
  );
  return [usageOf(command), `  ${command.summary}`, ...flags].join('\n');
}
