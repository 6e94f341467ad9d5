/** What a command of the console is. The table of all of them is `commands.ts`. */
import type { Session } from './session.ts';

export interface Command {
  /** One word, or a group and a word: `nodes`, `config get`. */
  readonly name: string;
  /** What follows the name: `<needed> [optional]`, and last perhaps `<many...>` or `[many...]`. */
  readonly parameters: string;
  readonly summary: string;
  readonly flags?: Readonly<Record<string, Flag>>;
  /** Throws Misused, or what the cluster answered. */
  readonly run: (input: Input) => Promise<void>;
  /** By the name of a parameter: what may stand there, for the Tab key. */
  readonly complete?: Readonly<Record<string, (session: Session) => Promise<readonly string[]>>>;
}

export interface Flag {
  readonly type: 'string' | 'boolean';
  /** It may be given more than once. */
  readonly multiple?: boolean;
  readonly summary: string;
}

/** What a command is run with. */
export interface Input {
  readonly session: Session;
  /** By the names of the parameters; optional ones may be absent. */
  readonly args: Readonly<Record<string, string | undefined>>;
  /** What stands where the parameters say `many...`. */
  readonly rest: readonly string[];
  readonly flags: Flags;
  readonly print: (text: string) => void;
  /** Aborted by Ctrl-C. */
  readonly signal: AbortSignal;
}
export type Flags = Readonly<Record<string, FlagValue>>;
export type FlagValue = string | boolean | (string | boolean)[] | undefined;

/** The operator typed what no command understands; the message says what was expected. */
export class Misused extends Error {}
