/** Finds and runs the command that an operator typed, and says what went wrong. */
import { parseArgs } from 'node:util';
import { codeOf, errorResponse } from '../../shared/errors.ts';
import { Misused, type Command, type Flags, type Input } from './command.ts';
import { commandAt, groupOf } from './commands.ts';
import { helpOn, usageOf } from './help.ts';
import { Failed, type Session } from './session.ts';
import { tenantId, textsOf } from './typed.ts';

/** Runs one command. Throws Misused, or what the cluster answered. */
export async function run(
  words: readonly string[],
  session: Session,
  { print, signal }: Pick<Input, 'print' | 'signal'>,
): Promise<void> {
  if (words[0] === 'help') {
    print(helpOn(words.slice(1)));
    return;
  }
  const command = commandOf(words);
  const given = words.slice(command.name.split(' ').length);
  try {
    const typed = splitFlags(command, given);
    const { args, rest } = namedArguments(command, typed.positionals);
    const flags = await withTenantIds(typed.flags, session);
    const known = await withTenantId(args, session);
    await command.run({ session, flags, print, signal, args: known, rest });
  } catch (error) {
    if (!(error instanceof Misused)) throw error;
    throw new Misused(`${error.message}\nusage: ${usageOf(command)}`);
  }
}

function commandOf(words: readonly string[]): Command {
  const command = commandAt(words);
  if (command) return command;
  const group = groupOf(words[0]);
  throw new Misused(
    group.length > 0
      ? `${words[0]} needs one of ${group.join(', ')}`
      : `there is no command ${words[0]}; help lists them`,
  );
}

function splitFlags(
  command: Command,
  words: readonly string[],
): { flags: Flags; positionals: readonly string[] } {
  const flags = Object.entries(command.flags ?? {});
  const options = flags.map(([name, { type, multiple = false }]) => [name, { type, multiple }]);
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

/** Whatever is called `tenant` may be given by name. */
async function withTenantId(args: Input['args'], session: Session): Promise<Input['args']> {
  const { tenant } = args;
  return tenant === undefined ? args : { ...args, tenant: await tenantId(session, tenant) };
}

/** The same for flags, of which some may be given more than once. */
async function withTenantIds(flags: Flags, session: Session): Promise<Flags> {
  const { tenant } = flags;
  if (typeof tenant === 'string') return { ...flags, tenant: await tenantId(session, tenant) };
  if (!Array.isArray(tenant)) return flags;
  const ids = await Promise.all(textsOf(tenant).map((word) => tenantId(session, word)));
  return { ...flags, tenant: ids };
}

/** Gives each word the name of the parameter that it stands for; those from a `many...` on are the rest. */
function namedArguments(
  { parameters }: Command,
  words: readonly string[],
): Pick<Input, 'args' | 'rest'> {
  const all = parameters.split(' ').filter((parameter) => parameter !== '');
  const isMany = (parameter: string): boolean => /\.\.\.[>\]]$/.test(parameter);
  const manyAt = all.findIndex(isMany);
  const single = manyAt === -1 ? all : all.slice(0, manyAt);

  const needed = all.filter((parameter) => parameter.startsWith('<') && !isMany(parameter));
  if (words.length < needed.length) throw new Misused(`${all[words.length]} is missing`);
  if (manyAt === -1 && words.length > all.length)
    throw new Misused(`${words[all.length]} is too much`);

  const named = single.map((parameter, index) => [parameter.slice(1, -1), words[index]] as const);
  return { args: Object.fromEntries(named), rest: words.slice(single.length) };
}

/** What an operator is told of a failure: code, message, where it is wrong, and the id that leads to the log. */
export function describe(error: unknown): string {
  if (!(error instanceof Failed)) return (error as Error).message;
  const { detail, errors = [] } = errorResponse(error.cause, error.requestId).body;
  return [
    `${codeOf(error.cause)}: ${detail.message}`,
    ...errors.map(({ path, message }) => `  ${path || '/'} ${message}`),
    `  request ${error.requestId}`,
  ].join('\n');
}
