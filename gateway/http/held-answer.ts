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

/**
 * What is answered, by the rights of when it is: a caller who lost theirs while the request was held
 * is refused, and one who has others is answered again, since some are shown more than others.
 */
export async function answerHeld<T>(
  ask: (params: Record<string, unknown>, caller: Caller) => Promise<T>,
  { params, caller, recheck }: Asked,
): Promise<T> {
  const answer = await ask(params, caller);
  if (!waits(params)) return answer;
  const now = await recheck();
  return isDeepStrictEqual(now, caller) ? answer : ask({ ...params, wait: 0 }, now);
}
