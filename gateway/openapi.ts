/** OpenAPI 3.1 from the contracts. */
import type { TSchema } from 'typebox';
import type { Contract, Rest } from '../shared/contracts/contract.ts';
import { errorTable } from '../shared/contracts/error-codes.ts';
import { restRoutes } from './rest.ts';

const Envelope = {
  type: 'object',
  required: ['detail', 'request_id'],
  properties: {
    detail: {
      type: 'object',
      required: ['status', 'code', 'message'],
      properties: {
        status: { const: 'error' },
        code: { enum: Object.keys(errorTable) },
        message: { type: 'string' },
      },
    },
    request_id: { type: 'string' },
    errors: {
      type: 'array',
      description: 'With 422: what is wrong, by JSON Pointer',
      items: {
        type: 'object',
        properties: { path: { type: 'string' }, message: { type: 'string' } },
      },
    },
  },
} as const;

const content = (schema: unknown, types = ['application/json']) =>
  Object.fromEntries(types.map((type) => [type, { schema }]));
const eventStream = (schema: unknown) => ({
  'text/event-stream': {
    schema: {
      type: 'string',
      contentMediaType: 'application/json',
      contentSchema: schema,
      description:
        'Events `config.changed`, whose `id` is the revision and whose `data` is this schema in one line of JSON. Beside them `ready` ' +
        '(begins), `reset` (changes are missing: read everything again) and `closed` (ends, with `{"code"}`)',
    },
  },
});
const whoMayCall = ({ access }: Contract): string =>
  access.level === 'tenant' || access.level === 'tenant_or_platform'
    ? `${access.roles.join(', ')} of the tenant${access.level === 'tenant_or_platform' ? ', or platform_admin' : ''}`
    : access.level +
      ('publicWith' in access ? `; anyone, with ${access.publicWith}` : '') +
      ('recent' in access ? ', signed in at most 10 minutes ago' : '');

/** The document of what a service answers to a read or write of one, without the null of a deletion. */
const documentOf = ({ properties }: Shape, written: boolean): Shape =>
  written ? properties.document!.anyOf[0]! : properties.document!;
interface Shape {
  readonly properties: Record<string, Shape>;
  readonly anyOf: readonly Shape[];
}

/** Status → media type → schema, as `responses.ts` turns the result into them. */
function answersOf(
  { response, result }: Contract,
  { method }: Rest,
): Record<string, Record<string, unknown> | undefined> {
  const shape = result as unknown as Shape;
  const json = content(result);
  switch (response) {
    case 'resource':
      return { 200: content(documentOf(shape, false)), 304: undefined };
    case 'write': {
      const [written, dryRun] = shape.anyOf as readonly [Shape, Shape];
      const document = documentOf(written, true);
      return {
        200: content(method === 'DELETE' ? dryRun : { anyOf: [document, dryRun] }),
        ...(method === 'PUT' || method === 'POST' ? { 201: content(document) } : {}),
        ...(method === 'DELETE' || method === 'POST' ? { 204: undefined } : {}),
      };
    }
    case 'list':
      return {
        200: {
          ...json,
          'application/x-ndjson': {
            schema: {
              type: 'string',
              description: 'The items, one a line; X-Next-Cursor has the cursor',
            },
          },
        },
      };
    case 'page':
      return { 200: { ...json, 'text/html': { schema: { type: 'string' } } } };
    case 'stream':
      return { 200: eventStream(result) };
    case 'created':
      return { 201: json };
    case 'accepted':
      return { 202: json };
    case 'nothing':
      return { 204: undefined };
    case 'reload':
      return { 200: json, 207: json };
    default:
      return { 200: json };
  }
}
const descriptions: Readonly<Record<string, string>> = {
  201: 'Created',
  202: 'Accepted',
  204: 'Done, nothing to show',
  207: 'Done in part; errors says what failed',
  304: 'Unchanged since If-None-Match',
};
const ifNoneMatch = {
  name: 'if-none-match',
  in: 'header',
  required: false,
  schema: { type: 'string' },
  description: 'Entity tags that the client has',
};

function operation(name: string, contract: Contract, rest: Rest) {
  const { properties, required = [] } = contract.params as unknown as {
    properties: Record<string, TSchema & { description?: string }>;
    required?: string[];
  };
  const parameter = (place: 'path' | 'query' | 'header', shown: string, key: string) => ({
    name: shown,
    in: place,
    required: place === 'path' || required.includes(key),
    schema: properties[key],
    ...(properties[key]?.description === undefined
      ? {}
      : { description: properties[key].description }),
  });
  return {
    operationId: name,
    tags: [name.split('.')[0]],
    summary: contract.summary,
    description: `Who may call: ${whoMayCall(contract)}.${contract.keyScope ? ` API keys need the scope \`${contract.keyScope}\`.` : ''}`,
    security:
      contract.access.level === 'public'
        ? []
        : [...('publicWith' in contract.access ? [{}] : []), { bearer: [] }, { apiKey: [] }],
    parameters: [
      ...rest.pathParams.map((key) => parameter('path', key, key)),
      ...rest.query.map((key) => parameter('query', key, key)),
      ...Object.entries(rest.headers).map(([header, key]) => parameter('header', header, key)),
      ...(contract.response === 'resource' ? [ifNoneMatch] : []),
    ],
    ...(rest.body
      ? {
          requestBody: {
            required: rest.method !== 'POST' || required.includes('body'),
            content: content(
              properties.body,
              rest.method === 'PATCH'
                ? ['application/json', 'application/merge-patch+json']
                : undefined,
            ),
          },
        }
      : {}),
    responses: {
      ...Object.fromEntries(
        Object.entries(answersOf(contract, rest)).map(([status, media]) => [
          status,
          { description: descriptions[status] ?? 'Done', ...(media ? { content: media } : {}) },
        ]),
      ),
      default: {
        description: 'An error, by its code',
        content: content({ $ref: '#/components/schemas/Error' }),
      },
    },
  };
}

export function openApi(baseUrl: string, version: string) {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const { name, contract, rest } of restRoutes)
    (paths[rest.path] ??= {})[rest.method.toLowerCase()] = operation(name, contract, rest);
  return {
    openapi: '3.1.0',
    info: {
      title: 'Strata',
      version,
      description:
        'Layered configuration, policy and authentication for an operations-automation platform.',
    },
    servers: [{ url: baseUrl }],
    paths,
    components: {
      schemas: { Error: Envelope },
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer' },
        apiKey: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
      },
    },
  };
}
