/** Hashing passwords with argon2id, on a bounded number of cores. */
import { hash, verify } from '@node-rs/argon2';
import { availableParallelism } from 'node:os';
import { StrataError } from '../../../shared/errors.ts';
import { normalisePassword } from '../rules/password-strength.ts';

/** OWASP Password Storage Cheat Sheet: argon2id, 19 MiB, two passes, one lane. */
const argon2id = 2;
const parameters = {
  algorithm: argon2id,
  memoryCost: 19_456,
  timeCost: 2,
  parallelism: 1,
} as const;
/** How a hash with these parameters begins (PHC string format). */
const currentPrefix = `$argon2id$v=19$m=${parameters.memoryCost},t=${parameters.timeCost},p=${parameters.parallelism}$`;

/** The hash was made with other parameters than those of now. */
export const needsRehash = (stored: string): boolean => !stored.startsWith(currentPrefix);

export interface PasswordHashing {
  readonly hash: (password: string) => Promise<string>;
  /** A null hash, of an account without a password or of no account, takes the same time and never matches. */
  readonly verify: (stored: string | null, password: string) => Promise<boolean>;
}

/** Runs at most `limit` pieces of work at a time; throws `service_unavailable` once `queueLimit` wait. */
function createSlots(limit: number, queueLimit: number) {
  let running = 0;
  const waiting: (() => void)[] = [];

  async function enter(): Promise<void> {
    if (running < limit) {
      running += 1;
      return;
    }
    if (waiting.length >= queueLimit)
      throw new StrataError('service_unavailable', 'Too many sign-ins at once. Try again.');
    // Whoever leaves hands its slot over, so `running` stays as it is.
    await new Promise<void>((resolve) => {
      waiting.push(resolve);
    });
  }
  function leave(): void {
    const next = waiting.shift();
    if (next) next();
    else running -= 1;
  }

  return async <T>(work: () => Promise<T>): Promise<T> => {
    await enter();
    try {
      return await work();
    } finally {
      leave();
    }
  };
}

/** One hash per core at a time, since each takes a whole core; a burst of sign-ins is refused with 503 rather than piled up. */
export function createPasswordHashing({
  concurrency = availableParallelism(),
  queueLimit = 64,
} = {}): PasswordHashing {
  const inSlot = createSlots(concurrency, queueLimit);
  const hashPassword = (password: string): Promise<string> =>
    inSlot(() => hash(normalisePassword(password), parameters));
  const hashOfNobody = hashPassword('a password that nobody has');
  return {
    hash: hashPassword,
    async verify(stored, password) {
      const against = stored ?? (await hashOfNobody);
      const matches = await inSlot(() => verify(against, normalisePassword(password)));
      return stored !== null && matches;
    },
  };
}
