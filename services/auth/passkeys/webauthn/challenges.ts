/**
 * The challenges of passkey ceremonies: each is answered once, within five minutes, in the ceremony
 * it was made for.
 */
import { randomUUID } from 'node:crypto';
import { StrataError } from '../../../../shared/errors.ts';
import type { ShortLivedState } from '../../../../shared/concurrency/short-lived-state.ts';

export const challengeSeconds = 300;

export interface Challenge {
  readonly challenge: string;
  /** The address that the ceremony is for, where it was begun for one. */
  readonly email?: string;
}
/** Signing in, or adding a passkey to one account. */
export type Ceremony = 'login' | `register:${string}`;

export type Challenges = ReturnType<typeof createChallenges>;

export function createChallenges(shortLived: ShortLivedState) {
  const keyOf = (ceremony: Ceremony, id: string): string => `webauthn:${ceremony}:${id}`;
  return {
    /** Keeps the challenge and gives the id to answer it under. */
    async keep(ceremony: Ceremony, challenge: Challenge): Promise<string> {
      const id = randomUUID();
      await shortLived.put(keyOf(ceremony, id), challenge, challengeSeconds);
      return id;
    },

    /**
     * The challenge, for the one time that it can be answered; throws
     * `auth_webauthn_challenge_invalid`.
     */
    async take(ceremony: Ceremony, id: string): Promise<Challenge> {
      const challenge = await shortLived.take<Challenge>(keyOf(ceremony, id));
      if (!challenge) throw new StrataError('auth_webauthn_challenge_invalid');
      return challenge;
    },
  };
}
