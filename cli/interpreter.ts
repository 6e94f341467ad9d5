/** Finds and runs the command that somebody typed, and says what went wrong. */
import { parseArgs } from 'node:util';
import { Misused, type Command, type Flags, type Input } from './command.ts';
import type { CommandTable } from './command-table.ts';
import { helpAsked, helpOn, usageOf } from './help.ts';
import { json } from './output.ts';
import { Failed, type Session } from './session.ts';
import { tenantId, textsOf } from './typed.ts';

/** A line whose words are known, and not yet what they stand for. */
export interface Typed<S extends Session> {
  readonly command: Command<S>;
  readonly flags: Flags;
  /** By the names of the parameters. */
  readonly args: Input['args'];
  readonly rest: readonly string[];
}

/** Runs one command and returns its exit code. Throws Misused, or what the cluster answered. */
export async function run<S extends Session>(
  words: readonly string[],
  session: S,
  output: Pick<Input, 'print' | 'signal'>,
  table: CommandTable<S>,
): Promise<number> {
  const asked = helpAsked(words, table);
  if (asked) {
    output.print(helpOn(asked, table));
    return 0;
  }
  return execute(parse(words, table), session, output);
}

/** Throws Misused, which says how the command is used. */
export function parse<S extends Session>(
  words: readonly string[],
  table: CommandTable<S>,
): Typed<S> {
  const command = commandOf(words, table);
  const given = words.slice(command.name.split(' ').length);
  try {
    const { flags, positionals } = splitFlags({ ...table.options, ...command.flags }, given);
    return { command, flags, ...namedArguments(table.parametersOf(command), positionals) };
  } catch (error) {
    throw new Misused(`${(error as Error).message}\nusage: ${usageOf(command, table)}`);
  }
}

/** Throws Misused, or what the cluster answered. */
export async function execute<S extends Session>(
  { command, flags, args, rest }: Typed<S>,
  session: S,
  { print, signal }: Pick<Input, 'print' | 'signal'>,
): Promise<number> {
  const answer: Input['answer'] = (value, text) =>
    print(text === undefined || flags.json ? json(value) : text());
  const code = await command.run({
    session,
    args: await withTenantId(command, args, session),
    rest,
    flags: await withTenantIds(command, flags, session),
    print,
    answer,
    signal,
  });
  return code ?? 0;
}

function commandOf<S extends Session>(
  words: readonly string[],
  table: CommandTable<S>,
): Command<S> {
  const command = table.commandAt(words);
  if (command) return command;
  const group = table.groupOf(words[0]);
  throw new Misused(
    group.length > 0
      ? `${words[0]} needs one of ${group.join(', ')}`
      : `there is no command ${words[0]}; help lists them`,
  );
}

/** The words that are flags, and those that are none. Throws Misused. */
export function splitFlags(
  flags: CommandTable<Session>['options'],
  words: readonly string[],
): { flags: Flags; positionals: readonly string[] } {
  const options = Object.entries(flags).map(([name, { type, multiple = false }]) => [
    name,
    { type, multiple },
  ]);
  try {
    const { values, positionals } = parseArgs({
      args: [...words],
      options: Object.fromEntries(options),
      allowPositionals: true,
    });
    return { flags: values, positionals };
  } catch (error) {
    // What follows the first sentence of Node's message is about `--`, which no command needs.
    throw new Misused((error as Error).message.split('. ')[0]!);
  }
}

/**
 * Whatever is called `tenant` may be given by name, and is an option where the session knows it.
 */
async function withTenantId<S extends Session>(
  { parameters }: Command<S>,
  args: Input['args'],
  session: S,
): Promise<Input['args']> {
  if (session.tenant && parameters.split(' ').includes('<tenant>'))
    return { ...args, tenant: await session.tenant() };
  const { tenant } = args;
  return tenant === undefined ? args : { ...args, tenant: await tenantId(session, tenant) };
}

/** The same for flags of a command, of which some may be given more than once. */
async function withTenantIds<S extends Session>(
  command: Command<S>,
  flags: Flags,
  session: S,
): Promise<Flags> {
  const { tenant } = flags;
  if (tenant === undefined || !command.flags?.tenant) return flags;
  if (typeof tenant === 'string') return { ...flags, tenant: await tenantId(session, tenant) };
  const ids = await Promise.all(textsOf(tenant).map((word) => tenantId(session, word)));
  return { ...flags, tenant: ids };
}

/**
 * Gives each word the name of the parameter that it stands for; those from a `many...` on are the
 * rest.
 */
function namedArguments(
  all: readonly string[],
  words: readonly string[],
): Pick<Input, 'args' | 'rest'> {
  const isMany = (parameter: string): boolean => /\.\.\.[>\]]$/.test(parameter);
  const manyAt = all.findIndex(isMany);
  const single = manyAt === -1 ? all : all.slice(0, manyAt);

  const needed = all.filter((parameter) => parameter.startsWith('<') && !isMany(parameter));
  if (words.length < needed.length) throw new Misused(`${needed[words.length]} is missing`);
  if (manyAt === -1 && words.length > all.length)
    throw new Misused(`${words[all.length]} is too much`);

  const named = single.map((parameter, index) => [parameter.slice(1, -1), words[index]] as const);
  return { args: Object.fromEntries(named), rest: words.slice(single.length) };
}

/**
 * What an operator is told of a failure: code, message, where it is wrong, and the id that leads to
 * the log.
 */
export function describe(error: unknown): string {
  if (!(error instanceof Failed)) return (error as Error).message;
  return [
    `${error.code}: ${error.message}`,
    ...error.problems.map(({ path, message }) => `  ${path || '/'} ${message}`),
    `  request ${error.requestId}`,
  ].join('\n');
}
