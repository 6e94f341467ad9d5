/**
 * Tables as TypeORM maps them. What a row holds follows from its columns. Indexes and checks are in
 * the migrations alone: nothing that runs asks the mapper for them.
 */
import { EntitySchema, type EntitySchemaColumnOptions } from 'typeorm';

declare const holds: unique symbol;

/** A column. What a row has there is in its type alone. */
export interface Column<Value> extends EntitySchemaColumnOptions {
  readonly [holds]?: Value;
}

export const text: Column<string> = { type: 'text' };
export const uuid: Column<string> = { type: 'uuid' };
export const time: Column<Date> = { type: 'timestamptz' };
export const flag: Column<boolean> = { type: 'boolean' };
export const int4: Column<number> = { type: 'int4' };
export const int8: Column<number> = { type: 'int8' };
export const bytea: Column<Buffer> = { type: 'bytea' };
export const float8: Column<number> = { type: 'float8' };

/** A text that is one of a few. */
export const textOf = <Value extends string>(): Column<Value> => ({ type: 'text' });
/** Kept as it was sent. */
export const json = <Value = unknown>(): Column<Value> => ({ type: 'json' });
export const jsonb = <Value>(): Column<Value> => ({ type: 'jsonb' });

export const nullable = <Value>(column: Column<Value>): Column<Value | null> => ({
  ...column,
  nullable: true,
});
/** A part of the primary key. */
export const primary = <Value>(column: Column<Value>): Column<Value> => ({
  ...column,
  primary: true,
});
export const arrayOf = <Value>({ type }: Column<Value>): Column<Value[]> => ({
  type,
  array: true,
});

type Columns = Readonly<Record<string, Column<unknown>>>;

/** The row that has these columns. */
export type RowWith<Of extends Columns> = {
  -readonly [Name in keyof Of]: Of[Name] extends Column<infer Value> ? Value : never;
};

export type RowOf<Table> = Table extends EntitySchema<infer Row> ? Row : never;

/** Maps a table of a schema of the database. */
export type Table = <const Of extends Columns>(
  name: string,
  columns: Of,
) => EntitySchema<RowWith<Of>>;

/** Maps the tables of a schema of the database, and has all that were mapped by it. */
export function tablesOf(schema: string): { table: Table; entities: EntitySchema[] } {
  const entities: EntitySchema[] = [];
  return {
    table(name, columns) {
      const entity = new EntitySchema<RowWith<typeof columns>>({
        name,
        schema,
        tableName: name,
        columns,
      });
      entities.push(entity);
      return entity;
    },
    entities,
  };
}
