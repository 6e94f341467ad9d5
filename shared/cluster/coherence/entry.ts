/** What a cache holds under one key. */
import type { AsOf } from './floors.ts';

/** `asOf`: the revisions that the value is known to include. `bytes`: its serialized length, estimated where absent. `params`: what was asked for. */
export interface Loaded<T> {
  readonly value: T;
  readonly asOf: AsOf;
  readonly bytes?: number;
  readonly params?: Readonly<Record<string, unknown>>;
}
/** A cached answer. Who needs it at every request keeps it, and asks whether it stands instead of looking its key up. */
export interface CachedEntry<T> extends Loaded<T> {
  /** It may be served at `now` (performance.now()): it is still in the cache, nothing newer is known, and the node's lease is valid. */
  stands(now: number): boolean;
}
/** Lives while entries hold it, without a lifetime of its own: an entry may be asked for long after its scope was dropped. */
export interface RevisionScope {
  readonly name: string;
  floor: number;
  entries: number;
}

export class Entry implements CachedEntry<unknown> {
  value: unknown;
  /** Taken out of the cache. */
  gone = false;
  readonly key: string;
  readonly asOf: AsOf;
  readonly params: Loaded<unknown>['params'];
  readonly expires: number;
  readonly held: readonly { readonly scope: RevisionScope; readonly revision: number }[];
  readonly #serves: (entry: Entry, now: number) => boolean;
  /** When its place in the order of eviction was last renewed. */
  used: number;

  constructor(
    key: string,
    { value, asOf, params }: Loaded<unknown>,
    held: Entry['held'],
    serves: (entry: Entry, now: number) => boolean,
    now: number,
    ttlMs: number,
  ) {
    this.key = key;
    this.value = value;
    this.asOf = Object.freeze(asOf);
    this.params = params;
    this.held = held;
    this.#serves = serves;
    this.used = now;
    this.expires = now + ttlMs;
  }

  stands(now: number): boolean {
    return this.#serves(this, now);
  }
}

export const isDropped = ({ held }: Entry): boolean => {
  for (const { scope, revision } of held) if (revision < scope.floor) return true;
  return false;
};

/** Freezes all the way down, since local calls pass values by reference, and estimates the bytes. */
export function freeze(root: unknown): number {
  let bytes = 0;
  const seen = new Set<unknown>();
  const left = [root];
  while (left.length > 0) {
    const value = left.pop();
    if (typeof value === 'string') bytes += 2 * value.length + 16;
    else if (typeof value !== 'object' || value === null) bytes += 8;
    else if (!seen.has(value)) {
      seen.add(value);
      // Refused by Object.freeze.
      if (ArrayBuffer.isView(value)) {
        bytes += value.byteLength + 96;
        continue;
      }
      Object.freeze(value);
      bytes += 48;
      for (const [name, member] of Object.entries(value)) {
        bytes += name.length + 16;
        left.push(member);
      }
    }
  }
  return bytes;
}
