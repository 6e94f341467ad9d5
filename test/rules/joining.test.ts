/**
 * When a node joins the others: as soon as it has observed what it calls and is made, and it
 * connects while it is being made.
 */
import { afterEach, expect, jest, test } from '@jest/globals';
import { ServiceBroker } from 'moleculer';
import { joinOnceMade } from '../../shared/node/broker.ts';
import { eventually } from '../support/eventually.ts';

const brokers: ServiceBroker[] = [];
afterEach(async () => {
  jest.useRealTimers();
  for (const broker of brokers.splice(0)) await broker.stop();
});

interface Subject {
  readonly broker: ServiceBroker;
  readonly joined: () => boolean;
}

/** A node with one service, which says that the node has joined. */
function node(transporter: 'Fake' | null, name = 'joining'): Subject {
  const broker = new ServiceBroker({ nodeID: name, logger: false, transporter });
  let hasJoined = false;
  broker.createService({
    name: `one-of-${name}`,
    async started() {
      hasJoined = true;
    },
  });
  brokers.push(broker);
  return { broker, joined: () => hasJoined };
}

const made = Promise.resolve();

test('a node connects while it is being made, and joins when both are done', async () => {
  const { broker, joined } = node('Fake');
  const making = Promise.withResolvers<void>();
  const joining = joinOnceMade(broker, { made: making.promise, calls: [] });
  await eventually(async () => expect(broker.transit?.connected).toBe(true));
  expect(joined()).toBe(false);
  making.resolve();
  await joining;
  expect(joined()).toBe(true);
});

test('a node that is alone joins when it is made', async () => {
  const { broker, joined } = node(null);
  const making = Promise.withResolvers<void>();
  const joining = joinOnceMade(broker, { made: making.promise, calls: ['other'] });
  expect(joined()).toBe(false);
  making.resolve();
  await joining;
  expect(joined()).toBe(true);
});

test.each(['Fake', null] as const)(
  'a node that cannot be made does not join: %s',
  async (transporter) => {
    const { broker, joined } = node(transporter);
    const failed = Promise.reject(new Error('no code'));
    await expect(joinOnceMade(broker, { made: failed, calls: [] })).rejects.toThrow('no code');
    expect(joined()).toBe(false);
  },
);

/**
 * Timers stand still, so that Moleculer's half second for the answers of others is over when a test
 * says so.
 */
const stopTime = () => jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask'] });
const halfASecondPasses = () => jest.advanceTimersByTimeAsync(500);
const noTimePasses = () => jest.advanceTimersByTimeAsync(0);

test('a node that has observed all that it calls joins without waiting for more, and is observed', async () => {
  const first = node('Fake', 'first');
  const second = node('Fake', 'second');
  for (const { broker } of [first, second]) await broker.start();
  stopTime();
  const { broker, joined } = node('Fake');
  const calls = ['one-of-first', 'one-of-second'];
  void joinOnceMade(broker, { made, calls });
  await noTimePasses();
  expect(joined()).toBe(true);
  const known = broker.registry.getNodeList({ onlyAvailable: true, withServices: false });
  expect(known.map(({ id }) => id)).toEqual(expect.arrayContaining(['first', 'second']));
  await broker.registry.discoverer.sendLocalNodeInfo();
  await noTimePasses();
  expect(first.broker.registry.hasService('one-of-joining', 'joining')).toBe(true);
});

test('a node that has not observed all that it calls gives the rest half a second', async () => {
  const { broker: first } = node('Fake', 'first');
  await first.start();
  stopTime();
  const { broker, joined } = node('Fake');
  const calls = ['one-of-first', 'absent'];
  void joinOnceMade(broker, { made, calls });
  await noTimePasses();
  expect(joined()).toBe(false);
  await halfASecondPasses();
  expect(joined()).toBe(true);
});

test('a node that no one answers gives others half a second', async () => {
  stopTime();
  const { broker, joined } = node('Fake');
  void joinOnceMade(broker, { made, calls: [] });
  await noTimePasses();
  expect(joined()).toBe(false);
  await halfASecondPasses();
  expect(joined()).toBe(true);
});
