import type { FastifyInstance, FastifyReply, FastifyRequest, HTTPMethods } from 'fastify';
import type { ServiceBroker } from 'moleculer';
import type { ServerResponse } from 'node:http';
import { checkAccess, isPublic, type Caller } from '../shared/access.ts';
import { checkParams } from '../shared/cluster/contract-middleware.ts';
import { deliver, type LocalCache } from '../shared/cluster/local-cache.ts';
import { callAs, timeLeft, type Client } from '../shared/cluster/request.ts';
import type { Contract, Rest } from '../shared/contracts/contract.ts';
import { contracts, type ActionName } from '../shared/contracts/index.ts';
import { isOutage, StrataError } from '../shared/errors.ts';
import { answer } from './responses.ts';
import type { Authenticator, Identity } from './authenticate.ts';
import { addressOf, parametersOf } from './parameters.ts';
import type { FastPath } from './fast-path.ts';

declare module 'fastify' {
  interface FastifyRequest {
    identity: Identity | undefined;
    address: Record<string, unknown> | undefined;
    left: () => number;
  }
}

export interface OwnRequest {
  readonly caller: Caller;
  readonly requestId: string;
  readonly client: Client;
  readonly timeout: () => number;
  /** Who calls, by now; throws where they may no longer. */
  readonly again: () => Promise<Caller>;
  readonly response: ServerResponse;
}
/** What the gateway answers itself, because it concerns every node or goes on. */
type OwnHandler = (params: Record<string, unknown>, request: OwnRequest) => Promise<unknown>;
export type OwnHandlers = { readonly [A in ActionName]?: OwnHandler };

export interface RoutesOptions {
  readonly broker: ServiceBroker;
  readonly localCache: LocalCache;
  readonly authenticator: Authenticator;
  readonly fastPath: FastPath;
  readonly own: OwnHandlers;
  readonly requestTimeoutMs: number;
}

/** Fastify writes `:name` where the specification writes `{name}`. */
const urlOf = (path: string): string => path.replaceAll(/\{([a-z_]+)\}/g, ':$1');
const nobody: Caller = {
  type: 'user',
  id: 'anonymous',
  tenant_id: null,
  roles: [],
  platform_roles: [],
};
const everyMethod: HTTPMethods[] = ['GET', 'PUT', 'PATCH', 'POST', 'DELETE', 'OPTIONS', 'TRACE'];
/** Routes without a contract. */
const ofTheNode = ['/healthz', '/readyz', '/metrics', '/openapi.json'];

/**
 * The error for a caller that an outage keeps from being checked: the route's own code where it has one, and the cause in the log.
 * A public route checks nobody, so its own codes are for failures behind it.
 */
function unchecked(
  { access, failures }: Contract,
  error: unknown,
  request: FastifyRequest,
): unknown {
  const code = access.level === 'public' ? undefined : failures?.database;
  if (code === undefined || !isOutage(error)) return error;
  request.log.error({ err: error, code, request_id: request.id }, 'the caller cannot be checked');
  return new StrataError(code, undefined, { cause: error });
}

type Done = (error?: Error) => void;
async function settle(work: Promise<void>, done: Done): Promise<void> {
  try {
    await work;
  } catch (error) {
    done(error as Error);
    return;
  }
  done();
}

export const routed = (): (readonly [ActionName, Contract, Rest])[] =>
  Object.entries(contracts as unknown as Record<ActionName, Contract>).flatMap(
    ([name, contract]) =>
      contract.rest ? [[name as ActionName, contract, contract.rest] as const] : [],
  );

/** One route per contract; what a path does not take is 405, and OPTIONS says what it takes. */
export function registerRoutes(
  app: FastifyInstance,
  { broker, localCache, authenticator, fastPath, own, requestTimeoutMs }: RoutesOptions,
): void {
  app.decorateRequest('identity', undefined);
  app.decorateRequest('address', undefined);
  app.decorateRequest('left', () => requestTimeoutMs);
  const taken = new Map<string, HTTPMethods[]>(ofTheNode.map((url) => [url, ['GET']]));

  const route = (
    target: FastifyInstance,
    [name, contract, rest]: ReturnType<typeof routed>[number],
  ): void => {
    const url = urlOf(rest.path);
    const reads = rest.method === 'GET';
    const ownTenant =
      'tenant_id' in contract.params.properties &&
      !rest.pathParams.includes('tenant_id') &&
      contract.access.level === 'tenant';
    const answeredHere = own[name];
    const handle: OwnHandler = answeredHere
      ? async (params, request) => {
          checkParams(contract, params);
          return answeredHere(params, request);
        }
      : (params, { caller, requestId, client, timeout }) =>
          callAs(broker, name, params as never, { caller, requestId, client, timeout });

    function enter(request: FastifyRequest, identity: Identity | undefined): void {
      request.identity = identity;
      const address = request.address!;
      if (ownTenant) address.tenant_id ??= identity?.caller.tenant_id ?? undefined;
      checkAccess(contract, identity?.caller, address);
      if (identity?.stale && !reads) {
        throw unchecked(
          contract,
          new StrataError(
            'service_unavailable',
            'Your session cannot be checked now, so nothing is written. Try again.',
          ),
          request,
        );
      }
    }

    /** Before the body is read, let alone judged. A bad credential is none where nobody needs one. Without a promise where the caller is known. */
    function admit(request: FastifyRequest): Promise<void> | undefined {
      const address = (request.address = addressOf(contract, rest, request));
      request.left = timeLeft(requestTimeoutMs);
      const known = authenticator.known(request.headers, performance.now());
      if (!known) {
        return authenticator
          .find(request.headers, request.id, request.left)
          .catch((error: unknown) => {
            if (isPublic(contract.access, address)) return undefined;
            throw unchecked(contract, error, request);
          })
          .then((found) => enter(request, found));
      }
      enter(request, known);
      return undefined;
    }

    async function ask(
      request: FastifyRequest,
      reply: FastifyReply,
      params: Record<string, unknown>,
      caller: Caller,
    ): Promise<FastifyReply> {
      const result = await handle(params, {
        caller,
        requestId: request.id,
        timeout: request.left,
        client: { ip: request.ip, user_agent: request.headers['user-agent']?.slice(0, 500) ?? '' },
        async again() {
          await admit(request);
          return request.identity?.caller ?? nobody;
        },
        response: reply.raw,
      });
      return answer(contract, result, request, reply);
    }

    target.route({
      method: rest.method,
      url,
      exposeHeadRoute: contract.response !== 'stream',
      onRequest(request: FastifyRequest, _reply: FastifyReply, done: Done) {
        const admitted = admit(request);
        if (admitted) void settle(admitted, done);
        else done();
      },
      handler(request: FastifyRequest, reply: FastifyReply) {
        const { identity } = request;
        const caller = identity?.caller ?? nobody;
        const params = parametersOf(contract, rest, request, request.address!);
        if (identity?.stale) reply.header('x-config-stale', 'true');
        const held = localCache(name, params as never, caller);
        if (!held) return ask(request, reply, params, caller);
        // Where the URL alone says what is asked for.
        if (!ownTenant && !identity?.stale && request.headers.origin === undefined) {
          fastPath.learn(request.url, {
            contract,
            route: url,
            address: request.address!,
            held,
            plugged: reply.getHeaders(),
          });
        }
        answer(contract, deliver(contract, held.value, caller, false), request, reply);
        return undefined;
      },
    });
  };
  const entries = routed();
  for (const entry of entries) if (entry[1].response !== 'page') route(app, entry);
  // Browsers send forms; what the forms of our pages decide is in their address.
  void app.register(async (pages) => {
    pages.addContentTypeParser(
      'application/x-www-form-urlencoded',
      { parseAs: 'buffer' },
      async () => undefined,
    );
    for (const entry of entries) if (entry[1].response === 'page') route(pages, entry);
  });

  for (const [, , { method, path }] of entries)
    taken.set(urlOf(path), [...(taken.get(urlOf(path)) ?? []), method]);
  for (const [url, methods] of taken) {
    app.route({
      method: everyMethod.filter((method) => !methods.includes(method)),
      url,
      handler: async ({ method }, reply) => {
        reply.header('allow', methods.join(', '));
        if (method === 'OPTIONS') return reply.code(204).send();
        throw new StrataError('method_not_allowed', `This path takes ${methods.join(', ')}.`);
      },
    });
  }
}
