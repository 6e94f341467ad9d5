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
import { serviceCaller } from '../../shared/access.ts';
import { callAs } from '../../shared/contract-runtime/request.ts';
import type { Coherence } from '../../shared/coherence/coherence.ts';
import { addressOf } from '../../shared/contracts/effective-config.ts';
import type { ParamsOf } from '../../shared/contracts/index.ts';
import {
  approvalScope,
  changeSetScope,
  documentScope,
} from '../../shared/contracts/revision-scopes.ts';
import type { LiveSettings } from '../../shared/settings/live-settings.ts';
import type { StreamMetrics } from '../http/metrics.ts';
import type { OwnHandler, OwnHandlers, OwnRequest } from '../http/own-handlers.ts';
import { flagFrames, ownFrames, type Frames } from './effective-frames.ts';
import { EffectiveValues } from './effective-values.ts';
import type { EventStream, Holder } from './event-stream.ts';
import { OwnSessions } from './own-session.ts';
import { pageSize, SharedChanges, type ChangeKind } from './shared-changes.ts';
import { StreamHub } from './stream-hub.ts';

/** Answers changes after a revision; without `after` only the newest revision. */
type ChangesAction =
  | 'tenant-config.changes'
  | 'global-config.changes'
  | 'notifier.approvals.changes'
  | 'tenant-config.changesets.changes'
  | 'global-config.changesets.changes';

interface Watched extends ChangeKind {
  /** Whose changes are sent: of a tenant, or of the platform, which is null. */
  readonly scopeOf: (tenantId: string | null) => string;
  /** Called once for all who watch. */
  readonly action: ChangesAction;
}

const documents = { event: 'config.changed', scopeOf: documentScope } as const;
const changeSets = {
  event: 'changeset.changed',
  showsLatestOnly: true,
  scopeOf: changeSetScope,
} as const;
const approvals = {
  event: 'approval.changed',
  showsLatestOnly: true,
  scopeOf: (tenantId: string | null) => approvalScope(tenantId!),
} as const;

export interface Watch extends StreamMetrics {
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

  function sharedChanges(
    { scopeOf, action, ...kind }: Watched,
    tenantId: string | null,
  ): SharedChanges {
    const scope = scopeOf(tenantId);
    const known = shared.get(scope);
    if (known) return known;
    const by = { caller: serviceCaller(broker.nodeID), requestId: 'watch' };
    const ofTenant = tenantId === null ? {} : { tenant_id: tenantId };
    const made: SharedChanges = new SharedChanges(
      hub,
      kind,
      (after) => {
        changesRead += 1;
        const params = { ...ofTenant, limit: pageSize, ...(after === undefined ? {} : { after }) };
        return callAs(broker, action, params as ParamsOf<ChangesAction>, by);
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

  const watchChanges =
    (watched: Watched): OwnHandler =>
    ({ tenant_id: id = null, client_id: clientId, last_event_id: last }, request) => {
      const tenantId = id as string | null;
      const holder = holderOf(request, tenantId ?? request.caller.tenant_id, clientId);
      return start(holder, request, (stream) =>
        sharedChanges(watched, tenantId).subscribe(stream, last as number | undefined),
      );
    };

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
    'gateway.watch.tenant': watchChanges({ ...documents, action: 'tenant-config.changes' }),
    'gateway.watch.platform': watchChanges({ ...documents, action: 'global-config.changes' }),
    'gateway.watch.approvals': watchChanges({ ...approvals, action: 'notifier.approvals.changes' }),
    'gateway.watch.changesets': watchChanges({
      ...changeSets,
      action: 'tenant-config.changesets.changes',
    }),
    'gateway.watch.platform-changesets': watchChanges({
      ...changeSets,
      action: 'global-config.changesets.changes',
    }),
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
