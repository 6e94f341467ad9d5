/** Statements of a transaction that are on their way together. */
import { isConsequence } from './failures.ts';

/**
 * Waits until each of them has ended, also where one fails, since they have to be over before the
 * transaction is rolled back. Then throws what one of them failed with; what the others failed with
 * because of that only where there is nothing else.
 */
export async function allEnded<T extends readonly unknown[] | []>(
  begun: T,
): Promise<{ -readonly [Place in keyof T]: Awaited<T[Place]> }> {
  const ended = await Promise.allSettled(begun);
  const reasons = ended.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []));
  if (reasons.length > 0) throw reasons.find((reason) => !isConsequence(reason)) ?? reasons[0];
  return Promise.all(begun);
}
