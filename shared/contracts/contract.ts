/**
 * A contract is one row of the endpoint table: what an action is called, who may call it, what it
 * takes and answers, which cache key holds its answer and which keys a write drops. Routes,
 * OpenAPI, checks, types and caching derive from it.
 */
import {
  Type,
  type Static,
  type TNull,
  type TObject,
  type TProperties,
  type TSchema,
} from 'typebox';
import type { LeadsTo } from './consequences.ts';
import type { ErrorCode } from './error-codes.ts';
import { described, FolderName, FolderNames, Optional, StrictObject } from './fields.ts';
import type { Narrow } from './narrow-keys.ts';
import type { RevisionScope } from './revision-scopes.ts';
import type { KeyScope, TenantRole } from './roles.ts';

/** The calls of an action that need a recent sign-in where others do not. */
export interface RecentFor {
  /** For the docs: recently signed in "to …". */
  readonly to: string;
  /** The parameters are unchecked; the gateway asks also before it has read the body. */
  readonly includes: (
    params: Readonly<Record<string, unknown>>,
    caller: { readonly session_id?: string },
  ) => boolean;
}

/**
 * Who may call; `shared/access.ts` checks it.
 *
 * - `services` also admits Strata's own services, for any tenant;
 * - `publicWith` also admits anyone who gives that parameter;
 * - `inDisabledTenant` also admits whoever is signed in to a tenant that is disabled: to look, to
 *   leave, to go elsewhere;
 * - `withAnySignIn` also admits a session by password alone where a policy wants more: to look, to
 *   leave, to register a passkey;
 * - `whileVisiting` also admits a visitor of the tenant, who else only reads (`visits.ts`): to leave;
 * - `recent` asks for a sign-in of the last 10 minutes for the calls that it names. What is powerful
 *   (`leadsTo`) asks for it by itself.
 */
export type Access =
  | { readonly level: 'public' }
  | {
      readonly level: 'authenticated';
      readonly services?: boolean;
      readonly recent?: RecentFor;
      readonly inDisabledTenant?: true;
      readonly withAnySignIn?: true;
      readonly whileVisiting?: true;
    }
  | { readonly level: 'platform_admin'; readonly services?: boolean; readonly publicWith?: string }
  | {
      readonly level: 'tenant';
      readonly roles: readonly TenantRole[];
      readonly services?: boolean;
    }
  | {
      readonly level: 'tenant_or_platform';
      readonly roles: readonly TenantRole[];
      readonly services?: boolean;
      readonly whileVisiting?: true;
    }
  | { readonly level: 'internal' };

export type CacheName = 'configuration_service' | 'dynamic_config_service' | 'identity';

/** Parameters that passed the contract's own schema. */
export type CheckedParams = Readonly<Record<string, unknown>>;

/**
 * Where a cached read is kept, and the counters whose revisions an answer from there must include.
 * These functions, like `drops` and `visible`, are methods because TypeScript lets a method ask for
 * narrower parameters than its interface says: each contract writes its own, and whoever holds just
 * any contract may call it with what passed that contract's schema.
 */
export interface CacheRule {
  readonly cache: CacheName;
  key(params: CheckedParams): string;
  revisionScopes(params: CheckedParams): RevisionScope[];
}

/**
 * The codes of an action that has its own for failures of Strata: operators alert on each way of
 * signing in by itself. Every other action answers `service_unavailable` and `internal_error`.
 */
export interface FailureCodes {
  /** A database does not answer: the service's own, or that of a neighbour it calls. */
  readonly database: ErrorCode;
  /** Everything else that went wrong in Strata. */
  readonly unexpected: ErrorCode;
}

/** A URI for each code that the protocol of somebody else has a type of problem for. */
export type ProblemTypes = Readonly<Partial<Record<ErrorCode, string>>>;

/** How the gateway turns a result into an HTTP response; `responses.ts` does it. */
export type ResponseKind =
  | 'resource'
  | 'effective'
  | 'flags'
  | 'write'
  | 'list'
  | 'value'
  | 'value_or_proposed'
  | 'created'
  | 'created_or_proposed'
  | 'accepted'
  | 'nothing'
  | 'token'
  | 'oauth_token'
  | 'token_or_nothing'
  | 'reload'
  | 'page'
  | 'report'
  | 'stream';

/** Where REST finds the action and each of its parameters. */
export interface Rest {
  readonly method: 'GET' | 'PUT' | 'PATCH' | 'POST' | 'DELETE';
  /** With placeholders, such as `/tenants/{tenant_id}/config/risk`. */
  readonly path: string;
  readonly pathParams: readonly string[];
  readonly query: readonly string[];
  /** Request header → parameter. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: boolean;
}

export interface Contract<P extends TObject = TObject, R extends TSchema = TSchema> {
  readonly summary: string;
  readonly access: Access;
  /** What it can lead to. Each action that writes and is not internal says it. */
  readonly leadsTo?: LeadsTo;
  /**
   * The right that an API key needs for this; null if no API key may. Each route that needs a
   * caller says which.
   */
  readonly keyScope?: KeyScope | null;
  /** By what of a call it is told whether a narrow API key may make it; absent: none may. */
  readonly narrow?: Narrow;
  /**
   * What of a network's calls NETWORK_RATE_LIMIT_PER_MINUTE bounds: all, because each sends a mail,
   * keeps something for whoever asks or may cost a hash; or only those that are answered with 401,
   * where a whole office may have good reason to call at once. Only `auth` has such actions, and
   * heeds it.
   */
  readonly networkLimited?: 'calls' | 'failures';
  readonly params: P;
  readonly result: R;
  readonly response: ResponseKind;
  readonly rest?: Rest;
  readonly cache?: CacheRule;
  /** The exact cache keys that this write drops. */
  drops?(params: CheckedParams): string[];
  /** Whether the caller may see this result; where not, it does not exist for them (404). */
  visible?(result: unknown, caller: { readonly platform: boolean }): boolean;
  readonly failures?: FailureCodes;
  /** Errors are problem details (RFC 9457), of these types by code and else of none. */
  readonly problems?: ProblemTypes;
  /** Errors are those of OpenFeature's Remote Evaluation Protocol, or of SCIM, as answers are then. */
  readonly errors?: 'ofrep' | 'scim';
  /**
   * It only reads, and no GET or cache says so: it has no route, or its question is too long for an
   * address.
   */
  readonly changesNothing?: true;
  /**
   * A call may take this many milliseconds even where REQUEST_TIMEOUT_MS is less, because it waits
   * for nodes that stay silent.
   */
  readonly minTimeoutMs?: number | ((params: CheckedParams) => number | undefined);
}

/** Whether a call leaves everything as it was. */
export const isRead = ({
  rest,
  cache,
  changesNothing,
}: Pick<Contract, 'rest' | 'cache' | 'changesNothing'>): boolean =>
  cache !== undefined || rest?.method === 'GET' || changesNothing === true;

/** A tenant's revision, or a tenant's and the platform's. */
const revisionsPattern = '^[0-9]{1,15}(\\.[0-9]{1,15})?$';

const readHeaders = { 'x-min-revision': 'min_revision' } as const;
const readOptions = {
  min_revision: Optional.Integer({
    minimum: 0,
    description: 'The answer must not be from before this revision',
  }),
};
/**
 * Of what is read from a tenant and the platform together. The number is for callers on the bus,
 * who may mean the tenant alone.
 */
const readOfBothOptions = {
  min_revision: Type.Optional(
    Type.Union([Type.Integer({ minimum: 0 }), Type.String({ pattern: revisionsPattern })], {
      description:
        'The answer must not be from before this revision of the tenant, or `tenant.platform`, such as `12.3`',
    }),
  ),
};
/** Of every write of documents. */
const guardHeaders = {
  'x-break-glass': 'break_glass',
  'x-managed-by': 'managed_by',
  'x-take-over': 'take_over',
} as const;
const writeHeaders = {
  'if-match': 'if_match',
  'if-none-match': 'if_none_match',
  'x-change-reason': 'reason',
  ...guardHeaders,
} as const;
export const takeOver = {
  take_over: Type.Optional(
    described(FolderNames, 'Owners whose fields it may change, with commas between them'),
  ),
};
/** Whose the fields are that a write sets. */
export const claims = {
  managed_by: Type.Optional(described(FolderName, 'The folder that owns what it sets')),
  ...takeOver,
};
const guards = {
  break_glass: Optional.String({
    minLength: 20,
    maxLength: 500,
    description:
      'Why it cannot wait: what a change_policy refuses is written now, in an emergency, and somebody else reviews it',
  }),
  ...claims,
};
/** Of an action that writes documents; those of `write` have it. */
export const proposable = {
  propose: Optional.Boolean({
    description:
      'Submit what a change_policy refuses as a change set, for the reason in X-Change-Reason, or in the body where it has one',
  }),
};
const writeOptions = {
  if_match: Optional.String({
    maxLength: 1000,
    description: 'Entity tags, one of which must be the current one',
  }),
  if_none_match: Optional.Literal('*', { description: 'Write only where nothing exists yet' }),
  reason: Optional.String({ maxLength: 500, description: 'Reason, kept in the history' }),
  ...guards,
  ...proposable,
};
export const dryRun = {
  dry_run: Optional.Boolean({ description: 'Validate and show the changes, write nothing' }),
};

type Empty = Record<never, never>;
/**
 * A contract as its file writes it: path, query and body apart, so that REST knows where each
 * parameter comes from.
 */
export interface Definition<
  Path extends TProperties,
  Query extends TProperties,
  Body extends TSchema | undefined,
  R extends TSchema,
> extends Omit<
  Contract,
  'params' | 'result' | 'response' | 'rest' | 'cache' | 'drops' | 'visible'
> {
  rest?: `${Rest['method']} /${string}`;
  path?: Path;
  query?: Query;
  body?: Body;
  /** Absent if it answers nothing: null on the bus, 204 over REST. */
  result?: R;
  response?: ResponseKind;
  cache?: {
    cache: CacheName;
    key: (params: Static<TObject<Path>> & Static<TObject<Query>>) => string;
    revisionScopes: (params: Static<TObject<Path>> & Static<TObject<Query>>) => RevisionScope[];
  };
  drops?: (params: Static<TObject<Path>>) => string[];
  visible?: (result: Static<R>, caller: { readonly platform: boolean }) => boolean;
}

type BodyProperty<Body> = Body extends TSchema ? { body: Body } : Empty;

/**
 * An object schema of properties that were joined by spreading, whose type TypeScript cannot follow
 * through type parameters.
 */
const parametersOf = <P extends TProperties>(properties: TProperties): TObject<P> =>
  StrictObject(properties) as TSchema as TObject<P>;

/** What all contracts of a kind have. */
interface Kind<H extends TProperties> {
  readonly headers: Readonly<Record<string, string>>;
  /** What they take, by header where `query` does not name it. */
  readonly params: H;
  readonly query?: readonly (keyof H & string)[];
  readonly response?: ResponseKind;
}

/** What makes contracts of a kind. */
const kind =
  <H extends TProperties>(own: Kind<H>) =>
  <
    R extends TSchema = TNull,
    Path extends TProperties = Empty,
    Query extends TProperties = Empty,
    Body extends TSchema | undefined = undefined,
  >(
    definition: Definition<Path, Query, Body, R>,
  ): Contract<TObject<Path & Query & BodyProperty<Body> & H>, R> => {
    const { rest, path, query, body, result = Type.Null(), ...rules } = definition;
    const params = parametersOf<Path & Query & BodyProperty<Body> & H>({
      ...path,
      ...query,
      ...(body === undefined ? {} : { body }),
      ...own.params,
    });
    const answersNothing = rest !== undefined && definition.result === undefined;
    const contract = {
      response: own.response ?? (answersNothing ? 'nothing' : 'value'),
      ...rules,
      params,
      result,
      ...(rest !== undefined && {
        rest: {
          ...methodAndPath(rest),
          pathParams: Object.keys(path ?? {}),
          query: [...Object.keys(query ?? {}), ...(own.query ?? [])],
          headers: own.headers,
          body: body !== undefined,
        },
      }),
    } as const;
    // The functions of a definition take its own parameters, a type that TypeScript only knows
    // where a contract is made.
    return contract as Contract<typeof params, R>;
  };

function methodAndPath(rest: `${Rest['method']} /${string}`): Pick<Rest, 'method' | 'path'> {
  const [method, path] = rest.split(' ') as [Rest['method'], string];
  return { method, path };
}

/** An action that is neither a read nor a write of a configuration resource. */
export const action = kind({ headers: {}, params: {} });

/** An action that Strata's own services call. */
export const internal = <
  R extends TSchema = TNull,
  Path extends TProperties = Empty,
  Query extends TProperties = Empty,
  Body extends TSchema | undefined = undefined,
>(
  definition: Omit<Definition<Path, Query, Body, R>, 'access'>,
) => action<R, Path, Query, Body>({ access: { level: 'internal' }, ...definition });

/** The same that only reads, without a cache. */
export const internalRead: typeof internal = (definition) =>
  internal({ changesNothing: true, ...definition });

/** A read that honours X-Min-Revision; with the response `resource` also ETag and If-None-Match. */
export const read = kind({ headers: readHeaders, params: readOptions });

/**
 * A read of a tenant's and the platform's layers together: X-Min-Revision may name a revision of
 * each.
 */
export const readOfBoth = kind({ headers: readHeaders, params: readOfBothOptions });

/**
 * A write that honours If-Match, If-None-Match, X-Change-Reason, X-Break-Glass, X-Managed-By and
 * X-Take-Over, and can be proposed. Give it `query: dryRun` where it can be tried first.
 */
export const write = kind({
  headers: writeHeaders,
  params: writeOptions,
  query: ['propose'],
  response: 'write',
});

/**
 * An action that writes documents in a form of its own, honours X-Break-Glass, X-Managed-By and
 * X-Take-Over, and can be proposed.
 */
export const writing = kind({
  headers: guardHeaders,
  params: { ...guards, ...proposable },
  query: ['propose'],
  response: 'value_or_proposed',
});

/** An action that honours Idempotency-Key: the same key with the same request is one request. */
export const submission = kind({
  headers: { 'idempotency-key': 'idempotency_key' },
  params: {
    idempotency_key: Optional.String({
      pattern: '^[\\x21-\\x7e]{1,150}$',
      description: 'The same key with the same request is the same request',
    }),
  },
});

const streamHeaders = { 'last-event-id': 'last_event_id', 'x-client-id': 'client_id' } as const;
const clientId = Optional.String({
  pattern: '^[A-Za-z0-9._:-]{1,128}$',
  description: 'What this client of an API key calls itself; streams are counted by it',
});

/**
 * Server-Sent Events until the caller leaves or may no longer look; `result` is the data of one
 * event.
 */
export const stream = kind({
  headers: streamHeaders,
  params: {
    last_event_id: Optional.Integer({
      minimum: 0,
      description:
        'The last revision received; later changes are sent first. Without it, only changes from now on',
    }),
    client_id: clientId,
  },
  response: 'stream',
});

/**
 * The same of what comes from a tenant and the platform together: the id of an event is
 * `tenant.platform`.
 */
export const streamOfBoth = kind({
  headers: streamHeaders,
  params: {
    last_event_id: Optional.String({
      pattern: '^[0-9]{1,15}\\.[0-9]{1,15}$',
      description:
        'The id of the last event that was received; the keys that differ since are sent first. From now on where absent',
    }),
    client_id: clientId,
  },
  response: 'stream',
});
