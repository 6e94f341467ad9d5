/**
 * The newest revision of each scope that this process has observed. Where the database goes back to
 * an older state, the revisions after it are lost, and would be given out again for something else:
 * clients who have one as an entity tag, as the id of an event or as the least revision of a read
 * could not tell. So no node commits a revision that it has observed (`commitChange`), and whoever
 * has observed a lost one has the database skip it (`Feed.skipLost`).
 */
import { LRUCache } from 'lru-cache';
import type { ParamsOf } from '../contracts/index.ts';
import type { Change } from '../commits/commit.ts';
import { upTo } from '../concurrency/growing-cache.ts';
import type { AsOf } from './floors.ts';

/** `id` is of the transaction that made it; null where only an answer named the revision. */
export type KnownRevision = ParamsOf<'feed.skip-lost'>['body'][number];

/** So many fit one message. */
const batchSize = 1000;

export class KnownRevisions {
  readonly #newest = new LRUCache<string, KnownRevision>(upTo(100_000));
  /** What was known before the database went back and has not been told to it, by scope. */
  readonly #perhapsLost = new Map<string, KnownRevision>();

  /**
   * Returns whether another transaction has made the same revision, so that the database must have
   * gone back in between.
   */
  note({ scope, revision, id }: Pick<Change, 'scope' | 'revision' | 'id'>): boolean {
    const known = this.#newest.get(scope);
    if (known && revision < known.revision) return false;
    this.#newest.set(scope, { scope, revision, id });
    const isRepeated = known?.revision === revision && known.id !== null && known.id !== id;
    if (isRepeated) this.#suspect(known);
    return isRepeated;
  }

  noteLoaded(asOf: AsOf): void {
    for (const [scope, revision] of Object.entries(asOf)) {
      const known = this.#newest.get(scope)?.revision ?? 0;
      if (revision > known) this.#newest.set(scope, { scope, revision, id: null });
    }
  }

  /** The database is another one: everything that was known until now may be lost. */
  suspect(): void {
    for (const known of this.#newest.values()) this.#suspect(known);
    this.#newest.clear();
  }

  #suspect(known: KnownRevision): void {
    const before = this.#perhapsLost.get(known.scope);
    if (!before || known.revision > before.revision) this.#perhapsLost.set(known.scope, known);
  }

  /**
   * Hands what may be lost to `skipLost`, until it has taken all of it. Throws what that throws;
   * the rest is then left for next time.
   */
  async tell(skipLost: (known: KnownRevision[]) => Promise<void>): Promise<void> {
    while (this.#perhapsLost.size > 0) {
      const batch = [...this.#perhapsLost.values().take(batchSize)];
      await skipLost(batch);
      // The database may have gone back once more meanwhile, and a scope have another revision that
      // may be lost.
      for (const known of batch)
        if (this.#perhapsLost.get(known.scope) === known) this.#perhapsLost.delete(known.scope);
    }
  }

  /** 0 where nothing is known. What may be lost counts until the database has been told. */
  newestOf(scope: string): number {
    const known = this.#newest.get(scope)?.revision ?? 0;
    return Math.max(known, this.#perhapsLost.get(scope)?.revision ?? 0);
  }

  hasSuspects(): boolean {
    return this.#perhapsLost.size > 0;
  }
}
