/**
 * Operating the cluster. `cluster.reload` and `cluster.invalidate` concern every node: any node
 * answers them by asking all of them. `cluster.node.*` is what one node does or says about itself;
 * it is called with that node's id.
 */
import { Type, type Static } from 'typebox';
import { action, internal, internalRead } from './contract.ts';
import {
  described,
  DescribedObject,
  Nullable,
  Optional,
  StrictObject,
  TenantId,
  Timestamp,
  TitledObject,
  Uuid,
} from './fields.ts';
import { tenantAdmins } from './tenant-document.ts';

/** Shows memory and health, so operators and Strata's neighbours may ask. */
const observer = { level: 'platform_admin', services: true } as const;

/**
 * A node may stay silent for 5 seconds in each of two phases; a change waits for the fence between
 * them, an audit event comes after.
 */
const minTimeoutMs = 15_000;

export const ReloadRequest = StrictObject({
  reload_env: Optional.Boolean({
    description: 'Reload the settings from the environment',
    examples: [true],
  }),
  invalidate: Type.Optional(
    DescribedObject(
      'Whose cached effective configurations are dropped: all, unless tenants are named and no setting changed',
      {
        all: Optional.Boolean({ description: 'Those of every tenant' }),
        tenant_ids: Optional.Array(Type.String({ format: 'uuid', maxLength: 36 }), {
          maxItems: 1000,
          description: 'Those of these tenants',
        }),
      },
    ),
  ),
  reinit: Type.Optional(
    DescribedObject('Caches to clear', {
      configuration_service: Optional.Boolean({ description: 'The cache of stored documents' }),
      dynamic_config_service: Optional.Boolean({
        description: 'The cache of effective configurations',
      }),
    }),
  ),
  dry_run: Optional.Boolean({
    description: 'Show what would happen, do nothing',
    examples: [true],
  }),
});

/**
 * Whose effective values (`dynamic_config_service`): everybody's, or those of the tenants. Neither
 * means none.
 */
export const Invalidated = DescribedObject('Whose cached effective configurations are dropped', {
  all: Type.Boolean({ description: 'Those of every tenant' }),
  tenant_ids: Type.Array(Type.String(), { description: 'Those of these tenants' }),
});

/** A node that did not do its part: it failed, or it did not answer in 5 seconds. */
export const NodeError = TitledObject('NodeError', 'A node that did not do its part', {
  node: Type.String({ description: 'Which node' }),
  action: Type.String({ description: 'What it was asked to do' }),
  message: Type.String({ description: 'What went wrong' }),
});
const errors = Optional.Array(NodeError, {
  description: 'Nodes that did not do their part; absent if all did',
});

const ReloadResponse = TitledObject('ReloadResponse', 'What a reload did, or would do', {
  status: Type.Union([Type.Literal('ok'), Type.Literal('partial')], {
    description: '`partial` where some node did not do its part',
  }),
  reloaded_env: Type.Boolean({ description: 'Whether settings were read again' }),
  invalidated: Invalidated,
  reinitialized: Type.Array(Type.String(), { description: 'Caches that began again' }),
  timestamp: described(Timestamp, 'When it was done'),
  requires_restart: Type.Array(Type.String(), {
    description: 'Settings that changed but need a restart',
  }),
  changed_settings: Type.Array(Type.String(), {
    description: 'Names of settings with a new value',
  }),
  nodes: Type.Array(Type.String(), { description: 'Nodes that did their part' }),
  dry_run: Optional.Literal(true, { description: 'Nothing was done' }),
  errors,
});

/** `left` said that it goes, `lost` fell silent: both as the node that answers has seen it. */
const nodeStates = ['well', 'unwell', 'silent', 'left', 'lost'] as const;
const ClusterNode = TitledObject('ClusterNode', 'A node of the cluster, or one that has gone', {
  node: Type.String({ description: 'Its NODE_ID', examples: ['gateway-1'] }),
  host: Type.String({ description: 'The machine or pod that it is or was on' }),
  state: Type.Enum(nodeStates, {
    description:
      '`well`: all that it needs answers; `unwell`: `away` says what does not; `silent`: it did not answer; `left`: it said that it ends; `lost`: it fell silent and is gone',
  }),
  pieces: Type.Array(Type.String(), {
    description: 'What it hosts; of a node of an earlier release without its gateway',
  }),
  release: described(Nullable(Type.String()), 'That it runs; null: it does not say'),
  started_at: described(Nullable(Timestamp), 'When it started; null: it does not say'),
  last_seen_at: described(Timestamp, 'When the node that answers last observed it'),
  lease: Type.Boolean({ description: 'It may answer reads from its memory' }),
  away: Type.Array(Type.String(), { description: 'What it needs and does not reach' }),
  sending: described(
    Nullable(Type.Integer()),
    'Notices that it is sending now; null: it sends none, or does not say',
  ),
});
export type ClusterNode = Static<typeof ClusterNode>;

/** What waits in the database, for whichever node is free: the same on every node. */
const waiting = {
  audit_events: described(
    Nullable(Type.Integer()),
    'Audit events that the audit service does not have yet, up to 10,000; null: no node says',
  ),
  notices: described(
    Nullable(Type.Integer()),
    'Notices that are not settled yet, also those that wait for another attempt, up to 10,000; null: no node says',
  ),
};
const Backlog = StrictObject({ ...waiting, sending: Nullable(Type.Integer()) });
export type Backlog = Static<typeof Backlog>;

/** The metrics of one cache of a node since it started; `keys` where they were asked for. */
const CacheStatistics = StrictObject({
  entries: Type.Integer(),
  bytes: Type.Integer(),
  hits: Type.Integer(),
  misses: Type.Integer(),
  drops: Type.Integer(),
  stale: Type.Integer(),
  keys: Optional.Array(Type.String()),
});

export const clusterContracts = {
  'cluster.reload': action({
    summary: 'Operator reload',
    rest: 'POST /config/reload',
    access: { level: 'platform_admin' },
    leadsTo: 'operations',
    keyScope: 'platform:write',
    body: ReloadRequest,
    result: ReloadResponse,
    response: 'reload',
    minTimeoutMs,
  }),
  'cluster.invalidate': action({
    summary: "Drop cached entries of the caller's tenant",
    rest: 'POST /configurations/cache/invalidate',
    access: tenantAdmins,
    leadsTo: 'operations',
    keyScope: 'config:write',
    query: { tenant_id: Type.Optional(described(Uuid, "The caller's own tenant, by its id")) },
    body: StrictObject({
      keys: Optional.Array(Type.String({ minLength: 1, maxLength: 300 }), {
        maxItems: 1000,
        description: 'Cache keys; by default all of the tenant',
      }),
    }),
    result: TitledObject('CacheInvalidation', 'What was dropped', {
      tenant_id: TenantId,
      invalidated: Type.Array(Type.String(), { description: 'Cache keys that were dropped' }),
      nodes: Type.Integer({ description: 'How many nodes did it' }),
      timestamp: described(Timestamp, 'When it was done'),
      errors,
    }),
    response: 'reload',
    minTimeoutMs,
  }),

  'cluster.nodes': action({
    summary: 'Nodes of the cluster, and the latest of those that left',
    rest: 'GET /config/nodes',
    access: observer,
    keyScope: 'platform:read',
    result: TitledObject('ClusterNodes', 'Who is in the cluster, and who was', {
      at: described(Timestamp, 'When they were asked'),
      backlog: Type.Optional(
        DescribedObject('Work that waits in the database, for whichever node is free', waiting),
      ),
      items: Type.Array(ClusterNode, { description: 'Those that are there first, by name' }),
    }),
    changesNothing: true,
  }),

  'cluster.node.reload-environment': internal({
    summary: "Replace this node's settings by what its environment says now",
    body: StrictObject({ dry_run: Type.Boolean() }),
    result: StrictObject({
      changed_settings: Type.Array(Type.String()),
      requires_restart: Type.Array(Type.String()),
      /** Why the environment is not valid; the settings stay as they were. */
      problem: Nullable(Type.String()),
    }),
  }),
  'cluster.node.clear': internal({
    summary: "Clear this node's caches",
    body: StrictObject({
      configuration_service: Type.Boolean(),
      dynamic_config_service: Invalidated,
      dry_run: Type.Boolean(),
    }),
  }),
  'cluster.node.drop': internal({
    summary: "Drop a tenant's cached entries on this node, or the named ones",
    body: StrictObject({
      tenant_id: Type.String(),
      keys: Optional.Array(Type.String()),
    }),
    result: StrictObject({ dropped: Type.Array(Type.String()) }),
  }),
  'cluster.node.caches': action({
    summary: "This node's caches: metrics, and the keys where asked",
    access: observer,
    body: StrictObject({ keys: Optional.Boolean() }),
    result: Type.Record(Type.String(), CacheStatistics),
    changesNothing: true,
  }),
  'cluster.node.health': action({
    summary: 'Whether what this node needs answers: bus, database, Redis, change feed',
    access: observer,
    result: Type.Record(Type.String(), Type.Boolean()),
    changesNothing: true,
  }),
  'cluster.node.backlog': action({
    summary: 'What this node knows of work that is not done yet',
    access: observer,
    result: Backlog,
    changesNothing: true,
  }),
  'cluster.node.unknown-calls': internal({
    summary: 'Which of these calls the node is not working on: it never got them, or has answered',
    body: StrictObject({ ids: Type.Array(Type.String()) }),
    result: StrictObject({ unknown: Type.Array(Type.String()) }),
  }),
  // Asked across releases: its parameters never change.
  'cluster.node.takes': internalRead({
    summary: 'The JSON Schema of the parameters that an action of this node takes',
    body: StrictObject({ action: Type.String() }),
    result: StrictObject({ schema: Nullable(Type.String()) }),
  }),
} as const;
