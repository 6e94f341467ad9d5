/** Routes of a node that have no contract: what monitoring asks, and this document itself. */
import { readinessStatuses } from '../../shared/node/readiness.ts';
import { errorRefs, mcpErrorRefs } from './errors.ts';
import { ofEveryAnswer, refsOf } from '../http/response-headers.ts';
import { jsonOf } from './operations.ts';
import { refTo } from './schemas.ts';
import { topicOf } from './topics.ts';

export const nodeSchemas = {
  Readiness: {
    type: 'object',
    description: 'Whether the gateway can serve',
    required: ['status', 'checks'],
    properties: {
      status: {
        type: 'string',
        enum: readinessStatuses,
        description:
          '`ready`: everything answers. `degraded`: a dependency is away; what does not need it is still answered, reads from memory. `not_ready`: nothing can be answered. `stopping`: the gateway is shutting down',
      },
      checks: {
        type: 'object',
        description: 'By part of the node, or role that it calls: whether it answers',
        additionalProperties: { type: 'boolean' },
      },
    },
  },
} as const;

const anyObject = { type: 'object', additionalProperties: true } as const;
const ready = (status: string) =>
  jsonOf(refTo('Readiness'), { example: { status, checks: { bus: true, database: true } } });
const answered = (description: string, content: object) => ({
  description,
  headers: refsOf(ofEveryAnswer),
  content,
});
const operationOf = (action: string, summary: string, description: string, responses: object) => ({
  get: {
    operationId: action,
    tags: [topicOf(action)],
    summary,
    description,
    security: [],
    responses: { ...responses, ...errorRefs([429]) },
  },
});

const alive = {
  type: 'object',
  required: ['status'],
  properties: { status: { const: 'ok', description: 'Alive' } },
} as const;

export const nodePaths = {
  '/healthz': operationOf('node.alive', 'Whether the process is alive', 'Who may call: anyone.', {
    200: answered('Alive', jsonOf(alive, { example: { status: 'ok' } })),
  }),
  '/readyz': operationOf(
    'node.ready',
    'Whether the gateway can serve',
    'Who may call: anyone. Not counted among the requests of an address.',
    {
      200: answered('`ready` or `degraded`', ready('ready')),
      503: answered('`not_ready` or `stopping`', ready('stopping')),
    },
  ),
  '/metrics': operationOf(
    'node.metrics',
    'Metrics of this node, for Prometheus',
    'Who may call: anyone who reaches it. 404 if METRICS_PORT is set, which then serves them.',
    {
      200: answered('Text format of Prometheus', {
        'text/plain': {
          schema: { type: 'string' },
          example: '# TYPE strata_requests_total counter\n',
        },
      }),
    },
  ),
  '/openapi.json': operationOf(
    'node.openapi',
    'This document',
    'Who may call: anyone. `GET /docs` is a page that shows it.',
    { 200: answered('OpenAPI 3.1', jsonOf(anyObject, { example: { openapi: '3.1.0' } })) },
  ),
  '/.well-known/oauth-protected-resource/mcp': operationOf(
    'node.mcp-metadata',
    'Protected resource metadata of /mcp (RFC 9728)',
    'Who may call: anyone.',
    {
      200: answered(
        'The resource, and the scopes of API keys',
        jsonOf(anyObject, {
          example: {
            resource: 'https://strata.example.com/mcp',
            bearer_methods_supported: ['header'],
          },
        }),
      ),
    },
  ),
  '/mcp': {
    post: {
      operationId: 'node.mcp',
      tags: [topicOf('node.mcp')],
      summary: 'Tools for agents, by the Model Context Protocol',
      description:
        'Who may call: anyone with a credential; each tool has the rights of its contract. Speaks revision 2026-07-28, and that of 2025 without sessions.',
      security: [{ session: [] }, { apiKey: [] }],
      requestBody: {
        required: true,
        description: 'One message of JSON-RPC 2.0',
        content: jsonOf(anyObject, {
          example: { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} },
        }),
      },
      responses: {
        200: answered('The result, or an error of JSON-RPC; as an event to clients of 2025', {
          ...jsonOf(anyObject, { example: { jsonrpc: '2.0', id: 1, result: { tools: [] } } }),
          'text/event-stream': {
            schema: { type: 'string' },
            example: 'event: message\ndata: {"jsonrpc":"2.0","id":1,"result":{"tools":[]}}\n\n',
          },
        }),
        202: answered('Notification accepted', {}),
        ...mcpErrorRefs,
      },
    },
  },
} as const;
