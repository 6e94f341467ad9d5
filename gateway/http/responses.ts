/**
 * Results as HTTP responses, by the contract's response kind; and which of them are repeatable,
 * which is what the fast path may send a second time without asking Fastify.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { hash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { AccessReport } from '../../shared/contracts/access-report.ts';
import type { Contract, ResponseKind } from '../../shared/contracts/contract.ts';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { scimMediaType } from '../../shared/contracts/scim.ts';
import { authorName, etag } from '../../shared/documents/preconditions.ts';
import { decisionPage, decisionPagePolicy, type DecisionView } from './decision-page.ts';
import { accessReportCsv } from './access-report-csv.ts';
import { prefers } from './preferred-type.ts';
import { commonHeaders, pageHeaders } from './security-headers.ts';
import type { EventStream } from '../streams/event-stream.ts';

const json = 'application/json';
const ndjson = 'application/x-ndjson';

/** Every document has these, whatever it is. */
type Resource = ResultOf<'tenant-config.risk.get'>;
type WriteResult = ResultOf<'tenant-config.risk.put'>;
/** What it was merged from is its entity tag; its environment is shown there alone. */
type Effective = ResultOf<'config-resolver.resolve'>;
/** Their context is in the entity tag, too, because it is no part of the address. */
type Flags = ResultOf<'config-resolver.flags.evaluate-all'>;
type Page = ResultOf<'tenant-config.history.list'>;

/** A response that is made of the result alone: whoever may have the result gets the same bytes. */
export interface RepeatableResponse {
  /** Of both statuses; 200 has a content type besides, which is JSON. */
  readonly headers: Readonly<Record<string, string | number>>;
  /** By which a request may ask whether it has changed, if it has one. */
  readonly tag?: string;
  /** The body of 200. */
  readonly text: string;
}

/**
 * Whether a request with these headers is answered with what `repeatableResponse` makes of the
 * result. Other requests get another form of it, and kinds that are not reads of a cached value
 * have no repeatable response.
 */
export function isRepeatable(kind: ResponseKind, headers: IncomingHttpHeaders): boolean {
  switch (kind) {
    case 'resource':
    case 'effective':
    case 'value':
      return true;
    case 'list':
      return !wantsNdjson(headers);
    default:
      return false;
  }
}

/** `result` is not stale: a stale one is marked by a header that must not be repeated. */
export function repeatableResponse(kind: ResponseKind, result: unknown): RepeatableResponse {
  if (kind === 'resource') {
    const resource = result as Resource;
    return {
      headers: describe(resource),
      tag: etag(resource.revision),
      text: JSON.stringify(resource.document),
    };
  }
  if (kind === 'effective') {
    const effective = result as Effective;
    const { environment: _environment, stale: _stale, ...shown } = effective;
    const text = JSON.stringify(shown);
    const tag = tagOf(effective, text);
    return { headers: { etag: tag }, tag, text };
  }
  return { headers: {}, text: JSON.stringify(result) };
}

/** Whether the client has what it would be sent: `If-None-Match` names its entity tag. */
export const isUnchanged = (
  { tag }: Pick<RepeatableResponse, 'tag'>,
  { 'if-none-match': ifNoneMatch }: IncomingHttpHeaders,
): boolean => tag !== undefined && ifNoneMatch !== undefined && namesTag(ifNoneMatch, tag);

/** Sends the result of a call as the contract says, and as the request's headers ask for it. */
export function respond(
  { response: kind, errors }: Contract,
  result: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  const { headers } = request;
  // A serializer of our own keeps Fastify from adding a charset, which JSON does not have (RFC
  // 8259, section 11).
  const isScim = errors === 'scim';
  reply.header('content-type', isScim ? scimMediaType : json).serializer(unchanged);
  if (isScim && kind === 'created') reply.header('location', locationOf(result));
  switch (kind) {
    case 'resource':
    case 'effective':
      return sendTagged(kind, result as Resource | Effective, headers, reply);
    case 'flags':
      return sendFlags(result as Flags, headers, reply);
    case 'write':
      return sendWritten(result as WriteResult, reply);
    case 'list':
      return sendList(result as Page, headers, reply);
    case 'value':
      return sendValue(result, reply);
    case 'value_or_proposed':
      return sendJson(result, reply.code(isProposed(result) ? 202 : 200));
    case 'created':
      return sendJson(result, reply.code(201).header('cache-control', 'no-store'));
    case 'created_or_proposed':
      reply.header('cache-control', 'no-store');
      return sendJson(result, reply.code(isProposed(result) ? 202 : 201));
    case 'accepted':
      return sendJson(result, reply.code(202));
    case 'nothing':
      return sendNothing(204, reply);
    case 'token':
    case 'oauth_token':
      return sendJson(result, reply.header('cache-control', 'no-store'));
    case 'token_or_nothing':
      reply.header('cache-control', 'no-store');
      return result === null ? sendNothing(204, reply) : sendJson(result, reply);
    case 'reload': {
      const { errors } = result as { errors?: readonly unknown[] };
      return sendJson(result, reply.code(errors ? 207 : 200));
    }
    case 'page':
      return sendPage(result as DecisionView, headers, reply);
    case 'report':
      return sendReport(result as AccessReport, request, reply);
    case 'stream':
      return sendStream(result as EventStream, request, reply);
  }
}

const locationOf = (result: unknown): string =>
  (result as { readonly meta: { readonly location: string } }).meta.location;

const isProposed = (result: unknown): boolean => 'change_set' in (result as object);

const unchanged = (text: unknown): string => text as string;

const sendJson = (value: unknown, reply: FastifyReply): FastifyReply =>
  reply.send(JSON.stringify(value));

const sendNothing = (status: 204 | 304, reply: FastifyReply): FastifyReply =>
  reply.code(status).removeHeader('content-type').send();

/**
 * Whether a stale effective configuration is still the current one nobody can say now, nor whether
 * a caller who cannot be checked may have it: both are sent whole, and marked, where a 304 would
 * confirm what the client has.
 */
function sendTagged(
  kind: 'resource' | 'effective',
  result: Resource | Effective,
  headers: IncomingHttpHeaders,
  reply: FastifyReply,
): FastifyReply {
  if (result.stale) reply.header('x-config-stale', 'true');
  const isSure = kind === 'resource' || !reply.hasHeader('x-config-stale');
  const response = repeatableResponse(kind, result);
  reply.headers(response.headers);
  return isSure && isUnchanged(response, headers)
    ? sendNothing(304, reply)
    : reply.send(response.text);
}

/**
 * Equal tags of one address stand for equal values: of the layers, only the environment has no
 * revision. A past answer changes under its revisions when something of it is withdrawn or purged,
 * so its tag is of what it says.
 */
function tagOf({ revision, environment, as_of: asOf }: Effective, text: string): string {
  const ofRevisions = `${revision.tenant}.${revision.platform}-${environment}`;
  return asOf ? `"${ofRevisions}-${hash('sha256', text, 'base64url')}"` : `"${ofRevisions}"`;
}

/** Without a tag it is from before an outage, and nobody can say that the client still has it. */
function sendFlags(
  { tag, context: _context, ...shown }: Flags,
  headers: IncomingHttpHeaders,
  reply: FastifyReply,
): FastifyReply {
  if (tag === null) return sendJson(shown, reply.header('x-config-stale', 'true'));
  reply.header('etag', tag);
  const isSure = !reply.hasHeader('x-config-stale');
  return isSure && isUnchanged({ tag }, headers) ? sendNothing(304, reply) : sendJson(shown, reply);
}

function sendWritten(written: WriteResult, reply: FastifyReply): FastifyReply {
  if ('dry_run' in written) return sendJson(written, reply);
  if ('change_set' in written) return sendJson(written, reply.code(202));
  if (written.outcome === 'deleted')
    return sendNothing(204, reply.header('x-config-revision', written.revision));
  if (written.warnings) reply.header('x-config-warnings', pathsOf(written.warnings));
  reply.code(written.outcome === 'created' ? 201 : 200).headers(describe(written));
  return sendJson(written.document, reply);
}

/**
 * JSON Pointers as a header can carry them: percent-encoded, with a comma between them, the first
 * ten.
 */
const pathsOf = (warnings: readonly { readonly path: string }[]): string =>
  warnings
    .slice(0, 10)
    .map(({ path }) => encodeURI(path).replaceAll(',', '%2C').slice(0, 200))
    .join(', ');

function sendList(page: Page, headers: IncomingHttpHeaders, reply: FastifyReply): FastifyReply {
  if (!wantsNdjson(headers)) return sendJson(page, reply);
  if (page.next_cursor !== null) reply.header('x-next-cursor', page.next_cursor);
  const lines = page.items.map((item) => `${JSON.stringify(item)}\n`);
  return reply.header('content-type', ndjson).send(Buffer.from(lines.join('')));
}

/** A stale value says so in a header, as a resource does, and not in the body. */
function sendValue(result: unknown, reply: FastifyReply): FastifyReply {
  const value = result as { readonly stale?: true } | null;
  if (!value?.stale) return sendJson(value, reply);
  const { stale: _stale, ...shown } = value;
  return sendJson(shown, reply.header('x-config-stale', 'true'));
}

/** A table for programs that ask for one, by `Accept` or in the address, where people can. */
function sendReport(
  report: AccessReport,
  { headers: { accept }, query }: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  reply.header('cache-control', 'no-store');
  const { format } = query as { readonly format?: string };
  const wantsCsv = format === undefined ? prefers(accept, 'text/csv') : format === 'csv';
  if (!wantsCsv) return sendJson(report, reply);
  const name = `access-report-${report.at.slice(0, 10)}.csv`;
  return reply
    .header('content-type', 'text/csv; charset=utf-8; header=present')
    .header('content-disposition', `attachment; filename="${name}"`)
    .send(accessReportCsv(report));
}

/** HTML for browsers, the same facts as JSON for everyone else. */
function sendPage(
  view: DecisionView,
  { accept }: IncomingHttpHeaders,
  reply: FastifyReply,
): FastifyReply {
  reply.header('cache-control', 'no-store');
  if (!prefers(accept, 'text/html')) return sendJson(view, reply);
  return reply
    .headers(pageHeaders)
    .header('content-type', 'text/html; charset=utf-8')
    .header('content-security-policy', decisionPagePolicy)
    .send(decisionPage(view));
}

/**
 * Server-Sent Events on a connection of their own, which ends with them; proxies are told not to
 * hold them back. The stream writes to the connection itself, so the headers that Fastify's hooks
 * would set are set here.
 */
function sendStream(
  events: EventStream,
  { id }: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  reply.headers({
    ...commonHeaders(id),
    'content-type': 'text/event-stream',
    'cache-control': 'no-store',
    'x-accel-buffering': 'no',
    connection: 'close',
  });
  reply.hijack();
  events.open(reply.getHeaders() as Record<string, string>);
  return reply;
}

const wantsNdjson = ({ accept }: IncomingHttpHeaders): boolean => prefers(accept, ndjson);

/**
 * The headers that describe a stored document: who wrote it, when, and the revision, which is its
 * entity tag.
 */
type Author = Pick<Resource, 'revision' | 'updated_by' | 'updated_by_name' | 'updated_at'>;
const describe = (resource: Author): Record<string, string | number> => ({
  etag: etag(resource.revision),
  'last-modified': new Date(resource.updated_at).toUTCString(),
  'x-updated-by': resource.updated_by,
  ...authorName(resource.updated_by_name),
  'x-config-revision': resource.revision,
});

/** Whether If-None-Match names this entity tag, by weak comparison (RFC 9110, section 13.1.2). */
function namesTag(ifNoneMatch: string, current: string): boolean {
  if (ifNoneMatch.trim() === '*') return true;
  const tags = ifNoneMatch.split(',').map((tag) => tag.trim().replace(/^W\//, ''));
  return tags.includes(current);
}
