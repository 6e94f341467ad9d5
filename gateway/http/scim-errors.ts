/**
 * Errors of SCIM (RFC 7644, 3.12), which directories know in place of our envelope; `code` and
 * `request_id` are beside them.
 */
import type { FastifyReply } from 'fastify';
import type { ErrorCode } from '../../shared/contracts/error-codes.ts';
import { scimMediaType, scimSchemas } from '../../shared/contracts/scim.ts';
import { errorResponse, type ErrorResponse } from '../../shared/errors.ts';

const scimTypes: Readonly<Partial<Record<ErrorCode, string>>> = {
  invalid_json: 'invalidSyntax',
  unsupported_media_type: 'invalidSyntax',
  validation_failed: 'invalidValue',
  scim_filter_invalid: 'invalidFilter',
  scim_path_invalid: 'invalidPath',
  scim_mutability: 'mutability',
  scim_uniqueness: 'uniqueness',
};

const detailOf = ({ detail, errors = [] }: ErrorResponse['body']): string =>
  [detail.message, ...errors.map(({ path, message }) => `${path} ${message}.`)].join(' ');

export function sendScimError(
  error: unknown,
  requestId: string,
  reply: FastifyReply,
): FastifyReply {
  const { status: ours, headers, body } = errorResponse(error, requestId);
  // SCIM has 400 for every request that is not of its form.
  const status = ours === 415 || ours === 422 ? 400 : ours;
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
  return reply
    .code(status)
    .headers(headers)
    .header('content-type', scimMediaType)
    .send(Buffer.from(JSON.stringify(sent)));
}
