/**
 * Nodes that do not reach the database of a service, which others of it may: such a node hears the
 * bus, and would keep getting its share of calls. What it refuses says so where its polls of the
 * change feed have failed for T as well (`owner-side.ts`). Where all nodes are cut off, the database
 * is away, and calls go to any.
 */
import { LRUCache } from 'lru-cache';
import { performance } from 'node:perf_hooks';
import { codeOf } from '../errors.ts';
import type { Endpoint } from './skew.ts';

/** One read tries such a node again after so many milliseconds, and waits for it in vain. */
const tryAgainMs = 5000;
/** A node that no read has tried is asked like any after this, in milliseconds. */
const forgottenMs = 60_000;

const nameOf = (nodeId: string, action: string): string => `${nodeId} ${action.split('.')[0]}`;

export class CutOffNodes {
  /** Node and service → when it is tried again, by performance.now(). */
  readonly #tryAgainAt = new LRUCache<string, number>({ max: 1000, ttl: forgottenMs });

  /** Whether the error of a call says that its node is cut off. */
  note(action: string, error: unknown): boolean {
    const { nodeID, retryable } = error as { nodeID?: string; retryable?: boolean };
    if (nodeID === undefined || !retryable || codeOf(error) !== 'service_unavailable') return false;
    this.#tryAgainAt.set(nameOf(nodeID, action), performance.now() + tryAgainMs);
    return true;
  }

  /** A call was answered by the node that was chosen for it. */
  noteAnswer(action: string, nodeId: string): void {
    this.#tryAgainAt.delete(nameOf(nodeId, action));
  }

  /** The node that a call goes to; undefined where any will do. */
  nodeFor(action: string, endpoints: readonly Endpoint[], mayTry: boolean): string | undefined {
    if (this.#tryAgainAt.size === 0) return undefined;
    const tryAgainAt = ({ id }: Endpoint) => this.#tryAgainAt.get(nameOf(id, action));
    const there = endpoints.filter(({ isAvailable }) => isAvailable);
    const others = there.filter((each) => tryAgainAt(each) === undefined);
    if (others.length === there.length) return undefined;
    const now = performance.now();
    const due = mayTry ? there.find((each) => tryAgainAt(each)! <= now) : undefined;
    if (due) this.#tryAgainAt.set(nameOf(due.id, action), now + tryAgainMs);
    return (due ?? others[Math.floor(Math.random() * others.length)])?.id;
  }
}
