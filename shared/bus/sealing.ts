/**
 * Strata's own nodes authenticate each other by SECRET_KEY. Every packet of
 * theirs is sealed (`sealed-packet.ts`), and what arrives otherwise is dropped before Moleculer
 * sees it. So whatever Moleculer hears is from a node of Strata's: requests and answers, events,
 * and who is up and answers what.
 *
 * | An outsider                                            | is stopped by                                                       |
 * |--------------------------------------------------------|---------------------------------------------------------------------|
 * | writes, changes or reads a packet                      | the seal                                                            |
 * | sends a packet of ours again                           | the packets that have arrived from its sender are known             |
 * | sends it to another node, or to one that has restarted | the packet names the process that is to receive it                  |
 * | sends it as another command                            | the seal covers the command                                         |
 * | sends to a restarted node what was for every node once | the sender has to prove that it runs now before it is trusted      |
 * | sends late what a process said that has ended          | a node name means one process: the one that proved itself last      |
 *
 * A process proves that it runs by a packet to this very process, whose random id cannot have been
 * known to it before this one began. Whoever sends to every node and has not proved itself yet is
 * asked to, with an empty PING, and answers with an empty PONG; what it sent waits for that. No
 * clock takes part: clocks of nodes may differ by much.
 *
 * An outsider can still drop and delay packets, see the names of nodes and commands, and the sizes
 * and times of packets, and say in the name of NATS that a node is gone, which the node disproves
 * (`unanswered-calls.ts`).
 */
import { randomBytes, type KeyObject } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Middleware, ServiceBroker } from 'moleculer';
import { performance } from 'node:perf_hooks';
import { createKeyRing, type KeyRing, type SecretKeys } from '../security/derived-keys.ts';
import { StrataError } from '../errors.ts';
import { upTo } from '../concurrency/growing-cache.ts';
import type { Bus } from './bus.ts';
import { moleculerMiddleware, type Receive, type Send } from './moleculer-middleware.ts';
import {
  envelopeOf,
  everyNode,
  keyIdLength,
  keyOfProcess,
  open,
  processIdBytes,
  ReplayWindow,
  seal,
  type Contents,
  type Envelope,
} from './sealed-packet.ts';

/** Moleculer's part of what it sends that sealing needs to know. */
interface Outgoing {
  readonly packet: { readonly type: string; readonly target?: string | null };
}

interface Arrival {
  readonly command: string;
  readonly message: Buffer;
  readonly socket: unknown;
}

/** Another process that holds SECRET_KEY. */
interface Peer {
  readonly processId: string;
  readonly nodeId: string;
  readonly window: ReplayWindow;
  /**
   * By key id: those that it is known to hold. While SECRET_KEY is being changed, not every node
   * holds both.
   */
  readonly keys: Map<string, KeyObject>;
  /** `ended`: another process has proved itself by the same node name since. */
  state: 'unproved' | 'proved' | 'ended';
  /** What it sent to every node before it had proved itself. */
  readonly held: Arrival[];
  /** performance.now() */
  askedAt: number;
}

/** What may be sent to every node at once. */
const broadcastCommands: ReadonlySet<string> = new Set([
  'DISCOVER',
  'INFO',
  'DISCONNECT',
  'HEARTBEAT',
  'PING',
]);

/**
 * Only starts of processes that hold SECRET_KEY make entries. One that were forgotten could be sent
 * again to this process, so this is far more than start while one process runs.
 */
const maxPeers = 20_000;
const maxHeld = 16;
/**
 * An answer that is lost is asked for again with the next packet, such as a heartbeat, after this
 * many milliseconds.
 */
const askAgainMs = 500;
const nothing = Buffer.alloc(0);

/** The other processes, what they have sent, and which of them have proved themselves. */
class Peers {
  readonly #processId: string;
  readonly #ring: KeyRing;
  readonly #peers = new LRUCache<string, Peer>(upTo(maxPeers));
  /** By node name, the process that proved itself last. */
  readonly #proved = new LRUCache<string, Peer>(upTo(maxPeers));

  constructor(processId: string, ring: KeyRing) {
    this.#processId = processId;
    this.#ring = ring;
  }

  provedAs(nodeId: string): Peer | undefined {
    return this.#proved.get(nodeId);
  }

  /**
   * Undefined for what is no packet to this process, or has arrived before. One that was for every
   * node proves nothing about when it was sent.
   */
  accept(envelope: Envelope, packet: Buffer, command: string) {
    const isForAll = envelope.receiver === everyNode;
    if (isForAll ? !broadcastCommands.has(command) : envelope.receiver !== this.#processId)
      return undefined;
    const known = this.#peers.get(envelope.sender);
    const key = known?.keys.get(envelope.keyId) ?? this.#keyFor(envelope);
    const contents = key && open(packet, command, key);
    if (!key || !contents) return undefined;
    const peer = known ?? this.#addPeer(envelope.sender, contents);
    peer.keys.set(envelope.keyId, key);
    if (!peer.window.accept(envelope.number)) return undefined;
    return { peer, message: contents.message, isForAll };
  }

  #keyFor({ keyId, sender }: Envelope): KeyObject | undefined {
    const fitting = this.#ring.all.find(({ id }) => id === keyId);
    return fitting && keyOfProcess(fitting, sender);
  }

  #addPeer(peerId: string, contents: Contents): Peer {
    const peer: Peer = {
      processId: peerId,
      nodeId: contents.nodeId,
      window: new ReplayWindow(),
      keys: new Map(),
      state: 'unproved',
      held: [],
      askedAt: -Infinity,
    };
    this.#peers.set(peerId, peer);
    return peer;
  }

  noteProof(peer: Peer): void {
    if (peer.state !== 'unproved') return;
    const before = this.#proved.get(peer.nodeId);
    if (before) before.state = 'ended';
    peer.state = 'proved';
    this.#proved.set(peer.nodeId, peer);
  }
}

export function sealingMiddleware(secretKeys: SecretKeys, nodeId: string, bus: Bus): Middleware {
  const processId = randomBytes(processIdBytes).toString('latin1');
  const ring = createKeyRing(secretKeys, {
    label: 'packets between nodes',
    idLength: keyIdLength,
    neededTo: 'talk to other nodes over NATS',
  });
  const ownKeys = new Map(ring.all.map((key) => [key.id, keyOfProcess(key, processId)]));
  const peers = new Peers(processId, ring);
  let sent = 0;
  let broker: ServiceBroker;
  let sendSealed: Send;

  function nextNumber(): number {
    sent += 1;
    return sent;
  }

  function sealFor(
    receiver: string,
    keyId: string,
    number: number,
    command: string,
    message: Buffer,
  ): Buffer {
    const envelope: Envelope = { keyId, sender: processId, receiver, number };
    return seal(envelope, command, { nodeId, message }, ownKeys.get(keyId)!);
  }

  /** Under the newest key that both are known to hold. */
  function sealForPeer(peer: Peer, command: string, message: Buffer): Buffer {
    const shared = ring.all.find(({ id }) => peer.keys.has(id)) ?? ring.current;
    return sealFor(peer.processId, shared.id, nextNumber(), command, message);
  }

  function sendEmpty(peer: Peer, command: 'PING' | 'PONG'): void {
    const topic = `${prefixOf(broker)}.${command}.${peer.nodeId}`;
    const packet = sealForPeer(peer, command, nothing);
    // Thrown into the client that hands packets over, it would close the connection. Where this
    // node is stopping, nobody needs it.
    try {
      void sendSealed(topic, packet, undefined);
    } catch {}
  }

  function hold(peer: Peer, arrival: Arrival): void {
    peer.held.push(arrival);
    if (peer.held.length > maxHeld) peer.held.shift();
    const now = performance.now();
    if (now - peer.askedAt < askAgainMs) return;
    peer.askedAt = now;
    sendEmpty(peer, 'PING');
  }

  const receive =
    (next: Receive): Receive =>
    (command, packet, socket) => {
      const envelope = envelopeOf(packet);
      // NATS also gives a node what it sent to all.
      if (envelope?.sender === processId) return undefined;
      const accepted = envelope && peers.accept(envelope, packet, command);
      if (!accepted) {
        bus.counters.refused += 1;
        return undefined;
      }
      const { peer, message, isForAll } = accepted;
      if (!isForAll) peers.noteProof(peer);
      if (peer.state === 'ended') return undefined;
      if (peer.state === 'unproved') return hold(peer, { command, message, socket });
      for (const held of peer.held.splice(0)) next(held.command, held.message, held.socket);
      if (message.length > 0) return next(command, message, socket);
      if (command === 'PING') sendEmpty(peer, 'PONG');
      return undefined;
    };

  const send = (next: Send): Send => {
    sendSealed = next;
    return (topic, message, meta) => {
      const { type: command, target } = (meta as Outgoing).packet;
      if (target) {
        const peer = peers.provedAs(target);
        if (!peer)
          return Promise.reject(
            new StrataError(
              'service_unavailable',
              `The node ${target} is not known here yet. Try again.`,
            ),
          );
        return next(topic, sealForPeer(peer, command, message), meta);
      }
      // Under each key with one number: a node that holds both takes the one that arrives first.
      const number = nextNumber();
      return Promise.all(
        ring.all.map(({ id }) =>
          next(topic, sealFor(everyNode, id, number, command, message), meta),
        ),
      );
    };
  };

  return moleculerMiddleware({
    name: 'Sealing',
    created(created) {
      broker = created;
    },
    transporterSend: send,
    transporterReceive: receive,
  });
}

/** What Moleculer puts in front of every subject. */
const prefixOf = ({ namespace }: ServiceBroker): string => `MOL-${namespace}`;
