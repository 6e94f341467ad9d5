/** Commands by their words. */
import type { Command, Flag } from './command.ts';
import type { Session } from './session.ts';

export interface CommandTable<S extends Session> {
  readonly commands: readonly Command<S>[];
  /** What may be in every line, also before the command. */
  readonly options: Readonly<Record<string, Flag>>;
  /** Whether options say which tenant is meant; else a word of the line does, `<tenant>`. */
  readonly tenantIsOption: boolean;
  /** The command that the words begin with; undefined where there is none. */
  readonly commandAt: (words: readonly string[]) => Command<S> | undefined;
  /** What may follow the first word of commands of two words. */
  readonly groupOf: (first: string | undefined) => string[];
  /** The words that a command may begin with. */
  readonly firstWords: readonly string[];
  /** What follows the name of a command. */
  readonly parametersOf: (command: Command<S>) => readonly string[];
}

export const commandTable = <S extends Session>(
  commands: readonly Command<S>[],
  options: Readonly<Record<string, Flag>>,
  { tenantIsOption = false } = {},
): CommandTable<S> => ({
  commands,
  options: { ...options, json: { type: 'boolean', summary: 'answer as JSON' } },
  tenantIsOption,
  commandAt: (words) =>
    commands.find(({ name }) => name.split(' ').every((word, index) => words[index] === word)),
  groupOf: (first) =>
    commands
      .filter(({ name }) => name.startsWith(`${first} `))
      .map(({ name }) => name.split(' ')[1]!),
  firstWords: [...new Set(commands.map(({ name }) => name.split(' ')[0]!)), 'help'],
  parametersOf: ({ parameters }) =>
    parameters
      .split(' ')
      .filter((parameter) => parameter !== '' && !(tenantIsOption && parameter === '<tenant>')),
});
