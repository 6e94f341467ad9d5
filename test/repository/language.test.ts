/**
 * Phrases of a private English that readers stumbled over: the field's term stands in their place,
 * in what users see as well as in comments.
 */
import { expect, test } from '@jest/globals';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '../..');
const self = 'test/repository/language.test.ts';

/** What stood there, and the field's term. */
const phrases: readonly (readonly [phrase: RegExp, term: string])[] = [
  [/\bunless told\b/i, 'by default'],
  [/\bheard of\b/i, 'observed, received'],
  [/\banew\b/i, 'again'],
  [/\b(go|goes|going|gone) on\b/i, 'continue, resume'],
  [/\btaken for gone\b/i, 'marked down'],
  [/\bfor a reason of ours\b/i, 'because of an internal error'],
  [/\bbelieve[ds]?\b/i, 'trusted, authenticated'],
  [/\bno good\b|\bgood for nothing\b/i, 'invalid'],
  [/\bthe one before(?= (it|this)\b|[,.;])/i, 'the previous one'],
  [/\basked (for|about) together\b|\bnext question\b/i, 'batched'],
  [/\b(herd|crowd)\b/i, 'burst, stampede'],
  [/\bits like\b/i, 'similar'],
  [/\bfollowers\b|\blet go\b/i, 'waiters; released'],
  [/\bstands? in for\b/i, 'is the fallback for'],
];

/** What reads like a riddle where somebody wants to know what a field is: the role has a name. */
const phrasesForUsers: readonly (readonly [phrase: RegExp, term: string])[] = [
  [/\bwhoever\b/i, 'the caller, the requester, the owner'],
  [/\b(is|are|was|were) told\b/i, 'notified, sent'],
  [/\bgiven up\b/i, 'failed, released'],
  [/\bstands? in\b(?! .*\bway\b)/i, 'is the fallback'],
  [/\bnobody\b/i, 'no one'],
  [/\btold\b/i, 'notified, sent, answered'],
  [/\bjudge[ds]?\b/i, 'validated, evaluated'],
  [/\bheard\b/i, 'received, observed'],
  [/\bmeanwhile\b/i, 'since, until then, while …'],
  [/\bfigures?\b/i, 'metric, count, measurement'],
  [/\bpieces?\b/i, 'role of a node; chunk of a message'],
];

/** What console, CLI, messages and mails called things, and their name now; names of the API stay. */
const formerNames: readonly (readonly [phrase: RegExp, term: string])[] = [
  [/\bNotification routes\b|\bEdit the routes\b/i, 'Approval routing; Edit routing'],
  [
    /\bBounds (and stop|of the platform)\b|\boutside of a bound\b|\boverruled by the bound\b/i,
    'guardrail',
  ],
  [/\bheld by a bound\b|\bShielded by\b|\bare shielded\b/, 'limited by guardrail; not affected'],
  [/\bHop (\d|\$?\{)/, 'Escalates to …'],
  [/\bI am on it\b|\bLook again\b|\bTry it…/, 'Acknowledge; Refresh; Preview'],
  [/\bWhat it said\b|\bMake the key\b|'Made'/, 'Response; Create key; Created'],
  [/\bAudit of all\b|\bExport what fits\b/, 'Audit log (all tenants); Export filtered events'],
  [/(?<!\. )\bKeep it elsewhere\b/, 'Archive'],
  [
    /\bAlso what is the same\b|\bSame question on both\b|\bSwap questions\b/,
    'Show identical; Copy to both; Swap',
  ],
  [/'no context'|\bEnvironment default\b/, 'All services; Built-in default'],
  [
    /\bThe request is not valid\b|\bNothing has this name\b/,
    'Some fields are not valid; No service named …',
  ],
  [/\bNobody decided\b|\bapprovals reject\b/, 'No one decided; approvals deny'],
];

/** Words that identifiers are made of. */
const namesOf = (text: string): string[] =>
  (
    text
      .replaceAll(/\/\*[^]*?\*\/|\/\/.*|'(?:[^'\\\n]|\\.)*'|"[^"\n]*"|`[^`]*`/g, '')
      .match(/\b[a-z]\w+\b/gi) ?? []
  ).map((name) => name.replaceAll(/([a-z])([A-Z])/g, '$1_$2').toLowerCase());
const privateNames =
  /(^|_)(anew|crowds?|herd|believed?|goes_on|heard?|let_go|no_good|judge|judged|judgements?|told|pieces?|figures?|nobody|whoever|stands?_in)(_|$)/;
/** Fields of the API, and what they are read into; the element of HTML. */
const apiNames = new Set(['pieces', 'piece', 'figure', 'figures', 'judged_at']);
const isPrivate = (name: string): boolean => privateNames.test(name) && !apiNames.has(name);

/** A sentence may be broken over lines of a comment. */
const inOneLine = (text: string): string => text.replaceAll(/\n\s*(?:\*|\/\/|#)?\s*/g, ' ');
const found = (text: string, of = phrases): string[] =>
  of
    .filter(([phrase]) => phrase.test(inOneLine(text)))
    .map(([phrase, term]) => `${phrase.source} → ${term}`);

const files = execFileSync('git', ['ls-files'], { cwd: root, encoding: 'utf8' }).split('\n');

test('no text of the repository has a phrase of the list', () => {
  const texts = files.filter(
    (file) =>
      /\.(tsx?|mjs|cjs|md|mutant|ya?ml|css|conf)$|^\.env\.example$/.test(file) && file !== self,
  );
  expect(texts.length).toBeGreaterThan(500);
  const wrong = texts.flatMap((file) =>
    found(readFileSync(join(root, file), 'utf8')).map((each) => `${file}: ${each}`),
  );
  expect(wrong).toEqual([]);
});

/** Sentences: names of files, of fields, and what SQL says are of one word, or of more lines. */
const sentencesOf = (code: string): string[] =>
  [
    ...code
      .replaceAll(/\/\*[^]*?\*\/|\/\/ .*/g, '')
      .matchAll(/'((?:[^'\\\n]|\\.)*)'|`([^`\n]*)`|>([^<>{}=;]*)</g),
  ]
    .map(([, literal, template, text]) => (literal ?? template ?? text)!)
    .map((text) => text.replaceAll(/\$\{[^}]*\}/g, ''))
    .filter((text) => text.trim().includes(' '));
/** Without code, and the titles of tests, which are quoted. */
const proseOf = (markdown: string): string =>
  markdown.replaceAll(/```[^]*?```|`[^`\n]*`|"[^"\n]*"/g, '');

test('no description of the API, message or label has a phrase that is a riddle to its reader', () => {
  const seen = files.filter(
    (file) =>
      /^(shared|services|gateway|console|cli|client)\/.*\.tsx?$/.test(file) || file === 'start.ts',
  );
  expect(seen.length).toBeGreaterThan(500);
  const wrong = seen.flatMap((file) =>
    sentencesOf(readFileSync(join(root, file), 'utf8')).flatMap((text) =>
      found(text, phrasesForUsers).map((each) => `${file}: ${text}: ${each}`),
    ),
  );
  expect(wrong).toEqual([]);
});

test('no page has such a phrase', () => {
  const pages = files.filter((file) => /^(?!test\/).*\.md$/.test(file));
  expect(pages.length).toBeGreaterThan(50);
  const wrong = pages.flatMap((file) =>
    found(proseOf(readFileSync(join(root, file), 'utf8')), phrasesForUsers).map(
      (each) => `${file}: ${each}`,
    ),
  );
  expect(wrong).toEqual([]);
});

test('nothing that people read has a name that was replaced', () => {
  const seen = files.filter(
    (file) =>
      /^(console|cli|gateway\/openapi|services\/notifier\/rules|test\/browser)\/.*\.tsx?$/.test(
        file,
      ) ||
      /^(README|docs\/.*)\.md$/.test(file) ||
      ['shared/errors.ts', 'shared/contracts/error-codes.ts'].includes(file),
  );
  expect(seen.length).toBeGreaterThan(150);
  const wrong = seen.flatMap((file) => {
    const text = readFileSync(join(root, file), 'utf8').replaceAll(/\/\*[^]*?\*\/|\/\/ .*/g, '');
    return found(text, formerNames).map((each) => `${file}: ${each}`);
  });
  expect(wrong).toEqual([]);
});

test('no identifier is made of such words', () => {
  const wrong = files
    .filter((file) => /\.(tsx?|mjs|cjs)$/.test(file) && file !== self)
    .flatMap((file) =>
      namesOf(readFileSync(join(root, file), 'utf8'))
        .filter(isPrivate)
        .map((name) => `${file}: ${name}`),
    );
  expect(wrong).toEqual([]);
});

test('a phrase is found over the end of a line, and in capitals', () => {
  expect(found(' * 20 unless\n * told, and what a node\n   // heard\n   // of')).toHaveLength(2);
  expect(found('# Nobody is believed')).toHaveLength(1);
  expect(found('20 by default')).toEqual([]);
  expect(found("'One line for whoever approves'", phrasesForUsers)).toHaveLength(1);
  expect(sentencesOf("f('./judge.ts', 'pieces', 'it is told', `${told} long since`)")).toEqual([
    'it is told',
    ' long since',
  ]);
  expect(found(proseOf('`pieces` "is told" A figure'), phrasesForUsers)).toHaveLength(1);
  expect(
    namesOf('const goesOn = askAnew(judgement, node.pieces, areTold);').filter(isPrivate),
  ).toEqual(['goes_on', 'ask_anew', 'judgement', 'are_told']);
});
