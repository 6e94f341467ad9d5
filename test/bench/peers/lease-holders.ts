/**
 * A process of several nodes that hold caching leases, and of as many bare subscribers of NATS that
 * reply to what they hear. Prints `ready` once all of them do. On the subject `known.<name>` it
 * tells, for each revision, how many of its nodes have dropped what that made old, and when the
 * last of them had: `[revision, nodes, machineMs]`. `lease-holders.ts <nats> <name> <how many>`
 */
import { setTimeout as delay } from 'node:timers/promises';
import { connect, type NatsConnection } from 'nats';
import { bareNode, machineMs } from '../bare-node.ts';

export type Known = readonly (readonly [revision: number, nodes: number, at: number])[];

const [natsUrl, name, count] = [process.argv[2]!, process.argv[3]!, Number(process.argv[4])];
const known = new Map<number, { nodes: number; at: number }>();

async function startHolder(index: number): Promise<void> {
  const { broker, coherence } = bareNode(`${name}-${index}`, natsUrl);
  let newest = 0;
  coherence.onChange(({ revision }) => {
    // The feed repeats what was broadcast.
    if (revision <= newest) return;
    newest = revision;
    const before = known.get(revision)?.nodes ?? 0;
    known.set(revision, { nodes: before + 1, at: machineMs() });
  });
  await broker.start();
  while (!coherence.hasLease()) await delay(50);
}

async function startSubscriber(): Promise<NatsConnection> {
  const connection = await connect({ servers: natsUrl });
  connection.subscribe('raw', {
    callback: (_error, message) => {
      message.respond(message.data);
    },
  });
  await connection.flush();
  return connection;
}

const each = Array.from({ length: count }, (_each, index) => index);
const [subscriber] = await Promise.all(each.map(startSubscriber));
await Promise.all(each.map(startHolder));
subscriber!.subscribe(`known.${name}`, {
  callback: (_error, message) => {
    const received: Known = [...known].map(([revision, { nodes, at }]) => [revision, nodes, at]);
    message.respond(JSON.stringify(received));
  },
});
await subscriber!.flush();
process.stdout.write('ready\n');
