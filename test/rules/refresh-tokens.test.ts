/** What a refresh token is worth when it is presented: one row a case. */
import { expect, test } from '@jest/globals';
import {
  validateRefresh,
  newRefreshToken,
  refreshHash,
  successorOf,
  successorStoredAs,
  type Verdict,
} from '../../services/auth/sessions/rules/refresh-tokens.ts';

const now = new Date('2026-01-31T00:00:00Z');
const ago = (seconds: number): Date => new Date(now.getTime() - seconds * 1000);
const day = 86_400;
/** How long a client waits for the answer. */
const answerMs = 4000;
type Token = NonNullable<Parameters<typeof validateRefresh>[0]>;
type Session = NonNullable<Parameters<typeof validateRefresh>[1]>;
const token: Token = { created_at: ago(60), used_at: null, successor: null };
const session: Session = { revoked_at: null, expires_at: ago(-day) };
const used = (seconds: number): Token => ({ ...token, used_at: ago(seconds), successor: 'next' });

test.each<[string, Parameters<typeof validateRefresh>, Verdict]>([
  ['unused', [token, session, false, now, answerMs], 'rotate'],
  ['unknown', [null, null, false, now, answerMs], 'invalid'],
  [
    'of an ended session',
    [token, { ...session, revoked_at: ago(1) }, false, now, answerMs],
    'invalid',
  ],
  [
    'idle for less than 7 days',
    [{ ...token, created_at: ago(7 * day - 1) }, session, false, now, answerMs],
    'rotate',
  ],
  [
    'idle for 7 days',
    [{ ...token, created_at: ago(7 * day) }, session, false, now, answerMs],
    'expired',
  ],
  [
    'of a session at its end',
    [token, { ...session, expires_at: now }, false, now, answerMs],
    'expired',
  ],
  ['used a moment ago, its successor not', [used(0), session, false, now, answerMs], 'repeat'],
  [
    'used 10 s before an answer is given up, its successor not',
    [used(14), session, false, now, answerMs],
    'repeat',
  ],
  ['used longer ago', [used(14.001), session, false, now, answerMs], 'reused'],
  ['used a moment ago, and its successor too', [used(1), session, true, now, answerMs], 'reused'],
  [
    'set aside for another without being exchanged',
    [{ ...used(0), successor: null }, session, false, now, answerMs],
    'reused',
  ],
])('a token %s', (...[, given, verdict]) => {
  expect(validateRefresh(...given)).toBe(verdict);
});

test('a successor follows from token and key, and is as long as a new one', () => {
  const first = newRefreshToken();
  const key = Buffer.alloc(32, 1);
  const otherKey = Buffer.alloc(32, 2);
  const successor = successorOf(first, key);
  expect(successor).toBe(successorOf(first, key));
  expect(successor).not.toBe(successorOf(first, otherKey));
  expect(successor).toHaveLength(first.length);
});

test('a retry after a rotation of the keys finds the successor that was given out', () => {
  const token = newRefreshToken();
  const [old, current, other] = [1, 2, 3].map((byte) => Buffer.alloc(32, byte));
  const given = successorOf(token, old!);
  const stored = refreshHash(given);
  expect(successorStoredAs(stored, token, [current!, old!])).toBe(given);
  expect(successorStoredAs(stored, token, [current!, other!])).toBeUndefined();
});

test('nothing of a token is in its hash', () => {
  const first = newRefreshToken();
  expect(refreshHash(first)).not.toContain(first.slice(5, 20));
});
