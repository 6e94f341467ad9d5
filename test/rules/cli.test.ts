/**
 * The command line's own rules: what a typed word means, what a terminal is shown, where a key may
 * go.
 */
import { describe, expect, test } from '@jest/globals';
import { isPlainWord } from '../../cli/https/completion-command.ts';
import { credentialsOf, keyOf, urlOf } from '../../cli/https/credentials.ts';
import { assigned, removed } from '../../cli/assignments.ts';
import { columns, json, printable } from '../../cli/output.ts';

describe('single values', () => {
  test.each<[string, unknown]>([
    ['a=1', { a: 1 }],
    ['a=-1.5e3', { a: -1500 }],
    ['a=0123', { a: '0123' }],
    ['a=1.2.3', { a: '1.2.3' }],
    ['a=true', { a: true }],
    ['a=null', { a: null }],
    ['a=truely', { a: 'truely' }],
    ['a=', { a: '' }],
    ['a=b=c', { a: 'b=c' }],
    ['a="4"', { a: '4' }],
    ['a=[1, {"b": null}]', { a: [1, { b: null }] }],
    ['a.b.c=1', { a: { b: { c: 1 } } }],
    ['/a.b/c~1d=1', { 'a.b': { 'c/d': 1 } }],
  ])('%s', (word, patch) => {
    expect(assigned([word])).toEqual(patch);
  });

  test('several are one patch, whose names are data', () => {
    expect(assigned(['a.b=1', 'a.c=2', 'a.b=3'])).toEqual({ a: { b: 3, c: 2 } });
    const patch = assigned(['__proto__.polluted=true', 'constructor.prototype.polluted=true']);
    expect(JSON.stringify(patch)).toBe(
      '{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}',
    );
    expect(Object.hasOwn(Object.prototype, 'polluted')).toBe(false);
    expect(removed(['a.b', 'a.c', 'd'])).toEqual({ a: { b: null, c: null }, d: null });
  });

  test.each(['a', '=1', 'a..b=1', 'a={', '/=1', 'a=9007199254740993', 'a=1e400'])(
    'refuses %s',
    (word) => {
      expect(() => assigned([word])).toThrow();
    },
  );
});

test('a terminal is shown escapes in place of what it would obey', () => {
  const hostile = 'a\u001b[2J\u0007\u202eb\u200b\r\u{e0041}';
  expect(printable(hostile)).toBe('a\\u001b[2J\\u0007\\u202eb\\u200b\\u000d\\udb40\\udc41');
  expect(printable('häß 漢字 🙂\n')).toBe('häß 漢字 🙂\n');
  expect(JSON.parse(json({ [hostile]: hostile }))).toEqual({ [hostile]: hostile });
  expect(columns([{ name: 'two\nlines', more: undefined }])).toBe(
    ['name            more', 'two\\u000alines  -'].join('\n'),
  );
});

test.each([
  '$(touch x)',
  'a b',
  'a;b',
  '`a`',
  "a'b",
  'a"b',
  'a\\b',
  'a|b',
  'a&b',
  'a>b',
  '~',
  '*',
  '',
])('a shell is not offered %j', (word) => {
  expect(isPlainWord(word)).toBe(false);
});

describe('where a key goes', () => {
  test.each([
    ['https://strata.example', 'https://strata.example'],
    ['https://Strata.example:443/base/', 'https://strata.example/base'],
    ['http://localhost:8080/', 'http://localhost:8080'],
    ['http://127.0.0.1:8080', 'http://127.0.0.1:8080'],
    ['http://[::1]:8080', 'http://[::1]:8080'],
  ])('%s is an address', (text, url) => {
    expect(urlOf(text, false)).toBe(url);
  });

  test.each([
    'strata.example',
    'ftp://strata.example',
    'http://strata.example',
    'http://localhost.evil.example',
    'http://127.0.0.1.evil.example',
    'https://user:password@strata.example',
    '',
  ])('%j is none', (text) => {
    expect(() => urlOf(text, false)).toThrow();
  });

  test('http is for this machine, unless somebody says that it may be read', () => {
    expect(urlOf('http://strata:8080', true)).toBe('http://strata:8080');
  });

  test('what is no key is not shown', () => {
    for (const text of ['', 'canary with blanks', 'canary\nx-evil: 1', 'canary-ключ']) {
      expect(() => keyOf(text, 'X')).toThrow('X holds no API key');
    }
    expect(keyOf('key\n', 'X')).toBe('key');
  });

  test('a key is not sent to where somebody once signed in', () => {
    const environment = { STRATA_API_KEY: 'key', XDG_CONFIG_HOME: '/nowhere' };
    const credentials = credentialsOf({}, environment);
    Object.assign(credentials.signIns, { last: () => 'https://elsewhere.example' });
    expect(() => credentials.url()).toThrow('where is Strata?');
    expect(credentialsOf({ url: 'https://told.example' }, environment).url()).toBe(
      'https://told.example',
    );
  });
});
