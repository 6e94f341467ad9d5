/** Answers to requests with `wait`, which are held until something changes. */
import { isDeepStrictEqual } from 'node:util';
import type { Caller } from '../../shared/access.ts';

type Params = Readonly<Record<string, unknown>>;

interface Asked {
  readonly params: Params;
  readonly caller: Caller;
  /** Who calls now; throws where they have lost the right. */
  readonly recheck: () => Caller | Promise<Caller>;
}

export const waits = ({ wait }: Params): boolean => typeof wait === 'number' && wait > 0;

/** Of one gateway, whose stop ends the wait of all of them. */
export class HeldAnswers {
  readonly #ends = new Set<() => void>();
  #isStopping = false;

  /**
   * What is answered, by the rights of when it is: a caller who lost theirs while the request was
   * held is refused, and one who has others is answered again, since some are shown more than others.
   */
  async answer<T>(
    ask: (params: Record<string, unknown>, caller: Caller) => Promise<T>,
    { params, caller, recheck }: Asked,
  ): Promise<T> {
    if (!waits(params)) return ask(params, caller);
    const { promise: stopped, resolve: end } = Promise.withResolvers<undefined>();
    const onStop = (): void => end(undefined);
    this.#ends.add(onStop);
    if (this.#isStopping) onStop();
    const asked = ask(params, caller).then((answer) => ({ answer }));
    const held = await Promise.race([asked, stopped]).finally(() => this.#ends.delete(onStop));
    const now = await recheck();
    return held && isDeepStrictEqual(now, caller) ? held.answer : ask({ ...params, wait: 0 }, now);
  }

  /** All are answered as when their time is up. */
  stop(): void {
    this.#isStopping = true;
    for (const end of this.#ends) end();
  }
}
