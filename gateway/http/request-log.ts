/**
 * What is noted of every response, whether Fastify or the fast path sent it: a line in the log and
 * the metrics.
 */
import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import type { CountRequest } from './metrics.ts';

/**
 * Called after every response. `ms` is how long it took; `streamed` says that it was a stream,
 * whose duration is no response time. Positional, since an object would be made for every request.
 */
export type RecordResponse = (
  requestId: string,
  method: string,
  route: string | undefined,
  status: number,
  ms: number,
  streamed?: boolean,
) => void;

/** Asked for by machines every few seconds. */
const unloggedRoutes = /^\/(healthz|readyz|metrics)/;

export function createRequestLog(log: Logger, count: CountRequest): RecordResponse {
  // The fields are fixed and none can hold a secret, so nothing is searched for one. Of the two
  // logs the other has the level.
  const requestLog = log.child({}, { redact: [], level: 'trace' });
  return (requestId, method, route, status, ms, streamed = false) => {
    // Reads come by the thousand each second, and the metrics count them.
    const isRead = method === 'GET' || method === 'HEAD';
    const level = isRead && status < 400 ? 'debug' : 'info';
    if (log.isLevelEnabled(level) && !unloggedRoutes.test(route ?? '')) {
      requestLog[level](
        { request_id: requestId, method, route, status, ms: Math.round(ms) },
        'request',
      );
    }
    count(method, route ?? 'none', status, streamed ? undefined : ms / 1000);
  };
}

/** Records what Fastify answers. */
export function recordResponses(app: FastifyInstance, record: RecordResponse): void {
  app.addHook('onResponse', (request, reply, done) => {
    const streamed = reply.getHeader('content-type') === 'text/event-stream';
    record(
      request.id,
      request.method,
      request.routeOptions.url,
      reply.statusCode,
      reply.elapsedTime,
      streamed,
    );
    done();
  });
}
