/**
 * What a command is. The operator's console and the command line `strata` run the same ones: the
 * console as a member of the cluster, the command line over HTTPS.
 */
import type { Session } from './session.ts';

export interface Command<S extends Session = Session> {
  /** One word, or a group and a word: `nodes`, `config get`. */
  readonly name: string;
  /** What follows the name: `<needed> [optional]`, and last perhaps `<many...>` or `[many...]`. */
  readonly parameters: string;
  readonly summary: string;
  readonly flags?: Readonly<Record<string, Flag>>;
  /** Throws Misused, or what the cluster answered. Returns the exit code where it is not 0. */
  readonly run: (input: Input<S>) => Promise<number | void>;
  /** By the name of a parameter: what may stand there, for the Tab key; of `tenant`, ids by default. */
  readonly complete?: Readonly<Record<string, (session: S) => Promise<readonly string[]>>>;
}

/** How commands end that compare or ask: 0 is "the same" and "yes", 1 is an error. */
export const exitCodes = { differs: 2, refused: 3 } as const;

export interface Flag {
  readonly type: 'string' | 'boolean';
  /** It may be given more than once. */
  readonly multiple?: boolean;
  readonly summary: string;
}

/** What a command is run with. */
export interface Input<S extends Session = Session> {
  readonly session: S;
  /** By the names of the parameters; optional ones may be absent. */
  readonly args: Readonly<Record<string, string | undefined>>;
  /** What stands where the parameters say `many...`. */
  readonly rest: readonly string[];
  readonly flags: Flags;
  readonly print: (text: string) => void;
  /**
   * Prints an answer: for people as the text, where there is one, and for programs, with `--json`,
   * as it is.
   */
  readonly answer: (value: unknown, text?: () => string) => void;
  /** Aborted by Ctrl-C. */
  readonly signal: AbortSignal;
}
export type Flags = Readonly<Record<string, FlagValue>>;
export type FlagValue = string | boolean | (string | boolean)[] | undefined;

/** The operator typed what no command understands; the message says what was expected. */
export class Misused extends Error {}
