/**
 * Errors as problem details (RFC 9457), which clients of other makers know, in place of our envelope:
 * `code` and `errors` are its members beside those of the standard.
 */
import http from 'node:http';
import type { FastifyReply } from 'fastify';
import type { ProblemTypes } from '../../shared/contracts/contract.ts';
import type { ErrorCode } from '../../shared/contracts/error-codes.ts';
import { errorResponse, statusOf } from '../../shared/errors.ts';

export const problemMediaType = 'application/problem+json';

/** AuthZEN has 400 for every request that is not of its form. */
const problemStatus = (code: ErrorCode): number => {
  const status = statusOf(code);
  return status === 415 || status === 422 ? 400 : status;
};

/** Of a type the words of its name; where there is none, RFC 9457 wants those of the status. */
const titleOf = (type: string | undefined, status: number): string =>
  type === undefined ? http.STATUS_CODES[status]! : type.split(':').at(-1)!.replaceAll('_', ' ');

export function sendProblem(
  error: unknown,
  requestId: string,
  types: ProblemTypes,
  reply: FastifyReply,
): FastifyReply {
  const { headers, body } = errorResponse(error, requestId);
  const { code, message } = body.detail;
  const status = problemStatus(code);
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
  return reply
    .code(status)
    .headers(headers)
    .header('content-type', problemMediaType)
    .send(Buffer.from(JSON.stringify(problem)));
}
