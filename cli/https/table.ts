/**
 * The commands of the command line: those that the console of the cluster has, too, and its own.
 */
import { commandTable } from '../command-table.ts';
import { commands } from '../commands.ts';
import { accountCommands } from './account-commands.ts';
import { completionCommand } from './completion-command.ts';
import { options } from './credentials.ts';
import { folderCommands } from './folder-commands.ts';
import { freezeCommands } from './freeze-commands.ts';
import type { HttpSession } from './http-session.ts';

export const table = commandTable<HttpSession>(
  [...commands, ...folderCommands, ...freezeCommands, ...accountCommands, completionCommand],
  options,
  { tenantIsOption: true },
);

/**
 * Options may stand before the command, too: gives the words with the command first, and the
 * options behind it.
 */
export function commandFirst(words: readonly string[]): string[] {
  let at = 0;
  while (words[at]?.startsWith('-')) {
    const [name, value] = words[at]!.replace(/^--/, '').split('=', 2) as [string, string?];
    const isFollowed = value === undefined && table.options[name]?.type === 'string';
    at += isFollowed ? 2 : 1;
  }
  const rest = words.slice(at);
  const name = table.commandAt(rest)?.name.split(' ').length ?? rest.length;
  return [...rest.slice(0, name), ...words.slice(0, at), ...rest.slice(name)];
}
