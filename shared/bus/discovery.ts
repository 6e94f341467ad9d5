/**
 * How a node learns which others are there: as Moleculer does, but for what Moleculer does in a
 * cluster that has more to do than it can. Nodes then hear each other's heartbeats late and take
 * each other for gone, and whoever is heard again is asked what it hosts: of n nodes that come to
 * themselves at once, each asks n - 1 and is sent n - 1 lists of actions. That costs more than what
 * made them late, so that their next heartbeats are late as well.
 *
 * | Part        | Protects against                                                  | Bounded by, degrades to                                 |
 * |-------------|-------------------------------------------------------------------|---------------------------------------------------------|
 * | known again | asking what is known: a heartbeat says which process it is of,    | who has restarted, hosts something else now, or was not |
 * |             | and which is the newest list of its actions                       | silent but gone, is asked                               |
 * | own silence | taking others for gone for heartbeats that this process had no    | a node that is gone is found a check later, or by the   |
 * |             | time to read                                                      | first call to it (`unanswered-calls.ts`)                |
 * | asked once  | a question for each heartbeat while the answer is on its way      | asked again after `askAgainMs`                          |
 */
import { Discoverers, type Middleware, type ServiceBroker } from 'moleculer';
import { performance } from 'node:perf_hooks';
import { moleculerMiddleware } from './moleculer-middleware.ts';

/**
 * How often each node says that it is there, and after how long a silence it is marked down, in
 * seconds.
 */
export const heartbeats = { heartbeatInterval: 2, heartbeatTimeout: 6 } as const;

/** An answer that takes longer is counted as lost. */
const askAgainMs = 5000;
/**
 * A check that is so much later than it was due was kept waiting by what this process had to do, as
 * were heartbeats that have arrived.
 */
const latenessMs = 1000;

/**
 * What a heartbeat says beside Moleculer's own. One of a release before says nothing, and its node
 * is asked.
 */
interface Heartbeat {
  readonly instanceID?: string;
  readonly seq?: number;
}

export class Discovery extends Discoverers.Local {
  /** Nodes that were marked down for their silence alone. */
  readonly #silent = new Set<string>();
  /** Nodes that have not answered yet, and when they were asked, by performance.now(). */
  readonly #asked = new Map<string, number>();
  #checkedAt: number | undefined;
  #wasPassedOver = false;

  override startHeartbeatTimers(): void {
    super.startHeartbeatTimers();
    this.#checkedAt = performance.now();
  }

  override stopHeartbeatTimers(): void {
    super.stopHeartbeatTimers();
    this.#checkedAt = undefined;
  }

  override checkRemoteNodes(): void {
    // Only one: who has not been heard until the next check is gone, also where that is late as
    // well.
    this.#wasPassedOver = this.#wasKeptWaiting() && !this.#wasPassedOver;
    if (this.#wasPassedOver) return;
    const before = this.#thoseThere();
    super.checkRemoteNodes();
    const still = new Set(this.#thoseThere());
    for (const id of before) if (!still.has(id)) this.#silent.add(id);
  }

  /**
   * Whether this process has not done for a while what it had to, until just now. Notes the time of
   * the check.
   */
  #wasKeptWaiting(): boolean {
    const now = performance.now();
    const before = this.#checkedAt ?? now;
    this.#checkedAt = now;
    return now - before > heartbeats.heartbeatTimeout * 1000 + latenessMs;
  }

  #thoseThere(): string[] {
    const all = this.registry.nodes.toArray();
    return all.filter(({ available }) => available).map(({ id }) => id);
  }

  override heartbeatReceived(nodeId: string, heartbeat: Heartbeat): void {
    const node = this.registry.nodes.get(nodeId);
    const known = node?.rawInfo;
    const isKnown =
      known !== null &&
      known !== undefined &&
      known.instanceID === heartbeat.instanceID &&
      known.seq === heartbeat.seq;
    if (isKnown && this.#silent.has(nodeId)) this.processRemoteNodeInfo(nodeId, known);
    else super.heartbeatReceived(nodeId, heartbeat);
  }

  override processRemoteNodeInfo(...info: Parameters<Discoverers.Local['processRemoteNodeInfo']>) {
    this.#forget(info[0]);
    return super.processRemoteNodeInfo(...info);
  }

  override remoteNodeDisconnected(nodeId: string, isUnexpected: boolean): void {
    this.#forget(nodeId);
    super.remoteNodeDisconnected(nodeId, isUnexpected);
  }

  #forget(nodeId: string): void {
    this.#silent.delete(nodeId);
    this.#asked.delete(nodeId);
  }

  override async discoverNode(nodeId: string) {
    const now = performance.now();
    const askedAt = this.#asked.get(nodeId) ?? -Infinity;
    if (now - askedAt < askAgainMs) return;
    this.#asked.set(nodeId, now);
    await super.discoverNode(nodeId);
  }
}

/** Has each heartbeat say which process it is of, and which list of its actions is its newest. */
export function discoveryMiddleware(): Middleware {
  let broker: ServiceBroker;
  function sayWho(heartbeat: object): void {
    const { seq } = broker.registry.nodes.localNode!;
    const said: Heartbeat = { instanceID: broker.instanceID, seq };
    Object.assign(heartbeat, said);
  }
  return moleculerMiddleware({
    name: 'Discovery',
    created(created) {
      broker = created;
    },
    transitPublish: (next) => (packet) => {
      if (packet.type === 'HEARTBEAT') sayWho(packet.payload);
      return next(packet);
    },
  });
}
