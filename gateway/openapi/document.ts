/** The OpenAPI 3.1 document, made of the contracts. */
import { restRoutes } from '../http/rest.ts';
import { errorResponses, errorSchemas } from './errors.ts';
import { headers } from '../http/response-headers.ts';
import { nodePaths, nodeSchemas } from './node-operations.ts';
import { operationOf, proposedResponse } from './operations.ts';
import { createComponents } from './schemas.ts';
import { introduction, topics } from './topics.ts';
import { webhooksOf } from './webhooks.ts';

const securitySchemes = {
  session: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'The access token of a session: `POST /auth/login` and similar routes answer it',
  },
  apiKey: {
    type: 'apiKey',
    in: 'header',
    name: 'X-API-Key',
    description:
      'An API key of a person or service account, with the scope that the operation names. `Authorization: Bearer` takes it, too',
  },
} as const;

export function openApi(baseUrl: string, version: string) {
  const components = createComponents();
  const paths: Record<string, Record<string, unknown>> = {};
  for (const route of restRoutes) {
    const path = documentedPath(route.rest.path);
    const method = route.rest.method.toLowerCase();
    paths[path] = { ...paths[path], [method]: operationOf(route, components) };
  }
  const webhooks = webhooksOf(components);
  const Proposed = proposedResponse(components);
  return {
    openapi: '3.1.0',
    info: {
      title: 'Strata',
      version,
      description: introduction,
      license: { name: 'Apache 2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: baseUrl.replace(/\/$/, '') }],
    tags: topics.map(({ name, description }) => ({ name, description })),
    paths: { ...paths, ...nodePaths },
    webhooks,
    components: {
      schemas: { ...components.schemas(), ...errorSchemas, ...nodeSchemas },
      parameters: components.parameters(),
      responses: { ...errorResponses, Proposed },
      headers,
      securitySchemes,
    },
  };
}

/** The router takes a slash at the end or leaves it; the document has one way to write a path. */
export const documentedPath = (path: string): string => path.replace(/\/$/, '');
