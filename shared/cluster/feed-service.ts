/** The change feed over the bus: nodes with a database answer it, the others poll it there. */
import type { ServiceBroker, ServiceSchema } from 'moleculer';
import type { DataSource } from 'typeorm';
import { serviceCaller } from '../access.ts';
import { commitChange, recordEvents } from '../commits/commit.ts';
import { settingsReplacedKey } from '../contracts/feed.ts';
import { authScope } from '../contracts/revision-scopes.ts';
import { invalidateEvent } from './cluster-service.ts';
import type { ClusterLink } from './coherence/coherence.ts';
import type { Feed } from './coherence/feed.ts';
import { callAs } from './request.ts';
import { serviceOf } from './service.ts';

/** On every node with a database. */
export const feedService = (feed: Feed, commits: DataSource): ServiceSchema =>
  serviceOf('feed', {
    'feed.poll': ({ body: { node_id: nodeId, cursor } }) => feed.poll(nodeId, cursor),
    'feed.leave': async ({ body: { node_id: nodeId } }) => {
      await feed.leave(nodeId);
      return null;
    },
    'feed.settings-replaced': async (_params, request) => {
      const change = { result: undefined, keys: [settingsReplacedKey], events: [] };
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
}

export function clusterLink(broker: ServiceBroker, options: ClusterLinkOptions): ClusterLink {
  const { nodeId, feed, silent } = options;
  const broadcast: ClusterLink['broadcast'] = (change) => {
    if (!silent) void broker.broadcast(invalidateEvent, change);
  };
  if (!feed) return { ...linkOverBus(broker, options), broadcast };
  return {
    poll: (cursor) => feed.poll(nodeId, cursor),
    leave: () => feed.leave(nodeId),
    leaseHolders: (changeId) => feed.leaseHolders(changeId),
    broadcast,
  };
}

/** Answered by any node that has a database. */
function linkOverBus(
  broker: ServiceBroker,
  { nodeId, fenceMs }: ClusterLinkOptions,
): Pick<ClusterLink, 'poll' | 'leave'> {
  const options = { caller: serviceCaller(nodeId), requestId: nodeId, timeout: fenceMs };
  return {
    poll: (cursor) => callAs(broker, 'feed.poll', { body: { node_id: nodeId, cursor } }, options),
    leave: async () => {
      await callAs(broker, 'feed.leave', { body: { node_id: nodeId } }, options);
    },
  };
}
