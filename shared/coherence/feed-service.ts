/** The change feed over the bus: nodes with a database answer it, the others poll it there. */
import type { ServiceBroker, ServiceSchema } from 'moleculer';
import { performance } from 'node:perf_hooks';
import type { Logger } from 'pino';
import type { DataSource } from 'typeorm';
import { serviceCaller } from '../access.ts';
import { commitChange, recordEvents } from '../commits/commit.ts';
import { settingsReloadedKey, settingsReplacedKey } from '../contracts/feed.ts';
import type { ActionName, ParamsOf, ResultOf } from '../contracts/index.ts';
import { authScope } from '../contracts/revision-scopes.ts';
import { StrataError } from '../errors.ts';
import { within } from '../concurrency/within.ts';
import { natsConnectionOf, reportAfterMs } from '../bus/bus.ts';
import { invalidateEvent } from '../node/cluster-service.ts';
import type { ClusterLink } from './coherence.ts';
import type { Feed } from './feed.ts';
import { callAs, type CallOptions } from '../contract-runtime/request.ts';
import { serviceOf } from '../contract-runtime/service.ts';

/** On every node with a database. */
export const feedService = (feed: Feed, commits: DataSource): ServiceSchema =>
  serviceOf('feed', {
    'feed.poll': ({ body }) => feed.poll(body),
    'feed.leave': async ({ body }) => {
      await feed.leave(body);
      return null;
    },
    'feed.settings-replaced': async ({ unchanged = false }, request) => {
      const key = unchanged ? settingsReloadedKey : settingsReplacedKey;
      const change = { result: undefined, keys: [key], events: [] };
      await commitChange(commits, request, authScope, async () => change);
      return null;
    },
    'feed.record': async ({ body }) => {
      await recordEvents(commits.manager, body);
      return null;
    },
  });

export interface ClusterLinkOptions {
  readonly nodeId: string;
  /** A poll over the bus that takes longer is given up: the lease would be over. */
  readonly fenceMs: number;
  /** The feed in this node's own database; undefined where it has none and asks over the bus. */
  readonly feed: Feed | undefined;
  /** Sends no broadcasts. */
  readonly silent: boolean;
  readonly log: Logger;
}

export function clusterLink(broker: ServiceBroker, options: ClusterLinkOptions): ClusterLink {
  const { feed, silent } = options;
  const broadcast: ClusterLink['broadcast'] = (change) => {
    if (!silent) void broker.broadcast(invalidateEvent, change);
  };
  const hearsOthers = (withinMs: number): Promise<boolean> => roundTrip(broker, withinMs);
  if (!feed) return { ...linkOverBus(broker, options), hearsOthers, broadcast };
  const { poll, leave, leases, isWritable } = feed;
  return { poll, leave, leases, isWritable, hearsOthers, broadcast };
}

/** Answered by any node that has a database. */
function linkOverBus(
  broker: ServiceBroker,
  { nodeId, fenceMs, log }: ClusterLinkOptions,
): Pick<ClusterLink, 'poll' | 'leave' | 'pollsOverBus'> {
  const options = { caller: serviceCaller(nodeId), requestId: nodeId, timeout: fenceMs };
  const call = callWhereOffered(broker, log);
  return {
    pollsOverBus: true,
    poll: (poll) => call('feed.poll', { body: poll }, options),
    leave: async (leave) => {
      const soon = { ...options, timeout: fenceMs / 4 };
      await call('feed.leave', { body: leave }, soon);
    },
  };
}

/**
 * Calls the feed where some node offers it. Where none does, Moleculer would log each call, twice a
 * second for as long as this node waits; instead one line says what it waits for, and nothing is
 * called.
 */
function callWhereOffered(broker: ServiceBroker, log: Logger) {
  let absentSince: number | undefined;
  let isReported = false;

  function noteAbsence(): void {
    const now = performance.now();
    absentSince ??= now;
    if (isReported || now - absentSince < reportAfterMs) return;
    isReported = true;
    log.warn(
      'No node with a database, such as auth or tenant-config, answers on NATS. This node waits for one, and caches nothing until then. Start one, or see that NATS_URL, NATS_NAMESPACE and SECRET_KEY are the same on all nodes.',
    );
  }

  return async <A extends ActionName>(
    action: A,
    params: ParamsOf<A>,
    options: CallOptions,
  ): Promise<ResultOf<A>> => {
    const isOffered = broker.registry.getActionEndpoints(action)?.hasAvailable() ?? false;
    if (!isOffered) {
      noteAbsence();
      throw new StrataError('service_unavailable', 'No node with the change feed is connected.');
    }
    absentSince = undefined;
    isReported = false;
    return callAs(broker, action, params, options);
  };
}

/**
 * Whether NATS answers in time. Its answer comes after everything that it had for this node. True
 * in embedded mode.
 */
async function roundTrip(broker: ServiceBroker, withinMs: number): Promise<boolean> {
  const connection = natsConnectionOf(broker);
  if (!connection) return true;
  // It fails where the connection is closed, or being made again.
  return within(withinMs, connection.flush()).then(
    () => true,
    () => false,
  );
}
