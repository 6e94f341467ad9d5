import type { Command } from './command.ts';
import type { CommandTable } from './command-table.ts';
import type { Session } from './session.ts';
import { tenantIds } from './typed.ts';

/**
 * What the last word of a line may become, for the Tab key: a command, one of its flags, or a value
 * of its next parameter. In the form that Node's readline takes: the candidates, and what of the
 * line they replace.
 */
export async function complete<S extends Session>(
  line: string,
  session: S,
  table: CommandTable<S>,
): Promise<[string[], string]> {
  const words = line.trimStart().split(/\s+/);
  const last = words.at(-1)!;
  const fitting = await candidatesFor(words.slice(0, -1), last, session, table);
  return [fitting.map((candidate) => `${candidate} `), last];
}

/** What the word `last` may become after these words. */
export async function candidatesFor<S extends Session>(
  before: readonly string[],
  last: string,
  session: S,
  table: CommandTable<S>,
): Promise<string[]> {
  const candidates = await candidatesAfter(before, last, session, table);
  return [...new Set(candidates)].filter((candidate) => candidate.startsWith(last));
}

async function candidatesAfter<S extends Session>(
  before: readonly string[],
  last: string,
  session: S,
  table: CommandTable<S>,
): Promise<readonly string[]> {
  const command = table.commandAt(before);
  if (!command) return nextWords(before, table);
  const flags = { ...command.flags, ...table.options };
  if (last.startsWith('-')) return Object.keys(flags).map((flag) => `--${flag}`);

  const { position, flag } = placeAfter(before.slice(command.name.split(' ').length), flags);
  const parameter = table.parametersOf(command)[position]?.replaceAll(/[<>[\].]/g, '');
  const source = flag === undefined ? sourceOf(command, parameter) : valuesOf(flag);
  if (!source) return [];
  // The Tab key has no place for an error: what cannot be asked for now is not offered.
  return source(session).catch(() => []);
}

/**
 * Where the next word stands: behind so many words that are no flags, or as the value of a flag.
 */
function placeAfter(
  words: readonly string[],
  flags: CommandTable<Session>['options'],
): { position: number; flag?: string } {
  let position = 0;
  let flag: string | undefined;
  for (const word of words) {
    if (flag !== undefined) flag = undefined;
    else if (flags[word.replace(/^--/, '')]?.type === 'string' && word.startsWith('--'))
      flag = word.slice(2);
    else if (!word.startsWith('-')) position += 1;
  }
  return flag === undefined ? { position } : { position, flag };
}

const sourceOf = <S extends Session>({ complete: sources }: Command<S>, parameter = '') =>
  sources?.[parameter] ?? valuesOf(parameter);
/** A parameter or flag of this name takes ids of tenants, whichever command has it. */
const valuesOf = (name: string) => (name === 'tenant' ? tenantIds : undefined);

/** The next word of every command that begins with these. */
function nextWords<S extends Session>(
  before: readonly string[],
  { commands, tenantIsOption }: CommandTable<S>,
): string[] {
  // Only the prompt is left by a word.
  const others = tenantIsOption ? ['help'] : ['help', 'exit'];
  const names = [...commands.map(({ name }) => name), ...others].map((name) => name.split(' '));
  const options = before.findIndex((word) => word.startsWith('-'));
  const words = options === -1 ? before : before.slice(0, options);
  const possible = names.filter((name) => words.every((word, index) => name[index] === word));
  return possible.flatMap((name) => name[words.length] ?? []);
}
