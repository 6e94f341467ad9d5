/**
 * Finds out soon that a call will never be answered. Moleculer waits for its time-out, and finds a
 * killed node missing 6 to 12 s later, after some heartbeats.
 *
 * | Part           | Protects against                                              | Bounded by, degrades to                                     |
 * |----------------|---------------------------------------------------------------|-------------------------------------------------------------|
 * | reply subject  | calls to a node that is gone: NATS tells the sender of a      | the first of them finds out. From a NATS server without     |
 * |                | packet at once that nobody subscribes to its subject, if the  | this feature, or a machine that lost its power: heartbeats  |
 * |                | packet names one to reply to ("no responders")                |                                                             |
 * | second look    | requests and answers that were lost with a connection: the    | after a quarter to half a second, for a poll a little more. |
 * |                | node that was asked says which of them it is not working on   | From a node that does not answer anything: the time-out     |
 * | held packets   | packets that are sent while the connection is being made      | one second of packets; later ones are dropped               |
 * |                | again, which the client would drop                            |                                                             |
 *
 * The second look is exact: NATS delivers in order what one connection sends another. A request has
 * arrived before the question about it or never will; and where the node is done with it, the
 * answer to it comes before the answer to the question, or was lost.
 *
 * A node that nobody hears is marked down, as after missed heartbeats: calls that wait
 * for it fail, others go elsewhere. Whoever can read the nodes' subjects and publish to them could
 * say so of a node that is there. It is asked at once whether it is, so that it is away for
 * milliseconds; nothing more follows from such a message.
 */
import { randomUUID } from 'node:crypto';
import { Errors, type Middleware, type ServiceBroker } from 'moleculer';
import type { NatsConnection } from 'nats';
import { performance } from 'node:perf_hooks';
import { serviceCaller } from '../access.ts';
import { natsConnectionOf, type Bus } from './bus.ts';
import { moleculerMiddleware, type Receive, type Send } from './moleculer-middleware.ts';
import { callAs } from '../contract-runtime/request.ts';

/** Moleculer's part of what it sends that matters here. */
interface Outgoing {
  readonly packet: {
    readonly type: string;
    readonly target?: string | null;
    readonly payload: { readonly action?: string };
  };
}

const noResponders = 503;
const lookMs = 250;
/**
 * For a poll of the change feed, which is all that an idle node asks: later than the next poll is
 * due by default. Node wakes for the timer that is due next even where it has been cleared since.
 */
const pollLookMs = 600;
/** For the question of a second look; one that is lost is asked again then. */
const questionTimeoutMs = 1000;
const question = 'cluster.node.unknown-calls';

/** The calls of other nodes that this node is working on, by Moleculer's id of the call. */
export class RunningCalls {
  readonly #ids = new Set<string>();

  unknownOf(ids: readonly string[]): string[] {
    return ids.filter((id) => !this.#ids.has(id));
  }

  async during<T>(id: string, work: () => Promise<T>): Promise<T> {
    this.#ids.add(id);
    try {
      return await work();
    } finally {
      // The answer is sent in the microtasks that follow, and nobody may be told before that the
      // call is not being worked on.
      setImmediate(() => this.#ids.delete(id));
    }
  }
}

export function unansweredCallsMiddleware(bus: Bus, running: RunningCalls): Middleware {
  let broker: ServiceBroker;
  let inbox = '';
  let subscribed: NatsConnection | undefined;
  /** The next look, and when it is, by performance.now(). There is none while no call waits. */
  let looking: NodeJS.Timeout | undefined;
  let lookAt = Infinity;
  let isStopping = false;
  /**
   * Ids of the calls that waited for an answer at the last look, or when the first call since then
   * was made.
   */
  let waiting: ReadonlySet<string> = new Set();
  /** Nodes that have not answered the question yet. */
  const asked = new Set<string>();

  /** Once for each connection: the client subscribes again by itself when it reconnects. */
  function listen(connection: NatsConnection): void {
    if (subscribed === connection) return;
    subscribed = connection;
    connection.subscribe(`${inbox}.*`, {
      callback(error, message) {
        // An error is a permission that NATS denies, and has no message.
        if (error || message.headers?.code !== noResponders) return;
        const name = message.subject.slice(inbox.length + 1);
        giveUp(Buffer.from(name, 'base64url').toString());
      },
    });
  }

  function giveUp(nodeId: string): void {
    const { nodes } = broker.registry;
    if (!nodes.get(nodeId)?.available) return;
    nodes.disconnected(nodeId, true);
    void broker.transit!.discoverNode(nodeId);
  }

  function lookWithin(ms: number): void {
    const at = performance.now() + ms;
    if (at >= lookAt || isStopping) return;
    clearTimeout(looking);
    waiting = new Set(broker.transit!.pendingRequests.keys());
    lookAt = at;
    looking = setTimeout(lookAgain, ms);
  }

  function stopLooking(): void {
    clearTimeout(looking);
    lookAt = Infinity;
  }

  function lookAgain(): void {
    const { pendingRequests } = broker.transit!;
    if (bus.away()) for (const id of pendingRequests.keys()) reject(id);
    const overdue = [...pendingRequests].filter(([id]) => waiting.has(id));
    lookAt = Infinity;
    if (pendingRequests.size > 0) lookWithin(lookMs);
    if (!bus.connected()) return;
    const byNode = Map.groupBy(overdue, ([, { nodeID }]) => nodeID);
    for (const [nodeId, calls] of byNode)
      if (nodeId && !asked.has(nodeId))
        void ask(
          nodeId,
          calls.map(([id]) => id),
        );
  }

  async function ask(nodeId: string, ids: string[]): Promise<void> {
    asked.add(nodeId);
    const options = {
      caller: serviceCaller(broker.nodeID),
      requestId: 'second-look',
      nodeID: nodeId,
      timeout: questionTimeoutMs,
    };
    try {
      const { unknown } = await callAs(broker, question, { body: { ids } }, options);
      for (const id of unknown) reject(id);
    } catch {
      // It is asked again as long as calls wait for it; an older version does not know the
      // question.
    } finally {
      asked.delete(nodeId);
    }
  }

  function reject(id: string): void {
    const { transit } = broker;
    const request = transit!.pendingRequests.get(id);
    if (!request) return;
    transit!.removePendingRequest(id);
    const { action, nodeID } = request;
    request.reject(new Errors.RequestRejectedError({ action, nodeID }));
  }

  const send = (next: Send): Send => {
    function publish(topic: string, message: Buffer, meta: unknown): Promise<unknown> {
      const { type, target } = (meta as Outgoing).packet;
      const connection = natsConnectionOf(broker);
      if (type !== 'REQ' || !target || !connection) return next(topic, message, meta);
      listen(connection);
      const reply = `${inbox}.${Buffer.from(target).toString('base64url')}`;
      connection.publish(topic, message, { reply });
      return Promise.resolve();
    }
    return (topic, message, meta) => {
      // Sealing sends empty packets of its own, of which Moleculer knows nothing.
      if (meta === undefined) return next(topic, message, meta);
      const { type, payload } = (meta as Outgoing).packet;
      if (type === 'REQ') lookWithin(payload.action === 'feed.poll' ? pollLookMs : lookMs);
      if (bus.connected()) return publish(topic, message, meta);
      return bus.returned().then(() => (bus.away() ? undefined : publish(topic, message, meta)));
    };
  };

  const receive =
    (next: Receive): Receive =>
    (command, message, socket) => {
      const taken = next(command, message, socket);
      if (command === 'RES' && broker.transit!.pendingRequests.size === 0) stopLooking();
      return taken;
    };

  return {
    ...moleculerMiddleware({
      name: 'UnansweredCalls',
      created(created) {
        broker = created;
        inbox = `MOL-${created.namespace}.NOBODY.${randomUUID()}`;
      },
      localAction: (next) => (ctx) =>
        ctx.nodeID === broker.nodeID ? next(ctx) : running.during(ctx.id, () => next(ctx)),
      transporterSend: send,
      transporterReceive: receive,
    }),
    async stopping() {
      isStopping = true;
      stopLooking();
    },
  };
}
