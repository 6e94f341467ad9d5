/** Two installations that share NATS and SECRET_KEY: NATS_NAMESPACE alone keeps them apart. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { ServiceBroker } from 'moleculer';
import { HeldAnswers } from '../../gateway/http/held-answer.ts';
import { openToNeighbours, type Neighbours } from '../../gateway/neighbours.ts';
import { createNode, type Node } from '../../shared/node/broker.ts';
import { neighbourOptions } from '../../shared/bus/neighbour.ts';
import { nodesOf } from '../../shared/node/nodes.ts';
import { StrataError } from '../../shared/errors.ts';
import { liveSettings } from '../../shared/settings/live-settings.ts';
import { loadSettings, type Settings } from '../../shared/settings/settings.ts';
import { eventually } from '../support/cluster.ts';
import { startNats, type Process } from '../support/servers.ts';
import { secretKey } from '../support/strata.ts';

let nats: Process;
const nodes: Node[] = [];
const doors: Neighbours[] = [];
const neighbours: ServiceBroker[] = [];

const settingsOf = (nodeId: string, more: Record<string, string>): Settings =>
  loadSettings(
    { NODE_ID: nodeId, NATS_URL: nats.url, LOG_LEVEL: 'silent', ...more },
    { roles: [] },
  );

async function startNode(nodeId: string, namespace: Record<string, string>): Promise<Node> {
  const settings = settingsOf(nodeId, { SECRET_KEY: secretKey, ...namespace });
  const node = createNode({ settings: liveSettings(settings, {}, []) });
  nodes.push(node);
  await node.broker.start();
  const door = openToNeighbours({
    broker: node.broker,
    authenticator: {
      known: () => undefined,
      find: () => Promise.reject(new StrataError('auth_api_key_invalid')),
    },
    heldAnswers: new HeldAnswers(),
    log: node.log,
    namespace: settings.nats_namespace,
    requestTimeoutMs: 30_000,
  });
  doors.push(door!);
  return node;
}

async function startNeighbour(
  nodeId: string,
  namespace: Record<string, string>,
): Promise<ServiceBroker> {
  const options = neighbourOptions(
    settingsOf(nodeId, { STRATA_API_KEY: 'strata_x', ...namespace }),
  );
  const neighbour = new ServiceBroker({ ...options, logger: false });
  neighbours.push(neighbour);
  await neighbour.start();
  return neighbour;
}

beforeAll(async () => {
  nats = await startNats();
});
afterAll(async () => {
  for (const neighbour of neighbours) await neighbour.stop();
  for (const door of doors) await door.stop();
  for (const { broker } of nodes) await broker.stop();
  await nats?.stop('SIGKILL');
});

const knownTo = (broker: ServiceBroker): string[] =>
  broker.registry.nodes
    .list({ onlyAvailable: true })
    .map(({ id }: { id: string }) => id)
    .sort();

test('nodes and neighbours of one NATS_NAMESPACE see each other and no one else', async () => {
  const staging = { NATS_NAMESPACE: 'staging' };
  const [one, two, other] = [
    await startNode('one', {}),
    await startNode('two', {}),
    await startNode('three', staging),
  ];
  const stranger = await startNode('four', staging);
  const neighbour = await startNeighbour('n', {});
  const otherNeighbour = await startNeighbour('m', staging);

  await eventually(async () => {
    expect(
      nodesOf(one.broker)
        .map(({ id }) => id)
        .sort(),
    ).toEqual(['one', 'two']);
    expect(knownTo(two.broker)).toEqual(['one', 'two']);
    expect(knownTo(other.broker)).toEqual(['four', 'three']);
    expect(knownTo(stranger.broker)).toEqual(['four', 'three']);
    expect(knownTo(neighbour)).toEqual(['n', 'one', 'two']);
    expect(knownTo(otherNeighbour)).toEqual(['four', 'm', 'three']);
  });
  for (const { metrics } of nodes) {
    const refused = /strata_bus_refused_packets_total (\d+)/.exec(await metrics.metrics())?.[1];
    expect(refused).toBe('0');
  }
});
