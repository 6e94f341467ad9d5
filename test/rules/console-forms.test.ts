/** Values as people type them, and which shape a value has. */
import { expect, test } from '@jest/globals';
import { shapeOf } from '../../console/shapes.ts';
import { parsedJson, typedText, valueOf } from '../../console/typed-values.ts';

test.each<[string, unknown]>([
  ['', undefined],
  ['12', 12],
  ['-0.5', -0.5],
  ['true', true],
  ['null', null],
  ['europe-west1', 'europe-west1'],
  ['1.2.3', '1.2.3'],
  ['007', '007'],
  ['"12"', '12'],
  ['[1, 2]', [1, 2]],
  ['{"a": 1}', { a: 1 }],
])('%s is typed for %j, and shown so that it is read again', (text, value) => {
  expect(valueOf(text)).toEqual(value);
  expect(valueOf(typedText(value))).toEqual(value);
});

test('what begins as JSON has to be some', () => {
  expect(() => valueOf('{"a"')).toThrow(/no JSON/);
  expect(valueOf(typedText('{"a"'))).toBe('{"a"');
});

test.each(['1e999', '-1e999', '[1e999]', '{"a": {"b": -1e999}}'])(
  '%s is no value: JSON has no such number, and null in its place would remove what was there',
  (text) => expect(() => valueOf(text)).toThrow('is a number that cannot be held exactly'),
);

test.each([
  ['9007199254740993', 'It is a number that cannot be held exactly'],
  ['{"budget": 0.12345678901234567891}', '/budget is a number that cannot be held exactly'],
  ['{"a": {"b": 1, "b": 2}}', '/a/b is given twice in one object.'],
])('%s is not altered without a word', (text, problem) => {
  expect(() => parsedJson(text)).toThrow(problem);
  expect(() => valueOf(text)).toThrow(problem);
});

test('a shape is told by what it says of itself, then by its fields', () => {
  const bearer = { properties: { type: { const: 'bearer' }, token: {} } };
  const basic = { properties: { type: { const: 'basic' }, username: {}, password: {} } };
  expect(shapeOf([bearer, basic], { type: 'basic' })).toBe(1);
  const one = { properties: { url: {} } };
  const several = { properties: { endpoints: {} } };
  expect(shapeOf([one, several], { endpoints: [] })).toBe(1);
  expect(shapeOf([one, several], { neither: 1 })).toBe(0);
});
