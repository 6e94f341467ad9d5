/** Timestamps of requests: what names a moment, and that every field that takes one says so. */
import { expect, test } from '@jest/globals';
import { contracts } from '../../shared/contracts/index.ts';
import { momentOf } from '../../shared/schema/moment.ts';
import { problemsOf } from '../../shared/schema/validate.ts';
import type { Schema } from '../support/values-of-schema.ts';
import fc, { runs } from '../support/properties.ts';

const none = [
  '2026-11-31T00:00:00Z',
  '2026-02-29T00:00:00Z',
  '1900-02-29T00:00:00Z',
  '2026-13-01T00:00:00Z',
  '2026-00-10T00:00:00Z',
  '2026-01-00T00:00:00Z',
  '2026-11-30T24:00:00Z',
  '2026-11-30T10:60:00Z',
  '2016-12-31T23:59:60Z',
  '2026-11-30T10:00:00+24:00',
  '2026-11-30T10:00:00',
  '2026-11-30',
  '0000-01-01T00:00:00Z',
  '9999-12-31T23:59:59-10:00',
  'yesterday',
  '',
];
test.each(none)('%j names no moment', (text) => {
  expect(momentOf(text)).toBeUndefined();
});

test.each([
  ['2024-02-29T00:00:00Z', '2024-02-29T00:00:00.000Z'],
  ['2000-02-29T00:00:00Z', '2000-02-29T00:00:00.000Z'],
  ['2026-11-30T23:59:59.999999+02:00', '2026-11-30T21:59:59.999Z'],
  ['2026-11-30t10:00:00z', '2026-11-30T10:00:00.000Z'],
  ['2026-11-30 10:00:00Z', '2026-11-30T10:00:00.000Z'],
  ['2026-11-30T10:00Z', '2026-11-30T10:00:00.000Z'],
])('%j is %s', (text, moment) => {
  expect(momentOf(text)?.toISOString()).toBe(moment);
});

test('of generated dates those name a moment that the calendar has', () => {
  const part = (most: number) => fc.integer({ min: 0, max: most });
  const two = (value: number): string => String(value).padStart(2, '0');
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 9999 }), part(13), part(32), (year, month, day) => {
      const date = `${String(year).padStart(4, '0')}-${two(month)}-${two(day)}`;
      const moment = momentOf(`${date}T12:00:00Z`);
      const carried = new Date(0);
      carried.setUTCFullYear(year, month - 1, day);
      const exists = carried.getUTCMonth() === month - 1 && carried.getUTCDate() === day;
      expect(moment?.toISOString()).toBe(exists ? `${date}T12:00:00.000Z` : undefined);
    }),
    runs(600),
  );
});

/** Every schema of a moment in the parameters of an action, by its place. */
function momentsIn(schema: Schema | undefined, place: string): [place: string, schema: Schema][] {
  if (typeof schema !== 'object' || schema === null) return [];
  if ((schema as { format?: string }).format === 'date-time') return [[place, schema]];
  return Object.entries(schema).flatMap(([name, each]) =>
    momentsIn(each as Schema, `${place}/${name}`),
  );
}
const fields = Object.entries(contracts).flatMap(([action, { params }]) =>
  momentsIn(params as Schema, action),
);

test.each(fields)('%s takes no date that does not exist', (_place, schema) => {
  for (const text of none) expect(problemsOf(schema as never, text)).not.toEqual([]);
  expect(problemsOf(schema as never, '2024-02-29T00:00:00Z')).toEqual([]);
});
test('what takes a moment is found', () => {
  expect(fields.length).toBeGreaterThan(5);
});
