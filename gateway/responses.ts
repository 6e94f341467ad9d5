/** How results become answers, by the contract's kind. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Readable } from 'node:stream';
import type { Contract } from '../shared/contracts/contract.ts';
import { etag } from '../shared/documents/preconditions.ts';
import { decisionPage } from './decision-page.ts';
import { pageHeaders } from './security-headers.ts';

const json = 'application/json';
/** Keeps Fastify from adding a charset, which JSON has not (RFC 8259, 11). */
const asItIs = (text: unknown): string => text as string;

interface Resource {
  document: unknown;
  revision: number;
  updated_by: string;
  updated_at: string;
  stale?: true;
}
interface Written extends Resource {
  outcome: 'created' | 'updated' | 'deleted';
}
interface DryRun {
  dry_run: true;
}

const describe = ({
  revision,
  updated_by: by,
  updated_at: at,
}: Resource): Record<string, string | number> => ({
  etag: etag(revision),
  'last-modified': new Date(at).toUTCString(),
  'x-updated-by': by,
  'x-config-revision': revision,
});

/** RFC 9110, 13.1.2: weak comparison. */
const matchesNone = (header: string | undefined, revision: number): boolean =>
  header !== undefined &&
  (header.trim() === '*' ||
    header.split(',').some((tag) => tag.trim().replace(/^W\//, '') === etag(revision)));

/** All of what `answer` sends of a cached result with status 200, but the headers of its place and time. */
export function textOf(
  { response: kind }: Contract,
  result: object,
): { readonly headers: Record<string, string | number>; readonly text: string } {
  const resource = kind === 'resource' ? (result as Resource) : undefined;
  return {
    headers: { 'content-type': json, ...(resource && describe(resource)) },
    text: JSON.stringify(resource ? resource.document : result),
  };
}

export function answer(
  contract: Contract,
  result: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  reply.header('content-type', json).serializer(asItIs);
  switch (contract.response) {
    case 'resource': {
      const resource = result as Resource;
      reply.headers(describe(resource));
      if (resource.stale) reply.header('x-config-stale', 'true');
      if (matchesNone(request.headers['if-none-match'], resource.revision))
        return reply.code(304).removeHeader('content-type').send();
      return reply.send(JSON.stringify(resource.document));
    }
    case 'write': {
      if ((result as Partial<DryRun>).dry_run) return reply.send(JSON.stringify(result));
      const written = result as Written;
      if (written.outcome === 'deleted')
        return reply
          .code(204)
          .removeHeader('content-type')
          .header('x-config-revision', written.revision)
          .send();
      return reply
        .code(written.outcome === 'created' ? 201 : 200)
        .headers(describe(written))
        .send(JSON.stringify(written.document));
    }
    case 'list': {
      const page = result as { items: unknown[]; next_cursor: string | null };
      if (!request.headers.accept?.includes('application/x-ndjson'))
        return reply.send(JSON.stringify(page));
      if (page.next_cursor !== null) reply.header('x-next-cursor', page.next_cursor);
      return reply
        .header('content-type', 'application/x-ndjson')
        .send(Buffer.from(page.items.map((item) => `${JSON.stringify(item)}\n`).join('')));
    }
    case 'nothing':
      return reply.code(204).removeHeader('content-type').send();
    case 'token':
      return reply.header('cache-control', 'no-store').send(JSON.stringify(result));
    case 'reload':
      return reply
        .code((result as { status: string }).status === 'partial' ? 207 : 200)
        .send(JSON.stringify(result));
    case 'page': {
      reply.header('cache-control', 'no-store');
      if (!request.headers.accept?.includes('text/html')) return reply.send(JSON.stringify(result));
      return reply
        .headers(pageHeaders)
        .header('content-type', 'text/html; charset=utf-8')
        .header(
          'content-security-policy',
          "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'",
        )
        .send(decisionPage(result as never));
    }
    case 'created':
      return reply.code(201).header('cache-control', 'no-store').send(JSON.stringify(result));
    case 'accepted':
      return reply.code(202).send(JSON.stringify(result));
    // A stream of its own connection, which ends with it; proxies are told not to hold it back.
    case 'stream':
      return reply
        .headers({
          'content-type': 'text/event-stream',
          'cache-control': 'no-store',
          'x-accel-buffering': 'no',
          connection: 'close',
        })
        .send(result as Readable);
    case 'value': {
      if (!(result as { stale?: true } | null)?.stale) return reply.send(JSON.stringify(result));
      const { stale: _stale, ...shown } = result as { stale: true };
      return reply.header('x-config-stale', 'true').send(JSON.stringify(shown));
    }
  }
}
