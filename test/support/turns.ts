/**
 * What is the same on every route or action is tried on each of them in part, by turns, so that all
 * of it is tried on some; in the soak, on each.
 */
import { inSoak } from './soak.ts';

/** So many of what can be tried at the nth place, others at the next one. */
export function inTurn<T>(all: readonly T[], place: number, count: number): readonly T[] {
  const first = place * count;
  return all.filter((_each, index) => inSoak || (index + first) % all.length < count);
}
