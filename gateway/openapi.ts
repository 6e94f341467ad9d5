/** OpenAPI 3.1 from the contracts. */
import type { TSchema } from 'typebox';
import type { Contract, Rest } from '../shared/contracts/contract.ts';
import { errorTable } from '../shared/errors.ts';
import { routed } from './routes.ts';

const status = { resource: '200', write: '200', list: '200', value: '200', created: '201', accepted: '202', nothing: '204', token: '200', reload: '200', page: '200', stream: '200' } as const;
const Envelope = {
  type: 'object', required: ['detail', 'request_id'],
  properties: {
    detail: {
      type: 'object', required: ['status', 'code', 'message'],
      properties: { status: { const: 'error' }, code: { enum: Object.keys(errorTable) }, message: { type: 'string' } },
    },
    request_id: { type: 'string' },
    errors: {
      type: 'array', description: 'With 422: what is wrong, by JSON Pointer',
      items: { type: 'object', properties: { path: { type: 'string' }, message: { type: 'string' } } },
    },
  },
} as const;

const content = (schema: unknown) => ({ 'application/json': { schema } });
const eventStream = (schema: unknown) => ({
  'text/event-stream': {
    schema: {
      type: 'string', contentMediaType: 'application/json', contentSchema: schema,
      description: 'Events `config.changed`, whose `id` is the revision and whose `data` is this schema in one line of JSON. Beside them `ready` '
        + '(begins), `reset` (changes are missing: read everything again) and `closed` (ends, with `{"code"}`)',
    },
  },
});
const whoMayCall = ({ access }: Contract): string => access.level === 'tenant' || access.level === 'tenant_or_platform'
  ? `${access.roles.join(', ')} of the tenant${access.level === 'tenant_or_platform' ? ', or platform_admin' : ''}`
  : access.level + ('publicWith' in access ? `; anyone, with ${access.publicWith}` : '') + ('recent' in access ? ', signed in at most 10 minutes ago' : '');

/** What a client reads: a resource's document rather than its envelope on the bus. */
function answered({ answer, result }: Contract): TSchema | undefined {
  const properties = (result as { properties?: Record<string, TSchema> }).properties;
  if (answer === 'nothing') return undefined;
  if (answer === 'resource') return properties?.document;
  if (answer === 'write') return (result as unknown as { anyOf: { properties: Record<string, TSchema> }[] }).anyOf[0]?.properties.document;
  return result;
}

function operation(name: string, contract: Contract, rest: Rest) {
  const { properties, required = [] } = contract.params as unknown as { properties: Record<string, TSchema & { description?: string }>; required?: string[] };
  const parameter = (place: 'path' | 'query' | 'header', shown: string, key: string) => ({
    name: shown, in: place, required: place === 'path' || required.includes(key), schema: properties[key],
    ...(properties[key]?.description === undefined ? {} : { description: properties[key].description }),
  });
  const schema = answered(contract);
  return {
    operationId: name,
    tags: [name.split('.')[0]],
    summary: contract.summary,
    description: `Who may call: ${whoMayCall(contract)}.${contract.scope ? ` API keys need the scope \`${contract.scope}\`.` : ''}`,
    security: contract.access.level === 'public' ? [] : [...'publicWith' in contract.access ? [{}] : [], { bearer: [] }, { apiKey: [] }],
    parameters: [
      ...rest.pathParams.map((key) => parameter('path', key, key)),
      ...rest.query.map((key) => parameter('query', key, key)),
      ...Object.entries(rest.headers).map(([header, key]) => parameter('header', header, key)),
    ],
    ...(rest.body ? { requestBody: { required: rest.method !== 'POST' || required.includes('body'), content: content(properties.body) } } : {}),
    responses: {
      [status[contract.answer]]: { description: 'Done', ...(schema === undefined ? {} : { content: contract.answer === 'stream' ? eventStream(schema) : content(schema) }) },
      default: { description: 'An error, by its code', content: content({ $ref: '#/components/schemas/Error' }) },
    },
  };
}

export function openApi(baseUrl: string, version: string) {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const [name, contract, rest] of routed()) (paths[rest.path] ??= {})[rest.method.toLowerCase()] = operation(name, contract, rest);
  return {
    openapi: '3.1.0',
    info: { title: 'Strata', version, description: 'Layered configuration, policy and authentication for an operations-automation platform.' },
    servers: [{ url: baseUrl }],
    paths,
    components: {
      schemas: { Error: Envelope },
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' }, apiKey: { type: 'apiKey', in: 'header', name: 'X-API-Key' } },
    },
  };
}
