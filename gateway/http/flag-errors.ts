/**
 * Errors of OpenFeature's Remote Evaluation Protocol, whose providers know `errorCode` and
 * `errorDetails` instead of our envelope; `code` and `request_id` are beside them.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { errorResponse, type ErrorResponse } from '../../shared/errors.ts';

const flagErrors: Readonly<Record<number, string>> = {
  400: 'PARSE_ERROR',
  404: 'FLAG_NOT_FOUND',
  415: 'PARSE_ERROR',
  422: 'INVALID_CONTEXT',
};

const detailsOf = ({ detail, errors = [] }: ErrorResponse['body']): string =>
  [detail.message, ...errors.map(({ path, message }) => `${path} ${message}.`)].join(' ');

export function sendFlagError(
  error: unknown,
  { id, params }: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  const { status, headers, body } = errorResponse(error, id);
  const { key } = params as { readonly key?: string };
  const sent = {
    ...(key !== undefined && { key }),
    errorCode: flagErrors[status] ?? 'GENERAL',
    errorDetails: detailsOf(body),
    code: body.detail.code,
    request_id: body.request_id,
  };
  return (
    reply
      // The protocol has 400 for every request that is not of its form.
      .code(status === 415 || status === 422 ? 400 : status)
      .headers(headers)
      .header('content-type', 'application/json')
      .send(Buffer.from(JSON.stringify(sent)))
  );
}
