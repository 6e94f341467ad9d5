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
type Token = NonNullable<Parameters<typeof validateRefresh>[0]>;
type Session = NonNullable<Parameters<typeof validateRefresh>[1]>;
const token: Token = { created_at: ago(60), used_at: null, successor: null };
const session: Session = { revoked_at: null, expires_at: ago(-day) };
const used = (seconds: number): Token => ({ ...token, used_at: ago(seconds), successor: 'next' });

test.each<[string, Parameters<typeof validateRefresh>, Verdict]>([
  ['unused', [token, session, false, now], 'rotate'],
  ['unknown', [null, null, false, now], 'invalid'],
  ['of an ended session', [token, { ...session, revoked_at: ago(1) }, false, now], 'invalid'],
  [
    'idle for less than 7 days',
    [{ ...token, created_at: ago(7 * day - 1) }, session, false, now],
    'rotate',
  ],
  ['idle for 7 days', [{ ...token, created_at: ago(7 * day) }, session, false, now], 'expired'],
  ['of a session at its end', [token, { ...session, expires_at: now }, false, now], 'expired'],
  ['used a moment ago, its successor not', [used(0), session, false, now], 'repeat'],
  ['used 10 s ago, its successor not', [used(10), session, false, now], 'repeat'],
  ['used longer ago', [used(10.001), session, false, now], 'reused'],
  ['used a moment ago, and its successor too', [used(1), session, true, now], 'reused'],
  [
    'set aside for another without being exchanged',
    [{ ...used(0), successor: null }, session, false, now],
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
