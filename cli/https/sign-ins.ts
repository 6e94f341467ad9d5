/**
 * Where `strata login` keeps sign-ins: a file that nobody else may read, by the address that each
 * is for.
 */
import { randomUUID } from 'node:crypto';
import {
  accessSync,
  closeSync,
  constants,
  mkdirSync,
  openSync,
  fstatSync,
  readFileSync,
  renameSync,
  rmSync,
  rmdirSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileProblem } from '../output.ts';
import { Failed } from '../session.ts';
import { makeFolder } from './folders.ts';

/** A session, which is renewed by its refresh token, or an API key. */
export type SignIn =
  | {
      readonly kind: 'session';
      readonly access_token: string;
      /** In milliseconds. */
      readonly expires_at: number;
      readonly refresh_token: string;
    }
  | { readonly kind: 'key'; readonly api_key: string };

interface Stored {
  /** The address of the newest sign-in. */
  readonly last?: string;
  readonly sign_ins: Readonly<Record<string, SignIn>>;
}

/** The group and others. */
const openToOthers = 0o077;
/** A lock lasts as long as one renewal does; what is older was left by a process that died. */
const leftOverMs = 30_000;
const lockStepMs = 50;

export class SignIns {
  readonly #folder: string;
  readonly #file: string;

  /** By the XDG Base Directory Specification, which has relative folders ignored. */
  constructor({ XDG_CONFIG_HOME: configHome }: Readonly<Record<string, string | undefined>>) {
    const base = configHome && isAbsolute(configHome) ? configHome : join(homedir(), '.config');
    this.#folder = join(base, 'strata');
    this.#file = join(this.#folder, 'sign-ins.json');
  }

  get file(): string {
    return this.#file;
  }

  last(): string | undefined {
    return this.#read().last;
  }

  of(url: string): SignIn | undefined {
    const { sign_ins: all } = this.#read();
    return Object.hasOwn(all, url) ? all[url] : undefined;
  }

  /** Keeps it as the newest; undefined forgets what there is. */
  keep(url: string, signIn: SignIn | undefined): void {
    const { last, sign_ins: all } = this.#read();
    const { [url]: _before, ...others } = all;
    const forgotten = last === url ? {} : { ...(last !== undefined && { last }) };
    this.#write(
      signIn
        ? { last: url, sign_ins: { ...others, [url]: signIn } }
        : { ...forgotten, sign_ins: others },
    );
  }

  /** Throws Failed where none can be kept: before a session begins that nobody would hold. */
  requireFolder(): void {
    try {
      makeFolder(this.#folder, 0o700);
      accessSync(this.#folder, constants.W_OK);
    } catch (error) {
      const why = fileProblem(error);
      throw new Failed('unwritable', `sign-ins are not kept: ${why}; see XDG_CONFIG_HOME`);
    }
  }

  /** While it runs no other process of ours does: a refresh token is good for one use. */
  async exclusively<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    this.requireFolder();
    const lock = `${this.#file}.lock`;
    while (!locked(lock)) {
      const age = Date.now() - (statSync(lock, { throwIfNoEntry: false })?.mtimeMs ?? Date.now());
      if (age > leftOverMs) rmSync(lock, { recursive: true, force: true });
      await delay(lockStepMs, undefined, { signal });
    }
    try {
      return await work();
    } finally {
      rmdirSync(lock);
    }
  }

  #read(): Stored {
    let descriptor: number;
    try {
      descriptor = openSync(this.#file, 'r');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { sign_ins: {} };
      throw new Failed('unreadable', `the sign-ins are not read: ${fileProblem(error)}`);
    }
    try {
      const { mode } = fstatSync(descriptor);
      if (process.platform !== 'win32' && (mode & openToOthers) !== 0)
        throw new Failed(
          'unsafe_file',
          `others may read ${this.#file}: chmod 600 it, and sign in again`,
        );
      return storedIn(readFileSync(descriptor, 'utf8'), this.#file);
    } finally {
      closeSync(descriptor);
    }
  }

  #write(stored: Stored): void {
    this.requireFolder();
    const temporary = `${this.#file}.${randomUUID()}.tmp`;
    writeFileSync(temporary, JSON.stringify(stored), { mode: 0o600, flag: 'wx' });
    renameSync(temporary, this.#file);
  }
}

function locked(lock: string): boolean {
  try {
    mkdirSync(lock);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

function storedIn(text: string, file: string): Stored {
  try {
    const stored = JSON.parse(text) as Partial<Stored> | null;
    if (typeof stored?.sign_ins === 'object' && stored.sign_ins !== null)
      return { ...stored, sign_ins: stored.sign_ins };
  } catch {
    // It is said below, without the text, which holds secrets.
  }
  throw new Failed('damaged_file', `${file} is damaged: remove it, and sign in again`);
}
