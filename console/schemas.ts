/** The schemas of documents, from the OpenAPI document of the gateway that serves this page. */
import { send } from './api.ts';

/** As much of JSON Schema as forms are made of. */
export interface Schema {
  readonly type?: string;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly enum?: readonly unknown[];
  readonly items?: Schema;
  /** Of every member, where their names are for people to choose. */
  readonly values?: Schema;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly maxLength?: number;
}

/** A schema as the document writes it: one that has a name is referred to, wherever it is. */
interface Shown extends Omit<Schema, 'properties' | 'items' | 'values'> {
  readonly $ref?: string;
  readonly properties?: Readonly<Record<string, Shown>>;
  readonly additionalProperties?: Shown | boolean;
  readonly items?: Shown;
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
  const { $ref: reference, properties, additionalProperties: values, items, ...own } = shown;
  if (reference !== undefined)
    return { ...resolved(schemas[reference.split('/').at(-1)!] ?? {}, schemas), ...own };
  return {
    ...own,
    ...(properties && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([name, inner]) => [name, resolved(inner, schemas)]),
      ),
    }),
    ...(items && { items: resolved(items, schemas) }),
    ...(typeof values === 'object' && { values: resolved(values, schemas) }),
  };
}
