import type { Static, TObject } from 'typebox';

type Text<Value> = Value extends Date ? string : Value;

/** A column of any JSON passed its schema when it was written, so its type is taken on trust. */
type Shown<Of, Row, Name extends keyof Of & keyof Row> = {
  [Each in keyof Pick<Of, Name>]: unknown extends Row[Each]
    ? Of[Each]
    : undefined extends Of[Each]
      ? Text<NonNullable<Row[Each]>>
      : Text<Row[Each]>;
};

/**
 * What an answer of this schema has of a row, by the same names. Moments are texts (RFC 3339, UTC);
 * a column that is null is left out where the answer need not have it.
 */
export function viewBy<Schema extends TObject, Row extends object>(schema: Schema, row: Row) {
  const { properties, required }: { properties: object; required?: readonly string[] } = schema;
  const shown = Object.entries(row)
    .filter(
      ([name, value]) =>
        Object.hasOwn(properties, name) && (value !== null || required?.includes(name)),
    )
    .map(([name, value]) => [name, value instanceof Date ? value.toISOString() : value]);
  return Object.fromEntries(shown) as Shown<Static<Schema>, Row, keyof Static<Schema> & keyof Row>;
}
