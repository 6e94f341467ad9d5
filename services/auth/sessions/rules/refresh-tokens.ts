/**
 * Refresh tokens: used once, each exchanged for its successor. One that comes back later than a
 * retry would was copied (RFC 9700, 4.14.2: refresh token rotation).
 */
import { createHash, createHmac, randomBytes } from 'node:crypto';
import {
  createKeyRing,
  type KeyRing,
  type SecretKeys,
} from '../../../../shared/security/derived-keys.ts';

const prefix = 'strr_';
/** A token that is not exchanged for this long expires. */
export const idleSeconds = 7 * 86_400;
/** A session ends this long after its sign-in, however often it is continued. */
export const sessionSeconds = 30 * 86_400;
/** How long a client that lost the answer has to present its token again. */
const retryMs = 10_000;

/** 256 random bits; only its hash is stored. */
export const newRefreshToken = (): string => prefix + randomBytes(32).toString('base64url');

export const refreshHash = (token: string): string =>
  createHash('sha256').update(token).digest('hex');

/** The keys that tokens are made with which follow from others. */
export const refreshKeysOf = (settings: SecretKeys): KeyRing =>
  createKeyRing(settings, { label: 'refresh token', neededTo: 'refresh sessions' });

/**
 * The successor follows from the token and a key, so that a retry gets the same one although only
 * hashes are stored. Without the key nobody can continue from a stolen database, and from a stolen
 * token only as its thief could anyway.
 */
export const successorOf = (token: string, key: Buffer): string =>
  prefix + createHmac('sha256', key).update(token).digest('base64url');

/**
 * What a change of tenant gives beside a session's token, of which only the hash is known. It is
 * the same for each change until either is exchanged, so that changes leave one more token, however
 * many there are.
 */
export const besideToken = (hash: string, key: Buffer): string =>
  prefix + createHmac('sha256', key).update(`beside ${hash}`).digest('base64url');

/**
 * The successor that a token was exchanged for, when its stored hash is `stored`: the hash says
 * which of the keys made it, so that a retry after a rotation of the keys gets the same one.
 * Undefined where none of them did.
 */
export const successorStoredAs = (
  stored: string,
  token: string,
  keys: readonly Buffer[],
): string | undefined =>
  keys.map((key) => successorOf(token, key)).find((successor) => refreshHash(successor) === stored);

interface Token {
  readonly used_at: Date | null;
  readonly created_at: Date;
  readonly successor: string | null;
}
interface Session {
  readonly revoked_at: Date | null;
  readonly expires_at: Date;
}
/**
 * `rotate`: exchange it. `repeat`: the same answer again. `reused`: it was copied, end the session.
 */
export type Verdict = 'rotate' | 'repeat' | 'reused' | 'expired' | 'invalid';

/**
 * What a presented refresh token is worth. `successorUsed`: its successor has been exchanged too.
 * `answerMs`: how long a client may wait for the answer before it knows that this is lost.
 */
export function validateRefresh(
  token: Token | null,
  session: Session | null,
  successorUsed: boolean,
  now: Date,
  answerMs: number,
): Verdict {
  if (!token || !session || session.revoked_at) return 'invalid';
  const idleUntil = token.created_at.getTime() + idleSeconds * 1000;
  if (session.expires_at <= now || idleUntil <= now.getTime()) return 'expired';
  if (token.used_at === null) return 'rotate';
  const isRetry =
    token.successor !== null &&
    !successorUsed &&
    now.getTime() - token.used_at.getTime() <= answerMs + retryMs;
  return isRetry ? 'repeat' : 'reused';
}
