/** Hashing passwords with argon2id, on a bounded number of cores that networks share. */
import { hash, verify } from '@node-rs/argon2';
import { availableParallelism } from 'node:os';
import { normalisePassword } from '../../../shared/security/password-strength.ts';
import { createHashingQueue, type HashingQueueOptions } from './hashing-queue.ts';

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

/** `network` is the caller's, as `networkOf` gives it: hashing is shared out over networks. */
export type PasswordHashing = ReturnType<typeof createPasswordHashing>;
export type Guard = (verify: () => Promise<boolean>) => Promise<boolean>;

/**
 * One hash per core at a time, since each takes a whole core; a burst of sign-ins is refused with
 * 503 rather than piled up.
 */
export function createPasswordHashing({
  concurrency = availableParallelism(),
  queueLimit = 128,
  shareLimit = 64,
}: Partial<HashingQueueOptions> = {}) {
  const inTurn = createHashingQueue({ concurrency, queueLimit, shareLimit });
  const decoyHash = hash('a password that no one has', parameters);
  return {
    hash: (password: string, network: string): Promise<string> =>
      inTurn(network, () => hash(normalisePassword(password), parameters)),
    /**
     * A null hash, of an account without a password or of no account, takes the same time and never
     * matches. `guard` is given the verification when its turn has come, and decides whether it is
     * done.
     */
    verify: (
      stored: string | null,
      password: string,
      network: string,
      guard: Guard = (verifyNow) => verifyNow(),
    ): Promise<boolean> =>
      inTurn(network, () =>
        guard(async () => {
          const against = stored ?? (await decoyHash);
          const matches = await verify(against, normalisePassword(password));
          return stored !== null && matches;
        }),
      ),
  };
}
