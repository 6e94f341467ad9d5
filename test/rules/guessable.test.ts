/** Passwords that guessers try first, and ones that only look like it. */
import { describe, expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { folded, isGuessable } from '../../shared/security/guessable.ts';
import { passwordProblem, type PasswordOwner } from '../../shared/security/password-strength.ts';

const anonymous: PasswordOwner = { address: '' };
const codeOf = (password: string, owner = anonymous): string | undefined =>
  passwordProblem(password, owner)?.code;

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
  expect(codeOf(password)).toBe('auth_password_breached');
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
  expect(codeOf(password)).toBeUndefined();
});

describe('what is known of its owner', () => {
  const owner: PasswordOwner = {
    address: 'ada.lovelace@acme.example',
    displayName: 'Augusta Ada King',
    tenantNames: ['Acme Cloud', 'Ltd'],
  };
  test.each([
    'lovelace-in-the-garden',
    'in the garden with LOVELACE',
    'ada.lovelace@acme.example',
    'augusta drinks her tea',
    'grapefruit lamp Acme-Cloud',
    'grapefruit lamp acmecloud',
    'ａｃｍｅ ｃｌｏｕｄ grapefruit',
  ])('%s is refused', (password) => {
    expect(passwordProblem(password, owner)).toEqual({
      code: 'auth_password_breached',
      message: 'contains the name or address of its owner, or the name of their tenant',
    });
    expect(codeOf(password)).toBeUndefined();
  });
  test.each(['a garden for ada and her cat', 'the cloud over an acre', 'nothing limited here'])(
    '%s is taken: short words are there by chance',
    (password) => expect(codeOf(password, owner)).toBeUndefined(),
  );
  test('a mailbox that is named after a role says nothing of a person', () => {
    const admin = { address: 'admin@example.com' };
    expect(codeOf('the administrator of cats', admin)).toBeUndefined();
    expect(codeOf('admin@example.com, truly', admin)).toBe('auth_password_breached');
  });
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
    const problem = codeOf(password!);
    // Whether it is guessable besides is another question.
    expect(problem === 'auth_password_breached' ? undefined : problem).toBe(expected);
  });
});

describe('the list of common passwords', () => {
  const file = new URL('../../shared/security/common-passwords.txt', import.meta.url);
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
