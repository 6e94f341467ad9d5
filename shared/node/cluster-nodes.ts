/**
 * Who is in the cluster and how each is, and who was: as the node sees it that is asked. Nodes that
 * only look, such as an operator's REPL, are none of the cluster's.
 */
import type { ServiceBroker } from 'moleculer';
import { askNode, type Handlers } from '../contract-runtime/request.ts';
import type { Backlog, ClusterNode } from '../contracts/cluster.ts';
import { nodesOf, rememberGone, type GoneNode, type NodeInfo } from './nodes.ts';

/** A node that takes longer is shown as silent. */
const patienceMs = 1000;

/** Services that come with every node; all others are roles that somebody chose to run there. */
const partsOfEveryNode: ReadonlySet<string> = new Set(['$node', 'cluster', 'feed']);

type Health = Readonly<Record<string, boolean>>;

export function clusterNodes(broker: ServiceBroker): Handlers {
  const gone = rememberGone(broker);
  return {
    'cluster.nodes': async (_params, { requestId }) => {
      const there = nodesOf(broker).filter(isMember);
      const known = await Promise.all(
        there.map(async (node) => {
          const options = { requestId, nodeID: node.id, timeout: patienceMs };
          const [health, backlog] = await Promise.all([
            askNode(broker, 'cluster.node.health', {}, options),
            askNode(broker, 'cluster.node.backlog', {}, options),
          ]);
          return { node, health, backlog };
        }),
      );
      return {
        at: new Date().toISOString(),
        backlog: waitingIn(known.map(({ backlog }) => backlog)),
        items: [
          ...known.map(({ node, health, backlog }) => ofNode(node, health, backlog)),
          ...gone().filter(isMember).map(ofGone),
        ],
      };
    },
  };
}

/** Of the database, as the nodes read it one after the other; null where none could. */
function waitingIn(backlogs: readonly (Backlog | undefined)[]) {
  const most = (part: 'audit_events' | 'notices'): number | null => {
    const read = backlogs.map((each) => each?.[part] ?? null).filter((each) => each !== null);
    return read.length === 0 ? null : Math.max(...read);
  };
  return { audit_events: most('audit_events'), notices: most('notices') };
}

const rolesOf = ({ about, services }: NodeInfo): string[] =>
  about ? [...about.pieces] : services.filter((name) => !partsOfEveryNode.has(name)).toSorted();

const isMember = ({ id }: NodeInfo): boolean => !id.startsWith('repl-');

const factsOf = (node: NodeInfo) => ({
  node: node.id,
  host: node.hostname,
  pieces: rolesOf(node),
  release: node.about?.release ?? null,
  started_at: node.about?.started_at ?? null,
  last_seen_at: node.seenAt.toISOString(),
});

function ofNode(
  node: NodeInfo,
  health: Health | undefined,
  backlog: Backlog | undefined,
): ClusterNode {
  const facts = { ...factsOf(node), sending: backlog?.sending ?? null };
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
  sending: null,
});
