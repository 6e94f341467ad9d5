/**
 * A connection to NATS that drops and comes back, of which Moleculer says nothing and in which
 * broadcasts are lost.
 */
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  jest,
  test,
} from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { connect, Empty, headers } from 'nats';
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import type { DataSource } from 'typeorm';
import { serviceCaller } from '../../shared/access.ts';
import { natsConnectionOf } from '../../shared/bus/bus.ts';
import { createNode, type Node } from '../../shared/node/broker.ts';
import { nodesOf } from '../../shared/node/nodes.ts';
import { liveSettings } from '../../shared/settings/live-settings.ts';
import { callAs } from '../../shared/contract-runtime/request.ts';
import { codeOf } from '../../shared/errors.ts';
import { migrate, openDatabase } from '../../shared/database/open.ts';
import { commitChange, type Change } from '../../shared/commits/commit.ts';
import { commitSchema } from '../../shared/commits/schema.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import { eventually } from '../support/cluster.ts';
import { createDatabase, type Database } from '../support/postgres.ts';
import { startProxy, type Proxy } from '../support/proxy.ts';
import { startNats, type Process } from '../support/servers.ts';
import { secretKey } from '../support/strata.ts';

let nats: Process;
let proxy: Proxy;
let database: Database;
let db: DataSource;
let writer: Node;
let reader: Node;
const said: string[] = [];

const settingsOf = (nodeId: string, ...ports: readonly number[]) => settingsWith(nodeId, ports, {});
const settingsWith = (
  nodeId: string,
  ports: readonly number[],
  others: Readonly<Record<string, string>>,
) =>
  liveSettings(
    loadSettings(
      {
        // A fence so long that polls are seldom due by themselves.
        NODE_ID: nodeId,
        NATS_URL: ports.map((port) => `nats://127.0.0.1:${port}`).join(','),
        COHERENCE_FENCE_MS: '30000',
        ...others,
        SECRET_KEY: secretKey,
        LOG_LEVEL: 'silent',
      },
      { roles: [] },
    ),
    {},
    [],
  );

beforeAll(async () => {
  [nats, database] = await Promise.all([startNats(), createDatabase()]);
  proxy = await startProxy(nats.port);
  const options = { url: database.url, poolSize: 4, timeoutMs: 10_000, ssl: false };
  await migrate(options, [commitSchema]);
  db = await openDatabase(options, commitSchema);
  writer = createNode({ settings: settingsOf('writer', nats.port), commits: db });
  reader = createNode({ settings: settingsOf('reader', proxy.port) });
  reader.broker.createService({
    name: 'listener',
    events: Object.fromEntries(
      ['$transporter.connected', '$transporter.disconnected', '$transporter.error'].map((name) => [
        name,
        () => {
          said.push(name);
        },
      ]),
    ),
  });
  await writer.broker.start();
  await reader.broker.start();
  await eventually(() => reader.broker.waitForServices('feed'));
});
afterAll(async () => {
  await reader?.broker.stop();
  await writer?.broker.stop();
  await proxy?.stop();
  await db?.destroy();
  await nats?.stop();
  await database?.drop();
});

const health = () =>
  callAs(
    reader.broker,
    'cluster.node.health',
    {},
    { caller: serviceCaller('test'), requestId: 'r', nodeID: 'reader' },
  );
async function change(): Promise<Change> {
  const committed: Change[] = [];
  await commitChange(
    db,
    { caller: serviceCaller('test'), requestId: 'r', committed },
    'platform',
    async () => ({ result: undefined, keys: ['global_x'], events: [] }),
  );
  return committed[0]!;
}

test('while it is away health says so and calls fail at once; the feed is read as soon as it is back', async () => {
  const seen: number[] = [];
  reader.coherence.onChange(({ revision }) => seen.push(revision));
  // Broadcasts arrive once the two know each other.
  const publishing: Promise<void>[] = [];
  await eventually(async () => {
    publishing.push(writer.coherence.publish([await change()]));
    expect(seen).not.toEqual([]);
  });
  expect(await health()).toMatchObject({ bus: true });
  said.length = 0;

  proxy.cut();
  await eventually(async () => expect(await health()).toMatchObject({ bus: false }));
  const missed = await change();
  publishing.push(writer.coherence.publish([missed]));
  await delay(1100);
  expect(seen).not.toContain(missed.revision);
  const refused = await callAs(
    reader.broker,
    'feed.leave',
    { body: { holder: 'nobody', tokens: [] } },
    { caller: serviceCaller('test'), requestId: 'r', timeout: 20_000 },
  ).catch((error: unknown) => error);
  expect(refused).toMatchObject({
    type: 'service_unavailable',
    message: 'The bus does not answer. Try again.',
  });

  // Not by a poll that was due, as one would be within seconds.
  const polled = jest.spyOn(reader.coherence, 'pollNow');
  proxy.mend();
  await eventually(async () => expect(seen).toContain(missed.revision));
  expect(await health()).toMatchObject({ bus: true });
  expect(polled).toHaveBeenCalled();
  polled.mockRestore();
  // One more poll tells the lease table how far the reader is, and nobody waits for it any longer.
  reader.coherence.pollNow();
  await Promise.all(publishing);
  // None of this is an event of Moleculer's broker, which is why the connection itself is watched.
  expect(said).toEqual([]);
});

test('of several servers a silent one is left for another', async () => {
  const ways = await Promise.all([startProxy(nats.port), startProxy(nats.port)]);
  const { broker } = createNode({
    settings: settingsOf('chooser', ...ways.map(({ port }) => port)),
  });
  try {
    await broker.start();
    const taken = () =>
      ways.find(({ port }) => natsConnectionOf(broker)!.getServer().endsWith(`:${port}`))!;
    const silent = taken();
    silent.hold('back');
    // Of a single server the client waits up to 15 s for an answer.
    await eventually(async () => {
      expect(taken()).not.toBe(silent);
      await natsConnectionOf(broker)!.flush();
    }, 9000);
  } finally {
    for (const way of ways) way.mend();
    await broker.stop();
    await Promise.all(ways.map((way) => way.stop()));
  }
});

/** What a node knows of the other one. */
const knownBy = ({ broker }: Node, nodeId: string) => broker.registry.nodes.get(nodeId)!;

/** A call of the nodes whose answer gets lost ends long before its time-out, which is this. */
const callTimeoutMs = 90_000;
const soonMs = 45_000;

/**
 * Meanwhile neither of the two gives the other up for heartbeats that are missing, which would end
 * calls within seconds, too.
 */
async function withoutHeartbeats(work: () => Promise<void>): Promise<void> {
  const discoverers = [reader, writer].map(({ broker }) => broker.transit!.discoverer);
  for (const discoverer of discoverers) discoverer.stopHeartbeatTimers();
  try {
    await work();
  } finally {
    proxy.mend();
    for (const discoverer of discoverers) discoverer.startHeartbeatTimers();
  }
}

test('a node whose connection was lost gives up no one for heartbeats of that time, nor is it given up', async () => {
  for (const { broker } of [reader, writer])
    await eventually(async () => expect(nodesOf(broker)).toHaveLength(2));
  // Heartbeats would make up for it within seconds.
  await withoutHeartbeats(async () => {
    proxy.cut();
    await eventually(async () => expect(await health()).toMatchObject({ bus: false }));
    for (const node of [knownBy(reader, 'writer'), knownBy(writer, 'reader')])
      node.lastHeartbeatTime = -60;
    proxy.mend();
    await eventually(async () => expect(await health()).toMatchObject({ bus: true }));
    // What the other says of itself comes a moment after the connection.
    await eventually(async () =>
      expect(knownBy(reader, 'writer').lastHeartbeatTime).toBeGreaterThan(0),
    );
    reader.broker.transit!.discoverer.checkRemoteNodes();
    expect(nodesOf(reader.broker).map(({ id }) => id)).toEqual(['reader', 'writer']);
    await eventually(async () =>
      expect(knownBy(writer, 'reader').lastHeartbeatTime).toBeGreaterThan(0),
    );
  });
});

/** The writer asks the reader's node for its health. */
const healthOfReader = (timeout: number) =>
  callAs(
    writer.broker,
    'cluster.node.health',
    {},
    { caller: serviceCaller('test'), requestId: 'r', nodeID: 'reader', timeout },
  );
const readerIsBack = () =>
  eventually(async () => expect(await healthOfReader(5000)).toMatchObject({ bus: true }), 60_000);

test('a node that went away without a word is known to be gone at the next call to it, and known again when it is back', async () => {
  await readerIsBack();
  await withoutHeartbeats(async () => {
    proxy.cut();
    const began = performance.now();
    const code = await healthOfReader(callTimeoutMs).then(() => 'answered', codeOf);
    expect(code).toBe('service_unavailable');
    expect(performance.now() - began).toBeLessThan(soonMs);
    expect(nodesOf(writer.broker).map(({ id }) => id)).toEqual(['writer']);
  });
  await readerIsBack();
});

test('whoever says falsely that a node is gone is disproved at once', async () => {
  await readerIsBack();
  const outsider = await connect({ servers: nats.url });
  const { discoverer } = reader.broker.transit!;
  // A heartbeat would disprove it, too, seconds later.
  discoverer.stopHeartbeatTimers();
  try {
    const request = new Promise<string>((resolve) => {
      outsider.subscribe('MOL-strata-nodes.REQ.reader', {
        callback: (_error, { reply }) => resolve(reply!),
      });
    });
    await outsider.flush();
    await healthOfReader(callTimeoutMs);
    const { localBus } = writer.broker;
    const events: string[] = [];
    for (const name of ['$node.disconnected', '$node.connected'])
      localBus.once(name, () => events.push(name));
    outsider.publish(await request, Empty, { headers: headers(503, 'No Responders') });
    await eventually(async () => expect(events).toEqual(['$node.disconnected', '$node.connected']));
    expect(await healthOfReader(callTimeoutMs)).toMatchObject({ bus: true });
  } finally {
    discoverer.startHeartbeatTimers();
    await outsider.close();
  }
});

describe('an answer that got lost', () => {
  const readAction = 'tenant-config.members.of';
  const writeAction = 'auth.invitations.end';
  const user_id = randomUUID();
  const tenant_id = randomUUID();
  /** What the called action does, by how many calls came before. */
  let handle: (calls: number) => Promise<void> | void;
  let calls = 0;

  beforeAll(async () => {
    const answer = async (result: unknown): Promise<unknown> => {
      calls += 1;
      await handle(calls);
      return result;
    };
    for (const { broker } of [reader, writer]) {
      broker.createService({
        name: 'tenant-config',
        actions: { 'members.of': () => answer([]) },
      });
      broker.createService({ name: 'auth', actions: { 'invitations.end': () => answer(null) } });
    }
    for (const { broker } of [reader, writer])
      for (const nodeID of ['reader', 'writer'])
        await eventually(async () =>
          expect(
            broker.registry.getActionEndpoints(writeAction)?.getEndpointByNodeID(nodeID),
          ).toBeTruthy(),
        );
  });
  beforeEach(() => {
    calls = 0;
    handle = () => {};
  });
  afterEach(readerIsBack);

  /**
   * Of the reader by the writer, or the other way round: the connection that is reset is always the
   * reader's.
   */
  const asked = (who: 'reader' | 'writer') => {
    const { broker } = who === 'reader' ? writer : reader;
    const options = {
      caller: serviceCaller('test'),
      requestId: 'r',
      nodeID: who,
      timeout: callTimeoutMs,
    };
    return {
      read: () => callAs(broker, readAction, { user_id }, options),
      write: () => callAs(broker, writeAction, { tenant_id, user_id }, options),
    };
  };
  const reset = (): void => {
    proxy.cut();
    proxy.mend();
  };
  /**
   * The second attempt comes within half a second, and a reader that is not connected again by then
   * is not there: whoever asked is told to try again, and does.
   */
  async function readOf(who: 'reader' | 'writer'): Promise<unknown> {
    try {
      return await asked(who).read();
    } catch (error) {
      expect(error).toMatchObject({
        type: 'service_unavailable',
        message: expect.stringContaining('Try again.'),
      });
      await readerIsBack();
      return asked(who).read();
    }
  }

  test.each(['reader', 'writer'] as const)(
    'costs a read of the %s one more attempt',
    async (who) => {
      handle = (call) => (call === 1 ? reset() : undefined);
      const began = performance.now();
      expect(await readOf(who)).toEqual([]);
      expect(performance.now() - began).toBeLessThan(soonMs);
      expect(calls).toBe(2);
    },
  );

  test.each(['reader', 'writer'] as const)(
    'ends a write of the %s soon, with a word about what may have been carried out',
    async (who) => {
      handle = reset;
      const began = performance.now();
      await expect(asked(who).write()).rejects.toMatchObject({
        type: 'service_unavailable',
        message: expect.stringContaining('may have been carried out'),
      });
      expect(performance.now() - began).toBeLessThan(soonMs);
      expect(calls).toBe(1);
    },
  );

  // As of a machine that was suspended, whose clock has moved and whose timers have not.
  test('is not made up for by a node that stood still: it writes nothing, and reads', async () => {
    const { coherence } = writer;
    const now = Date.now;
    const clock = jest.spyOn(Date, 'now').mockImplementation(() => now() + 60_000);
    try {
      await expect(asked('writer').write()).rejects.toMatchObject({
        type: 'service_unavailable',
        message: 'The node stood still. Nothing was done. Try again.',
      });
      expect(calls).toBe(0);
      expect(await asked('writer').read()).toEqual([]);
      // Its next poll follows a round trip, and so what had waited.
      await eventually(async () => {
        coherence.pollNow();
        expect(await asked('writer').write()).toBeNull();
      });
    } finally {
      clock.mockRestore();
    }
    coherence.pollNow();
  });

  test('is not made up for by a request that the bus held up: others have written since', async () => {
    const short = { COHERENCE_FENCE_MS: '500', REQUEST_TIMEOUT_MS: '500' };
    const owner = createNode({ settings: settingsWith('prompt', [nats.port], short), commits: db });
    owner.broker.createService({
      name: 'auth',
      actions: {
        'invitations.end': async () => {
          calls += 1;
          return null;
        },
      },
    });
    await owner.broker.start();
    const write = (timeout: number) =>
      callAs(
        reader.broker,
        writeAction,
        { tenant_id, user_id },
        { caller: serviceCaller('test'), requestId: 'r', nodeID: 'prompt', timeout },
      );
    try {
      await eventually(async () => expect(await write(callTimeoutMs)).toBeNull());
      calls = 0;
      proxy.hold('there');
      await expect(write(500)).rejects.toMatchObject({
        type: 'timeout',
        message: expect.stringContaining('may have been carried out'),
      });
      // The fence and the longest request, from when it was sent.
      await delay(600);
      proxy.mend();
      // What is sent afterwards arrives afterwards.
      expect(await write(callTimeoutMs)).toBeNull();
      expect(calls).toBe(1);
    } finally {
      proxy.mend();
      await owner.broker.stop();
    }
  });

  test('is not taken for one that takes long', async () => {
    handle = () => delay(1500);
    expect(await asked('reader').write()).toBeNull();
    expect(calls).toBe(1);
  });

  test('counts as lost, too, where the request never arrived', async () => {
    reset();
    expect(await asked('writer').read()).toEqual([]);
    expect(calls).toBe(1);
  });

  describe('is looked for', () => {
    const lookMs = 250;
    let timers: jest.SpiedFunction<typeof setTimeout>;
    let ends: jest.SpiedFunction<typeof clearTimeout>;
    const looks = () =>
      timers.mock.results.filter((_each, n) => timers.mock.calls[n]![1] === lookMs);
    beforeEach(() => {
      timers = jest.spyOn(globalThis, 'setTimeout');
      ends = jest.spyOn(globalThis, 'clearTimeout');
    });
    afterEach(() => {
      timers.mockRestore();
      ends.mockRestore();
    });

    test('only while a call waits, so that an idle node is not woken for it', async () => {
      await eventually(async () => {
        timers.mockClear();
        ends.mockClear();
        await asked('writer').read();
        const ended = ends.mock.calls.map(([timer]) => timer);
        expect(looks()).not.toHaveLength(0);
        for (const { value } of looks()) expect(ended).toContain(value);
      });
    });
  });

  /** What is to be sent is kept for so long while the connection is gone. */
  const heldMs = 1000;
  let cutAt = 0;

  /**
   * The client's first attempt fails, and its next one succeeds. Resolves while the connection is
   * gone.
   */
  async function blip(): Promise<void> {
    cutAt = performance.now();
    proxy.cut();
    await eventually(async () => expect(await health()).toMatchObject({ bus: false }));
    setTimeout(proxy.mend, 100);
  }
  /** The client says so before the server has seen its subscriptions, which the flush waits for. */
  async function whenReaderIsConnected(): Promise<void> {
    await eventually(async () => expect(await health()).toMatchObject({ bus: true }));
    await natsConnectionOf(reader.broker)!.flush();
  }

  /**
   * Tries until the connection was back within the time for which it counts as a blip, as it is at
   * once on a calm machine.
   */
  async function duringBlip(work: () => Promise<void>): Promise<void> {
    for (let tries = 1; tries <= 40; tries += 1) {
      calls = 0;
      const failure = await work().then(
        () => undefined,
        (error: unknown) => ({ error }),
      );
      await whenReaderIsConnected();
      const wasBlip = performance.now() - cutAt < heldMs;
      await readerIsBack();
      if (failure === undefined) return;
      if (wasBlip) throw failure.error;
    }
    throw new Error('The connection was never back within a second.');
  }

  test('is not lost where it was given while the connection was made again', async () => {
    handle = blip;
    const { call } = writer.broker;
    // A second look that fell into the blip would find nobody, which ends the call.
    const lookLater = jest.spyOn(writer.broker, 'call').mockImplementation((async (
      ...given: Parameters<typeof call>
    ) => {
      const [action] = given as unknown[];
      if (action === 'cluster.node.unknown-calls') await whenReaderIsConnected();
      return call.apply(writer.broker, given);
    }) as typeof call);
    try {
      await duringBlip(async () => {
        expect(await asked('reader').write().catch(codeOf)).toBeNull();
      });
    } finally {
      lookLater.mockRestore();
    }
  });

  test('nor is a call that is made while the connection is', async () => {
    await duringBlip(async () => {
      await blip();
      expect(await asked('writer').write()).toBeNull();
      expect(calls).toBe(1);
    });
  });

  test.each([
    ['from a node that went away', 'reader'],
    ['to a node that was cut off', 'writer'],
  ] as const)('%s ends the call soon, too', async (_what, who) => {
    const { promise: over, resolve: end } = Promise.withResolvers<void>();
    handle = () => {
      proxy.cut();
      return over;
    };
    await withoutHeartbeats(async () => {
      const began = performance.now();
      await expect(asked(who).write()).rejects.toMatchObject({ type: 'service_unavailable' });
      expect(performance.now() - began).toBeLessThan(soonMs);
    }).finally(end);
  });
});

test('a server that accepts the connection and says nothing is given up soon, and the next attempt reaches it', async () => {
  await proxy.silence();
  await eventually(async () => expect(await health()).toMatchObject({ bus: false }));
  proxy.mend();
  // The client's own patience would be 20 s.
  await eventually(async () => expect(await health()).toMatchObject({ bus: true }), 15_000);
});
