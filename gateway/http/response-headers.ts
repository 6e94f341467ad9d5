/**
 * Headers of answers, as `responses.ts` and the gateway's hooks send them. The OpenAPI document
 * describes each, and pages of other origins may read each (`cors.ts`).
 */
import type { Contract } from '../../shared/contracts/contract.ts';

interface Header {
  readonly description: string;
  /** It is there whenever there is such an answer. */
  readonly required?: true;
  readonly schema: { readonly type: 'string' | 'integer' };
  readonly example: string | number;
}

const text = { type: 'string' } as const;
const integer = { type: 'integer' } as const;

/** By the names that the components of the document have. */
export const headers = {
  'X-Request-ID': {
    description: "Id of the request in the log: the caller's, else a generated one",
    required: true,
    schema: text,
    example: '0f8b2c1e-6d59-4c0a-9f43-2b7d1f0a6e55',
  },
  'X-RateLimit-Limit': {
    description: 'Requests per minute and address; absent without a limit',
    schema: integer,
    example: 600,
  },
  'X-RateLimit-Remaining': {
    description: 'Requests left; absent without a limit',
    schema: integer,
    example: 599,
  },
  'X-RateLimit-Reset': {
    description: 'Seconds until the limit resets; absent without a limit',
    schema: integer,
    example: 60,
  },
  ETag: {
    description: 'Entity tag of what is answered, for If-None-Match and If-Match',
    schema: text,
    example: '"12"',
  },
  'Last-Modified': {
    description: 'When it was written',
    schema: text,
    example: 'Mon, 02 Feb 2026 09:30:00 GMT',
  },
  'X-Updated-By': {
    description: 'Who wrote it: an id, or the name of a service or operator',
    schema: text,
    example: '3f9d1c52-7a41-4f0e-9b6c-0d5e8a1b2c3d',
  },
  'X-Updated-By-Name': {
    description: 'What they are called, in percent-encoded UTF-8; absent if that is not known',
    schema: text,
    example: 'Ada%20Lovelace',
  },
  'X-Config-Revision': {
    description: 'The revision of the document, or that its removal made',
    schema: integer,
    example: 12,
  },
  'X-Config-Stale': {
    description: '`true` for an answer from memory, while a part of the service is away',
    schema: text,
    example: 'true',
  },
  'X-Config-Warnings': {
    description:
      'JSON Pointers, percent-encoded, of what was written outside of bounds that only warn, and of approver groups without members who may decide',
    schema: text,
    example: '/global_settings/max_cost_impact_auto',
  },
  'X-Next-Cursor': {
    description: '`cursor` of the next page, where items come one a line',
    schema: text,
    example: 'MTI',
  },
  Location: {
    description: 'URL of what was created',
    schema: text,
    example: 'https://strata.example.com/tenants/3f9d1c52/scim/v2/Users/0d5e8a1b',
  },
  'Retry-After': {
    description: 'Seconds to wait before retrying',
    schema: integer,
    example: 2,
  },
  'WWW-Authenticate': {
    description: 'How to authenticate (RFC 9110, 11.6.1)',
    schema: text,
    example: 'Bearer realm="strata"',
  },
} as const satisfies Record<string, Header>;
type HeaderName = keyof typeof headers;

export const refsOf = (names: readonly HeaderName[]) =>
  Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));

/** Of every answer, whoever gives it: the first is one of `commonHeaders`. */
export const ofEveryAnswer = [
  'X-Request-ID',
  'X-RateLimit-Limit',
  'X-RateLimit-Remaining',
  'X-RateLimit-Reset',
] as const satisfies readonly HeaderName[];

const ofDocuments = [
  'ETag',
  'Last-Modified',
  'X-Updated-By',
  'X-Updated-By-Name',
  'X-Config-Revision',
] as const satisfies readonly HeaderName[];

/** Of a result of this kind with this status. */
export function headersOf({ response, errors }: Contract, status: number): readonly HeaderName[] {
  switch (response) {
    case 'resource':
      return [...ofDocuments, 'X-Config-Stale'];
    case 'effective':
    case 'flags':
      return ['ETag', 'X-Config-Stale'];
    case 'write':
      return status === 204 ? ['X-Config-Revision'] : [...ofDocuments, 'X-Config-Warnings'];
    case 'list':
      return ['X-Next-Cursor', 'X-Config-Stale'];
    case 'value':
      return ['X-Config-Stale'];
    case 'created':
      return errors === 'scim' ? ['Location'] : [];
    default:
      return [];
  }
}

export function headersOfError(status: number): readonly HeaderName[] {
  switch (status) {
    case 401:
      return ['WWW-Authenticate'];
    case 412:
      return ['ETag', 'Last-Modified', 'X-Updated-By', 'X-Updated-By-Name'];
    case 429:
    case 503:
      return ['Retry-After'];
    default:
      return [];
  }
}
