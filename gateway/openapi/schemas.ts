/**
 * The contracts' schemas as OpenAPI 3.1 shows them. One with a title is a component, which places
 * refer to; every other is written where it is. Keywords that are there for our validator, and that
 * code generators do not read, are said in words that they do.
 */
import { isDeepStrictEqual } from 'node:util';
import type { TSchema } from 'typebox';

export type Schema = Readonly<Record<string, unknown>>;

export interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly required: boolean;
  readonly description?: string;
  readonly schema: Schema;
  readonly example?: unknown;
}
interface Reference {
  readonly $ref: string;
}

export interface Components {
  /** The schema as it is shown at its place: a reference, where it has a title. */
  readonly shown: (schema: TSchema) => Schema;
  /**
   * The parameter as it is shown at its place: a reference, where others of its component's name,
   * which is its own unless given, are like it.
   */
  readonly parameter: (parameter: Parameter, component?: string) => Parameter | Reference;
  /** Everything that was referred to so far, by name. */
  readonly schemas: () => Record<string, Schema>;
  readonly parameters: () => Record<string, Parameter>;
}

export const refTo = (name: string) => ({ $ref: `#/components/schemas/${name}` });

/** Throws where two schemas that differ have one title. */
export function createComponents(): Components {
  const named = new Map<string, Schema>();
  const parameters = new Map<string, Parameter>();

  function shown(schema: TSchema): Schema {
    const { title, $comment: here, ...rest } = schema as Schema;
    const own = inlined(rest);
    if (typeof title !== 'string') return own;
    const known = named.get(title);
    if (known === undefined) named.set(title, own);
    else if (!isDeepStrictEqual(known, own))
      throw new Error(`Two schemas that differ have the title ${title}.`);
    return { ...refTo(title), ...(here === undefined ? {} : { description: here }) };
  }

  function inlined({ discriminator: _discriminator, ...schema }: Schema): Schema {
    const { properties, items, not, anyOf, oneOf, allOf, enum: values } = schema;
    return {
      ...schema,
      ...(properties === undefined ? {} : { properties: eachShown(properties as Schema) }),
      ...(items === undefined ? {} : { items: shown(items as TSchema) }),
      ...(not === undefined ? {} : { not: shown(not as TSchema) }),
      ...(oneOf === undefined ? {} : { oneOf: (oneOf as TSchema[]).map(shown) }),
      ...(anyOf === undefined ? {} : choiceOf(schema, (anyOf as TSchema[]).map(shown))),
      ...(allOf === undefined ? {} : conditionsOf(allOf as Schema[])),
      ...membersOf(schema),
      ...(isTexts(values) ? { type: 'string' } : {}),
    };
  }

  const eachShown = (properties: Schema): Schema =>
    Object.fromEntries(
      Object.entries(properties).map(([name, property]) => [name, shown(property as TSchema)]),
    );

  /** A map of anything by name. TypeBox says it by the pattern of the names. */
  function membersOf({ patternProperties, additionalProperties }: Schema): Schema {
    if (patternProperties === undefined)
      return typeof additionalProperties === 'object'
        ? { additionalProperties: shown(additionalProperties as TSchema) }
        : {};
    const patterns = Object.entries(patternProperties as Schema);
    const [pattern, member] = patterns[0]!;
    const isAnyName = pattern === '^.*$';
    if (patterns.length !== 1 || (!isAnyName && additionalProperties !== false))
      throw new Error('Only maps with one pattern for all names can be shown.');
    return {
      patternProperties: undefined,
      additionalProperties: shown(member as TSchema),
      ...(isAnyName ? {} : { propertyNames: { pattern } }),
    };
  }

  /** Conditions that choose one of several shapes, each of which refuses what the others have. */
  function conditionsOf(conditions: readonly Schema[]): Schema {
    const shapes = conditions.map(({ else: shape }) => shape);
    if (shapes.includes(undefined)) return { allOf: conditions.map(shown) };
    return { allOf: undefined, anyOf: (shapes as TSchema[]).map(shown) };
  }

  /** The first of a name is the component; one that differs is written where it is. */
  function parameter(own: Parameter, component = own.name): Parameter | Reference {
    const known = parameters.get(component) ?? own;
    parameters.set(component, known);
    const isLike = isDeepStrictEqual(known, own);
    return isLike ? { $ref: `#/components/parameters/${component}` } : own;
  }

  return {
    shown,
    parameter,
    schemas: () => Object.fromEntries([...named].sort(byName)),
    parameters: () => Object.fromEntries([...parameters].sort(byName)),
  };
}

const byName = ([one]: readonly [string, unknown], [other]: readonly [string, unknown]): number =>
  one < other ? -1 : 1;

const isTexts = (values: unknown): boolean =>
  Array.isArray(values) && values.every((value) => typeof value === 'string');

/**
 * What may also be null is described as a whole: readers look there, and not among the
 * alternatives.
 */
function choiceOf({ description }: Schema, alternatives: readonly Schema[]): Schema {
  const others = alternatives.filter(({ type }) => type !== 'null');
  const [only] = others;
  const isNullable = others.length === 1 && alternatives.length === 2;
  if (!isNullable || only === undefined || '$ref' in only) return { anyOf: alternatives };
  const { description: own, ...rest } = only;
  const said = description ?? own;
  return {
    ...(said === undefined ? {} : { description: said }),
    anyOf: alternatives.map((alternative) => (alternative === only ? rest : alternative)),
  };
}
