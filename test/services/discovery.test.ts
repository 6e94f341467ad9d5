/**
 * Nodes that take each other for gone and hear each other again, and what they say to each other
 * about it.
 */
import { afterAll, afterEach, beforeAll, beforeEach, expect, jest, test } from '@jest/globals';
import { connect, type NatsConnection } from 'nats';
import { performance } from 'node:perf_hooks';
import { serviceCaller } from '../../shared/access.ts';
import { callAs } from '../../shared/contract-runtime/request.ts';
import { createNode, type Node } from '../../shared/node/broker.ts';
import { natsConnectionOf } from '../../shared/bus/bus.ts';
import { nodesOf } from '../../shared/node/nodes.ts';
import { liveSettings } from '../../shared/settings/live-settings.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import { eventually } from '../support/cluster.ts';
import { startNats, type Process } from '../support/servers.ts';
import { secretKey } from '../support/strata.ts';

const names = ['first', 'second', 'third'];
let nats: Process;
let observer: NatsConnection;
let nodes: Node[];
/** Commands of packets to one node, by the time they came. */
const received: string[] = [];

beforeAll(async () => {
  nats = await startNats();
  observer = await connect({ servers: nats.url });
  observer.subscribe('MOL-strata-nodes.*.*', {
    callback: (_error, { subject }) => received.push(subject.split('.')[1]!),
  });
  nodes = names.map((name) => {
    const environment = {
      NODE_ID: name,
      NATS_URL: nats.url,
      SECRET_KEY: secretKey,
      LOG_LEVEL: 'silent',
    };
    const settings = loadSettings(environment, { roles: [] });
    const about = { release: '1.2.3', pieces: ['audit'], started_at: '2026-01-01T00:00:00.000Z' };
    return createNode({ settings: liveSettings(settings, {}, []), about });
  });
  await Promise.all(nodes.map(({ broker }) => broker.start()));
});
afterAll(async () => {
  await Promise.all((nodes ?? []).map(({ broker }) => broker.stop()));
  await observer?.close();
  await nats?.stop();
});

const discovererOf = ({ broker }: Node) => broker.transit!.discoverer;
const seenBy = ({ broker }: Node): string[] =>
  nodesOf(broker)
    .map(({ id }) => id)
    .toSorted();
const allSeeAll = (): Promise<void> =>
  eventually(async () => expect(nodes.map(seenBy)).toEqual(nodes.map(() => names)));

/**
 * Which questions and lists of actions went from node to node, now that all of them have arrived.
 */
async function asked(): Promise<string[]> {
  for (const { broker } of nodes) await natsConnectionOf(broker)!.flush();
  await observer.flush();
  return received.filter((command) => command === 'DISCOVER' || command === 'INFO');
}

/** The nodes have heard nothing of each other for a minute. */
function fallSilent(): void {
  for (const { broker } of nodes)
    for (const node of broker.registry.nodes.toArray())
      if (!node.local) node.lastHeartbeatTime = -60;
  for (const node of nodes) discovererOf(node).checkRemoteNodes();
  expect(nodes.map(seenBy)).toEqual(names.map((name) => [name]));
}

// Nothing is said but what a test has them say.
beforeEach(async () => {
  await allSeeAll();
  for (const node of nodes) discovererOf(node).stopHeartbeatTimers();
  await asked();
  received.length = 0;
});
afterEach(() => {
  jest.restoreAllMocks();
  for (const node of nodes) discovererOf(node).startHeartbeatTimers();
});

test('nodes that all fell silent know each other again by their heartbeats alone', async () => {
  fallSilent();
  for (const node of nodes) await discovererOf(node).beat();
  await allSeeAll();
  expect(await asked()).toEqual([]);
  for (const { broker } of nodes)
    expect(broker.registry.services.list({ onlyAvailable: true })).toHaveLength(2 * names.length);
});

test.each<[what: string, happens: (broker: Node['broker']) => Promise<unknown> | void]>([
  [
    'fell silent and hosts something else now',
    (broker) => {
      fallSilent();
      broker.registry.regenerateLocalRawInfo(true);
    },
  ],
  [
    'fell silent and has restarted',
    (broker) => {
      fallSilent();
      broker.instanceID = 'of another process';
    },
  ],
  ['said that it leaves', (broker) => broker.transit!.sendDisconnectPacket()],
])('a node that %s is asked', async (_what, happens) => {
  const [first, second] = nodes;
  await happens(second!.broker);
  await eventually(async () => expect(seenBy(first!)).not.toContain('second'));
  await discovererOf(second!).beat();
  await eventually(async () => expect(seenBy(first!)).toContain('second'));
  expect(await asked()).toContain('DISCOVER');
});

test('nodes that have gone are remembered, newest first, until they are there again', async () => {
  const [first, second, third] = nodes;
  const goneAsFirstSees = async (): Promise<unknown[]> => {
    const as = { caller: serviceCaller('cluster'), requestId: 'gone' };
    const { items } = await callAs(first!.broker, 'cluster.nodes', {}, as);
    expect(items[0]).toMatchObject({ node: 'first', release: '1.2.3', pieces: ['audit'] });
    const gone = items.filter(({ state }) => state === 'left' || state === 'lost');
    return gone.map(({ node, state, release }) => [node, state, release]);
  };
  expect(await goneAsFirstSees()).toEqual([]);
  await second!.broker.transit!.sendDisconnectPacket();
  await eventually(async () => expect(seenBy(first!)).not.toContain('second'));
  first!.broker.registry.nodes.get('third')!.lastHeartbeatTime = -60;
  discovererOf(first!).checkRemoteNodes();
  expect(await goneAsFirstSees()).toEqual([
    ['third', 'lost', '1.2.3'],
    ['second', 'left', '1.2.3'],
  ]);
  for (const node of [second!, third!]) await discovererOf(node).beat();
  await allSeeAll();
  expect(await goneAsFirstSees()).toEqual([]);
});

test('a check that this process came to late takes no one for gone, and the next one does, late or not', () => {
  const { registry } = nodes[0]!.broker;
  const discoverer = discovererOf(nodes[0]!);
  const observedLast = (uptime: number): void => {
    for (const node of registry.nodes.toArray()) node.lastHeartbeatTime = uptime;
  };
  observedLast(Math.round(process.uptime()));
  const began = performance.now();
  discoverer.checkRemoteNodes();
  observedLast(-60);
  const clock = jest.spyOn(performance, 'now').mockReturnValue(began + 8000);
  discoverer.checkRemoteNodes();
  expect(seenBy(nodes[0]!)).toEqual(names);
  clock.mockReturnValue(began + 16_000);
  discoverer.checkRemoteNodes();
  expect(seenBy(nodes[0]!)).toEqual(['first']);
});

test('whoever does not answer is asked once for many heartbeats, and again later', () => {
  const discoverer = discovererOf(nodes[0]!);
  const questions = jest.spyOn(nodes[0]!.broker.transit!, 'discoverNode').mockResolvedValue();
  const began = performance.now();
  const receive = (): void => {
    for (let each = 0; each < 3; each += 1) discoverer.heartbeatReceived('stranger', {});
  };
  receive();
  expect(questions).toHaveBeenCalledTimes(1);
  jest.spyOn(performance, 'now').mockReturnValue(began + 60_000);
  receive();
  expect(questions).toHaveBeenCalledTimes(2);
});
