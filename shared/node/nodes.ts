import type { ServiceBroker } from 'moleculer';

export interface NodeInfo {
  readonly id: string;
  readonly hostname: string;
  /** Names of the Moleculer services that it hosts. */
  readonly services: readonly string[];
  /** It is the node that looks. */
  readonly self: boolean;
}

/** Every node of the cluster that is up as far as this node has heard, itself included, by name. */
export function nodesOf(broker: ServiceBroker): readonly NodeInfo[] {
  const known = broker.registry.getNodeList({ onlyAvailable: true, withServices: true });
  return known
    .map(({ id, hostname, local, services }) => ({
      id,
      hostname: hostname ?? '',
      services: services.map(({ name }) => name),
      self: local,
    }))
    .sort((a, b) => a.id.localeCompare(b.id));
}
