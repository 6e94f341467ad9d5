import { describe, expect, test } from '@jest/globals';
import { retryAfterMs, waitBefore } from '../../shared/outgoing/backoff.ts';
import fc from '../support/properties.ts';

test('the defaults wait 1, 2, 4 and from then on 8 s', () => {
  const waits = [0, 1, 2, 3, 4, 10].map((n) =>
    waitBefore(n, { initial_seconds: 1, factor: 2, max_seconds: 8 }),
  );
  expect(waits).toEqual([1000, 2000, 4000, 8000, 8000, 8000]);
});

test('whole numbers: exactly min(max, initial × factor^n)', () => {
  fc.assert(
    fc.property(
      fc.nat({ max: 100 }),
      fc.nat({ max: 86_400 }),
      fc.integer({ min: 1, max: 1000 }),
      fc.nat({ max: 86_400 }),
      (n, initial, factor, max) => {
        const grown = BigInt(initial) * BigInt(factor) ** BigInt(n);
        expect(waitBefore(n, { initial_seconds: initial, factor, max_seconds: max })).toBe(
          Number(grown < BigInt(max) ? grown : BigInt(max)) * 1000,
        );
      },
    ),
  );
});

test('any numbers: never beyond max, never shrinking, never other than a number', () => {
  const seconds = fc.double({ min: 0, max: 86_400, noNaN: true });
  fc.assert(
    fc.property(
      fc.nat({ max: 1000 }),
      seconds,
      fc.double({ min: 1, max: 1000, noNaN: true }),
      seconds,
      (n, initial, factor, max) => {
        const [wait, next] = [n, n + 1].map((round) =>
          waitBefore(round, { initial_seconds: initial, factor, max_seconds: max }),
        ) as [number, number];
        expect(wait).toBeGreaterThanOrEqual(0);
        expect(wait).toBeLessThanOrEqual(max * 1000);
        expect(next).toBeGreaterThanOrEqual(wait);
      },
    ),
  );
});

describe('Retry-After', () => {
  const now = Date.parse('1994-11-06T08:48:37Z');
  const table: [string, string | undefined, number | undefined][] = [
    ['seconds', '120', 120_000],
    ['none', '0', 0],
    ['spaces around', ' 7 ', 7000],
    ['an hour', '3600', 3_600_000],
    ['more than an hour', '3601', 3_600_000],
    ['more than a number holds', '9'.repeat(400), 3_600_000],
    ['a date', 'Sun, 06 Nov 1994 08:49:37 GMT', 60_000],
    ['the form of RFC 850', 'Sunday, 06-Nov-94 08:49:37 GMT', 60_000],
    ['the form of asctime', 'Sun Nov  6 08:49:37 1994', 60_000],
    ['a date in the past', 'Sun, 06 Nov 1994 08:47:37 GMT', 0],
    ['a date far off', 'Sun, 06 Nov 2094 08:49:37 GMT', 3_600_000],
    ['absent', undefined, undefined],
    ['empty', '', undefined],
    ['negative', '-5', undefined],
    ['a fraction', '1.5', undefined],
    ['a word', 'soon', undefined],
    ['no date', 'Sun, 99 Foo 1994 99:99:99 GMT', undefined],
    ['ISO 8601', '1994-11-06T08:49:37Z', undefined],
    ['hexadecimal', '0x10', undefined],
  ];
  test.each(table)('%s', (_name, header, expected) =>
    expect(retryAfterMs(header, now)).toBe(expected),
  );
});
