import { describe, expect, test } from '@jest/globals';
import { diff } from '../../shared/schema/diff.ts';
import { InexactJson, InvalidJson, parseExactJson } from '../../shared/schema/exact-json.ts';
import { parseExactJsonInChunks } from '../../shared/schema/exact-json-in-chunks.ts';
import { applyMergePatch } from '../../shared/schema/merge-patch.ts';
import fc, { runs } from '../support/properties.ts';

const problems = (text: string): string[] => {
  try {
    parseExactJson(text);
    return [];
  } catch (error) {
    if (error instanceof InexactJson) return error.problems.map(({ path }) => path);
    throw error;
  }
};

describe('exact JSON', () => {
  test.each([
    '1.0',
    '1e2',
    '0.1',
    '1E+2',
    '1.10',
    '9007199254740992',
    '1e21',
    '100e-2',
    '0',
    '0.0',
    '5e-324',
    '1.7976931348623157e308',
    '123456789012345680000',
  ])('keeps %s', (text) => {
    expect(parseExactJson(text)).toBe(Number(text));
  });
  test.each([
    '9007199254740993',
    '1e400',
    '-1e400',
    '0.1000000000000000055',
    '1e-400',
    '-0',
    '-0.0',
    '-0e5',
    `1${'0'.repeat(400)}`,
    '12345678901234567890',
  ])('refuses %s', (text) => {
    expect(problems(text)).toEqual(['']);
  });
  test.each([
    '',
    ' ',
    '{',
    '[1,]',
    '{"a":1,}',
    '01',
    '+1',
    '.5',
    "{'a':1}",
    'undefined',
    '\uFEFF{}',
    '"\u0001"',
    '{"a" 1}',
    'tru',
  ])('is no JSON: %j', (text) => {
    expect(() => parseExactJson(text)).toThrow(InvalidJson);
  });

  test('says where, with the name escaped', () => {
    expect(problems('{"a/b~":[1,{"c":1e999}],"d":"\\ud800","d":2,"\\u0000":"ok"}')).toEqual([
      '/a~1b~0/1/c',
      '/d',
      '/d',
      '/\0',
    ]);
  });
  test('refuses a name of more than 1000 characters, at the place around it', () => {
    expect(problems(`{"a":{"${'n'.repeat(1000)}":1}}`)).toEqual([]);
    expect(problems(`{"a":{"${'n'.repeat(1001)}":1}}`)).toEqual(['/a']);
  });
  test('refuses more than 64 levels without recursion', () => {
    expect(problems('['.repeat(64) + ']'.repeat(64))).toEqual([]);
    expect(problems('['.repeat(65) + ']'.repeat(65))).toHaveLength(1);
    expect(problems('['.repeat(500_000) + ']'.repeat(500_000))).toHaveLength(1);
  });
  // V8 shows the text around some errors, such as a token that it did not expect.
  test.each(['{"password": "hunter2" oops', '{"password": hunter2}', 'hunter2', '{"p": "hunter2'])(
    'never shows the text in an error: %s',
    (text) => {
      expect(() => parseExactJson(text)).toThrow(
        expect.not.objectContaining({ message: expect.stringContaining('hunter') }),
      );
    },
  );
  test('keeps __proto__ as data', () => {
    const value = parseExactJson('{"__proto__":{"polluted":true}}') as object;
    expect(Object.keys(value)).toEqual(['__proto__']);
    expect((value as { polluted?: boolean }).polluted).toBeUndefined();
  });
  test('is JSON.parse for everything it lets through', () => {
    fc.assert(
      fc.property(fc.json({ stringUnit: 'grapheme' }), (text) => {
        try {
          expect(parseExactJson(text)).toEqual(JSON.parse(text));
        } catch (error) {
          expect(error).toBeInstanceOf(InexactJson);
        }
      }),
      runs(500),
    );
  });
  test('a number passes exactly when its decimal value comes back', () => {
    fc.assert(
      fc.property(
        fc.bigInt({ min: -(10n ** 25n), max: 10n ** 25n }),
        fc.integer({ min: 0, max: 20 }),
        (digits, scale) => {
          const negative = digits < 0n;
          const text = (negative ? -digits : digits).toString().padStart(scale + 1, '0');
          const source = `${negative ? '-' : ''}${text.slice(0, text.length - scale)}${scale ? `.${text.slice(text.length - scale)}` : ''}`;
          // An oracle of its own: scale the double's shortest decimal up to an integer and compare.
          const printed = Number(source).toLocaleString('en', {
            useGrouping: false,
            maximumSignificantDigits: 21,
            maximumFractionDigits: 100,
          } as Intl.NumberFormatOptions);
          const [whole = '', fraction = ''] = String(Number(source)).includes('e')
            ? printed.split('.')
            : String(Number(source)).split('.');
          const scaled = BigInt(whole.replace('-', '') + fraction.padEnd(25, '0').slice(0, 25));
          const exact =
            scaled === (negative ? -digits : digits) * 10n ** BigInt(25 - scale) &&
            fraction.length <= 25;
          expect(problems(source).length === 0).toBe(exact);
        },
      ),
      runs(500),
    );
  });
});

describe('JSON merge patch: RFC 7396, appendix A', () => {
  test.each([
    [{ a: 'b' }, { a: 'c' }, { a: 'c' }],
    [{ a: 'b' }, { b: 'c' }, { a: 'b', b: 'c' }],
    [{ a: 'b' }, { a: null }, {}],
    [{ a: 'b', b: 'c' }, { a: null }, { b: 'c' }],
    [{ a: ['b'] }, { a: 'c' }, { a: 'c' }],
    [{ a: 'c' }, { a: ['b'] }, { a: ['b'] }],
    [{ a: { b: 'c' } }, { a: { b: 'd', c: null } }, { a: { b: 'd' } }],
    [{ a: [{ b: 'c' }] }, { a: [1] }, { a: [1] }],
    [
      ['a', 'b'],
      ['c', 'd'],
      ['c', 'd'],
    ],
    [{ a: 'b' }, ['c'], ['c']],
    [{ a: 'foo' }, null, null],
    [{ a: 'foo' }, 'bar', 'bar'],
    [{ e: null }, { a: 1 }, { e: null, a: 1 }],
    [[1, 2], { a: 'b', c: null }, { a: 'b' }],
    [{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
  ])('%j + %j', (target, patch, result) => {
    const before = JSON.stringify([target, patch]);
    expect(applyMergePatch(target, patch)).toEqual(result);
    expect(JSON.stringify([target, patch])).toBe(before);
  });
  test('a member named __proto__ is data', () => {
    const merged = applyMergePatch(
      JSON.parse('{"__proto__":{"a":1}}'),
      JSON.parse('{"__proto__":{"b":2}}'),
    );
    expect(JSON.stringify(merged)).toBe('{"__proto__":{"a":1,"b":2}}');
  });
});

describe('diff', () => {
  test('applied to what was before, gives what is after', () => {
    const document = fc.dictionary(
      fc.oneof(fc.constantFrom('a', 'b', 'a/b', '~', '__proto__'), fc.string()),
      fc.jsonValue({ maxDepth: 3 }),
      { maxKeys: 5, noNullPrototype: true },
    );
    fc.assert(
      fc.property(document, document, (before, after) => {
        const result = structuredClone(before) as Record<string, unknown>;
        for (const change of diff(before, after)) {
          const names = change.path
            .split('/')
            .slice(1)
            .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
          const last = names.pop()!;
          let at = result;
          for (const part of names)
            at = Object.getOwnPropertyDescriptor(at, part)!.value as Record<string, unknown>;
          if ('after' in change)
            Object.defineProperty(at, last, {
              value: change.after,
              writable: true,
              enumerable: true,
              configurable: true,
            });
          else delete at[last];
        }
        expect(result).toEqual(after);
        expect(diff(after, after)).toEqual([]);
      }),
      runs(300),
    );
  });
  test('a document that appears or goes is told member by member; arrays are told whole', () => {
    expect(diff(undefined, {})).toEqual([{ path: '', after: {} }]);
    expect(diff({}, undefined)).toEqual([{ path: '', before: {} }]);
    expect(diff(undefined, { a: 1, b: { c: 2 } })).toEqual([
      { path: '/a', after: 1 },
      { path: '/b', after: { c: 2 } },
    ]);
    expect(diff({ a: [1, 2] }, undefined)).toEqual([{ path: '/a', before: [1, 2] }]);
    expect(diff({ a: [1, 2] }, { a: [1, 3] })).toEqual([
      { path: '/a', before: [1, 2], after: [1, 3] },
    ]);
    expect(diff({ a: 1 }, { a: null })).toEqual([{ path: '/a', before: 1, after: null }]);
  });
});

describe('what there is too much of', () => {
  const refusal = (text: string): unknown => {
    try {
      return parseExactJson(text);
    } catch (error) {
      return error instanceof InexactJson ? error.problems : (error as Error).message;
    }
  };
  const arrays = (count: number): string =>
    `[${Array.from({ length: count }, () => '[]').join(',')}]`;
  const members = (count: number): string =>
    `{${Array.from({ length: count }, (_each, index) => `"n${index}":1`).join(',')}}`;

  test('is counted before anything is built, in objects, arrays, values and names', () => {
    expect(refusal(arrays(19_999))).toHaveLength(19_999);
    expect(refusal(arrays(20_000))).toEqual([
      { path: '', message: 'has more than 20000 objects and arrays' },
    ]);
    const numbers = (count: number): string => `[${'1,'.repeat(count - 1)}1]`;
    expect(refusal(numbers(50_001))).toHaveLength(50_001);
    expect(refusal(numbers(50_002))).toEqual([{ path: '', message: 'has more than 50000 values' }]);
    expect(Object.keys(refusal(members(10_000)) as object)).toHaveLength(10_000);
    expect(refusal(members(10_001))).toEqual([{ path: '', message: 'has more than 10000 names' }]);
  });

  test('is not counted in texts', () => {
    const text = '[{:"\\'.repeat(20_000);
    expect(refusal(JSON.stringify([text]))).toEqual([text]);
  });

  test('is not told of what is no JSON', () => {
    for (const text of ['['.repeat(60_000), ':'.repeat(20_000), '"['.repeat(60_000), '{"a'])
      expect(refusal(text)).toMatch(/^The body is not valid JSON/);
  });
});

describe('a long text', () => {
  test('is parsed in pieces, and others are served between the pieces', async () => {
    const text = `[${Array.from({ length: 49_000 }, (_each, index) => `"text ${index}"`).join(',')}]`;
    let served = 0;
    let isParsing = true;
    const serve = (): void => {
      served += 1;
      if (isParsing) setImmediate(serve);
    };
    setImmediate(serve);
    expect(await parseExactJsonInChunks(text)).toEqual(parseExactJson(text));
    isParsing = false;
    // Each of 64 KiB is counted and scanned by itself.
    expect(served).toBeGreaterThan(2 * Math.floor(text.length / 65_536));
  });

  test.each([63, 64, 65].map((kibibytes) => kibibytes * 1024))(
    'is the same wherever a piece ends: %i characters',
    async (length) => {
      const long = 'x'.repeat(length - 20);
      for (const text of [
        JSON.stringify({ a: long, b: 1.5, c: [long, '\\"', true] }),
        JSON.stringify([...Array(length / 4).keys()].map((n) => n % 10)),
      ])
        expect(await parseExactJsonInChunks(text)).toEqual(JSON.parse(text));
      const twice = `{"a":"${long}","b":"${long}","a":1}`;
      await expect(parseExactJsonInChunks(twice)).rejects.toThrow(InexactJson);
      await expect(parseExactJsonInChunks(`{"a":"${long}","b":-0}`)).rejects.toThrow(InexactJson);
      await expect(parseExactJsonInChunks(`{"a":"${long}",}`)).rejects.toThrow(InvalidJson);
    },
  );
});
