/** Every command of the console. A prompt, a pipe and `npm run repl -- <command>` all use this table. */
import { approvalCommands } from './approval-commands.ts';
import { auditCommands } from './audit-commands.ts';
import { callCommand } from './call-command.ts';
import type { Command } from './command.ts';
import { configCommands } from './config-commands.ts';
import { nodeCommands } from './node-commands.ts';

export const commands: readonly Command[] = [
  ...configCommands,
  ...nodeCommands,
  ...auditCommands,
  ...approvalCommands,
  callCommand,
];

/** The command that the words begin with; undefined where there is none. */
export const commandAt = (words: readonly string[]): Command | undefined =>
  commands.find(({ name }) => name.split(' ').every((word, index) => words[index] === word));

/** What may follow the first word of commands of two words. */
export const groupOf = (first: string | undefined): string[] =>
  commands
    .filter(({ name }) => name.startsWith(`${first} `))
    .map(({ name }) => name.split(' ')[1]!);

/** The words that a command may begin with. */
export const firstWords: readonly string[] = [
  ...new Set(commands.map(({ name }) => name.split(' ')[0]!)),
  'help',
];
