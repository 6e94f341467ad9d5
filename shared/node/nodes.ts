import type { ServiceBroker } from 'moleculer';

/** What a node says of itself to all others, with the services that it hosts. */
export interface NodeAbout {
  readonly release: string;
  readonly pieces: readonly string[];
  /** ISO 8601. */
  readonly started_at: string;
}

export interface NodeInfo {
  readonly id: string;
  readonly hostname: string;
  /** Names of the Moleculer services that it hosts. */
  readonly services: readonly string[];
  /** Undefined of one of an earlier release, and of those that only look, such as the REPL. */
  readonly about: NodeAbout | undefined;
  /** When this node last observed it. */
  readonly seenAt: Date;
  /** It is the node that looks. */
  readonly self: boolean;
}

export interface GoneNode extends NodeInfo {
  /** It fell silent; others say that they go. */
  readonly isLost: boolean;
}

type Known = ReturnType<ServiceBroker['registry']['getNodeList']>[number];

/** Moleculer counts by the uptime of this process, in seconds. */
const silenceOf = ({ local, lastHeartbeatTime }: Known): number =>
  local ? 0 : process.uptime() - lastHeartbeatTime;

const infoOf = (node: Known): NodeInfo => ({
  id: node.id,
  hostname: node.hostname ?? '',
  services: node.services.map(({ name }) => name),
  about: aboutIn(node.metadata),
  seenAt: new Date(Date.now() - silenceOf(node) * 1000),
  self: node.local,
});

/** Whatever a node of another release may say there. */
function aboutIn(metadata: unknown): NodeAbout | undefined {
  const { release, pieces, started_at: startedAt } = (metadata ?? {}) as Record<string, unknown>;
  const started = Date.parse(String(startedAt));
  if (typeof release !== 'string' || !Array.isArray(pieces) || Number.isNaN(started))
    return undefined;
  return { release, pieces: pieces.map(String), started_at: new Date(started).toISOString() };
}

/** Every node of the cluster that is up as far as this node has heard, itself included, by name. */
export function nodesOf(broker: ServiceBroker): readonly NodeInfo[] {
  const known = broker.registry.getNodeList({ onlyAvailable: true, withServices: true });
  return known.map(infoOf).sort((a, b) => a.id.localeCompare(b.id));
}

/** Names that never come back, as those of pods, do not add up. */
const mostGone = 50;

/**
 * The nodes that went while this one was there, newest first: none of them is there again. Moleculer
 * forgets them after some minutes, which is when somebody begins to look.
 */
export function rememberGone(broker: ServiceBroker): () => readonly GoneNode[] {
  const gone = new Map<string, GoneNode>();
  broker.localBus.on(
    '$node.disconnected',
    ({ node, unexpected }: { node: Known; unexpected: boolean }) => {
      gone.delete(node.id);
      gone.set(node.id, { ...infoOf(node), isLost: unexpected });
      if (gone.size > mostGone) gone.delete([...gone.keys()][0]!);
    },
  );
  const isThere = (id: string): boolean => broker.registry.nodes.get(id)?.available ?? false;
  return () => [...gone.values()].filter(({ id }) => !isThere(id)).toReversed();
}
