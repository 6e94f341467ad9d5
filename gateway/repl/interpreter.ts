import { parseArgs } from 'node:util';
import { codeOf, toAnswer } from '../../shared/errors.ts';
import { approvalCommands, auditCommands } from './audit-commands.ts';
import { Misused, type Command } from './command.ts';
import { configCommands } from './config-commands.ts';
import { nodeCommands } from './node-commands.ts';
import { Failed, type Session } from './session.ts';

export const commands: readonly Command[] = [
  ...configCommands,
  ...nodeCommands,
  ...auditCommands,
  ...approvalCommands,
];

const usage = ({ name, takes, flags = {} }: Command): string =>
  [
    name,
    takes,
    ...Object.entries(flags).map(
      ([flag, { type }]) => `[--${flag}${type === 'string' ? ' <…>' : ''}]`,
    ),
  ]
    .filter(Boolean)
    .join(' ');

/** All commands; or, where words name some, those with their flags. */
export function help(words: readonly string[]): string {
  const asked = words.join(' ');
  const found = commands.filter(
    ({ name }) => asked === '' || name === asked || name.startsWith(`${asked} `),
  );
  if (found.length === 0) throw new Misused(`there is no command ${asked}`);
  const width = Math.max(...found.map(({ name, takes }) => name.length + takes.length + 1));
  if (asked === '') {
    return [
      ...found.map(({ name, takes, says }) => `${`${name} ${takes}`.padEnd(width)}  ${says}`),
      '',
      'help <command> tells its flags; exit leaves.',
    ].join('\n');
  }
  return found
    .map((command) =>
      [
        usage(command),
        `  ${command.says}`,
        ...Object.entries(command.flags ?? {}).map(
          ([flag, { says }]) => `  --${flag.padEnd(10)} ${says}`,
        ),
      ].join('\n'),
    )
    .join('\n\n');
}

/** The command that the words begin with, and what follows its name. */
function commandOf(words: readonly string[]): { command: Command; left: readonly string[] } {
  const command = commands.find(({ name }) =>
    name.split(' ').every((word, index) => words[index] === word),
  );
  if (command) return { command, left: words.slice(command.name.split(' ').length) };
  const group = commands
    .filter(({ name }) => name.startsWith(`${words[0]} `))
    .map(({ name }) => name.split(' ')[1]);
  throw new Misused(
    group.length > 0
      ? `${words[0]} needs one of ${group.join(', ')}`
      : `there is no command ${words[0]}; help lists them`,
  );
}

export interface Io {
  readonly print: (line: string) => void;
  readonly signal: AbortSignal;
}

/** Runs one command. Throws Misused, or what the cluster answered. */
export async function run(
  words: readonly string[],
  session: Session,
  { print, signal }: Io,
): Promise<void> {
  if (words[0] === 'help') {
    print(help(words.slice(1)));
    return;
  }
  const { command, left } = commandOf(words);
  try {
    const { values, positionals } = flagged(command, left);
    const takes = command.takes.split(' ').filter(Boolean);
    // From a `name...` on, a command takes what is left itself.
    const many = (each: string): boolean => /\.\.\.[>\]]$/.test(each);
    const end = takes.findIndex(many);
    const named = end === -1 ? takes : takes.slice(0, end);
    const needed = takes.filter((each) => each.startsWith('<') && !many(each)).length;
    if (positionals.length < needed) throw new Misused(`${takes[positionals.length]} is missing`);
    if (end === -1 && positionals.length > takes.length)
      throw new Misused(`${positionals[takes.length]} is too much`);
    const byName = Object.fromEntries(
      named.map((each, index) => [each.slice(1, -1), positionals[index]]),
    );
    await command.run({
      session,
      words: byName,
      rest: positionals.slice(named.length),
      flags: values,
      print,
      signal,
    });
  } catch (error) {
    throw error instanceof Misused
      ? new Misused(`${error.message}\nusage: ${usage(command)}`)
      : error;
  }
}

function flagged(command: Command, args: readonly string[]) {
  try {
    const options = Object.fromEntries(
      Object.entries(command.flags ?? {}).map(([name, { type, multiple = false }]) => [
        name,
        { type, multiple },
      ]),
    );
    return parseArgs({ args: [...args], options, allowPositionals: true });
  } catch (error) {
    throw new Misused((error as Error).message.split('. ')[0]!);
  }
}

/** What an operator is told of a failure: code, message, where it is wrong, and the id that leads to the log. */
export function describe(error: unknown): string {
  if (!(error instanceof Failed)) return (error as Error).message;
  const {
    body: { detail, errors = [] },
  } = toAnswer(error.cause, error.requestId);
  return [
    `${codeOf(error.cause)}: ${detail.message}`,
    ...errors.map(({ path, message }) => `  ${path || '/'} ${message}`),
    `  request ${error.requestId}`,
  ].join('\n');
}

/** What the last word of a line may become. */
export async function complete(line: string, session: Session): Promise<[string[], string]> {
  const words = line.trimStart().split(/\s+/);
  const last = words.at(-1)!;
  const before = words.slice(0, -1);
  const fitting = (all: readonly string[]): [string[], string] => [
    [...new Set(all)].filter((each) => each.startsWith(last)).map((each) => `${each} `),
    last,
  ];
  const command = commands.find(({ name }) =>
    name.split(' ').every((word, index) => before[index] === word),
  );
  if (!command) {
    const names = [...commands.map(({ name }) => name), 'help', 'exit'].map((name) =>
      name.split(' '),
    );
    return fitting(
      names
        .filter((name) => before.every((word, index) => name[index] === word))
        .flatMap((name) => name[before.length] ?? []),
    );
  }
  if (last.startsWith('-'))
    return fitting(Object.keys(command.flags ?? {}).map((flag) => `--${flag}`));
  const place = command.takes.split(' ')[before.length - command.name.split(' ').length];
  const source =
    place === undefined ? undefined : command.complete?.[place.replaceAll(/[<>[\].]/g, '')];
  return fitting(source ? await source(session).catch(() => []) : []);
}
