import { readFileSync } from 'node:fs';

/** Compatibility forms and case are one: `ＰＡＳＳＷＯＲＤ` is `password`. */
export const folded = (password: string): string =>
  password.normalize('NFKC').toUpperCase().toLowerCase().normalize('NFKC');

let list: ReadonlySet<string> | undefined;
const listed = (word: string): boolean =>
  (list ??= new Set(
    readFileSync(new URL('../common-passwords.txt', import.meta.url), 'utf8')
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#')),
  )).has(word);

/** Alphabet, digits, and a keyboard's rows and columns: neighbours in one of them are neighbours. */
const walks = [
  'abcdefghijklmnopqrstuvwxyz',
  '01234567890',
  '1234567890-=',
  'qwertyuiop[]',
  "asdfghjkl;'",
  'zxcvbnm,./',
  '1qaz2wsx3edc4rfv5tgb6yhn7ujm8ik,9ol.0p;/',
];
const steps = new Set(
  walks.flatMap((walk) =>
    [...walk].slice(1).flatMap((next, index) => [walk[index]! + next, next + walk[index]!]),
  ),
);
/** Of four characters or more on average, so `qwerasdfzxcv` and `abcd12345678` too. */
function isWalk(characters: readonly string[]): boolean {
  const breaks = characters
    .slice(1)
    .filter(
      (next, index) => next !== characters[index] && !steps.has(characters[index]! + next),
    ).length;
  return (breaks + 1) * 4 <= characters.length;
}

/** What is repeated from beginning to end, the last time perhaps in part; the whole where nothing is. */
function unitOf(word: string): string {
  for (let length = 1; length <= word.length / 2; length += 1) {
    if (word.slice(length) === word.slice(0, word.length - length)) return word.slice(0, length);
  }
  return word;
}

const letters: Readonly<Record<string, string>> = {
  '@': 'a',
  4: 'a',
  3: 'e',
  0: 'o',
  5: 's',
  $: 's',
  7: 't',
  '!': 'i',
};
const spelled = (word: string, one: string): string =>
  word.replaceAll(/[@430$57!1]/g, (sign) => (sign === '1' ? one : letters[sign]!));

/** The password is a common one, or made from one or from the keyboard in a way that guessers try first. */
export function isGuessable(password: string): boolean {
  const whole = folded(password);
  const unit = unitOf(whole);
  if (isWalk([...whole]) || (unit !== whole && unit.length <= 4)) return true;
  // Digits and signs around a common word add little while the word is half of it.
  const cores = [whole, unit, unit.replaceAll(/^[\d\p{P}\p{S}]+|[\d\p{P}\p{S}]+$/gu, '')].filter(
    (core) => core.length * 2 >= unit.length,
  );
  return cores.some((core) =>
    [core, unitOf(core), spelled(core, 'i'), spelled(core, 'l')].some(listed),
  );
}
