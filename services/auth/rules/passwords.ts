import { hash, verify } from '@node-rs/argon2';
import { availableParallelism } from 'node:os';
import { type ErrorCode } from '../../../shared/contracts/error-codes.ts';
import { StrataError } from '../../../shared/errors.ts';
import { isGuessable } from './guessable.ts';

/** OWASP Password Storage Cheat Sheet: argon2id, 19 MiB, two passes, one lane. */
const argon2id = 2;
const parameters = {
  algorithm: argon2id,
  memoryCost: 19_456,
  timeCost: 2,
  parallelism: 1,
} as const;
const current = `$argon2id$v=19$m=${parameters.memoryCost},t=${parameters.timeCost},p=${parameters.parallelism}$`;

const normalise = (password: string): string => password.normalize('NFKC');

/** What is wrong with a new password: 12 to 256 characters once normalised, and none that guessers try first. */
export function judgePassword(password: string): ErrorCode | undefined {
  const length = [...normalise(password)].length;
  if (length < 12 || length > 256) return 'auth_password_too_short';
  return isGuessable(password) ? 'auth_password_breached' : undefined;
}

/** Throws 422 with the path of the password. */
export function requireGood(password: string, path: string): void {
  const problem = judgePassword(password);
  if (problem)
    throw new StrataError(problem, undefined, {
      errors: [
        {
          path,
          message:
            problem === 'auth_password_breached'
              ? 'is a common password'
              : 'needs 12 to 256 characters',
        },
      ],
    });
}

export const needsRehash = (stored: string): boolean => !stored.startsWith(current);

export interface Passwords {
  readonly hash: (password: string) => Promise<string>;
  /** A null hash, of an account without a password or no account, costs the same and never matches. */
  readonly verify: (stored: string | null, password: string) => Promise<boolean>;
}

/** Hashes at most one per core at a time; refuses with 503 once `queueLimit` wait, rather than growing. */
export function createPasswords({
  concurrency = availableParallelism(),
  queueLimit = 64,
} = {}): Passwords {
  let running = 0;
  const queue: (() => void)[] = [];
  async function slot<T>(work: () => Promise<T>): Promise<T> {
    if (running >= concurrency) {
      if (queue.length >= queueLimit)
        throw new StrataError('service_unavailable', 'Too many sign-ins at once. Try again.');
      await new Promise<void>((resolve) => queue.push(resolve));
    } else running += 1;
    try {
      return await work();
    } finally {
      const next = queue.shift();
      if (next) next();
      else running -= 1;
    }
  }
  const own = (password: string): Promise<string> =>
    slot(() => hash(normalise(password), parameters));
  const dummy = own('a password that nobody has');
  return {
    hash: own,
    async verify(stored, password) {
      const against = stored ?? (await dummy);
      const matches = await slot(() => verify(against, normalise(password)));
      return stored !== null && matches;
    },
  };
}
