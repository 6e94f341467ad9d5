/**
 * Watch streams, Server-Sent Events: of the changes of a tenant or of the platform, each with its
 * revision as the id; of what these make of the effective values of one context, also in the words of
 * OpenFeature (streams/flags.ts); and of what becomes of one's own session (streams/own-session.ts).
 *
 * Who watches the same shares it: changes are read from their owner once for each scope and change
 * (streams/shared-changes.ts), values once for each tenant and change
 * (streams/effective-values.ts). What all streams have in common is in streams/stream-hub.ts.
 */
import type { ServiceBroker } from 'moleculer';
import { serviceCaller, type Caller } from '../../shared/access.ts';
import { callAs } from '../../shared/contract-runtime/request.ts';
import type { Coherence } from '../../shared/coherence/coherence.ts';
import { addressOf } from '../../shared/contracts/effective-config.ts';
import {
  approvalScope,
  changeSetScope,
  platformScope,
  tenantScope,
} from '../../shared/contracts/revision-scopes.ts';
import type { LiveSettings } from '../../shared/settings/live-settings.ts';
import type { StreamFigures } from '../http/metrics.ts';
import type { OwnHandlers, OwnRequest } from '../http/own-handlers.ts';
import { flagFrames, ownFrames, type Frames } from './effective-frames.ts';
import { EffectiveValues } from './effective-values.ts';
import type { EventStream, Holder } from './event-stream.ts';
import { OwnSessions } from './own-session.ts';
import { pageSize, SharedChanges, type Changes, type ChangeKind } from './shared-changes.ts';
import { StreamHub } from './stream-hub.ts';

interface Watched extends ChangeKind {
  /** Whose changes are sent. */
  readonly scope: string;
  /**
   * At most `pageSize` changes after a revision; without `after` only the newest revision. Read
   * once for all who watch.
   */
  readonly changes: (caller: Caller, after?: number) => Promise<Changes>;
}

export interface Watch extends StreamFigures {
  readonly handlers: OwnHandlers;
  /** No stream begins any more, and those that run end. */
  readonly stop: () => void;
}

export function createWatch(
  broker: ServiceBroker,
  coherence: Coherence,
  settings: LiveSettings,
): Watch {
  const hub = new StreamHub(coherence, settings);
  const effective = new EffectiveValues(broker, coherence, hub);
  const ownSessions = new OwnSessions(hub);
  const shared = new Map<string, SharedChanges>();
  let changesRead = 0;
  coherence.onChange((change) => {
    shared.get(change.scope)?.onChange(change.revision);
    effective.onChange(change);
    ownSessions.onChange(change);
  });
  coherence.onReset(() => {
    for (const changes of shared.values()) changes.refresh();
    effective.reset();
    ownSessions.reset();
  });

  function sharedChanges({ scope, changes, ...kind }: Watched): SharedChanges {
    const known = shared.get(scope);
    if (known) return known;
    const made: SharedChanges = new SharedChanges(
      hub,
      kind,
      (after) => {
        changesRead += 1;
        return changes(serviceCaller(broker.nodeID), after);
      },
      () => coherence.hasLease(),
      () => {
        if (shared.get(scope) === made) shared.delete(scope);
      },
    );
    shared.set(scope, made);
    return made;
  }

  /** Begins a stream, which sends what `subscribe` has it subscribed to. */
  async function start(
    holder: Holder,
    request: OwnRequest,
    subscribe: (stream: EventStream) => Promise<void>,
  ): Promise<EventStream> {
    const stream = hub.take(holder, request);
    try {
      await subscribe(stream);
      return stream;
    } catch (error) {
      stream.release();
      throw error;
    }
  }

  const watchChanges = (
    watched: Watched,
    tenantId: string | null,
    { client_id: clientId, last_event_id: last }: Readonly<Record<string, unknown>>,
    request: OwnRequest,
  ): Promise<EventStream> =>
    start(holderOf(request, tenantId, clientId), request, (stream) =>
      sharedChanges(watched).subscribe(stream, last as number | undefined),
    );

  function watchValues(
    params: Readonly<Record<string, unknown>>,
    request: OwnRequest,
    frames: Frames,
  ): Promise<EventStream> {
    const { tenant_id: id, client_id: clientId, last_event_id: last, ...context } = params;
    const tenantId = id as string;
    return start(holderOf(request, tenantId, clientId), request, (stream) =>
      effective.subscribe(stream, tenantId, addressOf(context), last as string | undefined, frames),
    );
  }

  const handlers: OwnHandlers = {
    'gateway.watch.tenant': (params, request) => {
      const id = params.tenant_id as string;
      return watchChanges(tenantChanges(broker, id), id, params, request);
    },
    'gateway.watch.platform': (params, request) =>
      watchChanges(platformChanges(broker), request.caller.tenant_id, params, request),
    'gateway.watch.approvals': (params, request) => {
      const id = params.tenant_id as string;
      return watchChanges(approvalChanges(broker, id), id, params, request);
    },
    'gateway.watch.changesets': (params, request) => {
      const id = params.tenant_id as string;
      return watchChanges(changeSetChanges(broker, id), id, params, request);
    },
    'gateway.watch.platform-changesets': (params, request) =>
      watchChanges(changeSetChanges(broker, null), request.caller.tenant_id, params, request),
    'gateway.watch.session': (_params, request) =>
      start(holderOf(request, request.caller.tenant_id, undefined), request, async (stream) =>
        ownSessions.subscribe(stream),
      ),
    'gateway.watch.effective': (params, request) => watchValues(params, request, ownFrames),
    'gateway.watch.flags': ({ ticket: _ticket, ...params }, request) =>
      watchValues(params, request, flagFrames),
  };
  return {
    handlers,
    open: () => hub.size,
    reads: () => ({
      changes: changesRead,
      values: effective.questions,
      past: effective.pastQuestions,
    }),
    stop: () => hub.stop(),
  };
}

/**
 * Streams are counted by person; with API keys by key and by what each client of the key calls
 * itself. Clients of one key that give no name are a fleet, of which only the tenant's share is
 * asked.
 */
function holderOf(
  { caller, apiKeyId }: OwnRequest,
  tenantId: string | null,
  clientId: unknown,
): Holder {
  const isFleet = apiKeyId !== undefined && clientId === undefined && tenantId !== null;
  const watcher =
    apiKeyId === undefined
      ? `${caller.type} ${caller.id}`
      : `key ${apiKeyId} ${JSON.stringify(clientId)}`;
  return { watcher, tenantId, isFleet };
}

const tenantChanges = (broker: ServiceBroker, tenantId: string): Watched => ({
  event: 'config.changed',
  scope: tenantScope(tenantId),
  changes: (caller, after) =>
    callAs(
      broker,
      'tenant-config.changes',
      { tenant_id: tenantId, limit: pageSize, ...(after === undefined ? {} : { after }) },
      { caller, requestId: 'watch' },
    ),
});

const platformChanges = (broker: ServiceBroker): Watched => ({
  event: 'config.changed',
  scope: platformScope,
  changes: (caller, after) =>
    callAs(
      broker,
      'global-config.changes',
      { limit: pageSize, ...(after === undefined ? {} : { after }) },
      { caller, requestId: 'watch' },
    ),
});

const approvalChanges = (broker: ServiceBroker, tenantId: string): Watched => ({
  event: 'approval.changed',
  showsLatestOnly: true,
  scope: approvalScope(tenantId),
  changes: (caller, after) =>
    callAs(
      broker,
      'notifier.approvals.changes',
      { tenant_id: tenantId, limit: pageSize, ...(after === undefined ? {} : { after }) },
      { caller, requestId: 'watch' },
    ),
});

/** Of a tenant; null for the platform's. */
const changeSetChanges = (broker: ServiceBroker, tenantId: string | null): Watched => ({
  event: 'changeset.changed',
  showsLatestOnly: true,
  scope: changeSetScope(tenantId),
  changes: (caller, after) => {
    const by = { caller, requestId: 'watch' };
    const params = { limit: pageSize, ...(after === undefined ? {} : { after }) };
    return tenantId === null
      ? callAs(broker, 'global-config.changesets.changes', params, by)
      : callAs(broker, 'tenant-config.changesets.changes', { tenant_id: tenantId, ...params }, by);
  },
});
