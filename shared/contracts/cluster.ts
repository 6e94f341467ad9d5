/** What every node answers about itself, called with its node id; and the change feed, on nodes with a database. */
import { Type } from 'typebox';
import { action } from './contract.ts';

const strict = { additionalProperties: false } as const;
const internal = { level: 'internal' } as const;

/** One committed change as the feed and the broadcast carry it. `id` is the committing transaction, unique and repeatable. */
export const ChangeRecord = Type.Object(
  {
    id: Type.String(),
    scope: Type.String(),
    revision: Type.Integer(),
    keys: Type.Array(Type.String()),
  },
  strict,
);

export const ReloadRequest = Type.Object(
  {
    reload_env: Type.Optional(Type.Boolean()),
    invalidate: Type.Optional(
      Type.Object(
        {
          all: Type.Optional(Type.Boolean()),
          tenant_ids: Type.Optional(
            Type.Array(Type.String({ format: 'uuid' }), { maxItems: 1000 }),
          ),
        },
        strict,
      ),
    ),
    reinit: Type.Optional(
      Type.Object(
        {
          configuration_service: Type.Optional(Type.Boolean()),
          dynamic_config_service: Type.Optional(Type.Boolean()),
        },
        strict,
      ),
    ),
    dry_run: Type.Optional(Type.Boolean()),
  },
  strict,
);
export const ReloadError = Type.Object(
  { node: Type.String(), action: Type.String(), message: Type.String() },
  strict,
);
export const ReloadResponse = Type.Object(
  {
    status: Type.Union([Type.Literal('ok'), Type.Literal('partial')]),
    reloaded_env: Type.Boolean(),
    invalidated: Type.Object(
      { all: Type.Boolean(), tenant_ids: Type.Array(Type.String()) },
      strict,
    ),
    reinitialized: Type.Array(Type.String()),
    timestamp: Type.String({ format: 'date-time' }),
    requires_restart: Type.Array(
      Type.String({ description: 'Settings that changed but need a restart' }),
    ),
    changed_settings: Type.Array(
      Type.String({ description: 'Names of settings with a new value' }),
    ),
    nodes: Type.Array(Type.String()),
    dry_run: Type.Optional(Type.Literal(true)),
    errors: Type.Optional(Type.Array(ReloadError)),
  },
  strict,
);

export const nodeContracts = {
  'node.reload': action({
    summary: "This node's part of an operator reload",
    access: internal,
    body: ReloadRequest,
    result: Type.Object(
      {
        changed_settings: Type.Array(Type.String()),
        requires_restart: Type.Array(Type.String()),
        reinitialized: Type.Array(Type.String()),
        reloaded_env: Type.Boolean(),
        errors: Type.Array(ReloadError),
      },
      strict,
    ),
  }),
  'node.drop': action({
    summary: "Drop a tenant's cached entries on this node, or the named ones",
    access: internal,
    body: Type.Object(
      { tenant_id: Type.String(), keys: Type.Optional(Type.Array(Type.String())) },
      strict,
    ),
    result: Type.Object({ dropped: Type.Array(Type.String()) }, strict),
  }),
  'node.caches': action({
    summary: "This node's caches: figures, and the keys where asked",
    access: internal,
    body: Type.Object({ keys: Type.Optional(Type.Boolean()) }, strict),
    result: Type.Unknown(),
  }),
  'node.health': action({
    summary: "This node's bus, database and Redis",
    access: internal,
    result: Type.Record(Type.String(), Type.Unknown()),
  }),

  'feed.poll': action({
    summary: 'Renew the caching lease of a node and read the changes since its cursor',
    access: internal,
    body: Type.Object(
      { node_id: Type.String(), cursor: Type.Union([Type.String(), Type.Null()]) },
      strict,
    ),
    result: Type.Object(
      { cursor: Type.String(), reset: Type.Boolean(), changes: Type.Array(ChangeRecord) },
      strict,
    ),
  }),
  'feed.leave': action({
    summary: 'Give a caching lease back',
    access: internal,
    body: Type.Object({ node_id: Type.String() }, strict),
    result: Type.Null(),
  }),
  'feed.record': action({
    summary: 'Take an audit event of a piece without a database into the outbox',
    access: internal,
    body: Type.Unknown(),
    result: Type.Null(),
  }),
  /** Answered by the gateway, which asks every node. */
  'gateway.reload': action({
    summary: 'Operator reload',
    rest: 'POST /config/reload',
    access: { level: 'platform_admin' },
    keyScope: 'platform:write',
    body: ReloadRequest,
    result: ReloadResponse,
    response: 'reload',
  }),
} as const;
