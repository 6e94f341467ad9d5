/**
 * What the check against a schema answers: always a reason where it refuses, each place once, never
 * more than a reader reads.
 */
import { describe, expect, test } from '@jest/globals';
import { Ajv } from 'ajv';
import addFormats from 'ajv-formats';
import { Type } from 'typebox';
import { contracts } from '../../shared/contracts/index.ts';
import { invalid } from '../../shared/errors.ts';
import { problemsOf } from '../../shared/schema/validate.ts';
import { growth, mostGrowth } from '../support/cost.ts';
import { times } from '../support/properties.ts';
import { randomFrom, valueOf } from '../support/values-of-schema.ts';

const branding = Type.Union([Type.String(), Type.Object({ name: Type.String() })]);
const templates = Type.Record(Type.String(), Type.Object({ branding }));

test('two entries that are wrong in the same way are both told', () => {
  const value = { a: { branding: 1 }, b: { branding: true } };
  const paths = new Set(problemsOf(templates, value).map(({ path }) => path));
  expect(paths).toEqual(new Set(['/a/branding', '/b/branding']));
});

test('of a choice, what is wrong with the shape of the value’s type is told, and nothing of the others', () => {
  expect(problemsOf(templates, { a: { branding: {} } })).toEqual([
    { path: '/a/branding/name', message: 'is required' },
  ]);
});

test('an array that is too long is told once, whatever it holds', () => {
  const list = Type.Array(Type.Enum(['x', 'y']), { maxItems: 3, uniqueItems: true });
  expect(
    problemsOf(
      list,
      Array.from({ length: 60_000 }, () => 7),
    ),
  ).toEqual([{ path: '', message: 'must NOT have more than 3 items' }]);
  expect(problemsOf(list, ['x', 'z']).map(({ path }) => path)).toEqual(['/1']);
  expect(problemsOf(list, ['x', 'x'])).toHaveLength(1);
});

test('of an id, and of a revision or a time, what it has to be is told in words, once', () => {
  const asked = { tenant_id: 'Acme', as_of: '2026-11-30' };
  expect(problemsOf(contracts['config-resolver.resolve'].params, asked)).toEqual([
    { path: '/tenant_id', message: 'must be an id: a UUID, in lower case' },
    { path: '/as_of', message: 'must be a revision, or a time such as 2026-11-30T09:30:00Z' },
  ]);
});

test('a text that is too long is told once, and not taken apart to see whether it is a time', () => {
  const moment = Type.String({ format: 'date-time', maxLength: 40 });
  expect(problemsOf(moment, ' '.repeat(20_000))).toEqual([
    { path: '', message: 'must NOT have more than 40 characters' },
  ]);
  expect(problemsOf(moment, 'yesterday')).toHaveLength(1);
});

describe('an answer stays readable', () => {
  test('50 problems at most', () => {
    const value = Object.fromEntries(
      Array.from({ length: 5000 }, (_, index) => [`n${index}`, { branding: 1 }]),
    );
    expect(problemsOf(templates, value)).toHaveLength(50);
  });

  test('64 KiB at most, with paths cut at a place around the problem', () => {
    const long = '€'.repeat(300);
    const problems = Array.from({ length: 1000 }, (_, index) => ({
      path: `/${long}/${index}/${long}`,
      message: 'is not known',
    }));
    const { errors } = invalid(problems).data as { errors: { path: string }[] };
    expect(Buffer.byteLength(JSON.stringify(errors))).toBeLessThanOrEqual(64 * 1024);
    expect(errors[0]!.path).toBe(`/${long}/0`);
  });
});

test('the schemas of all contracts are schemas, which no one looks at when they are used', () => {
  const ajv = new Ajv();
  const errors = Object.entries(contracts).flatMap(([name, { params, result }]) =>
    [params, result].flatMap((schema) =>
      ajv.validateSchema(schema) === true ? [] : [`${name}: ${ajv.errorsText()}`],
    ),
  );
  expect(errors).toEqual([]);
  expect(ajv.validateSchema({ type: 'string', maxLength: -1 })).toBe(false);
});

test('every contract refuses with a reason what its schema refuses, and nothing else', () => {
  const oracle = new Ajv({
    strict: false,
    discriminator: true,
    // It knows no format of ours, and would say so of each schema.
    logger: false,
    // As the test before this one has done.
    validateSchema: false,
    code: { optimize: false },
  });
  addFormats.default(oracle);
  const random = randomFrom(20_260_101);
  const faultRates = [0, 0.1, 0.2, 0.3, 0.4, 0.5];
  const runs = 12 * times;
  let refused = 0;
  for (const [name, { params }] of Object.entries(contracts)) {
    const isValid = oracle.compile(params);
    for (let run = 0; run < runs; run += 1) {
      const value = valueOf(params, random, faultRates[run % faultRates.length]);
      const problems = problemsOf(params, value);
      const expected = isValid(value);
      if (expected !== (problems.length === 0))
        throw new Error(
          `${name}: ${JSON.stringify(value)} is ${expected}, told ${JSON.stringify(problems)}`,
        );
      if (!expected) refused += 1;
    }
  }
  expect(refused).toBeGreaterThan(5 * Object.keys(contracts).length * times);
});

describe('costs at most five times as much at four times the entries', () => {
  const entries = (length: number, value: unknown) =>
    Object.fromEntries(Array.from({ length }, (_, index) => [`n${index}`, value]));
  test.each([
    ['wrong siblings of a choice', templates, (length: number) => entries(length, { branding: 1 })],
    [
      'unknown fields',
      Type.Object({}, { additionalProperties: false }),
      (length: number) => entries(length, 1),
    ],
    [
      'too many items that have to be unique',
      Type.Array(Type.Enum(['x', 'y']), { maxItems: 100, uniqueItems: true }),
      (length: number) => Array.from({ length: 10 * length }, (_, index) => index),
    ],
  ])('%s', (_name, schema, valueWith) => {
    const workOn = (length: number) => {
      const value = valueWith(length);
      return () => expect(problemsOf(schema, value).length).toBeGreaterThan(0);
    };
    expect(growth(2500, workOn)).toBeLessThanOrEqual(mostGrowth);
  });
});
