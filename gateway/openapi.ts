/** The OpenAPI 3.1 document, made of the contracts: what `responses.ts` sends and `parameters.ts` reads, as schemas. */
import { IsObject, IsUnion, type TSchema } from 'typebox';
import type { Access, Contract, Rest } from '../shared/contracts/contract.ts';
import { readinessStatuses } from '../shared/cluster/readiness.ts';
import { errorTable } from '../shared/contracts/error-codes.ts';
import { restRoutes, type RestRoute } from './rest.ts';

/** Of every error, as `toAnswer` in shared/errors.ts makes it. */
const ErrorEnvelope = {
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

type Schema = object;
/** Media type → schema, as OpenAPI nests them. */
type Content = Readonly<Record<string, { readonly schema: Schema }>>;
/** By status; undefined where there is no body. */
type Contents = Readonly<Record<number, Content | undefined>>;

const json = 'application/json';
const jsonOf = (schema: Schema): Content => ({ [json]: { schema } });

export function openApi(baseUrl: string, version: string) {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const route of restRoutes) {
    const { path, method } = route.rest;
    paths[path] = { ...paths[path], [method.toLowerCase()]: operationOf(route) };
  }
  Object.assign(paths, monitoringPaths);
  return {
    openapi: '3.1.0',
    info: {
      title: 'Strata',
      version,
      description:
        'Layered configuration, policy and authentication for an operations-automation platform. ' +
        'A JSON body is kept exactly as it was sent, or refused with 422: a number that a double cannot hold, `-0`, a name given ' +
        'twice in one object, U+0000 and half of a surrogate pair, more than 64 levels, 10,000 names or 50,000 objects and arrays, ' +
        'and a name of more than 1,000 characters are refused. A body, and a stored document, of more than 1 MiB is refused with 413.',
    },
    servers: [{ url: baseUrl }],
    paths,
    components: {
      schemas: { Error: ErrorEnvelope },
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer' },
        apiKey: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
      },
    },
  };
}

const readinessSchema = {
  type: 'object',
  required: ['status', 'checks'],
  properties: {
    status: { enum: readinessStatuses },
    checks: {
      type: 'object',
      description: 'By part of the node, or piece that it calls: whether it answers',
      additionalProperties: { type: 'boolean' },
    },
  },
} as const;

/** Routes of a node that have no contract. */
const monitoringPaths = {
  '/healthz': {
    get: {
      operationId: 'node.alive',
      tags: ['node'],
      summary: 'Whether the process is alive',
      security: [],
      responses: { 200: { description: 'It is' } },
    },
  },
  '/readyz': {
    get: {
      operationId: 'node.ready',
      tags: ['node'],
      summary: 'Whether the gateway can serve',
      description:
        '`ready`: everything answers. `degraded`: something is away, and what does not need it is still answered, reads from memory. ' +
        '`not_ready`: nothing can be answered. `stopping`: the gateway was asked to end.',
      security: [],
      responses: {
        200: { description: '`ready` or `degraded`', content: jsonOf(readinessSchema) },
        503: { description: '`not_ready` or `stopping`', content: jsonOf(readinessSchema) },
      },
    },
  },
} as const;

function operationOf({ name, contract, rest }: RestRoute) {
  const keyScope = contract.keyScope ? ` API keys need the scope \`${contract.keyScope}\`.` : '';
  return {
    operationId: name,
    tags: [name.split('.')[0]],
    summary: contract.summary,
    description: `Who may call: ${whoMayCall(contract.access)}.${keyScope}${limitOf(contract)}`,
    security: securityOf(contract.access),
    parameters: parametersOf(contract, rest),
    ...(rest.body ? { requestBody: requestBodyOf(contract, rest) } : {}),
    responses: {
      ...responsesOf(contract, rest),
      default: {
        description: 'An error, by its code',
        content: jsonOf({ $ref: '#/components/schemas/Error' }),
      },
    },
  };
}

const limitTexts = {
  calls: ' One network may call this `NETWORK_RATE_LIMIT_PER_MINUTE` times a minute.',
  failures: ' One network may be answered with 401 `NETWORK_RATE_LIMIT_PER_MINUTE` times a minute.',
} as const;
const limitOf = ({ networkLimited }: Contract): string =>
  networkLimited ? limitTexts[networkLimited] : '';

function whoMayCall(access: Access): string {
  if (access.level === 'tenant')
    return `${access.roles.join(', ')} of the tenant${recencyOf(access)}`;
  if (access.level === 'tenant_or_platform')
    return `${access.roles.join(', ')} of the tenant, or platform_admin`;
  const anyone = 'publicWith' in access ? `; anyone, with ${access.publicWith}` : '';
  return `${access.level}${anyone}${recencyOf(access)}`;
}

function recencyOf(access: Access): string {
  if (!('recent' in access) || access.recent === undefined) return '';
  const purpose = access.recent === true ? '' : ` to ${access.recent.to}`;
  return `, signed in at most 10 minutes ago${purpose}`;
}

/** Alternatives, any of which is enough; `{}` stands for nobody signed in. */
function securityOf(access: Access): Record<string, string[]>[] {
  if (access.level === 'public') return [];
  const credentials: Record<string, string[]>[] = [{ bearer: [] }, { apiKey: [] }];
  return 'publicWith' in access ? [{}, ...credentials] : credentials;
}

/** No parameter of the contract: the gateway itself heeds it. */
const ifNoneMatch = {
  name: 'if-none-match',
  in: 'header',
  required: false,
  schema: { type: 'string' },
  description: 'Entity tags that the client has',
};

function parametersOf({ params, response }: Contract, rest: Rest) {
  const parameter = (place: 'path' | 'query' | 'header', shownName: string, name: string) => {
    const schema: TSchema & { readonly description?: string } = params.properties[name]!;
    return {
      name: shownName,
      in: place,
      required: place === 'path' || isRequired(params, name),
      schema,
      ...(schema.description === undefined ? {} : { description: schema.description }),
    };
  };
  return [
    ...rest.pathParams.map((name) => parameter('path', name, name)),
    ...rest.query.map((name) => parameter('query', name, name)),
    ...Object.entries(rest.headers).map(([header, name]) => parameter('header', header, name)),
    ...(response === 'resource' || response === 'effective' ? [ifNoneMatch] : []),
  ];
}

function requestBodyOf({ params }: Contract, { method }: Rest) {
  const schema = params.properties.body!;
  return {
    required: method !== 'POST' || isRequired(params, 'body'),
    content: {
      [json]: { schema },
      ...(method === 'PATCH' ? { 'application/merge-patch+json': { schema } } : {}),
    },
  };
}

/** TypeBox leaves `required` out where nothing is. */
const isRequired = ({ required }: { readonly required?: readonly string[] }, name: string) =>
  required?.includes(name) ?? false;

const descriptions: Readonly<Record<string, string>> = {
  200: 'Done',
  201: 'Created',
  202: 'Accepted',
  204: 'Done, nothing to show',
  207: 'Done in part; errors says what failed',
  304: 'Unchanged since If-None-Match',
};

function responsesOf(contract: Contract, rest: Rest) {
  return Object.fromEntries(
    Object.entries(contentsOf(contract, rest)).map(([status, content]) => [
      status,
      { description: descriptions[status], ...(content ? { content } : {}) },
    ]),
  );
}

/** What `responses.ts` sends of a result. */
function contentsOf({ response, result }: Contract, { method }: Rest): Contents {
  const whole = jsonOf(result);
  switch (response) {
    case 'resource':
      return { 200: jsonOf(documentIn(result)), 304: undefined };
    case 'effective':
      return { 200: jsonOf(shownOf(result)), 304: undefined };
    case 'write':
      return writeContents(result, method);
    case 'list':
      return { 200: { ...whole, 'application/x-ndjson': { schema: ndjson } } };
    case 'page':
      return { 200: { ...whole, 'text/html': { schema: { type: 'string' } } } };
    case 'stream':
      return { 200: { 'text/event-stream': { schema: eventStreamOf(result) } } };
    case 'created':
      return { 201: whole };
    case 'accepted':
      return { 202: whole };
    case 'nothing':
      return { 204: undefined };
    case 'reload':
      return { 200: whole, 207: whole };
    case 'token_or_nothing':
      return { 200: jsonOf(alternativesOf(result)[0]!), 204: undefined };
    case 'value':
    case 'token':
      return { 200: whole };
  }
}

/** PUT and POST create, DELETE and a rollback by POST remove; each can be tried first with `dry_run`. */
function writeContents(result: TSchema, method: Rest['method']): Contents {
  const [written, dryRun] = alternativesOf(result);
  // The other alternative is null, after a deletion.
  const [document] = alternativesOf(documentIn(written!));
  const creates = method === 'PUT' || method === 'POST';
  const removes = method === 'DELETE' || method === 'POST';
  return {
    200: jsonOf(method === 'DELETE' ? dryRun! : { anyOf: [document, dryRun] }),
    ...(creates ? { 201: jsonOf(document!) } : {}),
    ...(removes ? { 204: undefined } : {}),
  };
}

const ndjson = {
  type: 'string',
  description: 'The items, one a line; X-Next-Cursor has the cursor',
};

const eventStreamOf = (change: TSchema): Schema => ({
  type: 'string',
  contentMediaType: json,
  contentSchema: change,
  description:
    'Events `config.changed`, of approvals `approval.changed`, whose `id` is the revision and whose `data` is this schema in one line of JSON. Beside them `ready` ' +
    '(begins), `reset` (changes are missing: read everything again) and `closed` (ends, with `{"code"}`)',
});

/** The document in what `Resource` and `Written` in shared/contracts/contract.ts make of it. */
function documentIn(schema: TSchema): TSchema {
  const document = IsObject(schema) ? schema.properties.document : undefined;
  if (!document) throw new Error('The result of a resource or write has no document.');
  return document;
}

/** An effective configuration without what its entity tag and a header say. */
function shownOf(result: TSchema): Schema {
  if (!IsObject(result)) throw new Error('An effective configuration is no object.');
  const { environment: _environment, stale: _stale, ...properties } = result.properties;
  return {
    ...result,
    properties,
    required: Object.keys(properties).filter((name) => isRequired(result, name)),
  };
}

function alternativesOf(schema: TSchema): readonly TSchema[] {
  if (!IsUnion(schema)) throw new Error('The result has no alternatives.');
  return schema.anyOf;
}
