/**
 * Passwords that guessers try first: common ones, keyboard walks, repetitions, and common ones in
 * disguise.
 */
import { readFileSync } from 'node:fs';

/** Compatibility forms and case are one: `ＰＡＳＳＷＯＲＤ` is `password`. */
export const folded = (password: string): string =>
  password.normalize('NFKC').toUpperCase().toLowerCase().normalize('NFKC');

let commonPasswords: ReadonlySet<string> | undefined;

function readCommonPasswords(): ReadonlySet<string> {
  const text = readFileSync(new URL('./common-passwords.txt', import.meta.url), 'utf8');
  const words = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Set(words);
}

/** The list is read when the first password is judged: most processes never judge one. */
function isCommon(word: string): boolean {
  commonPasswords ??= readCommonPasswords();
  return commonPasswords.has(word);
}

/**
 * Alphabet, digits, and a keyboard's rows and columns: neighbours in one of them are neighbours.
 */
const walks = [
  'abcdefghijklmnopqrstuvwxyz',
  '01234567890',
  '1234567890-=',
  'qwertyuiop[]',
  "asdfghjkl;'",
  'zxcvbnm,./',
  '1qaz2wsx3edc4rfv5tgb6yhn7ujm8ik,9ol.0p;/',
];

/** Every two neighbours, in both directions. */
function stepsOf(walk: string): string[] {
  const characters = [...walk];
  return characters.slice(1).flatMap((next, index) => {
    const before = characters[index]!;
    return [before + next, next + before];
  });
}
const steps = new Set(walks.flatMap(stepsOf));

/** Walks of four characters or more on average, so `qwerasdfzxcv` and `abcd12345678` too. */
function isWalk(characters: readonly string[]): boolean {
  const breaks = characters.slice(1).filter((next, index) => {
    const before = characters[index]!;
    return next !== before && !steps.has(before + next);
  });
  const walkCount = breaks.length + 1;
  return walkCount * 4 <= characters.length;
}

/**
 * What is repeated from beginning to end, the last time perhaps in part; the whole word where
 * nothing is.
 */
function repeatedUnit(word: string): string {
  for (let length = 1; length <= word.length / 2; length += 1) {
    const isPeriod = word.slice(length) === word.slice(0, word.length - length);
    if (isPeriod) return word.slice(0, length);
  }
  return word;
}

const lettersBySign: Readonly<Record<string, string>> = {
  '@': 'a',
  4: 'a',
  3: 'e',
  0: 'o',
  5: 's',
  $: 's',
  7: 't',
  '!': 'i',
};
/** Signs read as the letters they stand for; `1` stands for `i` or for `l`. */
const unmasked = (word: string, letterOfOne: 'i' | 'l'): string =>
  word.replaceAll(/[@430$57!1]/g, (sign) => (sign === '1' ? letterOfOne : lettersBySign[sign]!));

const withoutDecoration = (word: string): string =>
  word.replaceAll(/^[\d\p{P}\p{S}]+|[\d\p{P}\p{S}]+$/gu, '');

/**
 * The password is a common one, or made from one or from the keyboard in a way that guessers try
 * first.
 */
export function isGuessable(password: string): boolean {
  const whole = folded(password);
  const unit = repeatedUnit(whole);
  const isShortUnitRepeated = unit !== whole && unit.length <= 4;
  if (isShortUnitRepeated || isWalk([...whole])) return true;
  // Digits and signs around a common word add little while the word is half of it.
  const cores = [whole, unit, withoutDecoration(unit)].filter(
    (core) => core.length * 2 >= unit.length,
  );
  return cores.some((core) =>
    [core, repeatedUnit(core), unmasked(core, 'i'), unmasked(core, 'l')].some(isCommon),
  );
}
