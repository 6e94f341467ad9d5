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
  readonly minimum?: number;
  readonly maximum?: number;
  readonly maxLength?: number;
}

interface OpenApi {
  readonly paths: Readonly<
    Record<
      string,
      {
        readonly put?: {
          readonly requestBody?: {
            readonly content: Readonly<Record<string, { readonly schema: Schema }>>;
          };
        };
      }
    >
  >;
}

let asked: Promise<OpenApi> | undefined;

/** What a PUT at a path takes; any object where it cannot be learned. */
export async function schemaOf(path: string): Promise<Schema> {
  asked ??= send<OpenApi>('GET', '/openapi.json').then(({ body }) => body);
  try {
    const { paths } = await asked;
    return paths[path]?.put?.requestBody?.content['application/json']?.schema ?? {};
  } catch {
    asked = undefined;
    return {};
  }
}
