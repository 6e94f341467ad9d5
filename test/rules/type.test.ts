/**
 * The schemas that contracts are written with are those of TypeBox, marks and order included:
 * fingerprints are made of their JSON.
 */
import { expect, test } from '@jest/globals';
import { Type as TypeBox } from 'typebox';
import { isObject, isUnion, Type } from '../../shared/contracts/type.ts';

type Makers = typeof Type;

/** A schema as lists of its properties in order, those that JSON leaves out included. */
function seen(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(seen);
  if (typeof schema !== 'object' || schema === null) return schema;
  return Object.entries(Object.getOwnPropertyDescriptors(schema)).map(
    ([name, { value, enumerable }]) => [name, enumerable, seen(value)],
  );
}

const said = { description: 'What it is', examples: ['a'] };

const examples: Readonly<Record<keyof Makers, (type: Makers) => unknown[]>> = {
  Array: ({ Array, String }) => [Array(String()), Array(String(), { maxItems: 3 })],
  Boolean: ({ Boolean }) => [Boolean(), Boolean(said)],
  Enum: ({ Enum }) => [Enum(['a', 'b']), Enum(['a'], said)],
  Integer: ({ Integer }) => [Integer(), Integer({ minimum: 0 })],
  Literal: ({ Literal }) => [Literal('a'), Literal(1, said), Literal(true)],
  Never: ({ Never }) => [Never(), Never(said)],
  Null: ({ Null }) => [Null(), Null(said)],
  Number: ({ Number }) => [Number(), Number({ exclusiveMinimum: 0 })],
  Object: ({ Object, Optional, String, Null }) => [
    Object({}),
    Object({ a: Optional(String()) }, said),
    Object({ b: String(), a: Optional(Null()), c: Null() }, { additionalProperties: false }),
  ],
  Optional: ({ Optional, String, Unsafe }) => [
    Optional(String(said)),
    Optional(Optional(String())),
    Optional(Unsafe({ type: 'string' })),
  ],
  Partial: ({ Partial, Object, Optional, Integer, String }) => [
    Partial(Object({ a: String(), b: Optional(Integer()) }, { additionalProperties: false })),
    Partial(Object({ a: Object({ b: Integer() }) }), { additionalProperties: false, ...said }),
  ],
  Record: ({ Record, String, Integer }) => [
    Record(String(), Integer()),
    Record(String({ pattern: '^[a-z]{1,9}$' }), Integer(), { maxProperties: 3 }),
  ],
  String: ({ String }) => [String(), String({ type: 'text', format: 'uuid' })],
  Union: ({ Union, String, Null }) => [Union([String(), Null()]), Union([String()], said)],
  Unknown: ({ Unknown }) => [Unknown(), Unknown(said)],
  Unsafe: ({ Unsafe, String }) => [Unsafe({ oneOf: [] }), Unsafe(String(said))],
  With: ({ With, String, Optional, Unsafe }) => [
    With(String({ description: 'Else', maxLength: 3 }), said),
    With(Optional(String()), said),
    With(Unsafe(String()), { description: 'Else' }),
  ],
};

test.each(Object.keys(examples) as (keyof Makers)[])('%s is as TypeBox makes it', (name) => {
  const ofTypeBox = examples[name](TypeBox);
  expect(examples[name](Type).map(seen)).toEqual(ofTypeBox.map(seen));
});

test('what is made of a schema leaves it as it was', () => {
  const schema = Type.Object({ a: Type.String() }, said);
  const before = seen(schema);
  Type.Optional(schema);
  Type.Partial(schema);
  Type.Unsafe(schema);
  Type.With(schema, { description: 'Else' });
  expect(seen(schema)).toEqual(before);
});

test('objects and unions are told apart from other schemas', () => {
  const object = Type.Object({});
  const union = Type.Union([object]);
  expect([object, union, Type.Null()].map(isObject)).toEqual([true, false, false]);
  expect([object, union, Type.Null()].map(isUnion)).toEqual([false, true, false]);
  expect(isObject(TypeBox.Object({}))).toBe(true);
});
