/**
 * Examples of what contracts take and answer, for the OpenAPI document: what a schema says itself,
 * else made of what its parts say.
 */
import type { TSchema } from 'typebox';

interface Schema {
  readonly examples?: readonly unknown[];
  readonly const?: unknown;
  readonly default?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
  readonly else?: Schema;
  readonly not?: unknown;
  readonly type?: string;
  readonly format?: string;
  readonly minimum?: number;
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
}

const ofFormats: Readonly<Record<string, string>> = {
  uuid: '3f9d1c52-7a41-4f0e-9b6c-0d5e8a1b2c3d',
  'date-time': '2026-02-02T09:30:00Z',
};

/** A member that may be left out is shown where it has an example of its own. */
export const exampleOf = (schema: TSchema): unknown => exampleFor(schema as Schema);

export const hasExample = (schema: TSchema): boolean => 'examples' in schema;

function exampleFor(schema: Schema): unknown {
  if (schema.examples) return schema.examples[0];
  if ('const' in schema) return schema.const;
  if ('default' in schema) return schema.default;
  if (schema.enum) return schema.enum[0];
  const shape = (schema.anyOf ?? schema.oneOf)?.[0] ?? schema.allOf?.[0]?.else;
  if (shape) return exampleFor(shape);
  switch (schema.type) {
    case 'object':
      return objectFor(schema);
    case 'array':
      return schema.items === undefined || 'not' in schema.items ? [] : [exampleFor(schema.items)];
    case 'string':
      return ofFormats[schema.format ?? ''] ?? 'text';
    case 'integer':
    case 'number':
      return Math.max(1, schema.minimum ?? 1);
    case 'boolean':
      return true;
    case 'null':
      return null;
    default:
      return {};
  }
}

function objectFor({ properties = {}, required = [] }: Schema): unknown {
  const shown = Object.entries(properties).filter(
    ([name, { examples }]) => required.includes(name) || examples !== undefined,
  );
  return Object.fromEntries(shown.map(([name, property]) => [name, exampleFor(property)]));
}
