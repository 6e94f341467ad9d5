/**
 * Finds out soon that a call will never be answered. Moleculer waits for its time-out, and finds a
 * killed node missing 6 to 12 s later, after some heartbeats.
 *
 * | Part           | Protects against                                              | Bounded by, degrades to                                     |
 * |----------------|---------------------------------------------------------------|-------------------------------------------------------------|
 * | reply subject  | calls to a node that is gone: NATS tells the sender of a      | the first of them finds out. From a NATS server without     |
 * |                | packet at once that nobody subscribes to its subject, if the  | this feature, or a machine that lost its power: heartbeats  |
 * |                | packet names one to reply to ("no responders")                |                                                             |
 * | second look    | requests and answers that were lost with a connection: the    | after a quarter to half a second.                           |
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
import { natsConnectionOf, type Bus } from './bus.ts';
import { moleculerMiddleware, type Receive, type Send } from './moleculer-middleware.ts';
import { askNode } from '../contract-runtime/request.ts';

/** Moleculer's part of what it sends that matters here. */
interface Outgoing {
  readonly packet: { readonly type: string; readonly target?: string | null };
}

const noResponders = 503;
const lookMs = 250;
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

/** What a node knows of its own calls that wait for an answer. */
class UnansweredCalls {
  readonly #bus: Bus;
  readonly #broker: ServiceBroker;
  readonly #inbox: string;
  #subscribed: NatsConnection | undefined;
  /** The next look. There is none while no call waits. */
  #looking: NodeJS.Timeout | undefined;
  #isStopping = false;
  /**
   * Ids of the calls that waited for an answer at the last look, or when the first call since then
   * was made.
   */
  #waiting: ReadonlySet<string> = new Set();
  /** Nodes that have not answered the question yet. */
  readonly #asked = new Set<string>();

  constructor(broker: ServiceBroker, bus: Bus) {
    this.#broker = broker;
    this.#bus = bus;
    this.#inbox = `MOL-${broker.namespace}.NOBODY.${randomUUID()}`;
  }

  /** A request is being sent. */
  expectAnswer(): void {
    this.#lookSoon();
  }

  /** Sends a request with a subject to reply to. Returns whether there is a connection for it. */
  publish(topic: string, message: Buffer, target: string): boolean {
    const connection = natsConnectionOf(this.#broker);
    if (!connection) return false;
    this.#listen(connection);
    const reply = `${this.#inbox}.${Buffer.from(target).toString('base64url')}`;
    connection.publish(topic, message, { reply });
    return true;
  }

  noteAnswer(): void {
    if (this.#broker.transit!.pendingRequests.size === 0) this.#stopLooking();
  }

  stop(): void {
    this.#isStopping = true;
    this.#stopLooking();
  }

  /** Once for each connection: the client subscribes again by itself when it reconnects. */
  #listen(connection: NatsConnection): void {
    if (this.#subscribed === connection) return;
    this.#subscribed = connection;
    connection.subscribe(`${this.#inbox}.*`, {
      callback: (error, message) => {
        // An error is a permission that NATS denies, and has no message.
        if (error || message.headers?.code !== noResponders) return;
        const name = message.subject.slice(this.#inbox.length + 1);
        this.#giveUp(Buffer.from(name, 'base64url').toString());
      },
    });
  }

  #giveUp(nodeId: string): void {
    const { nodes } = this.#broker.registry;
    if (!nodes.get(nodeId)?.available) return;
    nodes.disconnected(nodeId, true);
    void this.#broker.transit!.discoverNode(nodeId);
  }

  /** Looks after a while, where it is not about to look anyway. */
  #lookSoon(): void {
    if (this.#looking || this.#isStopping) return;
    this.#waiting = new Set(this.#broker.transit!.pendingRequests.keys());
    this.#looking = setTimeout(() => this.#lookAgain(), lookMs);
  }

  #stopLooking(): void {
    clearTimeout(this.#looking);
    this.#looking = undefined;
  }

  #lookAgain(): void {
    const { pendingRequests } = this.#broker.transit!;
    if (this.#bus.away()) for (const id of pendingRequests.keys()) this.#reject(id);
    const overdue = [...pendingRequests].filter(([id]) => this.#waiting.has(id));
    this.#looking = undefined;
    if (pendingRequests.size > 0) this.#lookSoon();
    if (!this.#bus.connected()) return;
    const byNode = Map.groupBy(overdue, ([, { nodeID }]) => nodeID);
    for (const [nodeId, calls] of byNode)
      if (nodeId && !this.#asked.has(nodeId))
        void this.#ask(
          nodeId,
          calls.map(([id]) => id),
        );
  }

  async #ask(nodeId: string, ids: string[]): Promise<void> {
    this.#asked.add(nodeId);
    const options = { requestId: 'second-look', nodeID: nodeId, timeout: questionTimeoutMs };
    // It is asked again as long as calls wait for it; an older version does not know the question.
    const said = await askNode(this.#broker, question, { body: { ids } }, options);
    for (const id of said?.unknown ?? []) this.#reject(id);
    this.#asked.delete(nodeId);
  }

  #reject(id: string): void {
    const { transit } = this.#broker;
    const request = transit!.pendingRequests.get(id);
    if (!request) return;
    transit!.removePendingRequest(id);
    const { action, nodeID } = request;
    request.reject(new Errors.RequestRejectedError({ action, nodeID }));
  }
}

export function unansweredCallsMiddleware(bus: Bus, running: RunningCalls): Middleware {
  let broker: ServiceBroker;
  let calls: UnansweredCalls;

  const send = (next: Send): Send => {
    function publish(topic: string, message: Buffer, meta: unknown): Promise<unknown> {
      const { type, target } = (meta as Outgoing).packet;
      const isSent = type === 'REQ' && target && calls.publish(topic, message, target);
      return isSent ? Promise.resolve() : next(topic, message, meta);
    }
    return (topic, message, meta) => {
      // Sealing sends empty packets of its own, of which Moleculer knows nothing.
      if (meta === undefined) return next(topic, message, meta);
      if ((meta as Outgoing).packet.type === 'REQ') calls.expectAnswer();
      if (bus.connected()) return publish(topic, message, meta);
      return bus.returned().then(() => (bus.away() ? undefined : publish(topic, message, meta)));
    };
  };

  const receive =
    (next: Receive): Receive =>
    (command, message, socket) => {
      const taken = next(command, message, socket);
      if (command === 'RES') calls.noteAnswer();
      return taken;
    };

  return {
    ...moleculerMiddleware({
      name: 'UnansweredCalls',
      created(created) {
        broker = created;
        calls = new UnansweredCalls(created, bus);
      },
      localAction: (next) => (ctx) =>
        ctx.nodeID === broker.nodeID ? next(ctx) : running.during(ctx.id, () => next(ctx)),
      transporterSend: send,
      transporterReceive: receive,
    }),
    async stopping() {
      calls.stop();
    },
  };
}
