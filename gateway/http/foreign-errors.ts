/**
 * Errors in the words of other protocols, which their clients know in place of our envelope. `code`
 * and `request_id` are beside them, where the protocol lets members of ours be there.
 */
import http from 'node:http';
import type { FastifyRequest } from 'fastify';
import type { Contract, ProblemTypes } from '../../shared/contracts/contract.ts';
import type { ErrorCode } from '../../shared/contracts/error-codes.ts';
import { scimMediaType, scimSchemas } from '../../shared/contracts/scim.ts';
import { errorResponse, StrataError, type ErrorResponse } from '../../shared/errors.ts';
import { isUuid } from '../../shared/schema/uuid.ts';

export interface SentError extends Omit<ErrorResponse, 'body'> {
  readonly body: object;
  /** `application/json` by default. */
  readonly mediaType?: string;
}
export type Wording = (error: ErrorResponse, request: FastifyRequest) => SentError;

/** How errors of the contract's route are said; undefined for the envelope. */
export function wordingOf({ response, errors, problems }: Contract): Wording | undefined {
  if (response === 'oauth_token') return oauthError;
  if (errors) return errors === 'ofrep' ? flagError : scimError;
  return problems && ((error) => problemDetails(error, problems));
}

/** Several protocols have 400 for every request that is not of their form. */
const statusOfForm = (status: number): number => (status === 415 || status === 422 ? 400 : status);

/** What is wrong where, since there is no other place for it. */
const detailOf = ({ detail, errors = [] }: ErrorResponse['body']): string =>
  [detail.message, ...errors.map(({ path, message }) => `${path} ${message}.`)].join(' ');

const flagErrors: Readonly<Record<number, string>> = {
  400: 'PARSE_ERROR',
  404: 'FLAG_NOT_FOUND',
  415: 'PARSE_ERROR',
  422: 'INVALID_CONTEXT',
};

/** OpenFeature's Remote Evaluation Protocol. */
function flagError({ status, headers, body }: ErrorResponse, { params }: FastifyRequest) {
  const { key } = params as { readonly key?: string };
  const sent = {
    ...(key !== undefined && { key }),
    errorCode: flagErrors[status] ?? 'GENERAL',
    errorDetails: detailOf(body),
    code: body.detail.code,
    request_id: body.request_id,
  };
  return { status: statusOfForm(status), headers, body: sent };
}

const scimTypes: Readonly<Partial<Record<ErrorCode, string>>> = {
  invalid_json: 'invalidSyntax',
  unsupported_media_type: 'invalidSyntax',
  validation_failed: 'invalidValue',
  scim_filter_invalid: 'invalidFilter',
  scim_path_invalid: 'invalidPath',
  scim_mutability: 'mutability',
  scim_uniqueness: 'uniqueness',
};

/**
 * Directories ask for whatever they call somebody, and create whom they do not find: an id that none
 * of ours can be is nobody's (RFC 7644, 3.12), where other routes call it invalid.
 */
function ofResource(error: ErrorResponse, { params }: FastifyRequest): ErrorResponse {
  const { detail, request_id: requestId } = error.body;
  const ids = Object.values(params as Readonly<Record<string, string>>);
  if (detail.code !== 'validation_failed' || ids.every(isUuid)) return error;
  return errorResponse(
    new StrataError('not_found', 'The directory has nothing here by this id.'),
    requestId,
  );
}

/** RFC 7644, 3.12. */
function scimError(error: ErrorResponse, request: FastifyRequest) {
  const { status: ours, headers, body } = ofResource(error, request);
  const status = statusOfForm(ours);
  const { code } = body.detail;
  const scimType = scimTypes[code];
  const sent = {
    schemas: [scimSchemas.error],
    status: String(status),
    ...(scimType !== undefined && { scimType }),
    detail: detailOf(body),
    code,
    request_id: body.request_id,
  };
  return { status, headers, body: sent, mediaType: scimMediaType };
}

export const problemMediaType = 'application/problem+json';

/** Of a type the words of its name; where there is none, RFC 9457 wants those of the status. */
const titleOf = (type: string | undefined, status: number): string =>
  type === undefined ? http.STATUS_CODES[status]! : type.split(':').at(-1)!.replaceAll('_', ' ');

/** RFC 9457, as AuthZEN has it. */
function problemDetails({ status: ours, headers, body }: ErrorResponse, types: ProblemTypes) {
  const status = statusOfForm(ours);
  const { code, message } = body.detail;
  const type = types[code];
  const problem = {
    type: type ?? 'about:blank',
    title: titleOf(type, status),
    status,
    detail: message,
    code,
    request_id: body.request_id,
    ...(body.errors && { errors: body.errors }),
  };
  return { status, headers, body: problem, mediaType: problemMediaType };
}

const oauthErrors: Readonly<Partial<Record<ErrorCode, string>>> = {
  auth_workload_token_refused: 'invalid_grant',
  auth_workload_scope_invalid: 'invalid_scope',
  auth_workload_target_invalid: 'invalid_target',
  auth_grant_type_unsupported: 'unsupported_grant_type',
  auth_workload_issuer_error: 'temporarily_unavailable',
  rate_limited: 'temporarily_unavailable',
  timeout: 'temporarily_unavailable',
  service_unavailable: 'temporarily_unavailable',
  upgrade_under_way: 'temporarily_unavailable',
};

/** What is wrong with which parameters, in the characters that RFC 6749, 5.2 allows. */
function descriptionOf({ detail, errors = [] }: ErrorResponse['body']): string {
  const problems = errors.map(({ path, message }) => `${path.slice(1)} ${message}`);
  return [detail.message, ...problems].join(' ').replaceAll(/[^\x20-\x7e]|["\\]/g, "'");
}

/** RFC 6749, 5.2, which knows 400 alone for what the client did wrong. */
function oauthError({ status, headers, body }: ErrorResponse) {
  const { 'www-authenticate': _challenge, ...others } = headers;
  const isOurs = status >= 500;
  const otherwise = isOurs ? 'server_error' : 'invalid_request';
  const sent = {
    error: oauthErrors[body.detail.code] ?? otherwise,
    error_description: descriptionOf(body),
  };
  return {
    status: isOurs || status === 429 ? status : 400,
    headers: { ...others, 'cache-control': 'no-store' },
    body: sent,
  };
}
