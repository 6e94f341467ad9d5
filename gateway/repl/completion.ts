import { commandAt, commands } from './commands.ts';
import type { Session } from './session.ts';

/**
 * What the last word of a line may become, for the Tab key: a command, one of its flags, or a value of its next parameter. In the
 * form that Node's readline takes: the candidates, and what of the line they replace.
 */
export async function complete(line: string, session: Session): Promise<[string[], string]> {
  const words = line.trimStart().split(/\s+/);
  const last = words.at(-1)!;
  const candidates = await candidatesAfter(words.slice(0, -1), last, session);
  const fitting = [...new Set(candidates)].filter((candidate) => candidate.startsWith(last));
  return [fitting.map((candidate) => `${candidate} `), last];
}

async function candidatesAfter(
  before: readonly string[],
  last: string,
  session: Session,
): Promise<readonly string[]> {
  const command = commandAt(before);
  if (!command) return nextWords(before);
  if (last.startsWith('-')) return Object.keys(command.flags ?? {}).map((flag) => `--${flag}`);

  const position = before.length - command.name.split(' ').length;
  const parameter = command.parameters.split(' ')[position]?.replaceAll(/[<>[\].]/g, '');
  const source = parameter === undefined ? undefined : command.complete?.[parameter];
  if (!source) return [];
  // The Tab key has no place for an error: what cannot be asked for now is not offered.
  return source(session).catch(() => []);
}

/** The next word of every command that begins with these. */
function nextWords(before: readonly string[]): string[] {
  const names = [...commands.map(({ name }) => name), 'help', 'exit'].map((name) =>
    name.split(' '),
  );
  const possible = names.filter((name) => before.every((word, index) => name[index] === word));
  return possible.flatMap((name) => name[before.length] ?? []);
}
