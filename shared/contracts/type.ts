/**
 * The schemas that contracts are written with: TypeBox's, of which this makes the ones that are
 * used here, as TypeBox makes them. Their types are TypeBox's own. To import its values would be to
 * load all of it, since its package has no smaller entry: 373 files, a tenth of each start's
 * processor time and some 8 MiB of each process. `test/rules/type.test.ts` compares each with
 * TypeBox's.
 */
import type { TObject, TProperties, TSchema, TUnion, Type as TypeBox } from 'typebox';

type Used =
  | 'Array'
  | 'Boolean'
  | 'Enum'
  | 'Integer'
  | 'Literal'
  | 'Never'
  | 'Null'
  | 'Number'
  | 'Object'
  | 'Optional'
  | 'Partial'
  | 'Record'
  | 'String'
  | 'Union'
  | 'Unknown'
  | 'Unsafe'
  | 'With';

/** Marks a schema as TypeBox does: neither JSON nor a validator sees it. */
const mark = (schema: object, name: string, value: unknown): object =>
  Object.defineProperty(schema, name, {
    value,
    configurable: true,
    writable: true,
    enumerable: false,
  });

const schemaOf = (kind: string, keywords: object, options: object = {}): object =>
  mark({ ...keywords, ...options }, '~kind', kind);

/** With its marks. Options stand behind what is left of the schema's own. */
function copyOf(schema: object, options: object = {}): object {
  const own = Object.entries(Object.getOwnPropertyDescriptors(schema));
  const left = own.filter(([name]) => !Object.hasOwn(options, name));
  return Object.assign(Object.defineProperties({}, Object.fromEntries(left)), options);
}

const isOptional = (schema: object): boolean => Object.hasOwn(schema, '~optional');

function objectOf(properties: TProperties, options?: object): object {
  const required = Object.keys(properties).filter((name) => !isOptional(properties[name]!));
  const keywords = { type: 'object', ...(required.length > 0 && { required }), properties };
  return schemaOf('Object', keywords, options);
}

const optional = (schema: object): object => mark(copyOf(schema), '~optional', true);

function partial({ properties }: TObject, options?: object): object {
  const optionals = Object.entries(properties).map(([name, each]) => [name, optional(each)]);
  return copyOf(objectOf(Object.fromEntries(optionals) as TProperties), options);
}

/** Keys are strings, of a pattern or any. */
const record = ({ pattern = '^.*$' }: { pattern?: string }, values: TSchema, options?: object) =>
  copyOf(schemaOf('Record', { type: 'object', patternProperties: { [pattern]: values } }), options);

const makers: Record<Used, (...given: never[]) => object> = {
  Array: (items: TSchema, options?: object) => schemaOf('Array', { type: 'array', items }, options),
  Boolean: (options?: object) => schemaOf('Boolean', { type: 'boolean' }, options),
  Enum: (values: readonly unknown[], options?: object) =>
    schemaOf('Enum', { enum: values }, options),
  Integer: (options?: object) => schemaOf('Integer', { type: 'integer' }, options),
  Literal: (value: unknown, options?: object) =>
    schemaOf('Literal', { type: typeof value, const: value }, options),
  Never: (options?: object) => schemaOf('Never', { not: {} }, options),
  Null: (options?: object) => schemaOf('Null', { type: 'null' }, options),
  Number: (options?: object) => schemaOf('Number', { type: 'number' }, options),
  Object: objectOf,
  Optional: optional,
  Partial: partial,
  Record: record,
  String: (options?: object) => schemaOf('String', { type: 'string' }, options),
  Union: (anyOf: readonly TSchema[], options?: object) => schemaOf('Union', { anyOf }, options),
  Unknown: (options?: object) => schemaOf('Unknown', {}, options),
  Unsafe: (schema: object) => mark(copyOf(schema), '~unsafe', null),
  With: copyOf,
};

/**
 * TypeBox's signatures work the types of schemas out, which no function could that is written here
 * without them.
 */
export const Type = makers as Pick<typeof TypeBox, Used>;

const kindOf = (schema: TSchema): unknown => Reflect.get(schema, '~kind');
export const isObject = (schema: TSchema): schema is TObject => kindOf(schema) === 'Object';
export const isUnion = (schema: TSchema): schema is TUnion => kindOf(schema) === 'Union';
