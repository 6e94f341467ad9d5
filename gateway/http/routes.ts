/**
 * One route per contract. On its way a request passes:
 *
 * | Step       | When                     | What it does                                                                    |
 * |------------|--------------------------|---------------------------------------------------------------------------------|
 * | admit      | before the body is read  | finds the caller, checks access by path and query, refuses writes on stale trust |
 * | authorize  | once the body is there   | the same again: it may have taken its time, in which the caller lost the right   |
 * | parameters | with the body            | puts path, query, headers and body together                                     |
 * | memory     | for cached reads         | answers from the local cache                                                    |
 * | ask        | for everything else      | calls the action, or the gateway's own handler                                  |
 * | teach      | for cached reads         | has the fast path answer for the URL from now on                                |
 * | respond    |                          | turns the result into the response of its kind                                  |
 */
import type {
  FastifyInstance,
  FastifyReply,
  FastifyRequest,
  HTTPMethods,
  RouteOptions,
} from 'fastify';
import type { ServiceBroker } from 'moleculer';
import type { OutgoingHttpHeaders } from 'node:http';
import { checkAccess, isPublic, type Caller } from '../../shared/access.ts';
import type { CachedEntry } from '../../shared/coherence/entry.ts';
import type { HeldRequests } from '../../shared/concurrency/held-requests.ts';
import { checkParams } from '../../shared/contract-runtime/checks.ts';
import { cachedAnswer, type LocalCache } from '../../shared/contract-runtime/local-cache.ts';
import { callAs, timeLeft } from '../../shared/contract-runtime/request.ts';
import { isRead, type Contract } from '../../shared/contracts/contract.ts';
import { addressOf } from '../../shared/contracts/effective-config.ts';
import type { ActionName, ParamsOf } from '../../shared/contracts/index.ts';
import {
  codeOf,
  invalid,
  isOutage,
  saysDatabase,
  statusOf,
  StrataError,
} from '../../shared/errors.ts';
import { synchronizedNow } from '../../shared/process/synchronized-clock.ts';
import type { Settings } from '../../shared/settings/settings.ts';
import {
  apiKeyIdOf,
  credentialOf,
  refusalBy,
  type Authenticator,
  type Identity,
} from './authenticate.ts';
import { clientOf } from './client-address.ts';
import { wordingOf, type Wording } from './foreign-errors.ts';
import { waits, type HeldAnswers } from './held-answer.ts';
import type { FastPath } from '../fast-path/fast-path.ts';
import { consolePaths } from '../console/serve.ts';
import { mcpMetadataPath, mcpPath } from '../mcp/mcp.ts';
import { nodePaths } from './node-routes.ts';
import { callOf, type OwnHandler, type OwnHandlers, type OwnRequest } from './own-handlers.ts';
import { takeForms } from './oauth.ts';
import { parametersOf, textProblems, urlParamsOf } from './parameters.ts';
import { respond } from './responses.ts';
import { servedRoutes, type RestRoute } from './rest.ts';
import type { Tickets } from '../streams/tickets.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Those of when it came. */
    settings: Settings | undefined;
    /** Undefined where nobody is signed in, which only public routes let pass. */
    identity: Identity | undefined;
    /** Parameters from path and query. */
    urlParams: Record<string, unknown> | undefined;
    /** Milliseconds that are left of the request's time. */
    timeLeft: () => number;
  }
  interface FastifyContextConfig {
    /** Browsers are answered with a page, refusals too. */
    isPage?: boolean;
    /** How errors are said, where not in the envelope. */
    wording?: Wording | undefined;
  }
}

export interface RoutesOptions {
  readonly broker: ServiceBroker;
  readonly localCache: LocalCache;
  readonly authenticator: Authenticator;
  readonly tickets: Tickets;
  readonly fastPath: FastPath;
  readonly own: OwnHandlers;
  readonly requestTimeoutMs: number;
  readonly heldRequests: HeldRequests;
  readonly heldAnswers: HeldAnswers;
}

export function registerRoutes(app: FastifyInstance, options: RoutesOptions): void {
  app.decorateRequest('identity', undefined);
  app.decorateRequest('urlParams', undefined);
  app.decorateRequest('timeLeft', () => options.requestTimeoutMs);
  const of = (kind: Contract['response']) =>
    servedRoutes.filter(({ contract }) => contract.response === kind);
  const pages = of('page');
  const oauth = of('oauth_token');
  for (const route of servedRoutes) {
    if (!pages.includes(route) && !oauth.includes(route)) app.route(routeOf(route, options));
  }
  // Browsers send forms: what is left empty was not filled in.
  void app.register(async (forms) => {
    forms.addContentTypeParser(
      'application/x-www-form-urlencoded',
      { parseAs: 'buffer' },
      async (_request: FastifyRequest, body: Buffer) => {
        const fields = [...new URLSearchParams(body.toString('utf8'))];
        const problems = textProblems(fields);
        if (problems.length > 0) throw invalid(problems);
        return Object.fromEntries(fields.filter(([, value]) => value !== ''));
      },
    );
    for (const route of pages) forms.route(routeOf(route, options));
  });
  void app.register(async (forms) => {
    takeForms(forms);
    for (const route of oauth) forms.route(routeOf(route, options));
  });
  refuseOtherMethods(app);
}

/** Who calls a route, and whether they may. */
function admissionTo(
  { contract, rest }: Pick<RestRoute, 'contract' | 'rest'>,
  { authenticator, tickets, requestTimeoutMs }: RoutesOptions,
  meansOwnTenant: boolean,
) {
  // Of flags alone: whoever opens a stream by its address has no header.
  const takesTicket = rest.query.includes('ticket');

  /** Throws where this caller may not call. */
  function enter(request: FastifyRequest, identity: Identity | undefined): void {
    request.identity = identity;
    const params = request.urlParams!;
    if (meansOwnTenant) params.tenant_id ??= identity?.caller.tenant_id ?? undefined;
    const stale = identity?.stale ?? false;
    if (stale && !isRead(contract)) throw uncheckableCaller(contract, nothingWritten(), request);
    try {
      checkAccess(contract, identity?.caller, params);
    } catch (error) {
      throw uncheckableCaller(contract, refusalBy(stale, error), request);
    }
  }

  /** Where a parameter makes the call public, a credential that is invalid counts as none. */
  async function findCaller(request: FastifyRequest): Promise<void> {
    let identity: Identity | undefined;
    try {
      identity = await authenticator.find(request.headers, request.id, request.timeLeft);
    } catch (error) {
      if (!isPublic(contract.access, request.urlParams!))
        throw uncheckableCaller(contract, error, request);
    }
    enter(request, identity);
  }

  /**
   * Finds who calls now, and whether they may. Makes no promise where the caller is known from
   * memory.
   */
  function authorize(request: FastifyRequest): Promise<void> | undefined {
    // A credential that comes along changes nothing, so neither a bad one nor one that cannot be
    // checked is in anyone's way.
    if (contract.access.level === 'public') {
      enter(request, undefined);
      return undefined;
    }
    if (takesTicket) bringCredential(request, tickets);
    const known = authenticator.known(request.headers, performance.now());
    if (!known) return findCaller(request);
    enter(request, known);
    return undefined;
  }

  /** Before the body is read, let alone judged. */
  function admit(request: FastifyRequest): Promise<void> | undefined {
    request.urlParams = urlParamsOf(contract, rest, request);
    request.timeLeft = timeLeft(requestTimeoutMs);
    return authorize(request);
  }

  return { authorize, admit };
}

function routeOf({ name, contract, rest }: RestRoute, options: RoutesOptions): RouteOptions {
  const { localCache, fastPath, heldRequests, heldAnswers } = options;
  const url = fastifyPath(rest.path);
  // Where the path has no tenant, the caller's own is meant.
  const meansOwnTenant =
    'tenant_id' in contract.params.properties &&
    !rest.pathParams.includes('tenant_id') &&
    contract.access.level === 'tenant';
  const handle = handlerOf(name, contract, options);
  const { authorize, admit } = admissionTo({ contract, rest }, options, meansOwnTenant);

  async function ask(
    request: FastifyRequest,
    reply: FastifyReply,
    params: Record<string, unknown>,
    caller: Caller,
  ): Promise<FastifyReply> {
    const recheck = (): Caller | Promise<Caller> => {
      const admitted = admit(request);
      const found = (): Caller => request.identity?.caller ?? anonymous;
      return admitted === undefined ? found() : admitted.then(found);
    };
    const result = await heldAnswers.answer(
      (asked, by) => handle(asked, requestFor(name, request, reply, by, recheck)),
      { params, caller, recheck },
    );
    teach(request, reply, localCache.find(contract, params));
    return respond(contract, result, request, reply);
  }

  /** Has the fast path answer for this URL from now on, as long as the entry is fresh. */
  function teach(
    request: FastifyRequest,
    reply: FastifyReply,
    entry: CachedEntry<unknown> | undefined,
  ): void {
    if (!entry || meansOwnTenant || request.identity?.stale) return;
    fastPath.learn(request.url, {
      contract,
      route: url,
      params: request.urlParams!,
      entry,
      origin: request.headers.origin,
      hookHeaders: reply.getHeaders() as OutgoingHttpHeaders,
      settings: request.settings,
    });
  }

  return {
    method: rest.method,
    url,
    exposeHeadRoute: contract.response !== 'stream',
    config: { isPage: contract.response === 'page', wording: wordingOf(contract) },
    onRequest: hook(admit),
    ...(rest.method !== 'GET' && { preHandler: hook(authorize) }),
    handler(request, reply) {
      const { identity } = request;
      const caller = identity?.caller ?? anonymous;
      const params = parametersOf(contract, rest, request, request.urlParams!);
      if (identity?.stale) reply.header('x-config-stale', 'true');
      const entry = localCache.find(contract, params);
      const known = entry && cachedAnswer(contract, params, caller, entry, performance.now());
      if (known === undefined) {
        if (waits(params)) {
          const release = heldRequests.take(String(params.tenant_id), caller);
          return ask(request, reply, params, caller).finally(release);
        }
        return ask(request, reply, params, caller);
      }
      teach(request, reply, entry);
      respond(contract, known, request, reply);
      return undefined;
    },
  };
}

/** What the ticket stands for is as if it had come in its header. Throws 401 for one that is none. */
function bringCredential({ headers, urlParams }: FastifyRequest, tickets: Tickets): void {
  const { tenant_id: tenantId, ticket, ...context } = urlParams!;
  if (credentialOf(headers) !== undefined || typeof ticket !== 'string') return;
  const of = { tenant_id: String(tenantId), address: addressOf(context) };
  const brought = tickets.open(ticket, of, synchronizedNow());
  if (!brought)
    throw new StrataError(
      'auth_token_invalid',
      'The ticket is for another stream, or is over. Evaluate all flags again for another one.',
    );
  Object.assign(headers, brought);
}

const nothingWritten = (): StrataError =>
  new StrataError(
    'service_unavailable',
    'Your session cannot be checked now, so nothing is written. Try again.',
  );

/** What a handler is given beside the parameters. */
const requestFor = (
  name: ActionName,
  request: FastifyRequest,
  reply: FastifyReply,
  caller: Caller,
  recheck: OwnRequest['recheck'],
): OwnRequest => ({
  caller,
  requestId: request.id,
  timeout: request.timeLeft,
  client: clientOf(request),
  recheck,
  get right() {
    return [name, request.urlParams!.tenant_id, credentialOf(request.headers)].join('\n');
  },
  get apiKeyId() {
    return apiKeyIdOf(request.headers);
  },
  headers: request.headers,
  response: reply.raw,
  setHeader: (header, value) => void reply.removeHeader(header).header(header, value),
});

/** Fastify waits for a promise, or for `done` where there is none. */
const hook =
  (step: (request: FastifyRequest) => Promise<void> | undefined) =>
  (request: FastifyRequest, _reply: FastifyReply, done: () => void): Promise<void> | undefined => {
    const stepped = step(request);
    if (!stepped) done();
    return stepped;
  };

/**
 * The gateway's own handler of the action, else a call of the action, whose parameters are checked
 * on its way.
 */
function handlerOf(
  name: ActionName,
  contract: Contract,
  { broker, own }: Pick<RoutesOptions, 'broker' | 'own'>,
): OwnHandler {
  const ownHandler = own[name];
  if (!ownHandler)
    return (params, request) =>
      callAs(broker, name, params as ParamsOf<typeof name>, callOf(request));
  return async (params, request) => {
    checkParams(contract, params);
    return ownHandler(params, request);
  };
}

/** Who calls where nobody is signed in. */
const anonymous: Caller = {
  type: 'user',
  id: 'anonymous',
  tenant_id: null,
  roles: [],
  platform_roles: [],
};

/**
 * The error for a caller who cannot be checked, because of an internal error: the route's own code
 * where it has one, and the cause in the log. A public route checks nobody, so its own codes are
 * for failures behind it.
 */
function uncheckableCaller(
  { access, failures }: Contract,
  error: unknown,
  request: FastifyRequest,
): unknown {
  const isOurs = statusOf(codeOf(error)) >= 500;
  if (access.level === 'public' || failures === undefined || !isOurs) return error;
  const isDatabase = isOutage(error) || saysDatabase(error);
  const code = isDatabase ? failures.database : failures.unexpected;
  request.log.error({ err: error, code, request_id: request.id }, 'the caller cannot be checked');
  return new StrataError(code, undefined, { cause: error });
}

const everyMethod: HTTPMethods[] = ['GET', 'PUT', 'PATCH', 'POST', 'DELETE', 'OPTIONS', 'TRACE'];

/** What a path does not take is 405, and OPTIONS says what it takes. */
function refuseOtherMethods(app: FastifyInstance): void {
  const readOnly = [...nodePaths, ...consolePaths, mcpMetadataPath];
  const allowed = new Map<string, HTTPMethods[]>(readOnly.map((path) => [path, ['GET']]));
  allowed.set(mcpPath, ['POST']);
  const streams = new Set<string>();
  for (const { contract, rest } of servedRoutes) {
    const url = fastifyPath(rest.path);
    allowed.set(url, [...(allowed.get(url) ?? []), rest.method]);
    if (contract.response === 'stream') streams.add(url);
  }
  for (const [url, methods] of allowed) {
    const list = methods.join(', ');
    app.route({
      // Elsewhere HEAD comes with GET.
      method: [...everyMethod, ...(streams.has(url) ? (['HEAD'] as const) : [])].filter(
        (method) => !methods.includes(method),
      ),
      url,
      handler: async ({ method }, reply) => {
        reply.header('allow', list);
        if (method === 'OPTIONS') return reply.code(204).send();
        throw new StrataError('method_not_allowed', `This path takes ${list}.`);
      },
    });
  }
}

/** Fastify writes `:name` where contracts write `{name}`. */
const fastifyPath = (path: string): string => path.replaceAll(/\{([a-z_]+)\}/g, ':$1');
