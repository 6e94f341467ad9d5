/**
 * Who is in the cluster and how each is, and who was: as the node sees it that is asked. Nodes that
 * only look, such as an operator's REPL, are none of the cluster's.
 */
import type { ServiceBroker } from 'moleculer';
import { serviceCaller } from '../access.ts';
import { callAs, type Handlers } from '../contract-runtime/request.ts';
import type { ClusterNode } from '../contracts/cluster.ts';
import { nodesOf, rememberGone, type GoneNode, type NodeInfo } from './nodes.ts';

/** A node that takes longer is shown as silent. */
const patienceMs = 1000;

/** Services that come with every node; all others are pieces that somebody chose to run there. */
const partsOfEveryNode: ReadonlySet<string> = new Set(['$node', 'cluster', 'feed']);

type Health = Readonly<Record<string, boolean>>;

export function clusterNodes(broker: ServiceBroker): Handlers {
  const gone = rememberGone(broker);
  async function healthOf(nodeID: string, requestId: string): Promise<Health | undefined> {
    const options = { caller: serviceCaller('cluster'), requestId, nodeID, timeout: patienceMs };
    try {
      return await callAs(broker, 'cluster.node.health', {}, options);
    } catch {
      return undefined;
    }
  }
  return {
    'cluster.nodes': async (_params, { requestId }) => {
      const there = nodesOf(broker).filter(isMember);
      const known = there.map(async (node) => ofNode(node, await healthOf(node.id, requestId)));
      return {
        at: new Date().toISOString(),
        items: [...(await Promise.all(known)), ...gone().filter(isMember).map(ofGone)],
      };
    },
  };
}

const piecesOf = ({ about, services }: NodeInfo): string[] =>
  about ? [...about.pieces] : services.filter((name) => !partsOfEveryNode.has(name)).toSorted();

const isMember = ({ id }: NodeInfo): boolean => !id.startsWith('repl-');

const factsOf = (node: NodeInfo) => ({
  node: node.id,
  host: node.hostname,
  pieces: piecesOf(node),
  release: node.about?.release ?? null,
  started_at: node.about?.started_at ?? null,
  last_seen_at: node.seenAt.toISOString(),
});

function ofNode(node: NodeInfo, health: Health | undefined): ClusterNode {
  const facts = factsOf(node);
  if (health === undefined) return { ...facts, state: 'silent', away: [], lease: false };
  const away = Object.keys(health).filter((part) => !health[part]);
  const state = away.length === 0 ? 'well' : 'unwell';
  return { ...facts, state, away, lease: health.feed ?? false };
}

const ofGone = (node: GoneNode): ClusterNode => ({
  ...factsOf(node),
  state: node.isLost ? 'lost' : 'left',
  away: [],
  lease: false,
});
