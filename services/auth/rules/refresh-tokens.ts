import { createHash, createHmac, randomBytes } from 'node:crypto';

const prefix = 'strr_';
export const idleSeconds = 7 * 86_400;
export const absoluteSeconds = 30 * 86_400;
const graceMs = 10_000;

/** 256 random bits; only its hash is kept. */
export const newRefreshToken = (): string => prefix + randomBytes(32).toString('base64url');

export const refreshHash = (token: string): string =>
  createHash('sha256').update(token).digest('hex');

/**
 * The successor follows from the token and a key, so that a retry within the grace gets the same one although only hashes are
 * stored. Without the key nobody can go on from a stolen database, and from a stolen token only as its thief could anyway.
 */
export const successorOf = (token: string, key: Buffer): string =>
  prefix + createHmac('sha256', key).update(token).digest('base64url');

interface Token {
  readonly used_at: Date | null;
  readonly created_at: Date;
  readonly successor: string | null;
}
interface Session {
  readonly revoked_at: Date | null;
  readonly expires_at: Date;
}
export type Judgement = 'rotate' | 'repeat' | 'reused' | 'expired' | 'invalid';

/** What a presented refresh token is worth. `successorUsed`: its successor has been exchanged too. */
export function judgeRefresh(
  token: Token | null,
  session: Session | null,
  successorUsed: boolean,
  now: Date,
): Judgement {
  if (!token || !session || session.revoked_at) return 'invalid';
  if (session.expires_at <= now || token.created_at.getTime() + idleSeconds * 1000 <= now.getTime())
    return 'expired';
  if (token.used_at === null) return 'rotate';
  return token.successor !== null &&
    !successorUsed &&
    now.getTime() - token.used_at.getTime() <= graceMs
    ? 'repeat'
    : 'reused';
}
