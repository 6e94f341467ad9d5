/** The schemas of documents, from the OpenAPI document of the gateway that serves this page. */
import { send } from './api.ts';

/** As much of JSON Schema as forms are made of. */
export interface Schema {
  /** Where it has a name of its own. */
  readonly title?: string;
  readonly type?: string;
  readonly const?: unknown;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly enum?: readonly unknown[];
  readonly items?: Schema;
  /** Of every member, where their names are for people to choose. */
  readonly values?: Schema;
  /** It has the properties of one of these. */
  readonly shapes?: readonly Schema[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly maxLength?: number;
}

/** A schema as the document writes it: one that has a name is referred to, wherever it is. */
interface Shown extends Omit<Schema, 'properties' | 'items' | 'values' | 'shapes'> {
  readonly $ref?: string;
  readonly properties?: Readonly<Record<string, Shown>>;
  readonly additionalProperties?: Shown | boolean;
  readonly items?: Shown;
  readonly oneOf?: readonly Shown[];
  readonly anyOf?: readonly Shown[];
}

interface OpenApi {
  readonly components: { readonly schemas: Readonly<Record<string, Shown>> };
  readonly paths: Readonly<
    Record<
      string,
      {
        readonly put?: {
          readonly requestBody?: {
            readonly content: Readonly<Record<string, { readonly schema: Shown }>>;
          };
        };
      }
    >
  >;
}

let asked: Promise<OpenApi> | undefined;

/** What a PUT at a path takes; any object where it cannot be learned. */
export async function schemaOf(path: string): Promise<Schema> {
  asked ??= send<OpenApi>('GET', '/openapi.json', { isAside: true }).then(({ body }) => body);
  try {
    const { paths, components } = await asked;
    const body = paths[path]?.put?.requestBody?.content['application/json']?.schema;
    return body ? resolved(body, components.schemas) : {};
  } catch {
    asked = undefined;
    return {};
  }
}

/** The schema with what it refers to in its place. */
function resolved(shown: Shown, schemas: Readonly<Record<string, Shown>>): Schema {
  const { $ref: reference, ...rest } = shown;
  if (reference !== undefined) {
    const title = reference.split('/').at(-1)!;
    return { ...resolved(schemas[title] ?? {}, schemas), ...rest, title };
  }
  const { properties, additionalProperties: values, items, oneOf, anyOf, ...own } = rest;
  // Nothing is what a form says by leaving it out.
  const choices = (oneOf ?? anyOf)?.filter(({ type }) => type !== 'null');
  if (choices?.length === 1) return { ...own, ...resolved(choices[0]!, schemas) };
  const shapes = choices?.map((shape) => resolved(shape, schemas));
  return {
    ...own,
    ...(properties && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([name, inner]) => [name, resolved(inner, schemas)]),
      ),
    }),
    ...(items && { items: resolved(items, schemas) }),
    ...(isMap(shown) && { values: resolved(values === true ? {} : (values as Shown), schemas) }),
    // A choice between anything else has no fields.
    ...(shapes?.every((shape) => shape.properties) ? { shapes } : shapes && { type: 'choice' }),
  };
}

/** Of members with names that people choose. An object may also take more than its fields. */
const isMap = ({ properties, additionalProperties: values, type }: Shown): boolean =>
  !properties && type === 'object' && values !== undefined && values !== false;
