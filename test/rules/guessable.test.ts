/** Passwords that guessers try first, and ones that only look like it. */
import { describe, expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { folded, isGuessable } from '../../services/auth/rules/guessable.ts';
import { passwordProblem } from '../../services/auth/rules/password-strength.ts';

test.each([
  'administrator',
  'Administrator',
  'ADMINISTRATOR1',
  'supernatural',
  'needforspeed',
  '1qaz2wsx3edc',
  'qwertyuiop[]',
  'qwertyuiop123456',
  "asdfghjkl;'zxc",
  'aaaaaaaaaaaa',
  'abababababab',
  'abcabcabcabca',
  'passwordpassword',
  'PasswordPassword!',
  'password123456',
  'Password2024!',
  'P@ssw0rd123!!',
  'adm1n1str@tor',
  '123456789012',
  '210987654321',
  'abcdefghijkl',
  'qwerasdfzxcv',
  'abcd1234efgh',
  '111122223333',
  'ＡＤＭＩＮＩＳＴＲＡＴＯＲ',
  'ｐａｓｓｗｏｒｄ１２３４５',
  'welcome12345!',
  '!!!superman!!!',
  '2023dragons!!',
  'letmeinletmein',
])('%s is refused', (password) => {
  expect(passwordProblem(password)).toBe('auth_password_breached');
});

test.each([
  'correct-horse-battery-staple',
  'correct-horse-battery',
  'member-password-123',
  'a-long-first-password',
  'tr0ub4dor and three',
  'mKq8!vD2#xLw',
  'grapefruit lamp seventy',
  'dragon-3fG!pq8_Lz',
  'пароль длинный и странный',
  '密码很长但是没有人会猜到的',
  '394857201938',
  'the administrator of cats',
])('%s is taken', (password) => {
  expect(passwordProblem(password)).toBeUndefined();
});

describe('length counts characters once normalised', () => {
  test.each([
    ['mKq8!vD2#xL', 'auth_password_too_short'],
    ['mKq8!vD2#xLw', undefined],
    ['😀🐙🦀🌵🍋🎲🚲🛰🧵🪐', 'auth_password_too_short'],
    [`${'xk7'.repeat(85)}q`, undefined],
    [`${'mKq8!vD2#'.repeat(28)}vD2#x`, 'auth_password_too_short'],
    ['e\u0301'.repeat(11), 'auth_password_too_short'],
  ])('%s', (...[password, expected]) => {
    const problem = passwordProblem(password!);
    // Whether it is guessable besides is another question.
    expect(problem === 'auth_password_breached' ? undefined : problem).toBe(expected);
  });
});

describe('the list of common passwords', () => {
  const file = new URL('../../services/auth/common-passwords.txt', import.meta.url);
  const lines = readFileSync(file, 'utf8').trim().split('\n');
  const words = lines.filter((line) => !line.startsWith('#'));

  test('is sorted, without doubles, and folded', () => {
    expect(words).toEqual([...new Set(words)].sort());
    expect(words.filter((word) => folded(word) !== word)).toEqual([]);
  });

  test('has more than ten thousand that are long enough, all of which are refused', () => {
    const long = words.filter((word) => [...word].length >= 12);
    expect(long.length).toBeGreaterThan(10_000);
    expect(long.filter((word) => !isGuessable(word))).toEqual([]);
  });
});
