/** When a node joins the others: as soon as it is connected and made, and it connects while it is being made. */
import { afterEach, expect, test } from '@jest/globals';
import { ServiceBroker } from 'moleculer';
import { joinOnceMade } from '../../shared/cluster/broker.ts';
import { eventually } from '../support/cluster.ts';

const brokers: ServiceBroker[] = [];
afterEach(async () => {
  for (const broker of brokers.splice(0)) await broker.stop();
});

/** A node with one service, which says that the node has joined. */
function node(transporter: 'Fake' | null): { broker: ServiceBroker; joined: () => boolean } {
  const broker = new ServiceBroker({ nodeID: 'joining', logger: false, transporter });
  let hasJoined = false;
  broker.createService({
    name: 'one',
    async started() {
      hasJoined = true;
    },
  });
  brokers.push(broker);
  return { broker, joined: () => hasJoined };
}

test('a node connects while it is being made, and joins when both are done', async () => {
  const { broker, joined } = node('Fake');
  const made = Promise.withResolvers<void>();
  const joining = joinOnceMade(broker, made.promise);
  await eventually(async () => expect(broker.transit?.connected).toBe(true));
  expect(joined()).toBe(false);
  made.resolve();
  await joining;
  expect(joined()).toBe(true);
});

test('a node that is alone joins when it is made', async () => {
  const { broker, joined } = node(null);
  const made = Promise.withResolvers<void>();
  const joining = joinOnceMade(broker, made.promise);
  expect(joined()).toBe(false);
  made.resolve();
  await joining;
  expect(joined()).toBe(true);
});

test.each(['Fake', null] as const)(
  'a node that cannot be made does not join: %s',
  async (transporter) => {
    const { broker, joined } = node(transporter);
    const made = Promise.reject(new Error('no code'));
    await expect(joinOnceMade(broker, made)).rejects.toThrow('no code');
    expect(joined()).toBe(false);
  },
);
