/**
 * A contract is one row of the endpoint table: what an action is called, who may call it, what it takes and answers,
 * which cache key holds its answer and which keys a write drops. Routes, OpenAPI, checks, types and caching derive from it.
 */
import { Type, type Static, type TObject, type TProperties, type TSchema } from 'typebox';
import type { ErrorCode } from './error-codes.ts';

export type TenantRole = 'tenant_admin' | 'operator' | 'viewer';
/** What an API key may be allowed to do. */
export const keyScopes = [
  'config:read',
  'config:write',
  'approvals:read',
  'approvals:write',
  'members:read',
  'members:write',
  'audit:read',
  'platform:read',
  'platform:write',
  'auth:self',
] as const;
export type KeyScope = (typeof keyScopes)[number];

/**
 * Who may call. `services` also admits Strata's neighbours on the bus, for any tenant; `publicWith` anyone, where that parameter is given;
 * `recent` wants a sign-in of the last 10 minutes.
 */
export type Access =
  | { readonly level: 'public' }
  | { readonly level: 'authenticated'; readonly services?: boolean; readonly recent?: true }
  | { readonly level: 'platform_admin'; readonly services?: boolean; readonly publicWith?: string }
  | { readonly level: 'tenant'; readonly roles: readonly TenantRole[]; readonly services?: boolean }
  | {
      readonly level: 'tenant_or_platform';
      readonly roles: readonly TenantRole[];
      readonly services?: boolean;
    }
  | { readonly level: 'internal' };

export type CacheName = 'configuration_service' | 'dynamic_config_service' | 'identity';

/**
 * What a revision counts: the changes of one tenant's configuration, of one tenant's memberships, of the platform's
 * configuration, or of accounts, sessions and API keys.
 */
export type RevisionScope = `tenant:${string}` | `members:${string}` | 'platform' | 'auth';

/** Where a cached read is kept, and the counters whose revisions an answer from there must include. */
export interface CacheRule {
  readonly cache: CacheName;
  readonly key: (params: never) => string;
  readonly revisionScopes: (params: never) => RevisionScope[];
}

/**
 * The codes of an action that has its own for failures of Strata: operators alert on each way of signing in by itself. Every
 * other action answers `service_unavailable` and `internal_error`.
 */
export interface FailureCodes {
  /** A database does not answer: the service's own, or that of a neighbour it calls. */
  readonly database: ErrorCode;
  /** Everything else that went wrong in Strata. */
  readonly unexpected: ErrorCode;
}

/** How the gateway turns a result into an HTTP response; `responses.ts` does it. */
export type ResponseKind =
  | 'resource'
  | 'write'
  | 'list'
  | 'value'
  | 'created'
  | 'accepted'
  | 'nothing'
  | 'token'
  | 'reload'
  | 'page'
  | 'stream';

export interface Rest {
  readonly method: 'GET' | 'PUT' | 'PATCH' | 'POST' | 'DELETE';
  /** With `{name}` placeholders, as the specification writes paths. */
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
  /** The right that an API key needs for this; without it no API key may. */
  readonly keyScope?: KeyScope;
  readonly params: P;
  readonly result: R;
  readonly response: ResponseKind;
  readonly rest?: Rest;
  readonly cache?: CacheRule;
  /** The exact cache keys that this write drops. */
  readonly drops?: (params: never) => string[];
  /** May this caller see the answer? Where not, it does not exist for them (404). */
  readonly visible?: (result: never, caller: { readonly platform: boolean }) => boolean;
  readonly failures?: FailureCodes;
  /** The result may be null although the resource exists. */
  readonly nullable?: boolean;
}

const readHeaders = { 'x-min-revision': 'min_revision' } as const;
const readOptions = {
  min_revision: Type.Optional(
    Type.Integer({ minimum: 0, description: 'The answer must not be from before this revision' }),
  ),
};
const writeHeaders = {
  'if-match': 'if_match',
  'if-none-match': 'if_none_match',
  'x-change-reason': 'reason',
} as const;
const writeOptions = {
  if_match: Type.Optional(
    Type.String({
      maxLength: 1000,
      description: 'Entity tags, one of which must be the current one',
    }),
  ),
  if_none_match: Type.Optional(
    Type.Literal('*', { description: 'Write only where nothing exists yet' }),
  ),
  reason: Type.Optional(Type.String({ maxLength: 500, description: 'Why, kept in the history' })),
};
export const dryRun = {
  dry_run: Type.Optional(
    Type.Boolean({ description: 'Validate and show the changes, write nothing' }),
  ),
};

type Empty = Record<never, never>;
interface Definition<
  Path extends TProperties,
  Query extends TProperties,
  Body extends TSchema | undefined,
  R extends TSchema,
> {
  summary: string;
  rest?: `${Rest['method']} /${string}`;
  access: Access;
  keyScope?: KeyScope;
  path?: Path;
  query?: Query;
  body?: Body;
  result: R;
  response?: ResponseKind;
  cache?: {
    cache: CacheName;
    key: (params: Static<TObject<Path & Query>>) => string;
    revisionScopes: (params: Static<TObject<Path & Query>>) => RevisionScope[];
  };
  drops?: (params: Static<TObject<Path>>) => string[];
  visible?: (result: Static<R>, caller: { readonly platform: boolean }) => boolean;
  failures?: FailureCodes;
  nullable?: boolean;
}

type BodyProperty<Body> = Body extends TSchema ? { body: Body } : Empty;

function define<
  H extends TProperties,
  Path extends TProperties,
  Query extends TProperties,
  Body extends TSchema | undefined,
  R extends TSchema,
>(
  definition: Definition<Path, Query, Body, R>,
  headers: Readonly<Record<string, string>>,
  headerParams: H,
): Contract<TObject<Path & Query & BodyProperty<Body> & H>, R> {
  const { rest, path, query, body, ...rules } = definition;
  const [method, url] = (rest ?? ' ').split(' ') as [Rest['method'], string];
  const properties = {
    ...path,
    ...query,
    ...(body === undefined ? {} : { body }),
    ...headerParams,
  };
  return {
    ...rules,
    response: definition.response ?? 'value',
    params: Type.Object(properties, { additionalProperties: false }) as unknown as TObject<
      Path & Query & BodyProperty<Body> & H
    >,
    ...(rest === undefined
      ? {}
      : {
          rest: {
            method,
            path: url,
            pathParams: Object.keys(path ?? {}),
            query: Object.keys(query ?? {}),
            headers,
            body: body !== undefined,
          },
        }),
  } as Contract<TObject<Path & Query & BodyProperty<Body> & H>, R>;
}

/** An action that is neither a read nor a write of a configuration resource. */
export const action = <
  R extends TSchema,
  Path extends TProperties = Empty,
  Query extends TProperties = Empty,
  Body extends TSchema | undefined = undefined,
>(
  definition: Definition<Path, Query, Body, R>,
) => define(definition, {}, {});

/** A read that honours X-Min-Revision; with answer `resource` also ETag and If-None-Match. */
export const read = <
  R extends TSchema,
  Path extends TProperties = Empty,
  Query extends TProperties = Empty,
>(
  definition: Definition<Path, Query, undefined, R>,
) => define(definition, readHeaders, readOptions);

/** A write under If-Match / If-None-Match, with X-Change-Reason. Give `query: dryRun` where it can be tried first. */
export const write = <
  R extends TSchema,
  Path extends TProperties = Empty,
  Query extends TProperties = Empty,
  Body extends TSchema | undefined = undefined,
>(
  definition: Definition<Path, Query, Body, R>,
) =>
  define<typeof writeOptions, Path, Query, Body, R>(
    { response: 'write', ...definition },
    writeHeaders,
    writeOptions,
  );

/** Server-Sent Events until the caller leaves or may no longer look; `result` is the data of one `config.changed`. */
export const stream = <R extends TSchema, Path extends TProperties = Empty>(
  definition: Definition<Path, Empty, undefined, R>,
) =>
  define<{ last_event_id: TSchema }, Path, Empty, undefined, R>(
    { response: 'stream', ...definition },
    { 'last-event-id': 'last_event_id' },
    {
      last_event_id: Type.Optional(
        Type.Integer({
          minimum: 0,
          description:
            'The last revision that was received; changes after it are sent first. From now on unless told',
        }),
      ),
    },
  );

/** A stored document with what a reader's headers need. `updated_by` is a user id, or the name of who acted. */
export const Resource = <T extends TSchema>(document: T) =>
  Type.Object(
    {
      document,
      revision: Type.Integer(),
      updated_by: Type.String(),
      updated_at: Type.String({ format: 'date-time' }),
      stale: Type.Optional(Type.Literal(true)),
    },
    { additionalProperties: false },
  );

export const Change = Type.Object(
  {
    path: Type.String({ description: 'JSON Pointer (RFC 6901) into the document' }),
    before: Type.Optional(Type.Unknown()),
    after: Type.Optional(Type.Unknown()),
  },
  { additionalProperties: false },
);

export type ReadContract<Path extends TProperties, R extends TSchema> = Contract<
  TObject<Path & typeof readOptions>,
  R
>;
export type WriteContract<
  Path extends TProperties,
  Body extends TSchema,
  R extends TSchema,
> = Contract<TObject<Path & typeof dryRun & { body: Body } & typeof writeOptions>, R>;

/** What a write answers on the bus; `document` is null after a deletion. */
export const Written = <T extends TSchema>(document: T) =>
  Type.Union([
    Type.Object(
      {
        outcome: Type.Union([
          Type.Literal('created'),
          Type.Literal('updated'),
          Type.Literal('deleted'),
        ]),
        document: Type.Union([document, Type.Null()]),
        revision: Type.Integer(),
        updated_by: Type.String(),
        updated_at: Type.String({ format: 'date-time' }),
        requires_restart: Type.Optional(Type.Literal(true)),
      },
      { additionalProperties: false },
    ),
    Type.Object(
      {
        dry_run: Type.Literal(true),
        changes: Type.Array(Change),
        invalidates: Type.Array(Type.String()),
      },
      { additionalProperties: false },
    ),
  ]);

/** Cursor pagination, the same on every list. */
export const page = {
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 200,
      default: 50,
      description: 'How many items, 50 unless told',
    }),
  ),
  cursor: Type.Optional(
    Type.String({ minLength: 1, maxLength: 500, description: 'next_cursor of the page before' }),
  ),
};
export const Page = <T extends TSchema>(item: T) =>
  Type.Object(
    {
      items: Type.Array(item),
      next_cursor: Type.Union([Type.String(), Type.Null()]),
    },
    { additionalProperties: false },
  );

export const Uuid = Type.String({ format: 'uuid', pattern: '^[0-9a-f-]{36}$' });
export const Slug = Type.String({
  pattern: '^[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?$',
  description: 'Lower-case letters, digits, - and _',
});
export const Timestamp = Type.String({ format: 'date-time' });
/** An e-mail address of at most 254 characters, the longest that SMTP can carry (RFC 5321, 4.5.3.1.3, less its brackets). */
export const Email = Type.String({ format: 'email', maxLength: 254 });

export const tenantScope = (tenantId: string): RevisionScope => `tenant:${tenantId}`;
export const platformScope = 'platform' satisfies RevisionScope;
