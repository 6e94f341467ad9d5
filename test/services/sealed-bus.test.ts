/**
 * Who is trusted on NATS: nodes that hold SECRET_KEY, and nobody else. The outsider here may
 * connect to NATS, hear everything and publish anything, as a neighbour with a stolen NATS password
 * could.
 */
import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { ServiceBroker, type Context } from 'moleculer';
import { connect, type NatsConnection } from 'nats';
import { serviceCaller } from '../../shared/access.ts';
import { createNode, type Node } from '../../shared/node/broker.ts';
import { natsTransporter } from '../../shared/bus/bus.ts';
import { invalidateEvent } from '../../shared/node/cluster-service.ts';
import { liveSettings } from '../../shared/settings/live-settings.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import { eventually } from '../support/cluster.ts';
import { startProxy, type Proxy } from '../support/proxy.ts';
import { startNats, type Process } from '../support/servers.ts';
import { secretKey } from '../support/strata.ts';

const prefix = 'MOL-strata-nodes';
const canary = 'a-password-in-a-call';
const anotherKey = 'another-secret-key-of-at-least-thirty-two-bytes';

interface Packet {
  readonly subject: string;
  readonly data: Uint8Array;
}

let nats: Process;
let outsider: NatsConnection;
const observed: Packet[] = [];
const running: ServiceBroker[] = [];
const proxies: Proxy[] = [];

beforeAll(async () => {
  nats = await startNats();
  outsider = await connect({ servers: nats.url });
  outsider.subscribe('>', {
    callback: (_error, { subject, data }) =>
      observed.push({ subject, data: Uint8Array.from(data) }),
  });
});
afterEach(async () => {
  await Promise.all(running.splice(0).map((broker) => broker.stop()));
  await Promise.all(proxies.splice(0).map((proxy) => proxy.stop()));
  observed.length = 0;
});
afterAll(async () => {
  await outsider?.close();
  await nats?.stop('SIGKILL');
});

/** Not started yet. */
function nodeOf(nodeId: string, environment: Record<string, string> = {}): Node {
  const given = {
    NODE_ID: nodeId,
    NATS_URL: nats.url,
    SECRET_KEY: secretKey,
    LOG_LEVEL: 'silent',
    ...environment,
  };
  return createNode({ settings: liveSettings(loadSettings(given, { roles: [] }), {}, []) });
}

interface Owner extends Node {
  /** What its action was called with, in order. */
  readonly calls: unknown[];
}

function ownerOf(nodeId: string, environment: Record<string, string> = {}): Owner {
  const node = nodeOf(nodeId, environment);
  const calls: unknown[] = [];
  node.broker.createService({
    name: '$owner',
    actions: {
      act: ({ params }: Context) => {
        calls.push(params);
        return { by: nodeId };
      },
    },
  });
  return { ...node, calls };
}

async function start<T extends Node>(...nodes: T[]): Promise<T[]> {
  await Promise.all(nodes.map(({ broker }) => broker.start()));
  running.push(...nodes.map(({ broker }) => broker));
  return nodes;
}

/** Returns once the asker knows an owner. */
async function startPair(): Promise<{ asker: Node; owner: Owner }> {
  const [owner] = await start(ownerOf('owner'));
  const [asker] = await start(nodeOf('asker'));
  await asker!.broker.waitForServices('$owner', 60_000);
  return { asker: asker!, owner: owner! };
}

const call = (node: Node, params: object = {}): Promise<unknown> =>
  node.broker.call('$owner.act', params, { timeout: 30_000 });

/** Everything that was published before has arrived by then. */
async function settled(): Promise<void> {
  await outsider.flush();
  await delay(200);
}

/** Clear packets as Moleculer makes them, from a sender of the outsider's choice. */
function publishClear(command: string, to: string | undefined, payload: object): void {
  const subject = [prefix, command, ...(to === undefined ? [] : [to])].join('.');
  outsider.publish(subject, JSON.stringify({ ver: '5', sender: 'outsider', ...payload }));
}

const serviceInfo = {
  name: '$owner',
  fullName: '$owner',
  settings: {},
  metadata: {},
  events: {},
  actions: { '$owner.act': { name: '$owner.act', rawName: 'act' } },
};
const infoOf = (sender: string): object => ({
  sender,
  services: [serviceInfo],
  ipList: [],
  hostname: 'h',
  client: {},
  config: {},
  instanceID: randomUUID(),
  metadata: {},
  seq: 1000,
});

describe('an outsider', () => {
  test('hears who speaks to whom, and nothing of what is said', async () => {
    const { asker } = await startPair();
    expect(await call(asker, { password: canary })).toEqual({ by: 'owner' });
    await settled();
    const subjects = observed.map(({ subject }) => subject);
    expect(subjects).toEqual(
      expect.arrayContaining([`${prefix}.REQ.owner`, `${prefix}.RES.asker`]),
    );
    for (const { data } of observed) {
      expect(data[0]).toBe(1);
      const text = Buffer.from(data).toString('latin1');
      for (const received of [canary, '$owner', 'asker', 'owner'])
        expect(text).not.toContain(received);
    }
  });

  test('calls nothing and is answered nothing, whoever it says it is', async () => {
    const { asker, owner } = await startPair();
    for (const sender of ['outsider', 'asker', 'owner'])
      publishClear('REQ', 'owner', {
        sender,
        id: randomUUID(),
        action: '$owner.act',
        params: {},
        meta: { caller: { ...serviceCaller('outsider'), type: 'system' }, load: true },
      });
    publishClear('REQ', 'owner', { id: 'x', action: '$node.options', params: {}, meta: {} });
    publishClear('DISCOVER', undefined, {});
    publishClear('DISCOVER', 'owner', {});
    publishClear('PING', 'owner', { time: 0, id: 'x' });
    await settled();
    expect(owner.calls).toEqual([]);
    const answered = observed.filter(({ subject }) => subject.endsWith('.outsider'));
    expect(answered).toEqual([]);
    expect(await call(asker)).toEqual({ by: 'owner' });
  });

  test('gets no call by registering the same actions, in clear or under another key', async () => {
    const { asker } = await startPair();
    const plain = new ServiceBroker({
      namespace: 'strata-nodes',
      nodeID: 'plain',
      logger: false,
      transporter: { type: 'NATS', options: { servers: [nats.url] } },
    });
    let reached = 0;
    plain.createService({ name: '$owner', actions: { act: () => (reached += 1) } });
    await plain.start();
    running.push(plain);
    const [forger] = await start(ownerOf('forger', { SECRET_KEY: anotherKey }));
    publishClear('INFO', undefined, infoOf('outsider'));
    publishClear('INFO', 'asker', infoOf('owner'));
    await settled();
    for (let count = 0; count < 10; count += 1) expect(await call(asker)).toEqual({ by: 'owner' });
    expect([reached, forger!.calls]).toEqual([0, []]);
    const known = asker.broker.registry.getNodeList({ onlyAvailable: false, withServices: false });
    expect(known.map(({ id }) => id).sort()).toEqual(['asker', 'owner']);
  });

  test('stops no node, removes none, and drops and blocks nothing that is cached', async () => {
    const { asker, owner } = await startPair();
    const fatal = jest.fn();
    Object.assign(owner.broker, { fatal });
    const changes: unknown[] = [];
    asker.coherence.onChange((change) => changes.push(change));
    publishClear('INFO', undefined, infoOf('owner'));
    publishClear('DISCONNECT', undefined, { sender: 'owner' });
    publishClear('HEARTBEAT', undefined, { sender: 'owner', seq: 9, instanceID: 'other' });
    publishClear('EVENT', 'asker', {
      id: randomUUID(),
      event: invalidateEvent,
      data: { id: randomUUID(), scope: 'platform', revision: 1e12, keys: ['global_x'] },
      groups: ['cluster'],
      broadcast: true,
    });
    await settled();
    expect(fatal).not.toHaveBeenCalled();
    expect(changes).toEqual([]);
    expect(await call(asker)).toEqual({ by: 'owner' });
  });

  test('has no effect with bytes that look sealed, or that were changed on the way', async () => {
    const { asker, owner } = await startPair();
    await call(asker, { count: 1 });
    await settled();
    const request = observed.find(({ subject }) => subject === `${prefix}.REQ.owner`)!;
    const data = Buffer.from(request.data);
    for (const place of [1, 5, 21, 37, 42, 43, data.length - 17, data.length - 1]) {
      const changed = Buffer.from(data);
      changed[place]! ^= 1;
      outsider.publish(request.subject, changed);
    }
    for (const length of [0, 1, 20, 43, 58, 59, data.length - 1])
      outsider.publish(request.subject, data.subarray(0, length));
    await settled();
    expect(owner.calls).toEqual([{ count: 1 }]);
  });

  test('sends again what it heard: to the same node, to another, and as another command', async () => {
    const { asker, owner } = await startPair();
    const [second] = await start(ownerOf('second'));
    await call(asker);
    await owner.broker.call('cluster.node.health', {}, { meta: { caller: serviceCaller('t') } });
    await settled();
    const before = owner.calls.length + second!.calls.length;
    const recorded = [...observed];
    for (const { subject, data } of recorded) {
      outsider.publish(subject, data);
      for (const command of ['REQ', 'EVENT', 'INFO', 'DISCONNECT'])
        for (const to of ['', '.owner', '.second', '.asker'])
          outsider.publish(`${prefix}.${command}${to}`, data);
    }
    await settled();
    expect(owner.calls.length + second!.calls.length).toBe(before);
    expect(await call(asker)).toMatchObject({ by: expect.any(String) });
  });
});

describe('a node that has restarted', () => {
  test('takes nothing that was sent to it, or to all, before', async () => {
    const { asker, owner } = await startPair();
    await call(asker, { amount: 1 });
    await owner.broker.stop();
    await asker.broker.stop();
    running.length = 0;
    await settled();
    const recorded = [...observed];

    const again = ownerOf('owner');
    const fatal = jest.fn();
    Object.assign(again.broker, { fatal });
    await start(again);
    for (const { subject, data } of recorded) outsider.publish(subject, data);
    await settled();
    expect(again.calls).toEqual([]);
    // Its own INFO of before would be the mark of a second node with its name.
    expect(fatal).not.toHaveBeenCalled();
    const known = again.broker.registry.getNodeList({ onlyAvailable: false, withServices: false });
    expect(known.map(({ id }) => id)).toEqual(['owner']);
  });

  test('is found again, and what its process before had said no longer counts', async () => {
    const proxy = await startProxy(nats.port);
    proxies.push(proxy);
    const [owner] = await start(ownerOf('owner'));
    const [asker] = await start(nodeOf('asker', { NATS_URL: `nats://127.0.0.1:${proxy.port}` }));
    await asker!.broker.waitForServices('$owner', 60_000);
    expect(await call(asker!)).toEqual({ by: 'owner' });
    // The asker never hears that the owner leaves; the outsider does, and keeps it for later.
    proxy.cut();
    await owner!.broker.stop();
    running.splice(running.indexOf(owner!.broker), 1);
    await settled();
    const recorded = [...observed];
    expect(recorded.map(({ subject }) => subject)).toContain(`${prefix}.DISCONNECT`);
    proxy.mend();
    await start(ownerOf('owner'));
    await eventually(async () => expect(await call(asker!)).toEqual({ by: 'owner' }), 60_000);

    const gone = jest.fn();
    asker!.broker.localBus.on('$node.disconnected', gone);
    for (const { subject, data } of recorded) outsider.publish(subject, data);
    await settled();
    expect(gone).not.toHaveBeenCalled();
    expect(await call(asker!)).toEqual({ by: 'owner' });
  });

  test('under a name that another process has, it is still told apart', async () => {
    const [first, second] = [nodeOf('twin'), nodeOf('twin')];
    const fatal = jest.fn();
    for (const { broker } of [first, second]) Object.assign(broker, { fatal });
    await start(first);
    await start(second);
    await eventually(async () => expect(fatal).toHaveBeenCalled());
  });
});

test('tls:// is never a connection in clear, and an address may name user and password', () => {
  const optionsOf = (url: string): unknown => {
    const given = { NATS_URL: url, SECRET_KEY: secretKey };
    return natsTransporter(loadSettings(given, { roles: [] }));
  };
  expect(optionsOf('tls://bus')).toMatchObject({ options: { tls: {} } });
  expect(optionsOf('nats://u:p%40ss@bus')).toMatchObject({ options: { user: 'u', pass: 'p@ss' } });
  expect(optionsOf('nats://127.0.0.1')).not.toHaveProperty('options.tls');
});

test('while SECRET_KEY is being changed, nodes with one key and with both understand each other', async () => {
  const both = { SECRET_KEY: anotherKey, SECRET_KEY_PREVIOUS: secretKey };
  const pairs: [Record<string, string>, Record<string, string>][] = [
    [{}, both],
    [both, { SECRET_KEY: anotherKey }],
  ];
  for (const [ofOwner, ofAsker] of pairs) {
    const [owner, asker] = [ownerOf('owner', ofOwner), nodeOf('asker', ofAsker)];
    await start<Node>(owner, asker);
    await asker.broker.waitForServices('$owner', 60_000);
    expect(await call(asker)).toEqual({ by: 'owner' });
    await Promise.all(running.splice(0).map((broker) => broker.stop()));
  }
});
