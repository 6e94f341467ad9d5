/**
 * Errors as `errorResponse` in shared/errors.ts makes them: the envelope, and one response for each
 * status.
 */
import http from 'node:http';
import type { Contract, Rest } from '../../shared/contracts/contract.ts';
import { errorTable } from '../../shared/contracts/error-codes.ts';
import { scimMediaType, scimSchemas } from '../../shared/contracts/scim.ts';
import { problemMediaType } from '../http/foreign-errors.ts';
import { headersOfError, ofEveryAnswer, refsOf } from '../http/response-headers.ts';
import { refTo } from './schemas.ts';

const json = 'application/json';
const request_id = '0f8b2c1e-6d59-4c0a-9f43-2b7d1f0a6e55';

const text = (description: string) => ({ type: 'string', description }) as const;
const problemsOf = (description: string) =>
  ({ type: 'array', description, items: refTo('FieldProblem') }) as const;

/** All of its members are there but the optional ones. */
const objectOf = (description: string, members: object, optional: readonly string[] = []) => ({
  type: 'object',
  description,
  required: Object.keys(members).filter((name) => !optional.includes(name)),
  properties: members,
});

const requestId = text('Id of the request in the log');
const forPeople = text('For people; it may change');
const code = refTo('ErrorCode');

export const errorSchemas = {
  ErrorCode: { ...text('What to switch on'), enum: Object.keys(errorTable) },
  FieldProblem: objectOf('What is wrong at one place', {
    path: text('JSON Pointer (RFC 6901), into the body where it has one'),
    message: text('What is wrong there'),
  }),
  Error: objectOf(
    'Of every error',
    {
      detail: objectOf('What went wrong', {
        status: { const: 'error', description: 'It is an error' },
        code,
        message: forPeople,
      }),
      request_id: requestId,
      errors: problemsOf('With 422: what is wrong, by JSON Pointer'),
      managed_fields: {
        type: 'array',
        description: 'With `field_managed`: what it may not change, and whose that is',
        items: refTo('ManagedField'),
      },
    },
    ['errors', 'managed_fields'],
  ),
  ProblemDetails: objectOf(
    "Of AuthZEN's errors (RFC 9457)",
    {
      type: text("A URN of AuthZEN's profile, or about:blank"),
      title: text('What the type means'),
      status: { type: 'integer', description: 'Of the answer' },
      detail: forPeople,
      code,
      request_id: requestId,
      errors: problemsOf('What is wrong, by JSON Pointer'),
    },
    ['errors'],
  ),
  FlagError: objectOf(
    "Of OpenFeature's Remote Evaluation Protocol",
    {
      key: text('The flag, where one was asked for'),
      errorCode: {
        ...text('What providers switch on'),
        enum: ['PARSE_ERROR', 'FLAG_NOT_FOUND', 'INVALID_CONTEXT', 'GENERAL'],
      },
      errorDetails: forPeople,
      code,
      request_id: requestId,
    },
    ['key'],
  ),
  ScimError: objectOf(
    'Of SCIM (RFC 7644, 3.12)',
    {
      schemas: { type: 'array', items: { type: 'string' }, description: 'Its URN' },
      status: text('The status of the answer, as a text'),
      scimType: text('What to switch on, where SCIM has a word for it'),
      detail: forPeople,
      code: text('Our own code'),
      request_id: text('Quote it when you report a problem'),
    },
    ['scimType'],
  ),
  McpError: objectOf(
    'Of JSON-RPC 2.0: a message that was refused',
    {
      jsonrpc: { const: '2.0', description: 'The version of the protocol' },
      id: { description: 'That of the message, where one was read' },
      error: objectOf(
        'What is wrong',
        {
          code: { type: 'integer', description: 'What the protocol calls it' },
          message: forPeople,
          data: { description: 'The error as other paths say it, where it is one of ours' },
        },
        ['data'],
      ),
    },
    ['id'],
  ),
  OAuthError: objectOf(
    "Of the token endpoint's errors (RFC 6749, 5.2)",
    { error: text('What to switch on'), error_description: forPeople },
    ['error_description'],
  ),
};

const codes = Object.entries(errorTable);

/** Such as `Unauthorized`, by which the components of the document are named. */
const nameOf = (status: number): string => http.STATUS_CODES[status]!.replaceAll(/[^A-Za-z]/g, '');

function responseOf(status: number) {
  const ofStatus = codes.filter(([, error]) => error.status === status);
  const [[code, { message }]] = ofStatus as [(typeof codes)[number]];
  const example = {
    detail: { status: 'error', code, message },
    request_id,
    ...(status === 422 && { errors: [{ path: '/name', message: 'must be string' }] }),
  };
  return {
    description: `${http.STATUS_CODES[status]}: ${ofStatus.map(([each]) => `\`${each}\``).join(', ')}`,
    headers: refsOf([...ofEveryAnswer, ...headersOfError(status)]),
    content: { [json]: { schema: refTo('Error'), example } },
  };
}

const statuses = [400, 401, 403, 404, 412, 422, 429, 503];

/** One response for whatever status, in the words of another protocol. */
const foreignError = (schema: string, description: string, example: object, mediaType = json) => ({
  description,
  headers: refsOf([...ofEveryAnswer, 'Retry-After']),
  content: { [mediaType]: { schema: refTo(schema), example } },
});

const foreignErrors = {
  OAuthError: foreignError('OAuthError', 'An error of OAuth', {
    error: 'invalid_grant',
    error_description: 'No rule trusts this token.',
  }),
  FlagError: foreignError('FlagError', 'An error of an evaluation', {
    key: 'max_cost',
    errorCode: 'FLAG_NOT_FOUND',
    errorDetails: 'There is no value for max_cost.',
    code: 'not_found',
    request_id,
  }),
  ScimError: foreignError(
    'ScimError',
    'An error of SCIM',
    {
      schemas: [scimSchemas.error],
      status: '400',
      scimType: 'invalidFilter',
      detail: errorTable.scim_filter_invalid.message,
      code: 'scim_filter_invalid',
      request_id,
    },
    scimMediaType,
  ),
  McpError: foreignError('McpError', 'An error of the Model Context Protocol', {
    jsonrpc: '2.0',
    id: 1,
    error: { code: -32601, message: 'Method not found' },
  }),
  ProblemDetails: foreignError(
    'ProblemDetails',
    'A problem of AuthZEN',
    {
      type: 'urn:openid:authzen:access-request:error:unknown_task',
      title: 'unknown task',
      status: 404,
      detail: 'The tenant has no such request of yours.',
      code: 'not_found',
      request_id,
    },
    problemMediaType,
  ),
};

export const errorResponses = {
  ...Object.fromEntries(statuses.map((status) => [nameOf(status), responseOf(status)])),
  ...foreignErrors,
  OtherError: {
    description: 'Any other error, by its code',
    headers: refsOf([...ofEveryAnswer, 'Retry-After']),
    content: { [json]: { schema: refTo('Error') } },
  },
};

const refToResponse = (name: string) => ({ $ref: `#/components/responses/${name}` });

export const errorRefs = (errors: readonly number[]) => ({
  ...Object.fromEntries(errors.map((status) => [status, refToResponse(nameOf(status))])),
  default: refToResponse('OtherError'),
});

/**
 * Of a protocol's own errors, the rate limit among them. What no route or no node answers is said in
 * front of the routes: in the envelope.
 */
const foreignRefs = (name: keyof typeof foreignErrors, statuses: readonly number[]) => ({
  ...Object.fromEntries([...statuses, 429].map((status) => [status, refToResponse(name)])),
  default: refToResponse(name),
});
export const flagErrorRefs = foreignRefs('FlagError', [400, 401, 403, 404]);
export const mcpErrorRefs = foreignRefs('McpError', [400, 401, 403, 404, 422]);
export const scimErrorRefs = foreignRefs('ScimError', [400, 401, 403, 404, 409]);
export const problemRefs = foreignRefs('ProblemDetails', [400, 401, 403, 404]);
export const oauthErrorRefs = foreignRefs('OAuthError', [400, 503]);

/** What callers of this route have to expect. */
export function errorsOf({ access, response, params }: Contract, rest: Rest): number[] {
  const isPublic = access.level === 'public';
  const takesSomething = Object.keys(params.properties).length > 0;
  const isPossible: Readonly<Record<number, boolean>> = {
    400: rest.body,
    // Whoever signs in may fail to.
    401: !isPublic || rest.body,
    403: !isPublic || rest.body,
    // What a path, a query or a body names need not be there.
    404: takesSomething,
    412: response === 'write',
    422: takesSomething,
    429: true,
    503: true,
  };
  return statuses.filter((status) => isPossible[status]);
}
